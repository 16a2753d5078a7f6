"""A batch read: the queues' ranges are fixed when Spark plans, and each task pulls its own.

A DataFrame is a snapshot: Spark asks for the partitions once, so a second action on the same DataFrame
reads the same messages. Load again to see newer ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyromq import PullConsumer
from pyromq.errors import PyroError
from pyromq.model import MessageQueue, PullStatus, ReceivedMessage
from pyspark_rocketmq.columns import check_schema, to_batch
from pyspark_rocketmq.options import Edge, SourceOptions

#: Making the arrays of a batch costs about as much as filling 300 rows of them, so pulls are gathered.
ROWS_PER_BATCH = 4096
#: The most that a pull may ask for; brokers give fewer (`maxTransferCountOnMessageInMemory`).
PULL_COUNT = 1024
#: The group that pulls are made for; a batch read commits nothing in its name.
GROUP = "pyspark_rocketmq"


@dataclass
class QueueRange(InputPartition):
    """The messages of one queue from `start` up to, not including, `end`."""

    queue: MessageQueue
    start: int
    end: int


class TopicReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._columns = check_schema(schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Return each queue's range as it is now."""
        options = self._options
        ranges: list[InputPartition] = []
        with PullConsumer(GROUP, options.name_server) as consumer:
            for topic in options.topics:
                for queue in consumer.queues(topic):
                    least, most = consumer.min_offset(queue), consumer.max_offset(queue)
                    start = least if options.starting is Edge.EARLIEST else most
                    end = most if options.ending is Edge.LATEST else least
                    if start < end:
                        ranges.append(QueueRange(queue, start, end))
        return ranges

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Pull a range and yield it as Arrow batches."""
        assert isinstance(partition, QueueRange)
        rows: list[ReceivedMessage] = []
        with PullConsumer(GROUP, self._options.name_server) as consumer:
            for messages in self._pulls(consumer, partition):
                rows += messages
                if len(rows) >= ROWS_PER_BATCH:
                    yield to_batch(self._columns, rows)
                    rows = []
        if rows:
            yield to_batch(self._columns, rows)

    def _pulls(self, consumer: PullConsumer, asked: QueueRange) -> Iterator[list[ReceivedMessage]]:
        at = asked.start
        while at < asked.end:
            found = consumer.pull(
                asked.queue,
                at,
                count=PULL_COUNT,
                tags=self._options.tags,
                timeout_ms=self._options.pull_timeout_ms,
            )
            if found.status is PullStatus.OFFSET_ILLEGAL or found.next_offset <= at:
                raise PyroError(
                    f"{asked.queue} no longer holds offset {at}: the broker has {found.min_offset} to "
                    f"{found.max_offset}. Messages expired while Spark was reading; load the DataFrame again"
                )
            yield [message for message in found.messages if message.queue_offset < asked.end]
            at = found.next_offset
