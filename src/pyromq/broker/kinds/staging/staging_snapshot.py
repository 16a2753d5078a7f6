"""`config/stagedBatches.json`: what is known of staged batches, so that a start need not read all of the log.

The file is the ledger at some moment. It says from which records on it has to be brought up to date; records
before those are in it, or no longer matter.
"""

from typing import Final

import msgspec

from pyromq.broker.kinds.staging.ledger import Ledger, Query
from pyromq.errors import BodyError
from pyromq.wire.bodies.staging_bodies import PartChunks


class _DecidedRow(msgspec.Struct, rename="camel", kw_only=True):
    """A batch that is decided, and not yet published everywhere."""

    batch: int
    parts: list[PartChunks]
    position: int
    is_out: bool


class _QueryRow(msgspec.Struct, rename="camel", kw_only=True):
    home: str
    used_at_ms: int
    last_published: int = -1
    owner: str | None = None
    decided: list[_DecidedRow] = msgspec.field(default_factory=list)


class Snapshot(msgspec.Struct, rename="camel", kw_only=True):
    """The contents of the snapshot file."""

    queries: dict[str, _QueryRow]
    chunk_offset: int
    op_offset: int


_DECODER: Final = msgspec.json.Decoder(Snapshot)


def decode_snapshot(data: bytes) -> Snapshot:
    """Return what a file says; raise BodyError when it does not read."""
    try:
        return _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise BodyError(str(error)) from error


def restore(snapshot: Snapshot, ledger: Ledger) -> None:
    """Let a new ledger know what a file says, before it is told of the records behind it."""
    for name, row in snapshot.queries.items():
        ledger.queries[name] = Query(row.home, row.used_at_ms, row.last_published, row.owner)
        for decided in row.decided:
            ledger.restore_decision(
                name, decided.batch, decided.parts, decided.position, is_out=decided.is_out
            )


def encode_snapshot(ledger: Ledger, *, chunk_end: int, op_end: int) -> bytes:
    """Return what a ledger knows that was told of all records before the ends of the two queues."""
    chunk_offset, op_offset = ledger.first_needed(chunk_end=chunk_end, op_end=op_end)
    queries = {name: _row(query) for name, query in ledger.queries.items()}
    return msgspec.json.encode(Snapshot(queries=queries, chunk_offset=chunk_offset, op_offset=op_offset))


def _row(query: Query) -> _QueryRow:
    decided = [
        _DecidedRow(
            batch=batch.number, parts=list(batch.decision), position=batch.decided_at, is_out=batch.is_out
        )
        for batch in query.batches.values()
        if batch.decision is not None
    ]
    return _QueryRow(
        home=query.home,
        used_at_ms=query.used_at_ms,
        last_published=query.last_published,
        owner=query.owner,
        decided=decided,
    )
