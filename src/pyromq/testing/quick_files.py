"""The machine's files without waiting for its disk: for brokers that end with their tests."""

from pathlib import Path

from pyromq.store.files import File, SystemDisk, SystemFile, SystemFiles, WholeDisk


class QuickFile(SystemFile):
    """A file whose syncs return at once; it survives a broker's restart, and no loss of power."""

    __slots__ = ()

    def sync(self) -> None:
        """Leave it to the system when the disk gets what is written."""


class QuickDisk(SystemDisk):
    """A disk whose syncs return at once."""

    __slots__ = ()

    def sync(self) -> None:
        """Leave it to the system when the disk gets what is written."""


class QuickFiles(SystemFiles):
    """The machine's file system; a sync promises nothing."""

    def open(self, path: Path, size: int) -> File:
        """Open a file, made or extended to at least `size` bytes."""
        return QuickFile(path, size)

    def sync_folder(self, path: Path) -> None:
        """Leave it to the system when the disk gets the names."""

    def whole_disk(self, folder: Path) -> WholeDisk:
        """Return the disk that holds a folder."""
        return QuickDisk(folder)
