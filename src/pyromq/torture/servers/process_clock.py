"""A process's own clock that can jump, by libfaketime; only the time of day, as an NTP step does."""

from pathlib import Path

NAME = "libfaketimeMT.so.1"
HOW_TO_GET_IT = "apt-get install libfaketime"
#: Where distributions put it.
_PLACES = (
    "/usr/lib/x86_64-linux-gnu/faketime",
    "/usr/lib/aarch64-linux-gnu/faketime",
    "/usr/lib64/faketime",
    "/usr/lib/faketime",
    "/usr/local/lib/faketime",
)


def find_library() -> Path | None:
    """Return the library; None where it is not installed."""
    return next((path for place in _PLACES if (path := Path(place, NAME)).exists()), None)


class ProcessClock:
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
