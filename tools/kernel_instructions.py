"""Count the instructions that the kernel needs for fixed work, and compare them with the recorded count.

    python tools/kernel_instructions.py             compare; status 1 when any needs more than 10 % more
    python tools/kernel_instructions.py --record    write bench/results/kernel_instructions.json anew

Valgrind's callgrind counts: the same number in every run, however busy the machine is. Only what runs in the
kernel's own modules counts, not what they call in Python and in the C library. Another compiler makes other
instructions of the same kernel, so counts are compared only with those of the same tools. Status 77: they
cannot be counted, or not compared, here. `kernel_workloads.py` has the work.

Others count everything that a broker's process does for a message in user space: the kernel, the interpreter,
uvloop and the C library (`process_workload.py`): for a send at 64×1 and at 1×1, and for a send that wakes a
held pull, with the next pull that is held. Requests come when they come, so these counts vary by some per
cent from run to run.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyromq.kernel import IS_COMPILED, describe

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "guard"
RECORDED = ROOT / "bench" / "results" / "kernel_instructions.json"
KERNEL = "/pyromq/_kernel/"
TOLERANCE = 0.10
#: Of the whole process: shapes of load with how many messages are counted, and the key in the record. Five
#: runs on a machine with four times as much to do as it has cores were within 3 % of each other.
SHAPES = {"send at 64×1": 6_000, "send at 1×1": 2_000, "send, wake, hold again": 1_500}
PROCESS = "process"
STATUS_SLOWER = 1
STATUS_CANNOT = 77
#: What tells callgrind where the work begins and ends.
MARKS = """
#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(const char *name) { CALLGRIND_DUMP_STATS_AT(name); CALLGRIND_STOP_INSTRUMENTATION; }
"""
Counts = dict[str, float]


def main() -> int:
    """Count, and compare or record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--record", action="store_true", help="make these counts the ones to compare with")
    asked = parser.parse_args()
    missing = why_not()
    if missing:
        print(f"cannot count the kernel's instructions: {missing}")
        return STATUS_CANNOT
    found = {
        "tools": tools_here(),
        "per_message": count("kernel_workloads.py", of=KERNEL),
        PROCESS: {
            "tools": process_tools_here(),
            "per_message": {
                name: spent
                for shape, messages in SHAPES.items()
                for name, spent in count("process_workload.py", shape, str(messages), of="").items()
            },
        },
    }
    if asked.record:
        RECORDED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        print(f"recorded in {RECORDED.relative_to(ROOT)}")
    recorded = json.loads(RECORDED.read_text())
    return worst([compare_with(recorded, found), compare_with(recorded[PROCESS], found[PROCESS])])


def worst(statuses: list[int]) -> int:
    """Return the status that says most: that something is slower, before that it could not be compared."""
    return STATUS_SLOWER if STATUS_SLOWER in statuses else max(statuses)


def why_not() -> str | None:
    """Return what is missing, None when nothing is."""
    if not IS_COMPILED:
        return f"this is {describe()}"
    absent = [name for name in ("valgrind", "gcc") if shutil.which(name) is None]
    if absent:
        return f"there is no {absent[0]}"
    found = subprocess.run(
        ["gcc", "-E", "-x", "c", "-"], input=MARKS, text=True, capture_output=True, check=False
    )
    return "valgrind/callgrind.h is not installed" if found.returncode else None


def tools_here() -> dict[str, str]:
    """Return what makes the instructions what they are."""
    compiler = subprocess.run(["gcc", "-dumpversion"], capture_output=True, text=True, check=True)
    return {
        "gcc": compiler.stdout.strip().partition(".")[0],
        "cython": version("cython"),
        "python": ".".join(platform.python_version_tuple()[:2]),
        "machine": platform.machine(),
    }


def process_tools_here() -> dict[str, str]:
    """Return what else makes the instructions of a whole process what they are."""
    return {
        **tools_here(),
        "python": platform.python_version(),
        "python compiler": platform.python_compiler(),
        "libc": " ".join(platform.libc_ver()),
        "uvloop": version("uvloop"),
    }


def count(script: str, *arguments: str, of: str) -> Counts:
    """Run a script's workloads under callgrind; return the instructions for a message of each.

    Only those in libraries of the folder `of` count; empty: all of them.
    """
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    marks = FOLDER / "marks.so"
    compiler = ["gcc", "-shared", "-fPIC", "-o", str(marks), "-x", "c", "-"]
    subprocess.run(compiler, input=MARKS, text=True, check=True)
    # Instrumented only between the marks: Python's start would take most of the time.
    callgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={FOLDER}/out"]
    ended = subprocess.run(
        [*callgrind, sys.executable, str(ROOT / "tools" / script), str(marks), *arguments],
        env=os.environ | {"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        sys.exit(ended.stderr)
    counts: Counts = {}
    for dump in sorted(FOLDER.glob("out.*")):
        text = dump.read_text(errors="replace")
        trigger = re.search(r"^desc: Trigger: Client Request: (.+)\|(\d+)$", text, re.MULTILINE)
        if trigger:
            counts[trigger[1]] = round(spent_in(of, text.splitlines()) / int(trigger[2]), 1)
    return counts


def spent_in(folder: str, lines: Iterable[str]) -> int:
    """Return the instructions of a dump that ran in libraries of a folder."""
    names: dict[str, str] = {}
    total, current, is_call = 0, "", False
    for line in lines:
        library = re.match(r"(c?)ob=(\(\d+\))(?: (.*))?", line)
        if library:
            # A name stands where its number comes first.
            if library[3]:
                names[library[2]] = library[3]
            if not library[1]:
                current = names[library[2]]
        elif line.startswith("calls="):
            is_call = True
        elif line[:1] in tuple("0123456789+-*"):
            if not is_call and folder in current:
                total += int(line.split()[1])
            # The line behind a call is what the callee took.
            is_call = False
    return total


def compare_with(recorded: dict[str, Any], found: dict[str, Any]) -> int:
    """Compare the counts if they were made with the same tools."""
    if recorded["tools"] != found["tools"]:
        print(f"cannot compare: recorded with {recorded['tools']}, counted with {found['tools']}")
        return STATUS_CANNOT
    return compare(recorded["per_message"], found["per_message"])


def compare(recorded: Counts, counts: Counts) -> int:
    """Print both side by side; return 1 when any is above its tolerance."""
    slower = 0
    print(f"{'instructions for a message':<40}{'recorded':>10}{'now':>10}")
    for name in sorted(recorded.keys() | counts.keys()):
        before, now = recorded.get(name), counts.get(name)
        if before is None or now is None:
            print(f"{name:<40}{before or '-':>10}{now or '-':>10}   only one of them: --record")
            slower = STATUS_SLOWER
            continue
        note = f"{now / before - 1:+8.1%}"
        if now > before * (1 + TOLERANCE):
            note += f"   more than {TOLERANCE:.0%} more: mend it, or say why in the commit that has --record"
            slower = STATUS_SLOWER
        print(f"{name:<40}{before:>10.1f}{now:>10.1f}{note}")
    return slower


if __name__ == "__main__":
    sys.exit(main())
