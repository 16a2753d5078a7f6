"""Operations on staged batches, as records of `rmq_sys_staged_op`: one JSON object each.

An operation that may be the first of its query names the query's owner, None without access control.
"""

from typing import Final

import msgspec

from pyromq.errors import BodyError
from pyromq.wire.bodies.staging_bodies import Layout, PartChunks


class Op(msgspec.Struct, frozen=True, rename="camel", tag_field="op", kw_only=True):
    """One thing that happened to a batch of a query."""

    query: str
    batch: int


class Opened(Op, frozen=True, tag="open", kw_only=True):
    """Somebody began the batch. At the home, the layout says which queues it may use."""

    home: str
    owner: str | None = None
    layout: Layout = {}


class Aborted(Op, frozen=True, tag="abort", kw_only=True):
    """Attempts will never count: pairs of part and attempt."""

    attempts: list[tuple[int, str]]


class Prepared(Op, frozen=True, tag="prepare", kw_only=True):
    """The home may decide for these parts: their chunks are all here, and do not expire."""

    home: str
    owner: str | None = None
    parts: list[PartChunks]


class Decided(Op, frozen=True, tag="decide", kw_only=True):
    """The batch is made of these parts, and of nothing else, for ever."""

    home: str
    owner: str | None = None
    parts: list[PartChunks]


class Out(Op, frozen=True, tag="out", kw_only=True):
    """All that this broker, the home, has of the batch is out; others may not be that far."""


class Published(Op, frozen=True, tag="publish", kw_only=True):
    """The batch is out; at the home: on all brokers."""


AnyOp = Opened | Aborted | Prepared | Decided | Out | Published

_DECODER: Final[msgspec.json.Decoder[AnyOp]] = msgspec.json.Decoder(AnyOp)


def encode_op(op: AnyOp) -> bytes:
    """Return the body of an op's record."""
    return msgspec.json.encode(op)


def decode_op(body: bytes) -> AnyOp:
    """Return the op that a record's body says; raise BodyError when it says none."""
    try:
        return _DECODER.decode(body)
    except msgspec.MsgspecError as error:
        raise BodyError(f"an op record does not read: {error}") from error
