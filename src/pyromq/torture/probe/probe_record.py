"""The record of a group's probe when the run is over: every send with its fate, every message that was read.

Every message carries a number that no other has; a number is sent once, so it may be stored once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

#: Broker group and queue id.
Queue = tuple[str, int]


class SendFate(StrEnum):
    """The fate of a send, as far as its producer knows it."""

    ACKNOWLEDGED = "acknowledged"
    #: An answer that says no. Whether the message was stored is another question.
    REFUSED = "refused"
    #: No answer in time, or the connection ended, or an answer that says "stored, but".
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Send:
    """One message on its way, and what became of it."""

    number: int
    queue: Queue
    #: Which node was asked.
    node: int
    #: Messages of one connection to one queue arrive in the order in which they were sent.
    connection: int
    sent_at: float
    ended_at: float = 0.0
    fate: SendFate = SendFate.UNKNOWN
    offset: int = -1
    #: Where it begins in the log of the broker that acknowledged it.
    position: int = -1
    detail: str = ""


@dataclass(slots=True, frozen=True)
class Read:
    """A message that somebody read at a node."""

    queue: Queue
    offset: int
    number: int
    node: int
    at: float


@dataclass(slots=True)
class ProbeRecord:
    """Everything that was sent and read."""

    sends: dict[int, Send] = field(default_factory=dict)
    #: What each node was seen to have, each message once a node: the first time it was read there.
    reads: dict[tuple[int, Queue, int, int], Read] = field(default_factory=dict)
    #: Things that no reader may see at all, such as a body that nobody sent.
    complaints: list[str] = field(default_factory=list)

    def begin(self, queue: Queue, *, node: int, connection: int, now: float) -> Send:
        """Note that a new message is sent, and return it."""
        send = Send(len(self.sends), queue, node, connection, now)
        self.sends[send.number] = send
        return send

    def see(self, queue: Queue, offset: int, number: int, *, node: int, now: float) -> None:
        """Note that a node has a message."""
        key = node, queue, offset, number
        if key not in self.reads:
            self.reads[key] = Read(queue, offset, number, node, now)

    def acknowledged(self) -> Iterator[Send]:
        """Yield the sends that were acknowledged, in the order of sending."""
        return (send for send in self.sends.values() if send.fate is SendFate.ACKNOWLEDGED)

    def count(self, fate: SendFate) -> int:
        """Return how many sends ended so."""
        return sum(send.fate is fate for send in self.sends.values())


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """A message in the log at the end."""

    number: int
    position: int
    #: The node that gave it its place, as the record says.
    node: int


@dataclass(slots=True)
class Final:
    """The state when all faults were over: the master's queues, and its epochs."""

    #: Each queue from its first message; offsets that nobody has are None.
    queues: dict[Queue, dict[int, LoggedMessage]] = field(default_factory=dict)
    #: (epoch, where it begins in the log), oldest first.
    epochs: list[tuple[int, int]] = field(default_factory=list)
    #: The epochs in which each node was master, those too of which nothing is left.
    reigns: dict[int, set[int]] = field(default_factory=dict)
    #: When an epoch certainly had not begun yet, for those of which that is known.
    not_before: dict[int, float] = field(default_factory=dict)

    def places(self) -> dict[int, tuple[Queue, int, LoggedMessage]]:
        """Return where each number is; of several places, the first."""
        places: dict[int, tuple[Queue, int, LoggedMessage]] = {}
        for queue, messages in self.queues.items():
            for offset, stored in sorted(messages.items()):
                places.setdefault(stored.number, (queue, offset, stored))
        return places

    def last_epoch_of(self, node: int, at: float) -> int:
        """Return the newest epoch in which a node can have been master at a time."""
        return max(
            (epoch for epoch in self.reigns.get(node, ()) if self.not_before.get(epoch, at) <= at), default=0
        )

    def epoch_at(self, position: int) -> int:
        """Return the epoch in which a place of the log was written."""
        began = [epoch for epoch, start in self.epochs if start <= position]
        return began[-1] if began else 0
