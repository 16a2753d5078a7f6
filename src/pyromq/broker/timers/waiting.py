"""What is said of messages that wait for their time."""

from typing import NamedTuple


class Waiting(NamedTuple):
    """A message that waits: when it is due, and where its record is in the log.

    In this order they are delivered, so (due_ms, position) is where a list of them goes on.
    """

    due_ms: int
    position: int
    size: int


class Recalled(NamedTuple):
    """What became of a recall: up to where the log says that no copy that waited is delivered.

    `end` is None when none waits: it was delivered or recalled already, or never was. `due_ms` is when the
    first of them would have been delivered, and `was_delivered` says whether one was, as far as is known.
    """

    end: int | None
    due_ms: int = 0
    was_delivered: bool = False

    @property
    def was_waiting(self) -> bool:
        """Whether the message was waiting, and now is not any more."""
        return self.end is not None
