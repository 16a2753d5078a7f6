"""The waiting messages that are due next, in memory.

Everything that waits and is due up to `until` is here; what is due behind it is in the table, or so new that
only the timer queue has it. When too many are here, the last of them leave and `until` moves back.
"""

from heapq import heappop, heappush
from typing import Final

#: A message as the table has it: due_ms, position, size. Plain tuples, for there are many.
Row = tuple[int, int, int]

#: Before every time and position, and behind them.
NEVER: Final = (-1, -1)
POSITION_MAX: Final = (1 << 63) - 1
DUE_MS_MAX: Final = (1 << 63) - 1


class NearFuture:
    """A heap of rows by the time they are due, of which some may be taken out."""

    __slots__ = ("_heap", "_positions", "until")

    def __init__(self) -> None:
        self._heap: list[Row] = []
        self._positions: set[int] = set()
        #: Due time and position of the last message that would be here.
        self.until: tuple[int, int] = NEVER

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, position: int) -> bool:
        return position in self._positions

    def covers(self, due_ms: int, position: int) -> bool:
        """Return whether a message that waits is here, by its due time and position."""
        return (due_ms, position) <= self.until

    def add(self, row: Row) -> None:
        """Add a message, or put one back."""
        if row[1] not in self._positions:
            self._positions.add(row[1])
            heappush(self._heap, row)

    def discard(self, position: int) -> None:
        """Take a message out, if it is here."""
        self._positions.discard(position)

    def head_ms(self) -> int | None:
        """Return when the next one is due, None when there is none."""
        heap, positions = self._heap, self._positions
        while heap and heap[0][1] not in positions:
            heappop(heap)
        return heap[0][0] if heap else None

    def take_due(self, now_ms: int, *, count_max: int, bytes_max: int) -> list[Row]:
        """Take out what is due, in order, up to a count; the last one may exceed the bytes."""
        taken: list[Row] = []
        size = 0
        while len(taken) < count_max and size < bytes_max:
            head_ms = self.head_ms()
            if head_ms is None or head_ms > now_ms:
                break
            row = heappop(self._heap)
            self._positions.discard(row[1])
            taken.append(row)
            size += row[2]
        return taken

    def shrink(self, count: int) -> None:
        """Let all but the first `count` go; they are to be loaded again."""
        rows = sorted(row for row in self._heap if row[1] in self._positions)
        self._heap = rows[:count]
        self._positions = {row[1] for row in self._heap}
        if len(rows) > count:
            due_ms, position, _ = self._heap[-1] if self._heap else (*NEVER, 0)
            self.until = min(self.until, (due_ms, position))
