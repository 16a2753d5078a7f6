"""The words of the journal: everything that happened to messages in flight in one turn of the loop.

    record     version, when, the queues that it speaks of, what happened
    queue      group, real topic, queue id
    operation  kind, place of its queue in the record, …

Numbers are packed (MessagePack), times are told from the record's own, names are told once: an operation
takes some ten bytes. What was revived or buried is not in here; the record that it became says so
(`kinds/stored_again.py`).
"""

from typing import Final

import msgspec

from pyromq.errors import BodyError

VERSION: Final = 1


class Handed(msgspec.Struct, array_like=True, frozen=True, tag=1, gc=False):
    """Messages were handed out: `count` from `first` on, or those at distances from it."""

    queue: int
    #: What the group had finished before, and where it reads next.
    floor: int
    next: int
    popped_after_ms: int
    invisible_ms: int
    first: int
    count: int
    distances: list[int] = []
    client: str = ""


class Ended(msgspec.Struct, array_like=True, frozen=True, tag=2, gc=False):
    """Messages were acknowledged, in order or not."""

    queue: int
    offsets: list[int]


class Moved(msgspec.Struct, array_like=True, frozen=True, tag=3, gc=False):
    """A message is invisible until another time, by another handle."""

    queue: int
    offset: int
    popped_after_ms: int
    invisible_ms: int


class Renewed(msgspec.Struct, array_like=True, frozen=True, tag=4, gc=False):
    """Messages are invisible until another time, by the same handle."""

    queue: int
    offsets: list[int]
    visible_after_ms: int
    keeps_client: bool


class InOrder(msgspec.Struct, array_like=True, frozen=True, tag=5, gc=False):
    """A batch was handed out in order."""

    queue: int
    popped_after_ms: int
    invisible_ms: int
    offsets: list[int]
    attempts: list[int]
    attempt_id: str | None = None
    client: str = ""


class MovedInOrder(msgspec.Struct, array_like=True, frozen=True, tag=6, gc=False):
    """A message of a batch has a visible time of its own."""

    queue: int
    offset: int
    visible_after_ms: int


class ResetTo(msgspec.Struct, array_like=True, frozen=True, tag=7, gc=False):
    """The group goes on somewhere else; nothing of the queue is in flight."""

    queue: int
    offset: int


class TopicForgotten(msgspec.Struct, array_like=True, frozen=True, tag=8):
    """A topic was deleted."""

    topic: str


class GroupForgotten(msgspec.Struct, array_like=True, frozen=True, tag=9):
    """A group was deleted."""

    group: str


AnyOp = Handed | Ended | Moved | Renewed | InOrder | MovedInOrder | ResetTo | TopicForgotten | GroupForgotten
#: Group, real topic, queue id.
QueueName = tuple[str, str, int]


class JournalRecord(msgspec.Struct, array_like=True, frozen=True):
    """One turn."""

    version: int
    at_ms: int
    queues: list[QueueName]
    ops: list[AnyOp]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(JournalRecord)


def encode_journal(record: JournalRecord) -> bytes:
    """Return the body of a journal record."""
    return _ENCODER.encode(record)


def decode_journal(body: bytes) -> JournalRecord:
    """Return what a journal record says; raise BodyError when it says nothing that this release knows."""
    try:
        record = _DECODER.decode(body)
    except msgspec.MsgspecError as error:
        raise BodyError(f"no journal record of POP: {error}") from error
    if record.version != VERSION:
        raise BodyError(f"a journal record of POP of version {record.version}; {VERSION} is known")
    return record
