"""Readers and streams of the Spark source without Spark: made by the source, and sent as Spark sends them."""

import json
import pickle
from collections.abc import Iterator
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyromq import Admin, Message, Producer
from pyspark_rocketmq.data_source import RocketMQSource

Row = dict[str, Any]
#: Only a JVM reads all of Spark's words for types.
KINDS: dict[str, DataType] = {
    "binary": BinaryType(),
    "bigint": LongType(),
    "int": IntegerType(),
    "string": StringType(),
    "timestamp": TimestampType(),
}


def source(**options: object) -> RocketMQSource:
    """Return the source as Spark makes it, with the names of options in lower case."""
    texts = {name.lower(): str(value) for name, value in options.items()}
    return RocketMQSource(CaseInsensitiveDict(texts))


def columns_of(made: RocketMQSource, schema: str | None) -> StructType:
    """Return the schema that was asked for, or the source's own."""
    if schema is None:
        return made.schema()
    asked = [part.split() for part in schema.split(",")]
    return StructType([StructField(name, KINDS[kind]) for name, kind in asked])


def sent(thing: Any) -> Any:
    """Return a thing as it arrives in another process."""
    return pickle.loads(cloudpickle.dumps(thing))


def tasks_of(reader: DataSourceReader) -> list[Any]:
    """Return the tasks of a batch read."""
    return [sent(task) for task in reader.partitions()]


def read_batch(schema: str | None = None, /, **options: object) -> list[Row]:
    """Return all rows of a batch read."""
    made = source(**options)
    reader = made.reader(columns_of(made, schema))
    return list(rows_of(reader, tasks_of(reader)))


def rows_of(reader: DataSourceReader | DataSourceStreamReader, tasks: list[Any]) -> Iterator[Row]:
    """Yield what an executor reads for these tasks."""
    executor = sent(reader)
    for task in tasks:
        for batch in executor.read(task):
            batch.validate(full=True)
            yield from batch.to_pylist()


class Query:
    """A query on a stream: each `batch` does what Spark does for one, through JSON as in a checkpoint."""

    def __init__(self, schema: str | None = None, start: str | None = None, /, **options: object) -> None:
        made = source(**options)
        self.reader = made.streamReader(columns_of(made, schema))
        self._executor = sent(made.streamReader(columns_of(made, schema)))
        self.at = start

    def batch(self, limit: ReadLimit | None = None) -> list[Row]:
        """Return the rows of the next batch; none when there is nothing new."""
        if self.at is None:
            self.at = json.dumps(self.reader.initialOffset())
        limit = limit or self.reader.getDefaultReadLimit()
        end = json.dumps(self.reader.latestOffset(json.loads(self.at), limit))
        if end == self.at:
            return []
        tasks = [sent(one) for one in self.reader.partitions(json.loads(self.at), json.loads(end))]
        rows: list[Row] = []
        for task in tasks:
            for made in self._executor.read(task):
                rows += made.to_pylist()
        self.at = end
        return rows

    def stop(self) -> None:
        """End it."""
        self.reader.stop()

    def __enter__(self) -> "Query":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def send_numbers(name_server: str, topic: str, first: int, count: int, **fields: Any) -> None:
    """Send messages whose bodies are numbers."""
    with Producer("numbers", name_server) as producer:
        for number in range(first, first + count):
            producer.send(Message(topic, str(number).encode(), **fields))


def make_topic(name_server: str, topic: str, queue_count: int = 4) -> None:
    """Create a topic."""
    with Admin(name_server) as admin:
        admin.create_topic(topic, queue_count)


def numbers(rows: list[Row], column: str = "body") -> list[int]:
    """Return the numbers that were sent, sorted."""
    return sorted(int(row[column]) for row in rows)


__all__ = [
    "Query",
    "Row",
    "columns_of",
    "make_topic",
    "numbers",
    "read_batch",
    "rows_of",
    "send_numbers",
    "sent",
    "source",
    "tasks_of",
]
