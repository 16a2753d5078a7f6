"""A queue that a group pops in order: one batch at a time, and nothing behind it while it is in flight.

The queue is *blocked* while a message of its batch is not acknowledged and its visible time is ahead. The
next batch begins with the first message that is not acknowledged, whatever was acknowledged behind it: order
is worth a second delivery.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyromq.broker.pop.in_flight import NO_CLIENT


@dataclass(slots=True)
class OrderedBatch:
    """The last batch of a queue."""

    popped_at_ms: int
    visible_at_ms: int
    offsets: Sequence[int]
    #: How often each message was delivered, this time included.
    attempts: Sequence[int]
    attempt_id: str | None = None
    client: int = NO_CLIENT
    #: What was acknowledged, by its place in the batch.
    acknowledged: set[int] = field(default_factory=set)
    #: Messages with a visible time of their own, by their offsets.
    moved: dict[int, int] = field(default_factory=dict)

    def place(self, offset: int) -> int:
        """Return where a message is in the batch, −1 when it is not."""
        return self.offsets.index(offset) if offset in self.offsets else -1

    def is_open(self, offset: int) -> bool:
        """Return whether a message was delivered in this batch and is not acknowledged."""
        at = self.place(offset)
        return at >= 0 and at not in self.acknowledged

    def visible_at(self, offset: int) -> int:
        """Return when a message may be delivered again."""
        return self.moved.get(offset, self.visible_at_ms)

    @property
    def open_offsets(self) -> list[int]:
        """The messages that are not acknowledged."""
        return [offset for at, offset in enumerate(self.offsets) if at not in self.acknowledged]

    @property
    def is_done(self) -> bool:
        """Whether all of it is acknowledged."""
        return len(self.acknowledged) == len(self.offsets)

    @property
    def next_offset(self) -> int:
        """The offset at which the next batch begins."""
        for at, offset in enumerate(self.offsets):
            if at not in self.acknowledged:
                return offset
        return self.offsets[-1] + 1

    @property
    def blocked_until_ms(self) -> int:
        """The time at which the queue is free again if nothing happens; 0: it is."""
        return max((self.visible_at(offset) for offset in self.open_offsets), default=0)

    def attempts_again(self, offsets: Sequence[int], attempt_id: str | None) -> list[int]:
        """Return how often messages of the next batch will have been delivered.

        Who asks with the same attempt id did not get this batch: its deliveries do not count twice.
        """
        more = 0 if attempt_id is not None and attempt_id == self.attempt_id else 1
        before = dict(zip(self.offsets, self.attempts, strict=True))
        return [before[offset] + more if offset in before else 1 for offset in offsets]
