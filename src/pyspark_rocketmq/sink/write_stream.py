"""A streaming query appended to topics.

Each micro-batch is written by other copies of the writer than commit it, and a query that is started again
repeats its last batch under the same number. So all that a commit needs comes with the messages of the tasks,
and the brokers know by query and batch what they have published already.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyspark_rocketmq.plain_errors import plain_errors
from pyspark_rocketmq.sink import outlets
from pyspark_rocketmq.sink.rows import check_columns
from pyspark_rocketmq.sink.sink_options import SinkOptions
from pyspark_rocketmq.sink.write_part import write_part

#: Properties of a streaming query's tasks.
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


@plain_errors("write", "commit")
class TopicStreamWriter(DataSourceStreamArrowWriter):
    """Writes on the executors, publishes on the driver."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._columns = check_columns(schema, topic=options.topic)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write a partition of a batch."""
        query, batch = _query_and_batch()
        return write_part(self._options, self._columns, outlets.this_part(query, batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        """Let all partitions out, together."""
        outlets.publish(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        """Let go of what was staged, unless it is published: Spark aborts what it could not commit, too."""
        outlets.abort(self._options, messages)


def _query_and_batch() -> tuple[str, int]:
    task = TaskContext.get()
    query = None if task is None else task.getLocalProperty(QUERY_ID)
    batch = None if task is None else task.getLocalProperty(BATCH_ID)
    if query is None or batch is None:
        raise RuntimeError(
            "the task does not say which streaming query it belongs to; was write() called outside of one?"
        )
    return query, int(batch)
