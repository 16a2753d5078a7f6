"""A process's own clock that can jump, by Debian's libfaketime; only the time of day, as an NTP step does.

The library is taken from where Debian puts it, or fetched by the package tool into .cache, without root.
"""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
_INSTALLED = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
_CACHED = ROOT / ".cache" / "libfaketime"


def find_library() -> Path | None:
    """Return the library, fetched if need be; None where it cannot be had."""
    fetched = _CACHED / _INSTALLED.relative_to("/")
    for library in (_INSTALLED, fetched):
        if library.exists():
            return library
    _CACHED.mkdir(parents=True, exist_ok=True)
    try:
        for command in (["apt-get", "download", "libfaketime"], ["sh", "-c", "dpkg -x libfaketime_*.deb ."]):
            subprocess.run(command, cwd=_CACHED, check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return fetched if fetched.exists() else None


class Clock:
    """The time of day of one process: the machine's, plus some seconds that can be changed at any moment."""

    def __init__(self, library: Path, path: Path) -> None:
        self._library = library
        self._path = path
        self.jump(0)

    def jump(self, seconds: int) -> None:
        """Set how far it is from the machine's time; noticed within a second."""
        self._path.write_text(f"{seconds:+d}\n")

    def environment(self) -> dict[str, str]:
        """Return what a process must have in its environment from its start."""
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_CACHE_DURATION": "1",
            # Leases are counted by the clock that nobody sets.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }


def forget(process_id: int) -> None:
    """Remove what the library leaves in memory of a process that was killed."""
    for name in (f"faketime_shm_{process_id}", f"sem.faketime_sem_{process_id}"):
        (Path("/dev/shm") / name).unlink(missing_ok=True)
