"""Pulled records gathered into Arrow batches.

Making the arrays of a batch costs about as much as filling 300 rows of them, so several answers share one.
The compiled kernel fills columns from the pulled bytes; where it stops, at a record that is not plain, the
rest of the answer becomes messages first, and a batch of its own.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import pyarrow as pa

from pyromq.client.consumer.incoming import AnswerTooLarge, first_unreadable, held_bytes, received_messages
from pyromq.client.producer.compression import BODY_BYTES_MAX
from pyromq.kernel import IS_COMPILED
from pyromq.model import ReceivedMessage
from pyspark_rocketmq.source.columns import Columns, array_of, kafka_needs, kafka_of

BATCH_ROWS: Final = 8_192
BATCH_BYTES: Final = 16 << 20


class Taken(NamedTuple):
    """The messages taken from an answer: their number, and the place of the last.

    `next_offset` is that of the first message that was left for another pull, because the bodies before it
    unpack to too much; −1 when none was.
    """

    row_count: int
    last_offset: int
    last_position: int
    next_offset: int = -1


class Gathering(Protocol):
    """Takes answers to pulls, and has batches of them."""

    def add(self, records: bytes, broker_name: str, tags: frozenset[str], end: int) -> Taken:
        """Take the messages of an answer that have one of the tags, or all, with an offset below `end`."""

    def full(self) -> Iterator[pa.RecordBatch]:
        """Return batches that are large enough."""

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return all that is left."""


class PureGathering:
    """Makes messages of the records, and batches of the messages."""

    def __init__(self, columns: Columns, bytes_max: int = BODY_BYTES_MAX) -> None:
        self._columns = columns
        self._bytes_max = bytes_max
        self._messages: list[ReceivedMessage] = []
        self._bytes = 0

    def add(self, records: bytes, broker_name: str, tags: frozenset[str], end: int) -> Taken:
        """Take the messages of an answer."""
        messages = received_messages(records, broker_name, {}, tags, self._bytes_max)
        beyond, next_offset = first_unreadable(messages, AnswerTooLarge), -1
        if beyond is not None:
            next_offset = messages[beyond].queue_offset
            del messages[beyond:]
        if messages and messages[-1].queue_offset >= end:
            messages = [message for message in messages if message.queue_offset < end]
        self._messages += messages
        self._bytes += sum(map(held_bytes, messages))
        if not messages:
            return Taken(0, -1, -1, next_offset)
        return Taken(len(messages), messages[-1].queue_offset, messages[-1].position, next_offset)

    def full(self) -> Iterator[pa.RecordBatch]:
        """Return a batch if it is large enough."""
        if len(self._messages) >= BATCH_ROWS or self._bytes >= BATCH_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Return all that is left."""
        messages, self._messages, self._bytes = self._messages, [], 0
        if messages:
            yield self._columns.batch(messages)


if TYPE_CHECKING or not IS_COMPILED:
    gathering = PureGathering
else:
    from pyromq._kernel.spark.scan import Scan

    class ScanGathering:
        """Fills columns from the bytes of plain records, and leaves others to `PureGathering`."""

        def __init__(self, columns: Columns, bytes_max: int = BODY_BYTES_MAX) -> None:
            self._columns = columns
            self._own = columns.names
            if columns.is_kafka:
                needs = [need for name in columns.names for need in kafka_needs(name)]
                self._own = tuple(dict.fromkeys(needs))
            self._scan = Scan(self._own)
            self._others = PureGathering(columns, bytes_max)
            self._bytes = 0
            self._ready: list[pa.RecordBatch] = []

        def add(self, records: bytes, broker_name: str, tags: frozenset[str], end: int) -> Taken:
            """Take the messages of an answer."""
            scan, before = self._scan, self._scan.rows
            records = bytes(records)
            stop = scan.add(records, broker_name, tags, end)
            count = scan.rows - before
            self._bytes += stop
            taken = Taken(count, scan.last_offset, scan.last_position) if count else Taken(0, -1, -1)
            if stop == len(records):
                return taken
            # Rows stay in their order.
            self._ready += self._scanned()
            more = self._others.add(records[stop:], broker_name, tags, end)
            self._ready += self._others.rest()
            if not more.row_count:
                return taken._replace(next_offset=more.next_offset)
            return more._replace(row_count=count + more.row_count)

        def full(self) -> Iterator[pa.RecordBatch]:
            """Return batches that are large enough."""
            ready, self._ready = self._ready, []
            yield from ready
            if self._scan.rows >= BATCH_ROWS or self._bytes >= BATCH_BYTES:
                yield from self._scanned()

        def rest(self) -> Iterator[pa.RecordBatch]:
            """Return all that is left."""
            ready, self._ready = self._ready, []
            yield from ready
            yield from self._scanned()

        def _scanned(self) -> list[pa.RecordBatch]:
            count = self._scan.rows
            self._bytes = 0
            if not count:
                return []
            own: dict[str, Any] = {
                name: array_of(name, count, *buffers)
                for name, buffers in zip(self._own, self._scan.take(), strict=True)
            }
            columns = self._columns
            arrays = [
                kafka_of(name, own.__getitem__, count) if columns.is_kafka else own[name]
                for name in columns.names
            ]
            return [pa.RecordBatch.from_arrays(arrays, schema=columns.schema)]

    gathering = ScanGathering
