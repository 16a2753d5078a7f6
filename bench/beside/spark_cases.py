"""The reads and writes that are timed side by side, all on one Spark."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

from pyromq import Admin
from pyromq.errors import NoRoute
from pyromq.testing.waiting import eventually
from pyspark_rocketmq.data_source import RocketMQSource
from pyspark_rocketmq.source.columns import table_schema
from pyspark_rocketmq.source.source_options import ColumnSet

TOPIC, QUEUES, CORES = "orders", 8, 2
PREBUILT_ROWS = 10_000

#: The rows that are written, and then read: a body of 200 bytes, a tag, a key and two properties.
ROWS = """
    cast(concat(lpad(cast(id as string), 20, '0'), repeat('x', 180)) as binary) as body,
    element_at(array('paid', 'shipped', 'returned'), cast(id % 3 as int) + 1) as tags,
    concat('order-', cast(id as string)) as keys,
    map('region', element_at(array('north', 'east', 'south', 'west'), cast(id % 4 as int) + 1),
        'amount', cast(id % 1000 as string)) as properties
"""
#: The same for Kafka, which has no tags: a header more.
KAFKA_ROWS = """
    cast(keys as binary) as key, body as value,
    transform(map_entries(map_concat(properties, map('tags', tags))),
              one -> named_struct('key', one.key, 'value', cast(one.value as binary))) as headers
"""


@dataclass(frozen=True)
class Goal:
    """What a case is to reach, as a part of what another one did in the same run."""

    of: str
    part: float


@dataclass(frozen=True)
class Case:
    """Something that is timed."""

    key: str
    title: str
    run: Callable[[], None]
    goals: tuple[Goal, ...] = ()


@dataclass
class Stage:
    """All that takes part."""

    spark: SparkSession
    name_server: str
    kafka: str
    folder: Path
    rows: int
    table: DataFrame
    """The rows that are written, in Spark's memory."""
    kafka_table: DataFrame

    def ours(self, **options: str) -> DataFrame:
        """Return our topic."""
        reader = self.spark.read.format("rocketmq").option("nameServer", self.name_server)
        return reader.option("subscribe", TOPIC).options(**options).load()

    def ours_without_properties(self) -> DataFrame:
        """Return our topic, without the column that costs most."""
        reader = self.spark.read.format("rocketmq").option("nameServer", self.name_server)
        schema = table_schema(ColumnSet.ROCKETMQ, with_properties=False)
        return reader.option("subscribe", TOPIC).schema(schema).load()

    def prebuilt(self, *, with_properties: bool = True, **options: str) -> DataFrame:
        """Return rows that are there already."""
        schema = table_schema(ColumnSet.ROCKETMQ, with_properties=with_properties)
        reader = self.spark.read.format("prebuilt").schema(schema).options(**options)
        return reader.options(file=str(self.folder / "batch.arrow"), rows=self.rows, tasks=CORES).load()

    def from_kafka(self, **options: str) -> DataFrame:
        """Return Kafka's topic."""
        reader = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self.kafka)
        return reader.options(subscribe=TOPIC, startingOffsets="earliest", **options).load()

    def write_ours(self, topic: str, delivery: str) -> None:
        """Write the table to a topic of ours."""
        writer = self.table.write.format("rocketmq").mode("append")
        writer.options(nameServer=self.name_server, topic=topic, delivery=delivery).save()

    def create_ours(self, topic: str) -> None:
        """Create a topic of ours, and wait until clients find it."""
        with Admin(self.name_server) as admin:
            admin.create_topic(topic, QUEUES)
            eventually(lambda: _is_known(admin, topic), 60, what=f"{topic} is known")

    def write_kafka(self, topic: str) -> None:
        """Write the table to a topic of Kafka's."""
        writer = self.kafka_table.write.format("kafka").mode("append")
        writer.options(**{"kafka.bootstrap.servers": self.kafka, "topic": topic}).save()

    def save_batch(self) -> None:
        """Keep some rows of our topic as the batch that is there beforehand."""
        source = RocketMQSource(CaseInsensitiveDict(nameserver=self.name_server, subscribe=TOPIC))
        reader = source.reader(source.schema())
        table = pa.Table.from_batches(reader.read(next(iter(reader.partitions()))))
        batch = table.slice(0, PREBUILT_ROWS).combine_chunks().to_batches()[0]
        path = str(self.folder / "batch.arrow")
        with pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, batch.schema) as out:
            out.write_batch(batch)


def _is_known(admin: Admin, topic: str) -> bool:
    try:
        admin.route(topic)
    except NoRoute:
        return False
    return True


def drain(rows: DataFrame) -> None:
    """Have all rows made, and drop them."""
    rows.write.format("noop").mode("overwrite").save()


def cases_of(stage: Stage) -> list[Case]:
    """Return what is measured."""
    return [
        Case("arrow", "read: pre-built Arrow batches", lambda: drain(stage.prebuilt())),
        Case("tuples", "read: pre-built tuples", lambda: drain(stage.prebuilt(tuples="yes"))),
        Case(
            "ours",
            "read: **PyroMQ**, all columns",
            lambda: drain(stage.ours()),
            (Goal("arrow", 0.7), Goal("kafka", 1.0)),
        ),
        Case(
            "arrow-slim",
            "read: pre-built Arrow batches, without properties",
            lambda: drain(stage.prebuilt(with_properties=False)),
        ),
        Case(
            "ours-slim",
            "read: **PyroMQ**, without properties",
            lambda: drain(stage.ours_without_properties()),
            (Goal("arrow-slim", 0.7), Goal("kafka-slim", 1.0)),
        ),
        Case(
            "ours-kafka",
            "read: **PyroMQ**, Kafka's columns",
            lambda: drain(stage.ours(schema="kafka")),
            (Goal("kafka", 1.0),),
        ),
        Case(
            "kafka",
            "read: Kafka connector, with headers",
            lambda: drain(stage.from_kafka(includeHeaders="true")),
        ),
        Case("kafka-slim", "read: Kafka connector, without headers", lambda: drain(stage.from_kafka())),
        Case(
            "dropped",
            "write: Arrow batches that are dropped",
            lambda: stage.table.write.format("prebuilt").mode("append").save(),
        ),
        Case(
            "exactly-once",
            "write: **PyroMQ**, exactly once",
            lambda: stage.write_ours("exactly", "exactly-once"),
            (Goal("dropped", 0.5), Goal("kafka-write", 1.0)),
        ),
        Case(
            "at-least-once",
            "write: **PyroMQ**, at least once",
            lambda: stage.write_ours("least", "at-least-once"),
            (Goal("dropped", 0.5), Goal("kafka-write", 1.0)),
        ),
        Case(
            "kafka-write",
            "write: Kafka connector (at least once)",
            lambda: stage.write_kafka("written"),
        ),
    ]
