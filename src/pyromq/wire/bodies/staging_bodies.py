"""The bodies of staged sends: which queues a batch may use, and which attempts it is made of."""

from typing import Annotated

import msgspec

from pyromq.wire.bodies.body import Body, read_body

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
#: Queues for each broker, for each topic.
Layout = dict[str, dict[str, Count]]


class PartChunks(Body, kw_only=True, frozen=True):
    """The attempt that counts for a part, and how many chunks of it each broker has."""

    part: Count
    attempt: str
    chunks: dict[str, Count]


class StagedBody(Body, kw_only=True, frozen=True):
    """A layout, parts, or both."""

    layout: Layout = msgspec.field(default_factory=dict)
    parts: list[PartChunks] = msgspec.field(default_factory=list)


def encode_staged(body: StagedBody) -> bytes:
    """Return the JSON of a body."""
    return msgspec.json.encode(body)


def decode_staged(data: bytes) -> StagedBody:
    """Return the body that the JSON says, an empty one when there is none; raise BodyError if not JSON."""
    return read_body(StagedBody, data) if data else StagedBody()
