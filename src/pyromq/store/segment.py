"""One file of a fixed size: opened, mapped, synced and closed."""

import mmap
from contextlib import suppress
from pathlib import Path

from pyromq.errors import SyncFailed
from pyromq.store.files import File, Files


class Segment:
    """A file that has its full size from the start; in a row of files, the bytes from `base` to `end`.

    The file is opened on its first use, and mapped on the first look at its map: a queue nobody reads costs
    neither. `is_named` says whether the folder that holds the file's name was synced since it was made.
    """

    __slots__ = ("_file", "_files", "_is_retired", "_map", "base", "end", "is_named", "path", "size")

    def __init__(self, files: Files, path: Path, *, size: int, base: int = 0) -> None:
        self._files = files
        self._file: File | None = None
        self._map: mmap.mmap | None = None
        self.path = path
        self.base = base
        self.size = size
        self.end = base + size
        self.is_named = True
        self._is_retired = False

    @property
    def file(self) -> File:
        """The open file; it has its full length."""
        file = self._file
        if file is None:
            file = self._file = self._files.open(self.path, self.size)
        return file

    def make(self) -> None:
        """Make the file now; its name is synced with its first bytes."""
        self.is_named = False
        self._file = self._files.open(self.path, self.size)

    @property
    def map(self) -> mmap.mmap:
        """A read-only map of the whole file. A slice of it is a copy."""
        view = self._map
        if view is None:
            view = self._map = self.file.map()
        return view

    def sync(self) -> None:
        """Put all that was written on the disk, and the file's name if it is new.

        May run in another thread. A file with unsynced bytes is open, and only `retire` closes it before it
        was synced; nobody needs its bytes then.
        """
        file = self._file
        if file is None:
            return
        try:
            file.sync()
            if not self.is_named:
                self._files.sync_folder(self.path.parent)
                self.is_named = True
        except SyncFailed:
            if not self._is_retired:
                raise

    def wipe_from(self, at: int) -> None:
        """Make everything from byte `at` of the file read as zeros, and give its room back."""
        self.file.resize(at)
        self.file.resize(self.size)

    def forget_pages(self) -> None:
        """Give the map's pages back to the system, which keeps them cached but no longer as ours."""
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    def retire(self) -> None:
        """Close the file for good; the caller removes it."""
        self._is_retired = True
        self.close()

    def close(self) -> None:
        """Give the file and the map back; the next use opens them again."""
        view, self._map = self._map, None
        if view is not None:
            # Whoever still looks into the map keeps it; it ends with the last look.
            with suppress(BufferError):
                view.close()
        file, self._file = self._file, None
        if file is not None:
            file.close()
