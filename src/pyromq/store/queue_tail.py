"""The growing end of a queue: what changes with each message.

`pyromq._kernel.tails` has the same class, compiled; `ConsumeQueue` inherits from whichever runs.
"""

import struct
from typing import Final

_pack: Final = struct.Struct(">qiq").pack


class QueueTail:
    """`end` is the offset that the next message gets, `reach` the log position behind the newest one.

    `held` are the newest entries, not yet written. `watched` says that pulls wait for the queue, `gone` that
    it was removed and must not be added to.
    """

    __slots__ = ("end", "gone", "held", "reach", "watched")

    def __init__(self) -> None:
        self.end = 0
        self.reach = 0
        self.held = bytearray()
        self.watched = False
        self.gone = False

    def add(self, position: int, size: int, tags_code: int) -> None:
        """Hold the next message's entry."""
        self.held += _pack(position, size, tags_code)
        self.end += 1
        self.reach = position + size
