"""The growing end of a queue: its newest entries, and counters that change with each message.

`pyromq._kernel.storage.tails` has the same class, compiled; `ConsumeQueue` inherits from whichever runs.
"""

import struct
from typing import Any, Final

_pack: Final = struct.Struct(">qiq").pack


class QueueTail:
    """`end` is the offset that the next message gets, `reach` the log position behind the newest one.

    `held` are the newest entries, not yet written. `watched` says that pulls wait for the queue, `followed`
    that somebody is told of all its messages, `gone` that it was removed and must not be added to. A queue
    that begins to hold something puts itself into the list `dirty`, which many share: whoever writes what is
    held looks at those and not at all.
    """

    __slots__ = ("dirty", "end", "followed", "gone", "held", "reach", "watched")

    def __init__(self) -> None:
        self.end = 0
        self.reach = 0
        self.held = bytearray()
        self.dirty: list[Any] = []
        self.watched = False
        self.followed = False
        self.gone = False

    def add(self, position: int, size: int, tags_code: int) -> None:
        """Hold the next message's entry."""
        if not self.held:
            self.dirty.append(self)
        self.held += _pack(position, size, tags_code)
        self.end += 1
        self.reach = position + size
