"""RocketMQ's two even ways to share a topic's queues among the members of a group: AVG and AVG_BY_CIRCLE.

Clients calculate their share themselves, or ask a broker for it; both must come to the same.
"""

from collections.abc import Sequence
from typing import TypeVar

Q = TypeVar("Q")


def block(queues: Sequence[Q], index: int, count: int) -> list[Q]:
    """Return the share of one of `count` members: neighbours, one more for the first where some are over."""
    share, remainder = divmod(len(queues), count)
    begin = index * share + min(index, remainder)
    return list(queues[begin : begin + share + (index < remainder)])


def dealt(queues: Sequence[Q], index: int, count: int) -> list[Q]:
    """Return the share of one of `count` members when queues are dealt out one by one, like cards."""
    return list(queues[index::count])
