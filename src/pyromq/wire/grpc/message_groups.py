"""The queue of a message group: RocketMQ 5's jump consistent hash over Java's hash of the group.

The same group is always in the same queue, and when queues are added only few groups move.
"""

from functools import lru_cache
from typing import Final

from pyromq.wire.java_hash import java_hash

_MASK: Final = (1 << 64) - 1
_STEP: Final = 2862933555777941757
_HALF: Final = 1 << 31
_INT_MAX: Final = _HALF - 1


@lru_cache(maxsize=4096)
def queue_of_group(group: str, queue_count: int) -> int:
    """Return the index of a group's queue among the writable ones."""
    state = java_hash(group) & _MASK
    bucket = following = 0
    while following < queue_count:
        bucket = following
        state = (_STEP * state + 1) & _MASK
        # Java divides in doubles: this must be the same number, not a more exact one.
        part = ((state >> 33) + 1) / _HALF
        following = min(int((bucket + 1) / part), _INT_MAX)
    return bucket
