"""One file of a fixed size: opened, mapped, synced and closed."""

import mmap
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from pyromq.errors import SyncFailed
from pyromq.store.files import File, Files


class OpenFileWatcher(Protocol):
    """Told of files that are opened, to keep them few."""

    def opened(self, segment: "Segment") -> None:
        """Note a file that is open now, and close another if there are too many."""
        ...


class Segment:
    """A file that has its full size from the start; in a row of files, the bytes from `base` to `end`.

    The file is opened on its first use, and mapped on the first look at its map: a queue nobody reads costs
    neither. `is_named` says whether the folder that holds the file's name was synced since it was made, and
    the folders above it, as many as `levels` says.
    """

    __slots__ = (
        "_files",
        "_is_retired",
        "_levels",
        "_map",
        "_opened",
        "_path",
        "base",
        "end",
        "is_named",
        "opened_file",
        "size",
    )

    def __init__(
        self,
        files: Files,
        path: Path | str,
        *,
        size: int,
        base: int = 0,
        levels: int = 1,
        opened: OpenFileWatcher | None = None,
    ) -> None:
        self._files = files
        #: The open file, None until its first use; `file` opens it.
        self.opened_file: File | None = None
        self._map: mmap.mmap | None = None
        # A Path is four times as large, and a store may have a hundred thousand of them.
        self._path = str(path)
        self._levels = levels
        self._opened = opened
        self.base = base
        self.size = size
        self.end = base + size
        self.is_named = True
        self._is_retired = False

    @property
    def path(self) -> Path:
        """The path of the file."""
        return Path(self._path)

    @property
    def file(self) -> File:
        """The open file; it has its full length."""
        file = self.opened_file
        return self._open() if file is None else file

    @property
    def is_open(self) -> bool:
        """Whether the file is open."""
        return self.opened_file is not None

    def _open(self) -> File:
        file = self.opened_file = self._files.open(self.path, self.size)
        if self._opened is not None:
            self._opened.opened(self)
        return file

    def make(self) -> None:
        """Make the file now; its name is synced with its first bytes."""
        self.is_named = False
        self._open()

    @property
    def map(self) -> mmap.mmap:
        """A read-only map of the whole file. A slice of it is a copy."""
        view = self._map
        if view is None:
            view = self._map = self.file.map()
        return view

    def sync(self) -> bool:
        """Put all that was written on the disk, and the file's name if it is new.

        Returns False when the file is not open, or was closed meanwhile: it may have bytes then that only a
        sync of the whole disk brings there. May run in another thread. Of a file that is retired nobody
        needs the bytes.
        """
        file = self.opened_file
        if file is None:
            return self._is_retired
        try:
            file.sync()
            if not self.is_named:
                for folder in tuple(self.path.parents)[: self._levels]:
                    self._files.sync_folder(folder)
                self.is_named = True
        except SyncFailed:
            if self.opened_file is file:
                raise
        return self.opened_file is file or self._is_retired

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
        file, self.opened_file = self.opened_file, None
        if file is not None:
            file.close()
