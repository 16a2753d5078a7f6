"""Make what is released: a source distribution, and a manylinux wheel for each Python that is here.

    python tools/wheel.py [--out dist] [--python PYTHON …] [--skip-smoke]

A wheel has the compiled kernel and libnghttp2 with its licence. auditwheel repairs it, and says for which
Linux it is good. Then it is installed without a compiler on the PATH and tried: a cluster starts, and what is
sent is read.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
#: What the package is built from; the rest of the repository has no part in it.
PARTS: Final = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "src")
VERSIONS: Final = ("3.11", "3.12", "3.13")
LIBRARY: Final = "libnghttp2.so.14"
#: Where a wheel has it.
BESIDE: Final = Path("src/pyromq/_kernel/http2")
#: What `uname` and a shell need: every machine has these.
EVERYWHERE: Final = ("sh", "uname", "env")
START_S: Final = 60

sys.path.insert(0, str(ROOT / "tests" / "support"))


def run(command: Sequence[str | Path], *, cwd: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a command that must succeed, and return what it prints."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYROMQ_", "PYTHON"))}
    ended = subprocess.run(
        command,
        cwd=cwd,
        env=kept | dict(environment or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    if ended.returncode:
        raise SystemExit(
            f"{' '.join(map(str, command))} ended with {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        )
    return ended.stdout


def copy_sources(to: Path) -> Path:
    """Copy what the package is built from, with nothing compiled in it; what Cython made is new enough."""
    to.mkdir(parents=True)
    unbuilt = shutil.ignore_patterns("*.so", "*.so.*", "__pycache__", "*.egg-info")
    for part in PARTS:
        path = ROOT / part
        if path.is_dir():
            shutil.copytree(path, to / part, ignore=unbuilt)
        else:
            shutil.copy(path, to)
    # What `make setup` had Cython make is newer than its sources, unless somebody works on them.
    if (ROOT / "build" / "cython").exists():
        shutil.copytree(ROOT / "build" / "cython", to / "build" / "cython")
    return to


def add_library(source: Path) -> None:
    """Put Debian's libnghttp2 beside the kernel, and its licence."""
    from debian_packages import downloaded

    folder = downloaded("nghttp2-whole", "libnghttp2-14")
    [found] = [path for path in folder.rglob(f"{LIBRARY}*") if not path.is_symlink()]
    shutil.copy(found, source / BESIDE / LIBRARY)
    [licence] = folder.rglob("libnghttp2-14/copyright")
    shutil.copy(licence, source / BESIDE / f"{LIBRARY}.LICENSE")


def pythons_here(named: Sequence[str]) -> list[Path]:
    """Return the interpreters that can build: those named, or one of each version that has its headers.

    They are looked for on the PATH and in pyenv's folder; this one comes first.
    """
    ask = (
        "import os, sys, sysconfig; "
        "print(os.path.exists(sysconfig.get_path('include') + '/Python.h'), *sys.version_info[:2])"
    )
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    near = [f"python{version}" for version in VERSIONS]
    far = [str(path) for version in VERSIONS for path in sorted(pyenv.glob(f"{version}.*/bin/python3"))]
    found: dict[str, Path] = {}
    for name in named or (sys.executable, *near, *far):
        where = shutil.which(name)
        if where is None:
            continue
        # One of pyenv's names may stand for nothing.
        asked = subprocess.run([where, "-c", ask], capture_output=True, text=True, check=False)
        has_headers, _, version = asked.stdout.strip().partition(" ")
        if has_headers == "True":
            found.setdefault(version, Path(where))
    return list(found.values())


def build_wheel(python: Path, source: Path, out: Path) -> Path:
    """Build one Python's wheel and repair it; return it."""
    with TemporaryDirectory() as name:
        work = Path(name)
        # The compiled modules of another Python have no place in it.
        own = shutil.copytree(
            source, work / "source", ignore=shutil.ignore_patterns("dist", "lib.*", "temp.*")
        )
        pip = [python, "-m", "pip", "--disable-pip-version-check", "wheel", "-q", "--no-deps"]
        if python == Path(sys.executable):
            pip.append("--no-build-isolation")
        flags = {name: value for name, value in os.environ.items() if name == "PYROMQ_KERNEL_FLAGS"}
        run([*pip, "-w", work / "plain", str(own)], cwd=work, environment=flags)
        [plain] = (work / "plain").glob("*.whl")
        tools = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        run(
            [sys.executable, "-m", "auditwheel", "repair", "--strip", "-w", work / "repaired", plain],
            cwd=work,
            environment=tools,
        )
        [repaired] = (work / "repaired").glob("*.whl")
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(repaired, out))


def check_content(wheel: Path) -> None:
    """Stop unless a wheel has the compiled kernel, the library and its licence."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    wanted = {path.stem for path in (ROOT / "src/pyromq/_kernel").rglob("*.pyx")}
    compiled = {name.rpartition("/")[2].partition(".")[0] for name in names if name.endswith(".so")}
    lacking = sorted(wanted - compiled)
    lacking += [name for name in (LIBRARY, f"{LIBRARY}.LICENSE") if not any(n.endswith(name) for n in names)]
    if lacking:
        raise SystemExit(f"{wheel.name} lacks {', '.join(lacking)}")


@contextmanager
def without_compiler() -> Iterator[str]:
    """Make a PATH on which only what every machine has is found."""
    with TemporaryDirectory() as name:
        for program in EVERYWHERE:
            found = shutil.which(program)
            assert found is not None
            (Path(name) / program).symlink_to(found)
        yield name


def try_out(python: Path, package: Path) -> str:
    """Install a package without a compiler, and use it; return what it says of itself."""
    with TemporaryDirectory() as name, without_compiler() as path:
        folder = Path(name)
        run([python, "-m", "venv", folder / "environment"], cwd=folder)
        own = folder / "environment" / "bin" / "python"
        environment = {"PATH": path, "HOME": name, "XDG_DATA_HOME": f"{name}/share"}
        install = ["-m", "pip", "--disable-pip-version-check", "install", "-q", f"{package}[grpc]"]
        run([own, *install], cwd=folder, environment=environment)
        return smoke(own, folder, environment)


def smoke(python: Path, folder: Path, environment: Mapping[str, str]) -> str:
    """Start a cluster, send a message, read it; return what the program says of itself."""
    pyromq = [python, "-m", "pyromq"]
    up = subprocess.Popen(
        [
            *pyromq,
            *("up", "--namesrv-port", "0", "--broker-port", "0", "--no-dashboard", "--json"),
            *("--set", "grpcServerPort=0", "--data", folder / "data"),
        ],
        cwd=folder,
        env=dict(environment),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert up.stdout is not None
        line = up.stdout.readline()
        if not line:
            raise SystemExit("pyromq up did not start")
        near = ["-n", json.loads(line)["namesrv"]]
        run([*pyromq, "produce", "smoke", "it works", *near], cwd=folder, environment=environment)
        words = ("consume", "smoke", "--body-only", *near)
        read = run([*pyromq, *words], cwd=folder, environment=environment)
        if read.strip() != "it works":
            raise SystemExit(f"what was sent did not come back: {read!r}")
    finally:
        up.terminate()
        up.wait(START_S)
        if up.stdout is not None:
            up.stdout.close()
    return run([*pyromq, "version", "--json"], cwd=folder, environment=environment).strip()


def main() -> int:
    """Make them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--skip-smoke", action="store_true")
    given = parser.parse_args()
    out = given.out.resolve()
    with TemporaryDirectory() as name:
        source = copy_sources(Path(name) / "source")
        run([sys.executable, "setup.py", "-q", "sdist", "-d", out], cwd=source)
        for made in out.glob("*.tar.gz"):
            print(made)
        add_library(source)
        for python in pythons_here(given.python):
            wheel = build_wheel(python, source, out)
            check_content(wheel)
            print(wheel)
            if not given.skip_smoke:
                said = json.loads(try_out(python, wheel))
                if not said["kernel"]["compiled"]:
                    raise SystemExit(f"{wheel.name} runs in pure Python: {said['kernel']['why_not']}")
                print(f"  tried without a compiler: {json.dumps(said)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
