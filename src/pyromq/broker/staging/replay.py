"""From the log, and the table that speaks for its older records, to what is known of staged batches."""

import logging
from collections.abc import Iterator
from itertools import chain

from pyromq import system_names
from pyromq.broker.staging.ledger import Chunk, Ledger
from pyromq.broker.staging.ops import decode_op
from pyromq.broker.staging.publishing import count_out
from pyromq.broker.staging.records import QUEUE_ID, ChunkNote, read_note
from pyromq.broker.staging.table import StagedTable
from pyromq.errors import BodyError, CorruptRecord
from pyromq.store.commitlog import stored_at_of
from pyromq.store.store import MessageStore, QueueEntry
from pyromq.wire.record import RECORD_BYTES_MIN, read_properties

log = logging.getLogger(__name__)

_ENTRIES_READ = 1024


def replay(store: MessageStore, table: StagedTable) -> Ledger:
    """Return what the table and the log say together."""
    ledger = Ledger()
    table.fill_queries(ledger)
    # Nothing is staged for a decided batch, and nothing by an aborted attempt: chunks may go before ops.
    for offset, entry in _entries(store, system_names.STAGED, table.chunk_offset):
        _take_chunk(store, ledger, offset, entry)
    table.fill_decisions(ledger)
    for offset, entry in _entries(store, system_names.STAGED_OP, table.op_offset):
        _take_op(store, ledger, offset, entry.position)
    unfinished = [
        batch for _, _, batch in ledger.batches() if batch.decision is not None and not batch.is_out
    ]
    if unfinished:
        chunks = chain.from_iterable(batch.decided_chunks() for batch in unfinished)
        count_out(store, chunks, min(batch.decided_at for batch in unfinished))
    return ledger


def _take_chunk(store: MessageStore, ledger: Ledger, offset: int, entry: QueueEntry) -> None:
    try:
        note, at_ms = _read_chunk(store, entry)
    except CorruptRecord as error:
        log.warning("the staged chunk at position %d is lost: %s", entry.position, error)
        return
    chunk = Chunk(entry.position, note.message_count, note.record_bytes)
    ledger.chunk_stored(note, chunk, offset=offset, at_ms=at_ms)


def _read_chunk(store: MessageStore, entry: QueueEntry) -> tuple[ChunkNote, int]:
    """Return what a chunk's record says of it, and when it was stored, without a look at its messages."""
    segment = store.log.segment_at(entry.position)
    if segment is None:
        raise CorruptRecord("it is not in the log")
    at = entry.position - segment.base
    with memoryview(segment.map) as view, view[at : at + entry.size] as record:
        return read_note(read_properties(record)), stored_at_of(bytes(record[:RECORD_BYTES_MIN]))


def _take_op(store: MessageStore, ledger: Ledger, offset: int, position: int) -> None:
    record = store.record_at(position)
    if record is None:
        log.error("the record at position %d, about a staged batch, is lost", position)
        return
    try:
        op = decode_op(record.body)
    except BodyError as error:
        log.warning("the record at position %d, about a staged batch, is lost: %s", position, error)
        return
    ledger.apply(op, offset=offset, position=position, at_ms=record.stored_at_ms)


def _entries(store: MessageStore, topic: str, offset: int) -> Iterator[tuple[int, QueueEntry]]:
    offset = max(offset, store.min_offset(topic, QUEUE_ID))
    while entries := store.entries(topic, QUEUE_ID, offset, _ENTRIES_READ):
        for entry in entries:
            yield offset, entry
            offset += 1
