"""From a table that is behind the log, or not there, to one that is not.

What began to wait is in the timer queue, whose entries say when each message is due. What ended is told by
done records, and those may be anywhere: the log is walked, from record head to record head, and of each only
the position is looked at that it names.

When the table is not of this log, everything is found again from the log's oldest timed message on.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from pyromq.broker.timers.near import Row
from pyromq.broker.timers.table import Changes, Progress
from pyromq.broker.timers.timed import QUEUE_ID, position_named
from pyromq.codes import SysFlag
from pyromq.store.commitlog import CommitLog
from pyromq.store.consumequeue import ENTRY
from pyromq.store.follower import entry_of
from pyromq.store.store import MessageStore
from pyromq.system_names import WHEEL_TIMER
from pyromq.wire.record import HOST_BYTES_V4, HOST_BYTES_V6, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN

#: Size, magic, position, sysFlag and, when both hosts are IPv4, the prepared position.
_HEAD: Final = struct.Struct(">ii20xqi36xq")
_PREPARED: Final = struct.Struct(">q")
_PREPARED_AT: Final = 76
assert _HEAD.size == _PREPARED_AT + _PREPARED.size
_BORN_V6, _STORE_V6 = int(SysFlag.BORN_HOST_V6), int(SysFlag.STORE_HOST_V6)
_MORE_BYTES_V6: Final = HOST_BYTES_V6 - HOST_BYTES_V4

#: How many records are looked at in one step; some milliseconds.
STEP_RECORDS: Final = 1_000
#: How many changes are gathered before the table gets them.
CHANGES_MAX: Final = 32_768
_ENTRIES_READ: Final = 4_096

#: A timer queue's entry: position, size, due_ms.
Entry = tuple[int, int, int]


def entries_from(store: MessageStore, offset: int, count: int = _ENTRIES_READ) -> list[Entry]:
    """Return entries of the timer queue from an offset on; at a file's end there may be fewer."""
    queue = store.queue(WHEEL_TIMER, QUEUE_ID)
    if queue is None or offset < queue.min_offset:
        return []
    return list(ENTRY.iter_unpack(queue.read(offset, count)))


def rows_from(store: MessageStore, offset: int) -> Iterator[Row]:
    """Yield what began to wait from an offset of the timer queue on."""
    while entries := entries_from(store, offset):
        offset += len(entries)
        yield from ((due_ms, position, size) for position, size, due_ms in entries if due_ms > 0)


def beginning(store: MessageStore) -> Progress:
    """Return the progress of an empty table: nothing waited before the log's oldest timed message."""
    offset = store.min_offset(WHEEL_TIMER, QUEUE_ID)
    entries = entries_from(store, offset, 1)
    return Progress(offset, entries[0][0] if entries else store.flushed_position)


def within_log(store: MessageStore, progress: Progress) -> Progress | None:
    """Return a table's progress, not before what is left of the log; None when it is of another log.

    What the log let go did not wait any more, and what was done with it is in what it let go too.
    """
    if not _is_of(store, progress):
        return None
    return progress._replace(
        offset=max(progress.offset, store.min_offset(WHEEL_TIMER, QUEUE_ID)),
        position=max(progress.position, store.min_position),
    )


def _is_of(store: MessageStore, progress: Progress) -> bool:
    offset, position, last = progress
    if position > store.flushed_position or offset > store.max_offset(WHEEL_TIMER, QUEUE_ID):
        return False
    before = entries_from(store, offset - 1, 1) if offset else []
    following = entries_from(store, offset, 1)
    if (before and before[0] != last) or (following and following[0][0] < position):
        return False
    return position <= store.min_position or _is_boundary(store, position)


def _is_boundary(store: MessageStore, position: int) -> bool:
    position = store.log.behind_blank(position)
    return position >= store.max_position or store.read_at(position) is not None


def changes_since(
    store: MessageStore, progress: Progress, end: int, *, is_new: bool
) -> Iterator[Changes | None]:
    """Yield what the log changes from the progress up to `end`, which is synced; None is a step without.

    What is yielded last has progress to `end`. Between two steps the log may grow. A table that `is_new`
    finds by positions alone what ended, so no times are looked up for it.
    """
    new: list[Row] = []
    done: list[tuple[int, int]] = []
    while progress.position < end:
        named: list[int] = []
        reached = _gather_named(store.log, progress.position, end, named)
        done += ((0, position) for position in named) if is_new else _waiting_at(store, named)
        progress = gather_new(store, progress._replace(position=reached), new)
        if len(new) + len(done) >= CHANGES_MAX or reached >= end:
            yield Changes(new, done, progress)
            new, done = [], []
        else:
            yield None


def gather_new(
    store: MessageStore, progress: Progress, new: list[Row], *, count_max: int | None = None
) -> Progress:
    """Add what began to wait before the progress's position, and return the progress behind it.

    With `count_max` there may be more; the position returned is then that of the first of them.
    """
    offset, end, last = progress
    while entries := entries_from(store, offset):
        count = bisect_left(entries, end, key=itemgetter(0))
        taken = entries[:count]
        new += [(due_ms, position, size) for position, size, due_ms in taken if due_ms > 0]
        offset += count
        last = taken[-1] if taken else last
        if count < len(entries):
            break
        if count_max is not None and len(new) >= count_max:
            following = entries_from(store, offset, 1)
            end = min(following[0][0], end) if following else end
            break
    return Progress(offset, end, last)


def _waiting_at(store: MessageStore, positions: list[int]) -> Iterator[tuple[int, int]]:
    """Yield those of the positions at which waiting records stand, each with when it was due.

    Halves of transactions are named too. A record that the log let go, or that is damaged, cannot be
    delivered any more.
    """
    for position in positions:
        record = store.record_at(position)
        if record is not None and record.topic == WHEEL_TIMER:
            due_ms = entry_of(record, record.size, {}).tags_code
            if due_ms > 0:
                yield due_ms, position


def _gather_named(log: CommitLog, position: int, end: int, named: list[int]) -> int:
    """Add the positions that records from a position on name, for one step, and return where it ended."""
    for _ in range(STEP_RECORDS):
        segment = log.segment_at(position)
        if position >= end or segment is None:
            return end
        at = position - segment.base
        size, magic, itself, sys_flag, prepared = (
            _HEAD.unpack_from(segment.map, at) if segment.size - at >= _HEAD.size else (0, 0, 0, 0, 0)
        )
        if magic not in (MAGIC_V1, MAGIC_V2) or itself != position or size < RECORD_BYTES_MIN:
            position = _behind_no_record(log, position, end)
            continue
        if sys_flag & (_BORN_V6 | _STORE_V6):
            more = _MORE_BYTES_V6 * (bool(sys_flag & _BORN_V6) + bool(sys_flag & _STORE_V6))
            (prepared,) = _PREPARED.unpack_from(segment.map, at + _PREPARED_AT + more)
        if prepared > 0:
            named.append(position_named(prepared))
        position += size
    return min(position, end)


def _behind_no_record(log: CommitLog, position: int, end: int) -> int:
    """Return where the next record is behind a blank, or behind damage that recovery passed over too."""
    behind = log.behind_blank(position)
    if behind > position:
        return behind
    return log.next_record(position, end) or end
