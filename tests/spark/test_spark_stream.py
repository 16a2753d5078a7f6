"""A topic read as a stream, by a real Spark in local mode."""

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyromq import Admin, Message, Producer, PullConsumer


def send(name_server: str, topic: str, first: int, count: int) -> None:
    with Producer("spark-stream", name_server) as producer:
        for number in range(first, first + count):
            tags = "even" if number % 2 == 0 else "odd"
            producer.send(Message(topic, b"%d" % number, tags=tags, keys=[f"n{number}"]))


def read(spark: SparkSession, name_server: str, topic: str, **options: object) -> DataFrame:
    reader = spark.readStream.format("rocketmq").option("nameServer", name_server)
    for name, value in {"subscribe": topic, "startingOffsets": "earliest", **options}.items():
        reader = reader.option(name, str(value))
    return reader.load()


def run(stream: DataFrame, target: Path, checkpoint: str) -> list[int]:
    """Run a query until it has read what is there, and return the rows of its batches."""
    query = (
        stream.selectExpr("cast(body as string) as body", "keys", "queue_id", "queue_offset")
        .writeStream.format("parquet")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(str(target))
    )
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress]


def test_available_now_reads_all_in_batches_once_and_the_lag_is_zero(
    spark: SparkSession, name_server: str, topic: str, tmp_path: Path, checkpoint: str
) -> None:
    target = tmp_path / "target"
    options = {"maxMessagesPerTrigger": 40, "groupId": f"group-{topic}"}
    send(name_server, topic, 0, 100)

    batches = run(read(spark, name_server, topic, **options), target, checkpoint)
    send(name_server, topic, 100, 30)
    run(read(spark, name_server, topic, **options), target, checkpoint)

    assert [rows for rows in batches if rows] == [40, 40, 20]
    found = spark.read.parquet(str(target)).collect()
    assert sorted(int(row.body) for row in found) == list(range(130))
    assert all(row["keys"] == f"n{row.body}" for row in found)
    with PullConsumer(f"group-{topic}", name_server) as consumer, Admin(name_server) as admin:
        lags = [admin.max_offset(one) - (consumer.committed(one) or 0) for one in consumer.queues(topic)]
    assert set(lags) == {0}


def test_a_query_that_runs_gets_new_messages_and_shows_the_end_of_the_queues(
    spark: SparkSession, name_server: str, topic: str, checkpoint: str
) -> None:
    send(name_server, topic, 0, 10)
    query = (
        read(spark, name_server, topic, tags="even")
        .writeStream.format("memory")
        .queryName(topic.replace("-", "_"))
        .option("checkpointLocation", checkpoint)
        .start()
    )
    try:
        query.processAllAvailable()
        send(name_server, topic, 10, 10)
        query.processAllAvailable()
        progress = query.lastProgress
        assert progress is not None
        latest = json.loads(progress["sources"][0]["latestOffset"])
    finally:
        query.stop()

    rows = spark.table(topic.replace("-", "_")).collect()
    assert sorted(int(row.body) for row in rows) == list(range(0, 20, 2))
    assert sum(latest["q"].values()) == 20


def test_a_stream_of_a_topic_that_does_not_exist_says_so(
    spark: SparkSession, name_server: str, tmp_path: Path, checkpoint: str
) -> None:
    with pytest.raises(PySparkException, match=r"subscribe: topic 'nowhere' does not exist"):
        run(read(spark, name_server, "nowhere"), tmp_path / "target", checkpoint)
