"""The copy of the commit log: new bytes of the source are appended to the copy.

A log only grows, so that its copy needs no comparing: a position tells how far it is. The one exception is a
log that was cut, by a power cut or because another broker became master, and then went on differently. For
that case the last bytes of the copy are compared with the source's; two logs do not have the same last bytes
by chance, since each record has its time and its position in it.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pyromq.errors import ConfigError, StoreError
from pyromq.store.files import Files, SystemFiles
from pyromq.store.inspect.piece import look_at, next_record
from pyromq.store.inspect.read_only_files import FileGone, ReadOnlyFile
from pyromq.store.inspect.store_survey import RowFile, row_of
from pyromq.wire.record import RECORD_BYTES_MIN

Advance = Callable[[int], None]

_CHUNK_BYTES: Final = 4 << 20
_COMPARED_BYTES: Final = 64 << 10
#: So far before the last byte the walk to the end begins, and then four times as far.
_LOOKED_BACK_BYTES: Final = 1 << 20


def log_end(row: Sequence[RowFile]) -> int:
    """Return the position behind the last whole record of a log; a file that is full ends with its blank."""
    for file in reversed(row):
        with ReadOnlyFile(file.path) as opened:
            written = opened.last_byte_but_zeros(file.length)
            if written:
                return file.base + _end_in(opened, file, written)
    return row[0].base if row else 0


def _end_in(opened: ReadOnlyFile, file: RowFile, written: int) -> int:
    place = _record_near(opened, file, written)
    while place < file.length:
        look = look_at(opened, file, place)
        if look.is_blank and not look.faults:
            return file.length
        if look.record is None or look.faults:
            # It is being written.
            return place
        place += look.record.size
    return place


def _record_near(opened: ReadOnlyFile, file: RowFile, written: int) -> int:
    """Return where a record begins, some records before the last byte."""
    back = _LOOKED_BACK_BYTES
    while back < written:
        place = next_record(opened, file, written - back)
        if place is not None:
            return place
        back *= 4
    return 0


class LogCopy:
    """A log, and a folder with its beginning; from `begin` to `end` everything is there."""

    def __init__(self, source: Path, target: Path, files: Files, *, begin: int, end: int) -> None:
        self._source = source
        self._target = target
        self._files = files
        self.begin = begin
        self.end = end
        self.linked_count = 0
        self.copied_bytes = 0

    def begin_at(self, position: int) -> None:
        """Begin with an empty copy, where a file of the source begins."""
        for name in self._files.names(self._target):
            self._files.remove(self._target / name)
        self.begin = self.end = position

    def is_of_this_log(self) -> bool:
        """Return whether the oldest file that both have begins with the same message."""
        both = (file for file in row_of(self._source) if self.begin <= file.base < self.end)
        first = next(both, None)
        return first is None or self._is_same(first, first.base, RECORD_BYTES_MIN)

    def is_continued(self, row: Sequence[RowFile] | None = None) -> bool:
        """Return whether the source still has what was copied last, and where it was."""
        if self.end == self.begin:
            return True
        row = row_of(self._source) if row is None else row
        last = next((file for file in row if file.base < self.end <= file.end), None)
        return last is not None and self._is_same(last, max(last.base, self.end - _COMPARED_BYTES))

    def _is_same(self, file: RowFile, start: int, size: int = _COMPARED_BYTES) -> bool:
        size = min(start + size, self.end, file.end) - start
        copied = self._files.open(self._target / file.path.name, 0)
        try:
            with ReadOnlyFile(file.path) as opened:
                return opened.read(size, start - file.base) == copied.read(size, start - file.base)
        finally:
            copied.close()

    # What is to be done

    def has_gap(self, row: Sequence[RowFile] | None = None) -> bool:
        """Return whether the source has nothing left of what was copied, so that there may be a gap."""
        row = row_of(self._source) if row is None else row
        return self.end > self.begin and bool(row) and row[0].base >= self.end

    def new_bytes(self, *, is_linked: bool) -> int:
        """Return how many bytes are to be copied; linked files take no room."""
        row = row_of(self._source)
        end = log_end(row)
        copied = [file for file in row if not (is_linked and file.end <= end)]
        return sum(max(min(end, file.end) - max(file.base, self.end), 0) for file in copied)

    def copy_whole(self, advance: Advance, note: Callable[[], None], *, is_linked: bool) -> None:
        """Copy all files that are full; call `note` whenever one more is safe.

        Raises FileGone when retention takes a file that was to be copied.
        """
        self._files.make_folder(self._target)
        row = row_of(self._source)
        end = log_end(row)
        for file in row:
            # RocketMQ makes files in advance: one that is followed by another need not be full.
            if self.end < file.end <= end:
                if self.end < file.base:
                    raise FileGone(f"{self._source} has nothing at {self.end} any more")
                if is_linked:
                    self._link(file)
                elif not self._is_link(file):
                    self._copy(file, file.end, advance)
                self.end = file.end
                note()

    def copy_rest(self, advance: Advance) -> None:
        """Copy what there is now, up to the last whole record.

        Raises FileGone as `copy_whole` does.
        """
        self._files.make_folder(self._target)
        row = row_of(self._source)
        if row and row[0].base > self.end:
            raise FileGone(f"{self._source} has nothing at {self.end} any more")
        end = max(log_end(row), self.end)
        for file in row:
            if file.end > self.end and file.base <= self.end < end:
                stop = min(end, file.end)
                self._copy(file, stop, advance)
                self.end = stop
        self._forget_behind()

    def _copy(self, file: RowFile, stop: int, advance: Advance) -> None:
        is_new = not self._files.exists(self._target / file.path.name)
        copied = self._files.open(self._target / file.path.name, file.length)
        if is_new:
            # One after the other: a power cut must not leave a newer file and not this one.
            self._files.sync_folder(self._target)
        try:
            with ReadOnlyFile(file.path) as opened:
                at = max(self.end - file.base, 0)
                while at < stop - file.base:
                    part = opened.read(min(_CHUNK_BYTES, stop - file.base - at), at)
                    if not part:
                        raise StoreError(f"{file.path} was cut while it was copied; back up again")
                    copied.write(part, at)
                    at += len(part)
                    self.copied_bytes += len(part)
                    advance(len(part))
            # An earlier copy that was interrupted may have left more than the source has by now.
            copied.wipe(at)
            copied.sync()
        finally:
            copied.close()

    def _is_link(self, file: RowFile) -> bool:
        """Return whether the copy is the source's own file, linked by a run that was interrupted then."""
        try:
            place = self._target / file.path.name
            return isinstance(self._files, SystemFiles) and place.samefile(file.path)
        except FileNotFoundError:
            return False

    def _link(self, file: RowFile) -> None:
        temporary = self._target / (file.path.name + ".tmp")
        try:
            temporary.unlink(missing_ok=True)
            os.link(file.path, temporary)
        except FileNotFoundError as error:
            raise FileGone(f"{file.path} is not there any more") from error
        except OSError as error:
            raise ConfigError(
                f"{file.path} cannot be linked into {self._target} ({error.strerror}): that needs one file "
                f"system; leave --link out to copy"
            ) from error
        self._files.rename(temporary, self._target / file.path.name)
        self._files.sync_folder(self._target)
        self.linked_count += 1

    def _forget_behind(self) -> None:
        """Let nothing stand behind the end: an interrupted copy may have left what the log lost since."""
        for base, path in reversed(_copies_in(self._files, self._target)):
            if base >= self.end > self.begin:
                self._remove(path)

    def _remove(self, path: Path) -> None:
        self._files.remove(path)
        self._files.sync_folder(self._target)

    def forget_before(self) -> int:
        """Remove the files that retention removed at the source, and return how many; the newest stays."""
        row, copies = row_of(self._source), _copies_in(self._files, self._target)
        gone = [path for base, path in copies[:-1] if row and base < row[0].base]
        for path in gone:
            self._remove(path)
        if gone:
            self.begin = copies[len(gone)][0]
        return len(gone)


def _copies_in(files: Files, folder: Path) -> list[tuple[int, Path]]:
    """Return the files of a copied row, oldest first, each with the position that it begins at."""
    return [(int(name), folder / name) for name in files.names(folder) if name.isascii() and name.isdigit()]
