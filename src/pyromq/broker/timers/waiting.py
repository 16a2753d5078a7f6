"""What is said of messages that wait for their time."""

from typing import NamedTuple

from pyromq.store.messages import Placed


class Waiting(NamedTuple):
    """A message that waits: when it is due, and where its record is in the log.

    In this order they are delivered, so (due_ms, position) is where a list of them goes on.
    """

    due_ms: int
    position: int
    size: int


class Recalled(NamedTuple):
    """What became of a recall: where the log says that the message is never delivered.

    `placed` is None when no such message waits: it was delivered or recalled already, or never was.
    """

    placed: Placed | None
    due_ms: int = 0

    @property
    def was_waiting(self) -> bool:
        """Whether the message was waiting, and now is not any more."""
        return self.placed is not None
