"""The messages of one queue that are in flight: columns of numbers, in the order of their offsets.

    offset       17   18   19   20   24   25
    popped at    t1   t1   t1   t1   t2   t2      the generation: a handle with another is not valid
    visible at   v1   v1   v9   v1   v2   v2      19 was made invisible for longer
    client        -    -    -    -    3    3      for whom it is renewed
    open          0    1    1    0    1    1      17 and 20 are acknowledged

A queue is popped in its order, so new messages come behind, and one is found by a search of the sorted
offsets. What is closed goes when it stands at the front, or when most is closed. A message costs 29 bytes and
the spare room of the columns.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Final

#: For nobody.
NO_CLIENT: Final = -1
#: So many closed messages may stand before or between the open ones without a look.
_CLOSED_MAX: Final = 1_024


class Tally:
    """Counts of a table: messages in flight, changes, and what was acknowledged since somebody asked."""

    __slots__ = ("acknowledged", "count", "revision")

    def __init__(self) -> None:
        self.count = self.revision = self.acknowledged = 0

    def take_acknowledged(self) -> int:
        """Return how many messages were ended by an `DeliveryEnding` since this was asked last."""
        acknowledged, self.acknowledged = self.acknowledged, 0
        return acknowledged


class InFlight:
    """The messages in flight of one queue, counted in a tally too."""

    __slots__ = (
        "_client",
        "_head",
        "_is_open",
        "_offset",
        "_popped_at",
        "_tally",
        "_visible_at",
        "count",
        "noted",
    )

    def __init__(self, tally: Tally | None = None) -> None:
        self._tally = Tally() if tally is None else tally
        #: What takes the offsets of messages that are acknowledged in this turn; None: none was yet.
        self.noted: list[int] | None = None
        self._offset = array("q")
        self._popped_at = array("q")
        self._visible_at = array("q")
        self._client = array("i")
        self._is_open = bytearray()
        #: Before it, all are closed.
        self._head = 0
        #: How many are open.
        self.count = 0

    @property
    def first(self) -> int | None:
        """The first offset in flight; None: nothing is."""
        return self._offset[self._head] if self.count else None

    @property
    def last(self) -> int:
        """The last offset that is known, finished or not; −1: none is."""
        return self._offset[-1] if self._offset else -1

    def add(
        self, offsets: Sequence[int], popped_at_ms: int, visible_at_ms: int, client: int = NO_CLIENT
    ) -> None:
        """Add messages behind all that are there."""
        count = len(offsets)
        self._offset.extend(offsets)
        self._popped_at.extend([popped_at_ms] * count)
        self._visible_at.extend([visible_at_ms] * count)
        self._client.extend([client] * count)
        self._is_open += b"\1" * count
        self.count += count
        self._tally.count += count

    def find(self, offset: int) -> int:
        """Return the place of an open message, −1 when there is none."""
        offsets, head = self._offset, self._head
        size = len(offsets)
        if head == size:
            return -1
        # Mostly there is no gap.
        at = offset - offsets[head] + head
        if not (head <= at < size and offsets[at] == offset):
            at = bisect_left(offsets, offset, head)
            if at == size or offsets[at] != offset:
                return -1
        return at if self._is_open[at] else -1

    def popped_at_ms(self, at: int) -> int:
        """Return the generation of the message at a place."""
        return self._popped_at[at]

    def visible_at_ms(self, at: int) -> int:
        """Return when the message at a place is visible again."""
        return self._visible_at[at]

    def client(self, at: int) -> int:
        """Return for whom the message at a place is renewed."""
        return self._client[at]

    def offset(self, at: int) -> int:
        """Return the offset of the message at a place."""
        return self._offset[at]

    def end(self, at: int) -> None:
        """Close the message at a place; places are others afterwards."""
        self._is_open[at] = 0
        self.count -= 1
        self._tally.count -= 1
        if at == self._head:
            head = self._is_open.find(1, at)
            self._head = len(self._is_open) if head < 0 else head
        if self._head > _CLOSED_MAX and self._head * 2 > len(self._is_open):
            self._drop_front()
        elif len(self._is_open) - self._head > max(4 * self.count, _CLOSED_MAX):
            self._keep_open()

    def move(self, at: int, popped_at_ms: int, visible_at_ms: int) -> None:
        """Give the message at a place another generation and time; nobody renews it any more."""
        self._popped_at[at] = popped_at_ms
        self._visible_at[at] = visible_at_ms
        self._client[at] = NO_CLIENT

    def renew(self, at: int, visible_at_ms: int, *, keeps_client: bool = True) -> None:
        """Give the message at a place another time; its handle stays valid."""
        self._visible_at[at] = visible_at_ms
        if not keeps_client:
            self._client[at] = NO_CLIENT

    def due_from(self, offset: int, now_ms: int, count: int) -> list[int]:
        """Return the offsets that are due among the next `count` from an offset on."""
        start = max(bisect_left(self._offset, offset, self._head), self._head)
        visible, is_open = self._visible_at, self._is_open
        end = min(start + count, len(is_open))
        return [self._offset[at] for at in range(start, end) if is_open[at] and visible[at] <= now_ms]

    def of_client(self, client: int) -> list[int]:
        """Return the offsets that are renewed for a client."""
        at = self._head
        found: list[int] = []
        while True:
            try:
                at = self._client.index(client, at)
            except ValueError:
                return found
            if self._is_open[at]:
                found.append(self._offset[at])
            at += 1

    def clients(self) -> set[int]:
        """Return the clients for whom messages are renewed."""
        return {self._client[at] for at in self.open_places()}

    def renumber(self, numbers: Mapping[int, int]) -> None:
        """Give clients other numbers."""
        self._client = array("i", [numbers.get(client, NO_CLIENT) for client in self._client])

    def open_places(self) -> Iterable[int]:
        """Return the places of all that is open."""
        return [at for at in range(self._head, len(self._is_open)) if self._is_open[at]]

    def clear(self) -> None:
        """Forget everything."""
        self._is_open = bytearray(len(self._is_open))
        self._keep_open()
        self._tally.count -= self.count
        self.count = 0

    def end_before(self, offset: int) -> None:
        """Close what is before an offset."""
        while self.count and self._offset[self._head] < offset:
            self.end(self._head)

    def columns(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Return what is open as bytes: offsets, generations, times, clients."""
        self._keep_open()
        return (
            self._offset.tobytes(),
            self._popped_at.tobytes(),
            self._visible_at.tobytes(),
            self._client.tobytes(),
        )

    def restore(self, columns: tuple[bytes, bytes, bytes, bytes]) -> None:
        """Be what `columns` returned."""
        offset, popped_at, visible_at, client = array("q"), array("q"), array("q"), array("i")
        for column, data in zip((offset, popped_at, visible_at, client), columns, strict=True):
            column.frombytes(data)
        size = len(offset)
        self._offset, self._popped_at, self._visible_at, self._client = offset, popped_at, visible_at, client
        self._is_open = bytearray(b"\1" * size)
        self._tally.count += size - self.count
        self._head, self.count = 0, size

    def _drop_front(self) -> None:
        for column in (self._offset, self._popped_at, self._visible_at, self._client, self._is_open):
            del column[: self._head]
        self._head = 0

    def _keep_open(self) -> None:
        """Drop all that is closed."""
        is_open = self._is_open
        if is_open and is_open.find(0) >= 0:
            self._offset = array("q", compress(self._offset, is_open))
            self._popped_at = array("q", compress(self._popped_at, is_open))
            self._visible_at = array("q", compress(self._visible_at, is_open))
            self._client = array("i", compress(self._client, is_open))
            self._is_open = bytearray(b"\1" * len(self._offset))
            self._head = 0


class DeliveryEnding:
    """Ends messages of a queue, told their offsets and when they were popped.

    `note` sets `noted` of the queue, a list that takes the offsets of what ends in this turn.
    """

    __slots__ = ("_in_flight", "_note")

    def __init__(self, in_flight: InFlight, note: Callable[[], object]) -> None:
        self._in_flight = in_flight
        self._note = note

    def __call__(self, offset: int, popped_at_ms: int) -> bool:
        """End a message; return whether it was in flight so, else nothing changes."""
        in_flight = self._in_flight
        at = in_flight.find(offset)
        if at < 0 or in_flight.popped_at_ms(at) != popped_at_ms:
            return False
        if in_flight.noted is None:
            self._note()
        assert in_flight.noted is not None
        in_flight.noted.append(offset)
        in_flight.end(at)
        tally = in_flight._tally
        tally.revision += 1
        tally.acknowledged += 1
        return True
