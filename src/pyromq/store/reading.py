"""Reading a queue: from its entries to the bytes of its messages, as RocketMQ's broker answers a pull.

The rules are those of DefaultMessageStore.getMessage in 4.9.8: which status, which next offset, how many
messages at most. Records that stand one behind the other in the log are copied in one piece, and no record
is decoded.

That holds for what this process wrote. What it found when it started is looked at before it is served: a
client that gets half a record, or another queue's, cannot read what follows it either. One that fails is
passed over.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import msgspec

from pyromq.config.settings import StoreSettings
from pyromq.kernel import IS_COMPILED
from pyromq.store.commitlog import CommitLog
from pyromq.store.consumequeue import BLANK_SIZE, ENTRY, ENTRY_BYTES, ConsumeQueue

#: At least this many entries are looked at for a filter by tags, and as many records for one by properties.
_SCANNED: Final = 16_000 // ENTRY_BYTES
#: Before every position, even one that a damaged entry names.
_NOTHING_GONE: Final = -(1 << 63)


class GetStatus(StrEnum):
    """The status of a read; the words are RocketMQ's, and travel as the remark of a pull's answer."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class Got(msgspec.Struct, frozen=True, gc=False):
    """The result of reading a queue: records one behind the other, and the offset to read on from.

    `suggest_slave` says that the records are so far behind the log's end that they have left the memory.
    """

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    body: bytes = b""
    count: int = 0
    suggest_slave: bool = False


WantsTags = Callable[[int], bool]
MatchesRecord = Callable[[memoryview], bool]


class Limits(msgspec.Struct, frozen=True):
    """The limits of one read. Messages before `disk_position` of the log are not in memory."""

    count_max: int
    bytes_in_memory_max: int
    count_in_memory_max: int
    bytes_on_disk_max: int
    count_on_disk_max: int
    disk_position: int


def limits_of(
    settings: StoreSettings, count_max: int, disk_position: int, bytes_max: int | None = None
) -> Limits:
    """Return the limits of one read by the settings; `bytes_max` is what it asks for, if it says."""
    bulk_bytes = min(bytes_max or 0, settings.max_transfer_bytes_on_bulk_pull)
    if bulk_bytes > settings.max_transfer_bytes_on_message_in_memory:
        return Limits(count_max, bulk_bytes, count_max, bulk_bytes // 4, count_max, disk_position)
    return Limits(
        count_max,
        settings.max_transfer_bytes_on_message_in_memory,
        settings.max_transfer_count_on_message_in_memory,
        settings.max_transfer_bytes_on_message_in_disk,
        settings.max_transfer_count_on_message_in_disk,
        disk_position,
    )


def read_queue(
    log: CommitLog,
    queue: ConsumeQueue,
    offset: int,
    limits: Limits,
    wants: WantsTags | None,
    matches: MatchesRecord | None,
    end: int,
) -> Got:
    """Return messages from `offset` on that `wants` takes by their tags code and `matches` by their bytes.

    The queue ends at `end`, whatever there is behind it.
    """
    status, next_offset = _place_of(queue, offset, end)
    if status is not GetStatus.FOUND:
        return Got(status, next_offset, queue.min_offset, end)
    # RocketMQ looks into as many records as were asked for, be it millions; so many are never answered.
    scan_max = _SCANNED if matches else max(_SCANNED, limits.count_max)
    entries = queue.read(offset, min(end - offset, scan_max if wants or matches else limits.count_max))
    if not entries:
        return Got(GetStatus.OFFSET_FOUND_NULL, queue.next_file(offset), queue.min_offset, end)
    gathered = _Gathering(log, limits, queue, offset)
    passed = gathered.take_run(entries) if wants is None and matches is None else 0
    passed += gathered.take(entries[passed * ENTRY_BYTES :], wants, matches)
    return Got(
        gathered.status,
        offset + passed,
        queue.min_offset,
        end,
        gathered.body(),
        gathered.count,
        gathered.last_position < limits.disk_position,
    )


def _place_of(queue: ConsumeQueue, offset: int, end: int) -> tuple[GetStatus, int]:
    if max(end, queue.min_offset) <= offset <= queue.end and end < queue.end:
        # It is there, but not for readers yet; who has read up to here from the last master waits for it.
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    if end == 0:
        return GetStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < queue.min_offset:
        return GetStatus.OFFSET_TOO_SMALL, queue.min_offset
    if offset == end:
        return GetStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > end:
        return GetStatus.OFFSET_OVERFLOW_BADLY, end
    return GetStatus.FOUND, offset


def plain_run_of(entries: bytes, limit: int, count_max: int, bytes_max: int) -> tuple[int, int]:
    """Return how many entries at the front are one run that ends before `limit`, and where that run ends.

    There are at most so many, and more than one only within so many bytes.
    """
    start = position = ENTRY.unpack_from(entries)[0]
    count = 0
    for at, size, _ in ENTRY.iter_unpack(entries):
        end = position + size
        if at != position or end > limit or count >= count_max or (count and end - start > bytes_max):
            break
        position = end
        count += 1
    return count, position


if TYPE_CHECKING or not IS_COMPILED:
    run_of = plain_run_of
else:
    from pyromq._kernel.storage.entry_runs import run_of


class _Gathering:
    """Records on their way into an answer; neighbours in the log become one piece."""

    __slots__ = (
        "_first_offset",
        "_gone_before",
        "_limits",
        "_log",
        "_pieces",
        "_queue",
        "_run_end",
        "_run_start",
        "bytes",
        "count",
        "last_position",
        "status",
    )

    def __init__(self, log: CommitLog, limits: Limits, queue: ConsumeQueue, first_offset: int) -> None:
        self._log = log
        self._limits = limits
        self._queue = queue
        self._first_offset = first_offset
        self._pieces: list[bytes] = []
        self._run_start = self._run_end = -1
        #: The file in which a record was missing is gone; entries that point before its end are skipped.
        self._gone_before = _NOTHING_GONE
        self.bytes = 0
        self.count = 0
        self.last_position = 0
        self.status = GetStatus.NO_MATCHED_MESSAGE

    def take_run(self, entries: bytes) -> int:
        """Take records as long as they stand one behind the other in one file; return how many.

        This is the common case, one busy queue or a whole batch, and does nothing but add up sizes; whatever
        is less simple is left to `take`.
        """
        limits = self._limits
        start = position = ENTRY.unpack_from(entries)[0]
        limit = self._log.run_end(position)
        count_max = min(limits.count_max, limits.count_in_memory_max)
        bytes_max = limits.bytes_in_memory_max
        count = 0
        if position >= limits.disk_position:
            count, position = run_of(entries, limit, count_max, bytes_max)
        if count and start < self._log.written_from:
            sizes = [size for _, size, _ in ENTRY.iter_unpack(entries[: count * ENTRY_BYTES])]
            queue = self._queue
            count = self._log.count_whole(start, sizes, queue.topic, queue.queue_id, self._first_offset)
            position = start + sum(sizes[:count])
        if count:
            self._run_start, self._run_end = start, position
            self._first_offset += count
            self.bytes, self.count, self.status = position - start, count, GetStatus.FOUND
            self.last_position = start
        return count

    def take(self, entries: bytes, wants: WantsTags | None, matches: MatchesRecord | None) -> int:
        """Take the records that match until the answer is full; return how many entries were passed."""
        passed = 0
        for position, size, tags_code in ENTRY.iter_unpack(entries):
            self.last_position = position
            if position >= self._gone_before:
                if self._is_full(position, size):
                    break
                if wants is None or wants(tags_code):
                    self._take_record(self._first_offset + passed, position, size, matches)
            passed += 1
        return passed

    def _is_full(self, position: int, size: int) -> bool:
        if not self.count:
            return False
        limits = self._limits
        if position < limits.disk_position:
            bytes_max, count_max = limits.bytes_on_disk_max, limits.count_on_disk_max
        else:
            bytes_max, count_max = limits.bytes_in_memory_max, limits.count_in_memory_max
        return self.count >= limits.count_max or self.bytes + size > bytes_max or self.count >= count_max

    def _take_record(self, offset: int, position: int, size: int, matches: MatchesRecord | None) -> None:
        limit = self._log.run_end(position) - position
        if not 0 < size <= limit or not self._is_whole(offset, position, size):
            mended = self._mended(offset, position, size)
            if mended is None:
                if not self.count:
                    self.status = GetStatus.MESSAGE_WAS_REMOVING
                return
            position, size = mended
        if matches is not None and not self._matches(position, size, matches):
            if not self.count:
                self.status = GetStatus.NO_MATCHED_MESSAGE
            return
        if position != self._run_end or position % self._log.segment_bytes == 0:
            self._finish_run()
            self._run_start = position
        self._run_end = position + size
        self.bytes += size
        self.count += 1
        self.status = GetStatus.FOUND
        self._gone_before = _NOTHING_GONE

    def _is_whole(self, offset: int, position: int, size: int) -> bool:
        queue = self._queue
        return position >= self._log.written_from or self._log.has_message(
            position, size, queue.topic, queue.queue_id, offset
        )

    def _mended(self, offset: int, position: int, size: int) -> tuple[int, int] | None:
        """Return where the message is that an entry fails to name, if that is easily found."""
        queue, log = self._queue, self._log
        if size == BLANK_SIZE:
            return None
        before, before_size = queue.place(offset - 1) or (-1, 0)
        after, _ = queue.place(offset + 1) or (log.end, 0)
        if position < log.min_position and not log.min_position <= after:
            segment_bytes = log.segment_bytes
            self._gone_before = position + segment_bytes - position % segment_bytes
            return None
        log.note_damage(position, f"offset {offset} of queue {queue.queue_id} of {queue.topic!r}")
        start = max(before + before_size, log.min_position) if before_size != BLANK_SIZE else log.min_position
        return log.find_message(queue.topic, queue.queue_id, offset, start, after)

    def _matches(self, position: int, size: int, matches: MatchesRecord) -> bool:
        segment = self._log.segment_at(position)
        assert segment is not None
        at = position - segment.base
        # A look and no copy: a filter needs a few bytes of what may be megabytes.
        with memoryview(segment.map) as file, file[at : at + size] as record:
            return matches(record)

    def _finish_run(self) -> None:
        if self._run_end > self._run_start:
            piece = self._log.read(self._run_start, self._run_end - self._run_start)
            assert piece is not None
            self._pieces.append(piece)

    def body(self) -> bytes:
        """Return the records, one behind the other."""
        self._finish_run()
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
