"""Programs of Debian for tests, unpacked into a folder of ours: nothing is installed, nobody need be root.

apt works out which packages are missing on this machine, as `apt-get install` would, but with lists and a
cache of its own in .cache: it needs no lists of the system's (an empty machine has none), nor changes them.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[2] / ".cache"
#: Seconds for all downloads of one call.
_DOWNLOAD_S = 900


def unpacked(name: str, packages: Sequence[str]) -> Path:
    """Return a folder with these packages and all that they need and the machine has not; fetch it once.

    The test fails with the cause where that cannot be done: it is never skipped.
    """
    try:
        return fetched(name, packages)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.fail(
            f"{name} is not on this machine, and Debian's packages could not be fetched ({_cause(error)}): "
            f"apt-get install {' '.join(packages)}"
        )


def fetched(name: str, packages: Sequence[str]) -> Path:
    """Do the same, but raise OSError or SubprocessError where it cannot be done."""
    folder = CACHE / name
    if folder.is_dir():
        return folder
    CACHE.mkdir(exist_ok=True)
    with _locked(CACHE / f"{name}.lock"):
        if not folder.is_dir():
            _fetch(packages, CACHE / f"{name}-{os.getpid()}", folder)
    return folder


def downloaded(name: str, package: str) -> Path:
    """Return a folder with one package, whether the machine has it or not; fetch it once."""
    folder = CACHE / name
    CACHE.mkdir(exist_ok=True)
    with _locked(CACHE / f"{name}.lock"):
        if not folder.is_dir():
            work = CACHE / f"{name}-{os.getpid()}"
            try:
                _prepare(work)
                _run([*_apt(work), "download", package], cwd=work)
                _unpack(work.glob("*.deb"), work, folder)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return folder


def _fetch(packages: Sequence[str], work: Path, folder: Path) -> None:
    try:
        _prepare(work)
        _run([*_apt(work), "install", "--download-only", "--no-install-recommends", *packages])
        _unpack((work / "archives").glob("*.deb"), work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _unpack(packages: Iterable[Path], work: Path, folder: Path) -> None:
    for package in sorted(packages):
        _run(["dpkg", "-x", str(package), str(work / "unpacked")])
    # Whole or not at all: another worker may look for it at this moment.
    (work / "unpacked").rename(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # Workers that run side by side fetch each thing once.
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _prepare(work: Path) -> None:
    for part in ("lists/partial", "archives/partial"):
        (work / part).mkdir(parents=True, exist_ok=True)
    _run([*_apt(work), "update"])


def _apt(work: Path) -> list[str]:
    options = {
        "Dir::State::Lists": work / "lists",
        "Dir::Cache": work,
        "Dir::Cache::Archives": work / "archives",
        "Debug::NoLocking": "true",
        # Root's apt downloads as somebody else, who may not write here.
        "APT::Sandbox::User": "root",
        # A mirror may be out of breath for a moment.
        "Acquire::Retries": "5",
    }
    return ["apt-get", "-q", "-y", *(f"-o{key}={value}" for key, value in options.items())]


def _run(command: Sequence[str], cwd: Path | None = None) -> None:
    subprocess.run(command, check=True, timeout=_DOWNLOAD_S, capture_output=True, text=True, cwd=cwd)


def _cause(error: Exception) -> str:
    said = getattr(error, "stderr", None)
    return str(said).strip().splitlines()[-1] if said and str(said).strip() else str(error)
