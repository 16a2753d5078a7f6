"""Which queue next.

Round robin over a topic's queues from a random start, so that many producers do not begin at the same queue.
A retry skips the queues of the broker that just failed. The next send knows nothing of that failure: it
takes its turn again (RocketMQ's default without `sendLatencyFaultEnable`).
"""

import itertools
import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pyromq.model import Message, MessageQueue
from pyromq.wire.java_hash import java_hash

#: Picks the queue for a message among the writable queues of its topic.
Selector: TypeAlias = Callable[[Sequence[MessageQueue], Message], MessageQueue]


class RoundRobin:
    """The turn of one topic. Safe to use from many threads."""

    def __init__(self, start: int | None = None) -> None:
        # Whole numbers below 2^31, as RocketMQ's ThreadLocalIndex starts with.
        self._turn = itertools.count(random.randrange(1 << 31) if start is None else start)

    def choose(self, queues: Sequence[MessageQueue], *, avoid: str | None = None) -> MessageQueue:
        """Return the next queue, away from the broker named `avoid` if there is any other."""
        for _ in queues:
            queue = queues[next(self._turn) % len(queues)]
            if queue.broker_name != avoid:
                return queue
        return queues[next(self._turn) % len(queues)]


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
