"""A row of fixed-size files that reads as one long run of bytes: find, roll, cut, drop the oldest.

    00000000000000000000   00000000001073741824   00000000002147483648
    └── first ──────────┘  └────────────────────┘ └── last ───────────┘

A name is the position of the file's first byte, twenty digits, a multiple of the file size. The row has no
holes. Files leave it at the front (retention) and at the back (recovery) only.
"""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pyromq.errors import StoreError
from pyromq.store.files import Files
from pyromq.store.segment import OpenFileWatcher, Segment

_log: Final = logging.getLogger(__name__)
_NAME_DIGITS: Final = 20


class BrokenRow(StoreError):
    """The files of a folder do not form a row: one in the middle is missing."""


class Segments:
    """The files of one folder, oldest first.

    A folder that is missing is made with the first file. Its own name, and those of `levels` − 1 folders
    above it, are synced with the file's.

    `row` is replaced and never changed in place, so that a thread that syncs may walk an older copy of it.
    """

    __slots__ = ("_files", "_folder", "_levels", "_opened", "_short", "row", "segment_bytes")

    def __init__(
        self,
        files: Files,
        folder: Path | str,
        segment_bytes: int,
        *,
        levels: int = 1,
        opened: OpenFileWatcher | None = None,
    ) -> None:
        self._files = files
        self._folder = str(folder)
        self._levels = levels
        self._opened = opened
        self.segment_bytes = segment_bytes
        self.row: list[Segment] = []
        self._short: dict[Segment, int] | None = None

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return Path(self._folder)

    def load(self, *, is_named: bool = True) -> None:
        """List the files that are there; `is_named` says whether their names survive a power cut.

        Raises BrokenRow when a file is missing, StoreError when the settings have another file size.
        """
        self.close()
        self.row = [self._segment(int(name)) for name in self._files.names(self.folder) if _is_name(name)]
        for segment in self.row:
            segment.is_named = is_named
        lengths = {segment: self._check_length(segment) for segment in self.row}
        self._short = {seg: length for seg, length in lengths.items() if length < seg.size} or None
        for before, after in zip(self.row, self.row[1:], strict=False):
            if before.end != after.base:
                raise BrokenRow(
                    f"between {before.path} and {after.path} a file is missing; "
                    f"move the older files away to open the store with the newer ones"
                )

    def short(self) -> list[Segment]:
        """Return the files that did not have their full length when the row was loaded."""
        return list(self._short or ())

    def length_of(self, short: Segment) -> int:
        """Return the length of a short file when the row was loaded."""
        assert self._short is not None
        return self._short[short]

    def _check_length(self, segment: Segment) -> int:
        length = self._files.size(segment.path)
        if segment.base % self.segment_bytes or length > self.segment_bytes:
            raise StoreError(
                f"{segment.path} has {length} bytes, but the settings say {self.segment_bytes} for each file "
                f"of {self.folder}; set the file size that the store was made with"
            )
        if length < self.segment_bytes:
            _log.warning("%s has %d bytes; extending it to %d", segment.path, length, self.segment_bytes)
        return length

    def _segment(self, base: int) -> Segment:
        return Segment(
            self._files,
            f"{self._folder}/{base:0{_NAME_DIGITS}d}",
            size=self.segment_bytes,
            base=base,
            levels=self._levels,
            opened=self._opened,
        )

    def find(self, position: int) -> Segment | None:
        """Return the file that holds a position, or None when it is outside the row."""
        row = self.row
        if not row or position < row[0].base:
            return None
        index = (position - row[0].base) // self.segment_bytes
        return row[index] if index < len(row) else None

    def add(self, position: int) -> Segment:
        """Make the file that begins the row at `position`, or the one behind the last."""
        base = self.row[-1].end if self.row else position - position % self.segment_bytes
        self._files.make_folder(self.folder, is_synced=self._levels == 1)
        if self.row and not self.row[-1].is_named:
            # A power cut must not leave this name without the one before it.
            self._files.sync_folder(self.folder)
        segment = self._segment(base)
        segment.make()
        self.row = [*self.row, segment]
        return segment

    def cut(self, position: int, *, keep_length: bool = False) -> None:
        """Drop every file behind the one that holds `position`, and zero that one's rest.

        The first file stays, wiped, even when `position` lies before it. With `keep_length` the zeros are
        written: a power cut then never leaves a file that is too short.
        """
        while len(self.row) > 1 and self.row[-1].base >= position:
            self._remove_last()
        if self.row and position < self.row[-1].end:
            at = max(position - self.row[-1].base, 0)
            self.row[-1].file.wipe(at) if keep_length else self.row[-1].wipe_from(at)

    def sync_cut(self) -> None:
        """Put the last file as `cut` left it on the disk, and the names in the folder."""
        if self.row:
            self.row[-1].sync()
            self._files.sync_folder(self.folder)

    def _remove_last(self) -> None:
        last = self.row[-1]
        self.row = self.row[:-1]
        last.retire()
        self._files.remove(last.path)
        self._files.sync_folder(self.folder)

    def detach_first(self, count: int) -> list[Segment]:
        """Take the oldest files out of the row; they are closed, and the caller removes them."""
        gone, self.row = self.row[:count], self.row[count:]
        for segment in gone:
            segment.retire()
        return gone

    def remove(self, segments: Iterable[Segment]) -> None:
        """Remove files that were taken out of the row, the oldest first."""
        for segment in segments:
            self._files.remove(segment.path)
            # One after the other: a power cut must not leave an older file with a hole behind it.
            self._files.sync_folder(self.folder)

    def remove_all(self) -> None:
        """Remove every file and the folder, loaded or not."""
        self.detach_first(len(self.row))
        for name in self._files.names(self.folder):
            self._files.remove(self.folder / name)
        self._files.remove_folder(self.folder)

    def close(self) -> None:
        """Give all files back."""
        for segment in self.row:
            segment.close()


def _is_name(name: str) -> bool:
    return len(name) == _NAME_DIGITS and name.isascii() and name.isdigit()
