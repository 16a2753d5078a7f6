"""One queue's entries: where in the log its messages are.

    offset 8   position of the record in the commit log
    size   4   bytes of the record
    tags   8   hash of its tags; the time of delivery in the topic of delayed messages

Entry n stands at byte 20·n of the row of files. An entry of size 0 was never written. A queue whose first
message does not have offset 0 (the older ones were removed before the queue was built) begins with *blanks*
up to it: position 0, size 2³¹−1, tags 0, as RocketMQ fills them (ConsumeQueue.java, fillPreBlank). Where
messages in the middle were lost with a damaged part of the log, blanks stand in their places too; those have
the position of the message behind them, so that positions never go back.

The newest entries are held in memory (`held`) and written together. Reading looks into both, so nobody can
tell; a crash loses them, and recovery makes them again from the log.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyromq.kernel import IS_COMPILED
from pyromq.store.files import Files
from pyromq.store.segment import OpenFileWatcher, Segment
from pyromq.store.segments import BrokenRow, Segments

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.store.queue_tail import QueueTail
else:
    from pyromq._kernel.storage.tails import QueueTail

ENTRY: Final = struct.Struct(">qiq")
ENTRY_BYTES: Final = 20
#: The queue's folder, its topic's, and the one of all topics.
_FOLDER_LEVELS: Final = 3
BLANK_SIZE: Final = 0x7FFFFFFF
_FRONT_BLANK: Final = (0, BLANK_SIZE)
_pack = ENTRY.pack
_NO_POSITION: Final = 1 << 63
_HEAD_ENTRIES: Final = 64
#: Whether the log has the queue's message of an offset at a position, with that size.
IsInLog = Callable[[int, int, int], bool]
assert ENTRY.size == ENTRY_BYTES


class ConsumeQueue(QueueTail):
    """One queue of one topic; `min_offset` is the offset of the oldest message still in the log."""

    __slots__ = ("_entries_per_file", "_segments", "_unsynced", "min_offset", "queue_id", "topic")

    def __init__(
        self,
        files: Files,
        folder: Path,
        *,
        topic: str,
        queue_id: int,
        file_bytes: int,
        dirty: "list[ConsumeQueue] | None" = None,
        opened: OpenFileWatcher | None = None,
    ) -> None:
        super().__init__()
        if dirty is not None:
            self.dirty = dirty
        self.topic = topic
        self.queue_id = queue_id
        file_bytes += -file_bytes % ENTRY_BYTES  # up, as RocketMQ rounds it
        self._segments = Segments(
            files, f"{folder}/{topic}/{queue_id}", file_bytes, levels=_FOLDER_LEVELS, opened=opened
        )
        self._entries_per_file = file_bytes // ENTRY_BYTES
        self._unsynced: Sequence[Segment] = ()
        self.min_offset = 0

    # Loading and cutting

    def load(self, min_position: int) -> None:
        """Read how far the files go, after a clean stop. Raises BrokenRow when they are damaged."""
        self._segments.load()
        short = self._segments.short()
        if short:
            raise BrokenRow(f"damaged: {short[0].path} lost its end")
        self._set_end(self._count_before(_NO_POSITION))
        self._check_end()
        self.find_beginning(min_position)
        self._segments.close()

    def guess_end(self) -> int:
        """Return how far damaged files seem to go."""
        with suppress(BrokenRow):
            self._segments.load()
        return self._count_before(_NO_POSITION)

    def _check_end(self) -> None:
        """See that the search for the end was not led astray by a damaged entry."""
        last, before = self.place(self.end - 1), self.place(self.end - 2)
        behind = [self._entry(offset) for offset in (self.end, self.end + 1)]
        if any(map(any, behind)) or (last and before and last[0] < before[0]):
            raise BrokenRow(f"damaged: queue {self.queue_id} of {self.topic!r} at entry {self.end}")

    def _entry(self, offset: int) -> bytes:
        """Return the bytes of an entry as they stand in the file, written or not."""
        at = offset * ENTRY_BYTES
        segment = self._segments.find(at) if offset >= 0 else None
        return b"" if segment is None else segment.file.read(ENTRY_BYTES, at - segment.base)

    def load_before(
        self, before: int, min_position: int, is_in_log: IsInLog | None = None, *, was_killed: bool = False
    ) -> None:
        """Read how far the files go, and drop every entry that points at log position `before` or later.

        The entries that point before it must all have been synced. What stands behind them may be anything,
        also half an entry that seems to point before it, so the last ones are looked up in the log. It reads
        as zeros afterwards. The beginning is to be found again when the queue has caught up with the log.

        Raises BrokenRow when entries that were synced are damaged. When only the process `was_killed`, an
        empty file is one that it was about to make.
        """
        self._segments.load(is_named=False)
        self.end = self._count_before(before)
        if is_in_log is not None:
            while self.end and not self._is_trusted(self.end - 1, before, min_position, is_in_log):
                self.end -= 1
            self.end += 2
            if self._is_there(self.end - 1, before, is_in_log):
                raise BrokenRow(f"damaged: queue {self.queue_id} of {self.topic!r} at entry {self.end - 2}")
            self.end -= 2
        short = [
            segment
            for segment in self._segments.short()
            if segment.base < self.end * ENTRY_BYTES or self._segments.length_of(segment) or not was_killed
        ]
        if short:
            # A file has its length before an entry in it is synced. A power cut in the moment that makes one
            # may leave it short too, which is rare enough to ask the log.
            raise BrokenRow(f"damaged: {short[0].path} lost its end")
        self._cut_to(self.end)

    def _is_there(self, offset: int, before: int, is_in_log: IsInLog) -> bool:
        position, size = self.place(offset) or (-1, 0)
        return 0 <= position < before and 0 < size < BLANK_SIZE and is_in_log(offset, position, size)

    def _is_trusted(self, offset: int, before: int, min_position: int, is_in_log: IsInLog) -> bool:
        place = self.place(offset)
        if place is None or place[1] == BLANK_SIZE:
            return True
        position, size = place
        if position < min_position:
            # The log does not have it any more; but positions grow from entry to entry.
            last, last_size = self.place(offset - 1) or (-1, BLANK_SIZE)
            return last < position and last_size > 0
        return position < before and is_in_log(offset, position, size)

    def find_beginning(self, min_position: int) -> None:
        """Find the oldest message that the log still has, and remove the files that only know older ones."""
        self.min_offset = 0
        self._segments.remove(self.expire(min_position))

    def _count_before(self, position: int) -> int:
        for segment in reversed(self._segments.row):
            count = _count_in(segment, position, self._entries_per_file)
            if count:
                return segment.base // ENTRY_BYTES + count
        return self._segments.row[0].base // ENTRY_BYTES if self._segments.row else 0

    def _cut_to(self, end: int) -> None:
        self.held.clear()
        self._segments.cut(end * ENTRY_BYTES, keep_length=True)
        self._unsynced = self._segments.row[-1:]
        self.dirty.append(self)
        self._set_end(end)

    def _set_end(self, end: int) -> None:
        self.end = end
        self.min_offset = min(self.min_offset, end)
        position, size = self.place(end - 1) or (0, 0)
        self.reach = position + size if size != BLANK_SIZE else 0

    # Writing

    def begin_at(self, offset: int, position: int = 0) -> None:
        """Make the next message's offset `offset`: forget what is there from it on, or fill up with blanks.

        The first happens when a topic was removed and made again: the log then has the old messages of these
        offsets first, and the new ones hold. `position` is where the log has the message.
        """
        if self.end - len(self.held) // ENTRY_BYTES <= offset < self.end:
            del self.held[(offset - self.end) * ENTRY_BYTES :]
            self._set_end(offset)
            return
        if offset < self.end:
            row = self._segments.row
            if row and row[0].base <= offset * ENTRY_BYTES:
                self._cut_to(offset)
                return
            self.remove()
            self.gone = False
            self.end = 0
        row = self._segments.row
        if not row and not self.held:
            self.end = offset - offset % self._entries_per_file
        if not self.held and (not row or row[0].base == self.end * ENTRY_BYTES):
            # Nothing stands before the blanks.
            position = 0
        if not self.held:
            self.dirty.append(self)
        self.held += _pack(position, BLANK_SIZE, 0) * (offset - self.end)
        self.end = offset
        if not position:
            self.min_offset = offset

    def settle(self) -> None:
        """Write the held entries. After an error they are still held."""
        held = self.held
        while held:
            at = self.end * ENTRY_BYTES - len(held)
            segment = self._segments.find(at) or self._segments.add(at)
            part = min(len(held), segment.end - at)
            segment.file.write(held[:part], at - segment.base)
            del held[:part]
            if not self._unsynced or self._unsynced[-1] is not segment:
                self._unsynced = (*self._unsynced, segment)

    def take_unsynced(self) -> Sequence[Segment]:
        """Return the files with bytes that were not asked to be synced yet."""
        unsynced, self._unsynced = self._unsynced, ()
        return unsynced

    # Reading

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` entries from `offset` on, as bytes; at a file's end there may be fewer."""
        count = min(count, self.end - offset)
        if count <= 0 or offset < 0:
            return b""
        held = self.held
        held_from = self.end - len(held) // ENTRY_BYTES
        if offset >= held_from:
            at = (offset - held_from) * ENTRY_BYTES
            return bytes(held[at : at + count * ENTRY_BYTES])
        segment = self._segments.find(offset * ENTRY_BYTES)
        if segment is None:
            return b""
        at = offset * ENTRY_BYTES - segment.base
        written = min(count, held_from - offset, (segment.size - at) // ENTRY_BYTES)
        entries = segment.file.read(written * ENTRY_BYTES, at)
        if written < count and offset + written == held_from:
            entries += held[: (count - written) * ENTRY_BYTES]
        return entries

    def place(self, offset: int) -> tuple[int, int] | None:
        """Return position and size of the message at `offset`, or None when there is no entry."""
        entry = self.read(offset, 1)
        return ENTRY.unpack(entry)[:2] if entry else None

    def end_before(self, position: int) -> int:
        """Return the offset of the first message that does not end before a log position, else the end.

        It is looked for from the end: mostly only the newest messages are not before it.
        """
        low = max(self.end - _HEAD_ENTRIES, self.min_offset)
        newest = self.read(low, self.end - low)
        count = len(newest) // ENTRY_BYTES
        if low + count == self.end and newest and not _ends_past(newest, 0, position):
            return low + _first(count, lambda at: _ends_past(newest, at, position))
        step = _HEAD_ENTRIES
        while self.end - step > self.min_offset and _ends_past(self.read(self.end - step, 1), 0, position):
            step *= 2
        low = max(self.end - step, self.min_offset)
        return low + _first(self.end - low, lambda at: _ends_past(self.read(low + at, 1), 0, position))

    def next_file(self, offset: int) -> int:
        """Return the first offset of the file behind the one that `offset` falls into."""
        return offset + self._entries_per_file - offset % self._entries_per_file

    def offset_by_time(self, wanted_ms: int, min_position: int, time_at: Callable[[int], int | None]) -> int:
        """Return the offset of the message stored nearest to a time; 0 when the log does not say.

        `time_at` tells the stored time of a log position. The file is the first whose newest message is not
        older; in it the search is RocketMQ's, step by step, so that ties fall on the same message
        (ConsumeQueue.java, getOffsetInQueueByTime).
        """
        first = self._segments.row[0].base // ENTRY_BYTES if self._segments.row else 0
        for start in range(first, self.end, self._entries_per_file):
            last = min(start + self._entries_per_file, self.end) - 1
            position, _ = self.place(last) or (0, 0)
            newest_ms = time_at(position) if position >= min_position else None
            if last == self.end - 1 or (newest_ms is not None and newest_ms >= wanted_ms):
                return self._nearest(max(start, self.min_offset), last, wanted_ms, time_at)
        return 0

    def _nearest(self, low: int, high: int, wanted_ms: int, time_at: Callable[[int], int | None]) -> int:
        before: tuple[int, int] | None = None
        after: tuple[int, int] | None = None
        # RocketMQ takes the middle of the bytes of the file, which is the middle of the entries.
        while high >= low:
            middle = (low + high) // 2
            position, _ = self.place(middle) or (0, 0)
            time_ms = time_at(position)
            if time_ms is None:
                return 0
            if time_ms == wanted_ms:
                return middle
            if time_ms > wanted_ms:
                high, after = middle - 1, (middle, time_ms)
            else:
                low, before = middle + 1, (middle, time_ms)
        if before is None:
            return after[0] if after else self.end
        if after is None or wanted_ms - before[1] <= after[1] - wanted_ms:
            return before[0]
        return after[0]

    # Forgetting

    def expire(self, min_position: int) -> list[Segment]:
        """Move `min_offset` past the messages that the log lost; return the files that hold no others.

        The last file stays, so that the queue's end is known after a restart.
        """
        row = self._segments.row
        last_entry = self._entries_per_file - 1
        gone = _first(
            len(row) - 1,
            # Two entries must say so: one may be damaged, and a file that goes does not come back.
            lambda index: any(_points_past(row[index], min_position, last_entry - n) for n in (0, 1)),
        )
        removed = self._segments.detach_first(gone)
        self._unsynced = [segment for segment in self._unsynced if segment not in removed]
        base = self._segments.row[0].base // ENTRY_BYTES if self._segments.row else 0
        low = max(base, self.min_offset)
        if not self._is_kept(low, min_position):
            first = low + _first(self.end - low, lambda at: self._is_kept(low + at, min_position))
            if first - 2 > low and self._is_kept(first - 2, min_position):
                # The entry before it is damaged, and led the search astray.
                first = next(at for at in range(low, first) if self._is_kept(at, min_position))
            elif first > low and not self._is_expired(first - 1, min_position):
                first -= 1
            low = first
        self.min_offset = low
        return removed

    def _is_expired(self, offset: int, min_position: int) -> bool:
        place, before = self.place(offset) or _FRONT_BLANK, self.place(offset - 1) or _FRONT_BLANK
        is_behind = before[1] == BLANK_SIZE or before[0] < place[0]
        return place == _FRONT_BLANK or (is_behind and 0 <= place[0] < min_position)

    def _is_kept(self, offset: int, min_position: int) -> bool:
        place = self.place(offset) or _FRONT_BLANK
        return place != _FRONT_BLANK and place[0] >= min_position

    def remove(self) -> None:
        """Remove the queue with its files."""
        self.gone = True
        self.held.clear()
        self._unsynced = ()
        self._segments.remove_all()

    def close(self) -> None:
        """Give all files back."""
        self._segments.close()


def _count_in(segment: Segment, position: int, entries_per_file: int) -> int:
    """Return how many of the file's entries point before a log position.

    Most queues are short. Their entries are read at once, which makes a start with many queues faster.
    """
    head = segment.file.read(min(_HEAD_ENTRIES, entries_per_file) * ENTRY_BYTES, 0)
    entries = [not _is_past(entry, position) for entry in ENTRY.iter_unpack(head)]
    if entries and not entries[-1]:
        return _first(len(entries), lambda index: not entries[index])
    return _first(entries_per_file, partial(_points_past, segment, position))


def _is_past(entry: tuple[int, int, int], position: int) -> bool:
    at, size, _ = entry
    return size <= 0 or not 0 <= at < position


def _points_past(segment: Segment, position: int, index: int) -> bool:
    """Return whether the file's entry at `index` is missing, or points at a log position or behind it."""
    return _is_past(ENTRY.unpack(segment.file.read(ENTRY_BYTES, index * ENTRY_BYTES)), position)


def _ends_past(entries: bytes, index: int, position: int) -> bool:
    """Return whether a message does not end before a log position; a blank goes with the one behind it."""
    at, size, _ = ENTRY.unpack_from(entries, index * ENTRY_BYTES)
    return bool(at >= position if size == BLANK_SIZE else at + size > position)


def _first(count: int, holds: Callable[[int], bool]) -> int:
    """Return the first of 0 … count−1 for which `holds` is true, else count; it stays true from there on."""
    return bisect_left(range(max(count, 0)), x=True, key=holds)
