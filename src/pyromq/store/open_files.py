"""The open files of many queues: not more than the process may have, and synced together.

A store can have more queues than a process may have open files. Beyond a limit the file that was opened
first is closed, whether it has unsynced bytes or not; nobody notices, because the next use opens it again.
But a sync through another descriptor than the one that wrote is not told of writes that failed meanwhile.
Then, and when the files are so many that one sync each would take minutes, the disk is synced as a whole, by
a descriptor that was there from the beginning. Where the system has no such sync, a file is synced before it
is closed.
"""

from collections import deque
from pathlib import Path
from typing import Final

from pyromq.store.files import Files, WholeDisk
from pyromq.store.segment import Segment

#: From this many files on the whole disk is synced: that also writes what others have written to it.
_FILES_SYNCED_ALONE_MAX: Final = 256


class OpenFiles:
    """The open files below one folder, which is on one disk."""

    __slots__ = ("_disk", "_files", "_limit", "_opened", "folder")

    def __init__(self, files: Files, folder: Path, limit: int) -> None:
        self._files = files
        self._limit = limit
        self._opened: deque[Segment] = deque()
        self._disk: WholeDisk | None = None
        self.folder = folder

    def opened(self, segment: Segment) -> None:
        """Note a file that is open now, and close another if there are too many."""
        if self._disk is None:
            self._disk = self._files.whole_disk(self.folder)
        self._opened.append(segment)
        if len(self._opened) > self._limit:
            first = self._opened.popleft()
            if not self._disk.is_reliable:
                first.sync()
            first.close()

    def sync(self, segments: list[Segment]) -> None:
        """Put what was written to these files on the disk, with their names; may run in another thread."""
        disk = self._disk
        if len(segments) <= _FILES_SYNCED_ALONE_MAX or disk is None or not disk.is_reliable:
            segments = [segment for segment in segments if not segment.sync()]
        if segments and disk is not None and disk.is_reliable:
            unnamed = [segment for segment in segments if not segment.is_named]
            disk.sync()
            for segment in unnamed:
                segment.is_named = True

    def close(self) -> None:
        """Give back what is not a file of a row."""
        self._opened.clear()
        disk, self._disk = self._disk, None
        if disk is not None:
            disk.close()


class UnsyncedFiles:
    """Files of queues that are synced in one go."""

    __slots__ = ("_open_files", "_segments", "path")

    def __init__(self, open_files: OpenFiles, segments: list[Segment]) -> None:
        self._open_files = open_files
        self._segments = segments
        self.path = open_files.folder

    def sync(self) -> None:
        """Put what was written on the disk; may be called from another thread."""
        self._open_files.sync(self._segments)
