"""The queue of the timer topic, whose entries say when each message is due: what began to wait.

Beside it, the log is asked whether a table is of it, and how far back it goes.
"""

from bisect import bisect_left
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from pyromq.broker.kinds.stored_again import QUEUE_ID
from pyromq.broker.kinds.timers.near import Row
from pyromq.broker.kinds.timers.timer_table import TimerProgress
from pyromq.store.consumequeue import ENTRY
from pyromq.store.follower import timer_due_ms
from pyromq.store.store import MessageStore
from pyromq.system_names import WHEEL_TIMER

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


def beginning(store: MessageStore) -> TimerProgress:
    """Return the progress of an empty table: nothing waited before the log's oldest timed message."""
    offset = store.min_offset(WHEEL_TIMER, QUEUE_ID)
    entries = entries_from(store, offset, 1)
    return TimerProgress(offset, entries[0][0] if entries else store.flushed_position)


def not_before_log(store: MessageStore, progress: TimerProgress) -> TimerProgress:
    """Return a table's progress, not before what is left of the log.

    What the log let go did not wait any more, and what was done with it is in what it let go too.
    """
    return progress._replace(
        offset=max(progress.offset, store.min_offset(WHEEL_TIMER, QUEUE_ID)),
        position=max(progress.position, store.min_position),
    )


def is_of(store: MessageStore, progress: TimerProgress) -> bool:
    """Return whether a table with this progress is of this log, and not ahead of it."""
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


def gather_new(
    store: MessageStore, progress: TimerProgress, new: list[Row], *, count_max: int | None = None
) -> TimerProgress:
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
    return TimerProgress(offset, end, last)


def due_ms_at(store: MessageStore, position: int) -> int:
    """Return when the record at a position is due, 0 when it is none that waits.

    A record that the log let go, or that is damaged, cannot be delivered any more.
    """
    record = store.record_at(position)
    return timer_due_ms(record) if record is not None and record.topic == WHEEL_TIMER else 0
