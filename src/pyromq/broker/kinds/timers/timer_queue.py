"""The queue of the timer topic, whose entries say when each message is due: what began to wait.

Beside it, the log is asked whether a table is of it, and how far back it goes.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyromq.broker.kinds.stored_again import QUEUE_ID
from pyromq.broker.kinds.timers.due_rows import ROW
from pyromq.broker.kinds.timers.near import DUE_MS_MAX, NEVER, POSITION_MAX, Row
from pyromq.broker.kinds.timers.timer_table import TimerProgress
from pyromq.kernel import IS_COMPILED
from pyromq.store.consumequeue import ENTRY, ENTRY_BYTES
from pyromq.store.follower import timer_due_ms
from pyromq.store.store import MessageStore
from pyromq.system_names import WHEEL_TIMER

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.broker.kinds.timers.due_rows import near_rows, rows_before
else:
    from pyromq._kernel.storage.due_rows import near_rows, rows_before

_ENTRIES_READ: Final = 4_096
_ALWAYS: Final = (DUE_MS_MAX, POSITION_MAX)

#: A timer queue's entry: position, size, due_ms.
Entry = tuple[int, int, int]


def entries_from(store: MessageStore, offset: int, end: int | None = None) -> Iterator[bytes]:
    """Yield the entries of the timer queue from an offset on, up to another, some thousand at a time."""
    queue = store.queue(WHEEL_TIMER, QUEUE_ID)
    if queue is None or offset < queue.min_offset:
        return
    while entries := queue.read(offset, _ENTRIES_READ if end is None else min(_ENTRIES_READ, end - offset)):
        offset += len(entries) // ENTRY_BYTES
        yield entries


def entry_at(store: MessageStore, offset: int) -> Entry | None:
    """Return the entry of the timer queue at an offset, None when there is none."""
    for entries in entries_from(store, offset, offset + 1):
        position, size, due_ms = ENTRY.unpack(entries)
        return position, size, due_ms
    return None


def rows_from(store: MessageStore, offset: int) -> Iterator[Row]:
    """Yield what began to wait from an offset of the timer queue on."""
    for entries in entries_from(store, offset):
        yield from near_rows(entries, NEVER, _ALWAYS)[0]


def count_from(store: MessageStore, offset: int) -> int:
    """Return how many messages began to wait from an offset of the timer queue on."""
    rows = (rows_before(entries, POSITION_MAX)[1] for entries in entries_from(store, offset))
    return sum(map(len, rows)) // ROW.size


def rows_due(
    store: MessageStore, offset: int, after: tuple[int, int], until: tuple[int, int], end: int | None = None
) -> tuple[list[Row], int | None]:
    """Return what began to wait from an offset on and is due behind `after`, not behind `until`.

    And when the first is due behind `until`, None when none is. `end` is the offset at which to stop looking.
    """
    found: list[Row] = []
    beyond_ms: list[int] = []
    for entries in entries_from(store, offset, end):
        rows, first_ms = near_rows(entries, after, until)
        found += rows
        if first_ms is not None:
            beyond_ms.append(first_ms)
    return found, min(beyond_ms, default=None)


def beginning(store: MessageStore) -> TimerProgress:
    """Return the progress of an empty table: nothing waited before the log's oldest timed message."""
    offset = store.min_offset(WHEEL_TIMER, QUEUE_ID)
    first = entry_at(store, offset)
    return TimerProgress(offset, first[0] if first else store.flushed_position)


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
    before = entry_at(store, offset - 1) if offset else None
    following = entry_at(store, offset)
    if (before and before != last) or (following and following[0] < position):
        return False
    return position <= store.min_position or _is_boundary(store, position)


def _is_boundary(store: MessageStore, position: int) -> bool:
    position = store.log.behind_blank(position)
    return position >= store.max_position or store.read_at(position) is not None


def gather_new(
    store: MessageStore, progress: TimerProgress, *, count_max: int | None = None
) -> tuple[bytes, TimerProgress]:
    """Return the rows of what began to wait before the progress's position, and the progress behind them.

    With `count_max` there may be more; the position returned is then that of the first of them.
    """
    offset, end, last = progress
    parts: list[bytes] = []
    for entries in entries_from(store, offset, None if count_max is None else offset + count_max):
        parts.append(entries)
        if ENTRY.unpack_from(entries, len(entries) - ENTRY_BYTES)[0] >= end:
            break
    entries = b"".join(parts)
    count, rows = rows_before(entries, end)
    if count:
        position, size, due_ms = ENTRY.unpack_from(entries, (count - 1) * ENTRY_BYTES)
        last = position, size, due_ms
    following = entry_at(store, offset + count)
    if following is not None and count * ENTRY_BYTES == len(entries):
        end = min(following[0], end)
    return rows, TimerProgress(offset + count, end, last)


def row_at(store: MessageStore, position: int) -> Row | None:
    """Return the row of the record at a position, None when it is none that waits.

    A record that the log let go, or that is damaged, cannot be delivered any more.
    """
    record = store.record_at(position)
    due_ms = timer_due_ms(record) if record is not None and record.topic == WHEEL_TIMER else 0
    return (due_ms, position, record.size) if record is not None and due_ms > 0 else None
