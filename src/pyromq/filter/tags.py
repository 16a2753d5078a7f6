"""Tag expressions: «A || B», or «*» for all.

A queue entry holds only the hash of a message's tag, so the broker compares hashes and lets a rare stranger
with the same hash through; the consumer compares the tags themselves.
"""

from collections.abc import Callable

from pyromq.wire.java_hash import java_hash

ALL = "*"


def parse_tags(expression: str | None) -> frozenset[str]:
    """Return the tags that an expression names; none at all stands for every message."""
    if expression is None or expression in ("", ALL):
        return frozenset()
    return frozenset(tag for part in expression.split("||") if (tag := part.strip()))


def tag_codes(expression: str | None) -> frozenset[int] | None:
    """Return the hashes of the tags that an expression names, or None when it wants all messages.

    An expression of bars and blanks only («||») names no tag and wants nothing, as in RocketMQ.
    """
    if expression is None or expression in ("", ALL):
        return None
    return frozenset(java_hash(tag) for tag in parse_tags(expression))


def matcher(codes: frozenset[int] | None) -> Callable[[int], bool] | None:
    """Return the test for a queue entry's tag code, or None when every entry passes."""
    return None if codes is None else codes.__contains__
