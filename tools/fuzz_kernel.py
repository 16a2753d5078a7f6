"""Feed the kernel mutated inputs while the compiler's sanitizers watch every address and every sum.

    python tools/fuzz_kernel.py                             60 seconds, a new seed
    python tools/fuzz_kernel.py --seconds 3600              an hour
    python tools/fuzz_kernel.py --seed 7 --only tails.QueueTail --first 120 --count 1     one execution again

The modules are built with AddressSanitizer and UndefinedBehaviorSanitizer into build/sanitized, beside those
in use. `tests/support/kernel_targets.py` has the targets. Status 1: something was found, with the report and
the command that runs it again. Status 77: it cannot run here.
"""

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import SystemRandom

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from kernel_targets import PROOF  # noqa: E402

from pyromq.kernel import MODULES, WITH_LIBRARIES  # noqa: E402

FOLDER = ROOT / "build" / "sanitized"
KERNEL = FOLDER / "lib" / "pyromq" / "_kernel"
#: Not optimised, with lines and no more: so it builds in half the time, and most time goes to making inputs.
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1 -O0"
STATUS_FOUND = 1
STATUS_CANNOT = 77
#: What one execution may take, at most; more is a hang.
PATIENCE_S = 120
NO_END = 1 << 40


def main() -> int:
    """Build, fuzz, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default 60)")
    parser.add_argument("--seed", type=int, default=None, help="of all random numbers (default: a new one)")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="TARGET", help="which targets (default: all)"
    )
    parser.add_argument(
        "--first", type=int, default=0, help="the number of the first execution of each target"
    )
    parser.add_argument("--count", type=int, default=NO_END, help="executions of each target, at most")
    asked = parser.parse_args()
    missing = why_not()
    if missing:
        print(f"cannot fuzz the kernel: {missing}")
        return STATUS_CANNOT
    if asked.only != [PROOF]:
        all_names = {name.rpartition(".")[2] for name in MODULES + WITH_LIBRARIES}
        build(all_names | {name.partition(".")[0] for name in asked.only})
    return run(asked)


def why_not() -> str | None:
    """Return what is missing for a run, None when nothing is."""
    if shutil.which("gcc") is None:
        return "there is no gcc"
    return None if _runtime().is_absolute() else "gcc has no libasan"


def _runtime() -> Path:
    # The name itself comes back when gcc does not have it.
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip())


def build(wanted: set[str]) -> None:
    """Build these modules with sanitizers, where they changed."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--parallel", "2"]
    command += ["--build-lib", str(FOLDER / "lib"), "--build-temp", str(FOLDER / "temp")]
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ
            | {"CC": "gcc", "PYROMQ_KERNEL_FLAGS": FLAGS, "PYROMQ_KERNEL_ONLY": ",".join(sorted(wanted))},
            capture_output=True,
            text=True,
            check=False,
        )
    missing = wanted - {module.name.partition(".")[0] for module in KERNEL.rglob("*.so")}
    if built.returncode or missing:
        sys.exit(f"{built.stdout}{built.stderr}\nnot built: {', '.join(sorted(missing))}")


def run(asked: argparse.Namespace) -> int:
    """Run the targets in a process of their own; return the status to end with."""
    seed = SystemRandom().randrange(1 << 32) if asked.seed is None else asked.seed
    # Where nothing had to be built there may be no folder yet.
    FOLDER.mkdir(parents=True, exist_ok=True)
    progress = FOLDER / f"progress-{os.getpid()}"
    progress.touch()
    print(f"fuzzing the kernel for {asked.seconds:g} s with seed {seed}", flush=True)
    environment = os.environ | {
        "LD_PRELOAD": str(_runtime()),
        # Python itself leaks by design; what it allocates is given to the sanitizer one by one.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        # Where tools/nghttp2.py put it, if the system has none.
        "LD_LIBRARY_PATH": str(ROOT / "src/pyromq/_kernel/http2"),
        "PYTHONPATH": str(ROOT / "src"),
        "PYROMQ_PURE": "0",
    }
    command = [sys.executable, str(ROOT / "tests/support/kernel_fuzz.py")]
    command += ["--kernel", str(KERNEL), "--progress", str(progress), "--seed", str(seed)]
    command += ["--first", str(asked.first), "--count", str(asked.count), "--seconds", str(asked.seconds)]
    began_at = time.monotonic()
    try:
        ended = subprocess.run(
            [*command, "--only", *asked.only],
            env=environment,
            capture_output=True,
            text=True,
            timeout=asked.seconds + PATIENCE_S,
            check=False,
        )
        report, is_well = ended.stderr, ended.returncode == 0
    except subprocess.TimeoutExpired:
        report, is_well = f"it hangs: no end {PATIENCE_S} s after its time", False
    last = progress.read_text().split()
    progress.unlink()
    if not is_well:
        print(report)
        if last:
            print(f"again: tools/fuzz_kernel.py --seed {seed} --only {last[0]} --first {last[1]} --count 1")
        return STATUS_FOUND
    executions = int(ended.stdout)
    print(f"{executions} executions, {executions / (time.monotonic() - began_at):.0f}/s, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
