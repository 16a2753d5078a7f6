"""The file that is there while a store is open, so that a start that finds it follows a crash.

    {root}/abort      the machine's boot id; empty when it is not known, or when a write or a sync failed

RocketMQ leaves it empty and only looks whether it is there. The boot id tells two crashes apart. When it is
still the same, only the process died: the system has everything that was written, in the order it was. When
it is another, the machine stopped, and of what was not synced any part may be missing. A copy on another
machine has another boot id too.

It is written when recovery is done, so that a recovery which is killed is begun again with the same answer.
"""

from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import Final

from pyromq.errors import DiskFull, StoreError
from pyromq.store.files import Files

FILE_NAME: Final = "abort"


class Stop(Enum):
    """The end of the store's last run."""

    IN_ORDER = auto()
    #: The process died, and the machine did not: nothing that was written is lost.
    KILLED = auto()
    #: Of what was not synced, anything may be missing.
    CRASHED = auto()


class AbortFile:
    """The file, made at every open and removed by a stop in order."""

    __slots__ = ("_files", "_path")

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path

    def last_stop(self) -> Stop:
        """Tell how the last life ended; to be asked before `make`."""
        found = self._files.read_all(self._path)
        if found is None:
            return Stop.IN_ORDER
        boot_id = self._files.boot_id()
        return Stop.KILLED if boot_id and found == boot_id.encode() else Stop.CRASHED

    def make(self) -> None:
        """Make the file; its name survives a power cut when this returns."""
        file = self._files.open(self._path, 0)
        try:
            # On a full disk the store opens all the same, and a kill then counts as a crash.
            with suppress(DiskFull):
                file.resize(0)
                file.write(self._files.boot_id().encode(), 0)
        finally:
            file.close()
        self._files.sync_folder(self._path.parent)

    def doubt(self) -> None:
        """Let the next start count on nothing: after a failed sync the system may forget what it shows."""
        with suppress(StoreError):
            file = self._files.open(self._path, 0)
            try:
                file.resize(0)
            finally:
                file.close()

    def remove(self) -> None:
        """Remove the file for good: everything is on the disk."""
        self._files.remove(self._path)
        self._files.sync_folder(self._path.parent)
