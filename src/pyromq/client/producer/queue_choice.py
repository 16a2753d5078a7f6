"""The choice of the queue for the next message: round robin over a topic's queues.

Each thread has a turn of its own, as in RocketMQ, from a random start: it takes every queue in order,
whatever other threads send, and many producers do not begin at the same queue. A retry skips the queues of
the broker that just failed. The next send knows nothing of that failure: it takes its turn again (RocketMQ's
default without `sendLatencyFaultEnable`).
"""

import itertools
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from pyromq.model import Message, MessageQueue
from pyromq.wire.java_hash import java_hash

#: Picks the queue for a message among the writable queues of its topic.
Selector: TypeAlias = Callable[[Sequence[MessageQueue], Message], MessageQueue]


class RoundRobin:
    """The turns of one topic, one for each thread. Each begins at `start`, or at a random queue."""

    def __init__(self, start: int | None = None) -> None:
        self._start = start
        self._turns = threading.local()

    def choose(self, queues: Sequence[MessageQueue], *, avoid: str | None = None) -> MessageQueue:
        """Return the thread's next queue, away from the broker named `avoid` if there is any other.

        If there is none, it is the next queue of that broker.
        """
        turn = self.turn()
        for _ in queues:
            queue = queues[next(turn) % len(queues)]
            if queue.broker_name != avoid:
                return queue
        return queues[next(turn) % len(queues)]

    def turn(self) -> Iterator[int]:
        """Return the numbers of the thread's turns, the next one first."""
        turn: Iterator[int] | None = getattr(self._turns, "turn", None)
        if turn is None:
            # Whole numbers below 2^31, as RocketMQ's ThreadLocalIndex starts with.
            start = random.randrange(1 << 31) if self._start is None else self._start
            turn = self._turns.turn = itertools.count(start)
        return turn


def select_by_hash(key: str | int) -> Selector:
    """Return a selector that sends all messages of one key to one queue, the one that Java clients choose.

    A text counts by `String.hashCode`, a number by `Long.hashCode` (which is `Integer.hashCode` for small
    ones that are not negative).
    """
    number = java_hash(key) if isinstance(key, str) else _long_hash(key)

    def select(queues: Sequence[MessageQueue], _message: Message) -> MessageQueue:
        return queues[abs(number) % len(queues)]

    return select


def _long_hash(value: int) -> int:
    bits = value & 0xFFFFFFFFFFFFFFFF
    folded = (bits ^ bits >> 32) & 0xFFFFFFFF
    return folded - (1 << 32) if folded & 0x80000000 else folded
