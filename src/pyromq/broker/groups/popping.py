"""The progress of groups that pop, as POP tells it: POP itself is another room."""

from dataclasses import dataclass
from typing import Protocol


class PopsQueues(Protocol):
    """A room that tells how far groups are that pop."""

    @property
    def has_popped(self) -> bool:
        """Whether any group popped."""
        ...

    def in_flight(self, group: str, real_topic: str, queue_id: int) -> int:
        """Return how many messages of a queue are in flight."""
        ...

    def next_offset(self, group: str, real_topic: str, queue_id: int) -> int | None:
        """Return the offset that is handed out next; None for a queue that the group never popped."""
        ...


@dataclass(frozen=True, slots=True)
class PoppedSoFar:
    """The offset of a queue that is handed out next, and how many messages below it are in flight."""

    next_offset: int
    in_flight: int


def popped_so_far(
    pops: PopsQueues, group: str, topic: str, queue_id: int, committed: int
) -> PoppedSoFar | None:
    """Return how far a group popped a queue; None if it does not pop it, or others committed since then."""
    next_offset = pops.next_offset(group, topic, queue_id)
    if next_offset is None or next_offset < committed:
        return None
    in_flight = pops.in_flight(group, topic, queue_id)
    # With nothing in flight all is finished that was handed out: another commit is a classic consumer's.
    return PoppedSoFar(next_offset, in_flight) if in_flight or next_offset == committed else None
