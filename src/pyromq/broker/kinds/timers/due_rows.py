"""The entries of the timer queue as rows of the table: which messages wait, by the time they are due.

    entry   position 8   size 4       due_ms 8   │ due_ms is 0 when the record is none that waits (a recall)
    row     due_ms 8     position 8   size 4     │ as bytes rows have the order in which messages are due

`pyromq._kernel.storage.due_rows` is the same, compiled.
"""

import struct
from bisect import bisect_left
from operator import itemgetter
from typing import Final

from pyromq.broker.kinds.timers.near import Row
from pyromq.store.consumequeue import ENTRY

ROW: Final = struct.Struct(">qqi")
_position = itemgetter(0)


def rows_before(entries: bytes, end: int) -> tuple[int, bytes]:
    """Return how many entries are of records before a position, and the rows of those that wait, in order."""
    table = list(ENTRY.iter_unpack(entries))
    count = bisect_left(table, end, key=_position)
    return count, b"".join(
        sorted(ROW.pack(due_ms, position, size) for position, size, due_ms in table[:count] if due_ms > 0)
    )


def near_rows(entries: bytes, after: tuple[int, int], until: tuple[int, int]) -> tuple[list[Row], int | None]:
    """Return which messages are due behind `after` and not behind `until`, and when the first behind that is.

    Both are a time and a position. None when none is due behind `until`.
    """
    rows = [(due_ms, position, size) for position, size, due_ms in ENTRY.iter_unpack(entries) if due_ms > 0]
    beyond = min((row[0] for row in rows if row[:2] > until), default=None)
    return [row for row in rows if after < row[:2] <= until], beyond
