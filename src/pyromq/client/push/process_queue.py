"""The messages of one queue that were pulled and are not finished, in the order of their offsets.

    commit at ─┐
    offsets:   4   5   6   7   8        the group's progress is the first offset that is not finished,
               ·   ✓   ✓   ·   ·        or one past the last when all are

Finished messages leave; after a crash the group begins with the first that is left. In order, messages are
taken from the front, and count until they are committed.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from pyromq.client.consumer.incoming import held_bytes
from pyromq.client.consumer.owned_queue import OwnedQueue
from pyromq.model import MessageQueue, ReceivedMessage
from pyromq.wire.bodies.running_info import QueueState


class ProcessQueue(OwnedQueue):
    """A queue whose messages a listener is called with; `count` and `bytes` are of all of them."""

    __slots__ = ("_end", "_order", "_started", "_taken", "_waiting", "consumed_at_ms", "is_consuming")

    def __init__(self, queue: MessageQueue, now_ms: int) -> None:
        super().__init__(queue, now_ms)
        self.consumed_at_ms = now_ms
        #: Whether somebody hands out its messages in order.
        self.is_consuming = False
        self._waiting: dict[int, ReceivedMessage] = {}
        self._taken: dict[int, ReceivedMessage] = {}
        #: The offsets of `_waiting`, rising; those that left stay until they are at an end.
        self._order: deque[int] = deque()
        self._started: dict[int, int] = {}
        self._end = 0

    # What pulls bring, and what is left of it ---------------------------------------------------------

    def put(self, messages: Iterable[ReceivedMessage]) -> None:
        """Keep what a pull brought."""
        waiting, order = self._waiting, self._order
        for message in messages:
            offset = message.queue_offset
            if offset in waiting or offset in self._taken:
                continue
            if order and offset < order[-1]:
                self._order = order = deque(sorted((*order, offset)))
            else:
                order.append(offset)
            waiting[offset] = message
            self.count += 1
            self.bytes += held_bytes(message)
            if offset >= self._end:
                self._end = offset + 1

    def remove(self, messages: Iterable[ReceivedMessage], now_ms: int) -> int | None:
        """Let finished messages go, and return how far the group got; None when nothing was there."""
        self.consumed_at_ms = now_ms
        if not self._waiting:
            return None
        for message in messages:
            offset = message.queue_offset
            if self._waiting.pop(offset, None) is not None:
                self._uncount(message)
        first = self.first_offset
        return self._end if first is None else first

    # Numbers ------------------------------------------------------------------------------------------

    @property
    def first_offset(self) -> int | None:
        """The smallest offset that waits, if any does."""
        order, waiting = self._order, self._waiting
        while order and order[0] not in waiting:
            order.popleft()
        return order[0] if order else None

    @property
    def last_offset(self) -> int | None:
        """The largest offset that waits, if any does."""
        order, waiting = self._order, self._waiting
        while order and order[-1] not in waiting:
            order.pop()
        return order[-1] if order else None

    def shown(self) -> QueueState:
        """Return the state that operators are shown; "transaction" are the messages taken in order."""
        taken = sorted(self._taken)
        return replace(
            super().shown(),
            cached_msg_count=len(self._waiting),
            transaction_msg_min_offset=taken[0] if taken else 0,
            transaction_msg_max_offset=taken[-1] if taken else 0,
            transaction_msg_count=len(taken),
            last_consume_timestamp=self.consumed_at_ms,
        )

    # Messages that take too long ----------------------------------------------------------------------

    def start(self, messages: Iterable[ReceivedMessage], now_ms: int) -> None:
        """Note that a listener has messages from now on; a thread may call this."""
        for message in messages:
            self._started[message.queue_offset] = now_ms

    def overdue(self, now_ms: int, timeout_ms: int) -> ReceivedMessage | None:
        """Return the first message if a listener has it for longer than that; only the first holds up."""
        first = self.first_offset
        if first is None or now_ms - self._started.get(first, now_ms) <= timeout_ms:
            return None
        return self._waiting[first]

    # In order -----------------------------------------------------------------------------------------

    def take(self, count: int, now_ms: int) -> list[ReceivedMessage]:
        """Return the next messages in order; they count as waiting until `commit` or `put_back`."""
        self.consumed_at_ms = now_ms
        messages: list[ReceivedMessage] = []
        while len(messages) < count and (first := self.first_offset) is not None:
            self._order.popleft()
            message = self._waiting.pop(first)
            self._taken[first] = message
            messages.append(message)
        return messages

    def commit(self) -> int | None:
        """Let all go that was taken, and return how far the group got."""
        if not self._taken:
            return None
        end = max(self._taken) + 1
        self.forget(list(self._taken.values()))
        return end

    def forget(self, messages: Iterable[ReceivedMessage]) -> None:
        """Let messages go that were taken and found another place."""
        for message in messages:
            if self._taken.pop(message.queue_offset, None) is not None:
                self._uncount(message)

    def put_back(self, messages: Sequence[ReceivedMessage] | None = None) -> None:
        """Have messages that were taken handed out again, before all others; without an argument, all."""
        back = list(self._taken.values()) if messages is None else messages
        for message in sorted(back, key=_offset_of, reverse=True):
            offset = message.queue_offset
            if self._taken.pop(offset, None) is not None:
                self._waiting[offset] = message
                self._order.appendleft(offset)

    def _uncount(self, message: ReceivedMessage) -> None:
        self._started.pop(message.queue_offset, None)
        self.count -= 1
        self.bytes = self.bytes - held_bytes(message) if self.count else 0


def _offset_of(message: ReceivedMessage) -> int:
    return message.queue_offset
