"""A DataFrame appended to topics, by a batch write.

Spark makes the writer once and sends copies of it to the executors and to the commit, so an id that it is
given when it is made tells this write from all others. A write that has a name and a number of its own
(options `txnAppId`, `txnVersion`) is told by them, and if it is done again, it is done already.
"""

from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_rocketmq.plain_errors import plain_errors
from pyspark_rocketmq.sink import outlets
from pyspark_rocketmq.sink.rows import check_columns
from pyspark_rocketmq.sink.sink_options import SinkOptions
from pyspark_rocketmq.sink.write_part import write_part


@plain_errors("write", "commit")
class TopicWriter(DataSourceArrowWriter):
    """Writes on the executors, publishes on the driver."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = check_columns(schema, topic=options.topic)
        self._query, self._batch = options.transaction or (uuid4().hex, 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a partition."""
        return write_part(self._options, self._columns, outlets.this_part(self._query, self._batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Let all partitions out, together."""
        outlets.publish(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Let go of what was staged, unless it is published."""
        outlets.abort(self._options, messages)
