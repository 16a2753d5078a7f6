"""`config/stagedBatches.json`: what is known of staged batches, so that a start need not read all of the log.

The file is a snapshot of the ledger at some moment, written when the log up to that moment is on the disk.
It says from which records on it has to be brought up to date; records before those are in it, or no longer
matter.
"""

from pathlib import Path
from typing import Final

import msgspec

from pyromq.broker.durability import Durability
from pyromq.broker.json_table import JsonTable
from pyromq.broker.staging.ledger import Batch, Ledger, Query
from pyromq.errors import BodyError
from pyromq.store.files import Files
from pyromq.wire.bodies.staging import PartChunks


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
    """What the file says."""

    queries: dict[str, _QueryRow]
    chunk_offset: int
    op_offset: int


_DECODER: Final = msgspec.json.Decoder(Snapshot)
_EMPTY: Final = Snapshot(queries={}, chunk_offset=0, op_offset=0)


class StagedTable:
    """The file, and what it said when it was read."""

    def __init__(self, path: Path, *, files: Files | None = None) -> None:
        self._file = JsonTable(path, lambda: self._text, files=files)
        self._text = b""
        self.loaded: Snapshot = _EMPTY

    def load(self) -> None:
        """Read the file; raise CorruptRecord when it does not read."""
        self.loaded = self._file.load(decode_snapshot, field="queries") or _EMPTY

    @property
    def chunk_offset(self) -> int:
        """From which chunk on the file, as it was read, has to be brought up to date."""
        return self.loaded.chunk_offset

    @property
    def op_offset(self) -> int:
        """From which op on."""
        return self.loaded.op_offset

    def fill_queries(self, ledger: Ledger) -> None:
        """Let a new ledger know the queries of the file; to be done before it learns of chunks."""
        for name, row in self.loaded.queries.items():
            ledger.queries[name] = Query(row.home, row.used_at_ms, row.last_published, row.owner)

    def fill_decisions(self, ledger: Ledger) -> None:
        """Let it know what was decided; to be done when it knows the chunks, and before it learns of ops."""
        for name, row in self.loaded.queries.items():
            for decided in row.decided:
                ledger.restore_decision(
                    name, decided.batch, decided.parts, decided.position, is_out=decided.is_out
                )

    async def save(self, ledger: Ledger, durability: Durability, *, chunk_end: int, op_end: int) -> None:
        """Write what the ledger knows now, when it is on the disk that the log says so."""
        text = encode_snapshot(ledger, chunk_end=chunk_end, op_end=op_end)
        await durability.sync_now()
        self._text = text
        self._file.changed_unsaved()
        await self._file.save()


def decode_snapshot(data: bytes) -> Snapshot:
    """Return what a file says; raise BodyError when it does not read."""
    try:
        return _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        raise BodyError(str(error)) from error


def encode_snapshot(ledger: Ledger, *, chunk_end: int, op_end: int) -> bytes:
    """Return what a ledger knows that was told of all records before the ends of the two queues."""
    chunk_offset, op_offset = ledger.first_needed(chunk_end=chunk_end, op_end=op_end)
    queries = {name: _row(query) for name, query in ledger.queries.items()}
    snapshot = Snapshot(queries=queries, chunk_offset=chunk_offset, op_offset=op_offset)
    return msgspec.json.encode(snapshot)


def _row(query: Query) -> _QueryRow:
    decided = [
        _decided_row(batch, batch.decision) for batch in query.batches.values() if batch.decision is not None
    ]
    return _QueryRow(
        home=query.home,
        used_at_ms=query.used_at_ms,
        last_published=query.last_published,
        owner=query.owner,
        decided=decided,
    )


def _decided_row(batch: Batch, parts: tuple[PartChunks, ...]) -> _DecidedRow:
    return _DecidedRow(batch=batch.number, parts=list(parts), position=batch.decided_at, is_out=batch.is_out)
