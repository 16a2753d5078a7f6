"""The checkpoint of POP, `pop/inFlight.bin`: the table at a position of the log.

    magic, checksum, then packed: the position, how far the journal was read, the clients, the queues

A file that does not read is passed over: its twin is older and as good, and without either the table is made
from all of the log.
"""

from typing import Final
from zlib import crc32

import msgspec

from pyromq.broker.pop.ordered import OrderedBatch
from pyromq.broker.pop.pop_table import PopQueue, PopTable
from pyromq.errors import BodyError

_MAGIC: Final = b"PyroPop1"


class _BatchRow(msgspec.Struct, array_like=True):
    popped_at_ms: int
    visible_at_ms: int
    offsets: list[int]
    attempts: list[int]
    attempt_id: str | None
    client: int
    acknowledged: list[int]
    moved: dict[int, int]


class _QueueRow(msgspec.Struct, array_like=True):
    group: str
    topic: str
    queue_id: int
    next: int
    columns: tuple[bytes, bytes, bytes, bytes]
    ordered: _BatchRow | None


class PopSnapshot(msgspec.Struct, array_like=True):
    """The table before a position of the log."""

    position: int
    journal_offset: int
    clients: list[tuple[str, str]]
    queues: list[_QueueRow]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(PopSnapshot)


def take_snapshot(table: PopTable, position: int, journal_offset: int) -> PopSnapshot:
    """Return what a file says of a table that knows the log before a position."""
    table.forget_clients()
    rows = [
        _QueueRow(
            queue.group,
            queue.topic,
            queue.queue_id,
            queue.next,
            queue.in_flight.columns(),
            _batch_row(queue),
        )
        for queue in table
    ]
    return PopSnapshot(position, journal_offset, list(table.clients), rows)


def encode_snapshot(snapshot: PopSnapshot) -> bytes:
    """Return the file's bytes."""
    data = _ENCODER.encode(snapshot)
    return _MAGIC + crc32(data).to_bytes(4, "big") + data


def decode_snapshot(data: bytes) -> PopSnapshot:
    """Return what a file says; raise BodyError when it is damaged or another release's."""
    head = len(_MAGIC) + 4
    packed = data[head:]
    if data[:head] != _MAGIC + crc32(packed).to_bytes(4, "big"):
        raise BodyError("its checksum is another")
    try:
        return _DECODER.decode(packed)
    except msgspec.MsgspecError as error:
        raise BodyError(str(error)) from error


def restore(snapshot: PopSnapshot, table: PopTable) -> None:
    """Fill an empty table."""
    for client_id, group in snapshot.clients:
        table.client_number(client_id, group)
    for row in snapshot.queues:
        queue = table.make(row.group, row.topic, row.queue_id, row.next)
        queue.in_flight.restore(row.columns)
        if row.ordered is not None:
            queue.ordered = _batch_of(row.ordered)
    table.remake_dues()


def _batch_row(queue: PopQueue) -> _BatchRow | None:
    batch = queue.ordered
    if batch is None:
        return None
    return _BatchRow(
        batch.popped_at_ms,
        batch.visible_at_ms,
        list(batch.offsets),
        list(batch.attempts),
        batch.attempt_id,
        batch.client,
        sorted(batch.acknowledged),
        batch.moved,
    )


def _batch_of(row: _BatchRow) -> OrderedBatch:
    return OrderedBatch(
        row.popped_at_ms,
        row.visible_at_ms,
        row.offsets,
        row.attempts,
        row.attempt_id,
        row.client,
        set(row.acknowledged),
        row.moved,
    )
