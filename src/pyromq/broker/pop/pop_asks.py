"""Questions to POP and its answers: the words that both protocols share."""

from collections.abc import Generator, Sequence
from enum import Enum, auto
from typing import Any, Final, Generic, TypeVar

import msgspec

from pyromq.store.reading import MatchesRecord, WantsTags

T = TypeVar("T")

#: A pop of all queues of the topic, and of the group's retry topic.
ALL_QUEUES: Final = -1
#: The most messages of one pop.
COUNT_MAX: Final = 32


class PopFilter(msgspec.Struct, frozen=True):
    """A test for the wanted messages: by their tags code, by their bytes; None wants all.

    Filters with the same `expression` want the same; without one, each is another.

    """

    tags: WantsTags | None = None
    matches: MatchesRecord | None = None
    expression: str = ""


#: No message is left out.
EVERYTHING: Final = PopFilter()


class PopAsk(msgspec.Struct, frozen=True):
    """One pop."""

    group: str
    topic: str
    queue_id: int = ALL_QUEUES
    count_max: int = COUNT_MAX
    invisible_ms: int = 60_000
    #: Whether a group that is new here begins with the oldest message, and not with the last.
    from_min: bool = False
    wanted: PopFilter = EVERYTHING
    is_fifo: bool = False
    attempt_id: str | None = None
    #: The client for which the broker renews the invisible time, as long as it is there.
    renewed_for: str | None = None
    #: Whether a message that was tried too often goes to the dead letters, and not to the client.
    buries: bool = False
    #: Whether the answer says how many messages wait behind those that it brings.
    tells_rest: bool = True


class PopStatus(Enum):
    """The end of a pop."""

    FOUND = auto()
    #: There was nothing in time.
    NOTHING = auto()
    #: There was something, and all of it was buried.
    NO_MATCH = auto()
    #: It would have had to wait, and too many wait already.
    HELD_FULL = auto()
    #: Too many messages are in flight.
    IN_FLIGHT_FULL = auto()


class PoppedPart(msgspec.Struct, frozen=True):
    """The messages that came of one queue. The sequences are of the same length."""

    #: The topic that the records lie in, and what a handle says of it.
    real_topic: str
    mark: int
    queue_id: int
    start_offset: int
    offsets: Sequence[int]
    positions: Sequence[int]
    #: The records as they are stored, one behind the other, and how long each is.
    body: bytes
    sizes: Sequence[int]
    #: How often each was delivered, this time included.
    attempts: Sequence[int]

    @property
    def records(self) -> list[bytes]:
        """Each record by itself."""
        ends, at = [], 0
        for size in self.sizes:
            ends.append((at, at := at + size))
        return [self.body[start:end] for start, end in ends]


class Popped(msgspec.Struct, frozen=True):
    """The answer to a pop."""

    status: PopStatus
    popped_at_ms: int
    invisible_ms: int
    revive_queue_id: int
    #: How many messages wait behind those, in the queues that were asked for; 0 if that was not asked.
    rest: int
    parts: Sequence[PoppedPart] = ()


class AckResult(Enum):
    """The result of an acknowledgement, a change or a burial."""

    OK = auto()
    #: The message is visible again, or its handle is not the last one.
    EXPIRED = auto()
    #: There is no such queue, or no such message in it.
    UNKNOWN = auto()


class Done(Generic[T]):
    """A result that is there at once, for who awaits it and for who looks first."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, None, T]:
        return self.value
        yield
