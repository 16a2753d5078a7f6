"""Queues and index: copied in whatever state they are, because recovery cuts them back to the checkpoint.

They could be left out, and be made again from the log at the first start, which is when nobody wants to wait:
of 300,000 messages (130 MB, and 34 MB of queues and index) a start took 22 s without them and 1.4 with.

A file is copied again if its length or its time is another. A time is only trusted when the file had rested
for a while: the clock of a file system ticks every few milliseconds. RocketMQ writes through a map, which
moves the time once for many writes, so that the newest file of each row is always looked at in its stores.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pyromq.store.backup.backup_manifest import Stamp
from pyromq.store.files import File, Files
from pyromq.store.inspect.read_only_files import FileGone, ReadOnlyFile, names_in

Advance = Callable[[int], None]

FOLDERS: Final = ("consumequeue", "consumequeue_ext", "index")
_NAME_DIGITS: Final = frozenset({17, 20})
_CHUNK_BYTES: Final = 1 << 18
_RESTED_MS: Final = 2_000
_MS_NS: Final = 1_000_000


class FollowersCopy:
    """The files that follow a store's log, and their copies."""

    def __init__(
        self, source: Path, target: Path, files: Files, stamps: dict[str, Stamp], *, has_true_times: bool
    ) -> None:
        self._source = source
        self._target = target
        self._files = files
        self._known = stamps
        self._has_true_times = has_true_times
        #: What the files were when they were copied.
        self.stamps: dict[str, Stamp] = {}
        self.copied_count = 0

    def new_bytes(self) -> int:
        """Return about how much more room the copies will take."""
        total = 0
        for name, is_newest in self._names():
            try:
                with ReadOnlyFile(self._source / name) as opened:
                    if not self._is_same(name, opened.stamp, is_newest=is_newest):
                        total += opened.room
            except FileGone:
                continue
        return total

    def copy(self, now_ms: int, advance: Advance, *, is_each_synced: bool) -> None:
        """Copy what changed; the copies are safe after a sync of the disk, or when each is synced."""
        for name, is_newest in self._names():
            try:
                with ReadOnlyFile(self._source / name) as opened:
                    stamp = opened.stamp
                    if not self._is_same(name, stamp, is_newest=is_newest):
                        self._copy(opened, name, is_each_synced=is_each_synced)
                        advance(opened.room)
                    if stamp[1] < (now_ms - _RESTED_MS) * _MS_NS:
                        self.stamps[name] = stamp
            except FileGone:
                # Retention, or a topic was removed.
                continue

    def _is_same(self, name: str, stamp: Stamp, *, is_newest: bool) -> bool:
        is_known = self._known.get(name) == stamp and self._files.exists(self._target / name)
        return is_known and (self._has_true_times or not is_newest)

    def _names(self) -> Iterator[tuple[str, bool]]:
        """Yield the path of each file in the store, and whether it is the newest of its row."""
        for folder in FOLDERS:
            yield from _rows_below(self._source, folder)

    def _copy(self, opened: ReadOnlyFile, name: str, *, is_each_synced: bool) -> None:
        target = self._target / name
        is_new = not self._files.exists(target)
        size = opened.size
        self._files.make_folder(target.parent, is_synced=is_each_synced)
        copied = self._files.open(target, size)
        try:
            if is_new:
                for start, end in opened.written_parts(size):
                    _copy_part(opened, copied, start, end)
            else:
                copied.resize(size)
                _copy_part(opened, copied, 0, size)
            if is_each_synced:
                copied.sync()
        finally:
            copied.close()
        if is_new and is_each_synced:
            self._files.sync_folder(target.parent)
        self.copied_count += 1

    def forget(self, *, is_pruned: bool) -> int:
        """Remove copies of files that are not in the store, and return how many.

        Queues that are gone there go here: their topic was removed, and one of that name would have their
        messages. The oldest files of a queue that goes on stay as long as the log's do.
        """
        kept = {name for name, _ in self._names()}
        oldest: dict[Path, str] = {}
        for name in sorted(kept):
            oldest.setdefault(Path(name).parent, Path(name).name)
        removed = 0
        for folder in FOLDERS:
            for path in list(_copies_below(self._files, self._target / folder)):
                place = path.relative_to(self._target)
                first = oldest.get(place.parent)
                if str(place) not in kept and (is_pruned or first is None or place.name > first):
                    self._files.remove(path)
                    self._files.remove_folder(path.parent)
                    removed += 1
        return removed


def _copy_part(opened: ReadOnlyFile, copied: File, start: int, end: int) -> None:
    """Copy bytes where they differ, front to back: the slots of an index never know more than its entries."""
    for at in range(start, end, _CHUNK_BYTES):
        size = min(_CHUNK_BYTES, end - at)
        part = opened.read(size, at)
        if part != copied.read(size, at)[: len(part)]:
            copied.write(part, at)


def _rows_below(root: Path, folder: str) -> Iterator[tuple[str, bool]]:
    names = names_in(root / folder)
    row = [name for name in names if _is_of_row(name)]
    for name in row:
        yield f"{folder}/{name}", name == row[-1]
    for name in names:
        if not _is_of_row(name):
            yield from _rows_below(root, f"{folder}/{name}")


def _copies_below(files: Files, folder: Path) -> Iterator[Path]:
    for name in files.names(folder):
        if _is_of_row(name):
            yield folder / name
        else:
            yield from _copies_below(files, folder / name)


def _is_of_row(name: str) -> bool:
    """Return whether it is a file's name: a position or a time; topics and queue ids are shorter or words."""
    return len(name) in _NAME_DIGITS and name.isascii() and name.isdigit()
