"""The Spark sink without Spark: parts written as tasks write them, and what is in the topics afterwards."""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from spark_stage import sent

from pyromq import PullConsumer, PullStatus
from pyromq.model import ReceivedMessage
from pyspark_rocketmq.sink.outlets import WritePart, WrittenPart
from pyspark_rocketmq.sink.rows import check_columns
from pyspark_rocketmq.sink.sink_options import read_sink_options
from pyspark_rocketmq.sink.write_part import write_part

_queries = count()


def new_query() -> str:
    """Return a query's id that nobody else has."""
    return f"query-{next(_queries)}"


def batch_of(**columns: Any) -> pa.RecordBatch:
    """Return an Arrow batch with the types that Spark would give it."""
    return pa.record_batch({name: pa.array(values) for name, values in columns.items()})


def write(
    batches: pa.RecordBatch | Sequence[pa.RecordBatch],
    *,
    query: str | None = None,
    batch: int = 0,
    part: int = 0,
    attempt: int = 0,
    **options: object,
) -> WrittenPart:
    """Do what a task does with these rows; return what it tells the driver, as that gets it."""
    given = [batches] if isinstance(batches, pa.RecordBatch) else list(batches)
    options.setdefault("createTopics", "true")
    read = read_sink_options({name.lower(): str(value) for name, value in options.items()})
    columns = check_columns(from_arrow_schema(given[0].schema), topic=read.topic)
    place = WritePart(query or new_query(), batch, part, attempt)
    written = sent(write_part(sent(read), columns, place, iter(given)))
    assert isinstance(written, WrittenPart)
    return written


def messages_in(name_server: str, topic: str) -> list[ReceivedMessage]:
    """Return all messages of a topic, queue after queue."""
    found: list[ReceivedMessage] = []
    with PullConsumer("sink-readers", name_server) as consumer:
        for queue in consumer.queues(topic):
            offset = consumer.min_offset(queue)
            while (pulled := consumer.pull(queue, offset, count=1024)).status is PullStatus.FOUND:
                found += pulled.messages
                offset = pulled.next_offset
    return found


def bodies(messages: Iterable[ReceivedMessage]) -> list[str]:
    """Return the bodies as texts, sorted."""
    return sorted(message.body.decode() for message in messages)


def ids(messages: Iterable[ReceivedMessage]) -> list[str]:
    """Return the ids, sorted: one that comes twice is there twice."""
    return sorted(message.message_id for message in messages)
