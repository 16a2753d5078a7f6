"""A topic as a table on clusters: executors in processes of their own, brokers in another.

Once on `local-cluster`, whose workers are within the driver, and once on a master and two workers that are
started as an installation starts them. Run by `make test-spark-long`.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from sink_stage import bodies, ids, messages_in
from spark_clusters import (
    MEMORY_MB,
    PATIENCE_S,
    WORKERS,
    Brokers,
    cluster_session,
    executor_count,
    running_brokers,
    standalone_master,
)
from spark_stage import make_topic

from pyromq import Admin, Message, Producer, PullConsumer
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]

TASKS = 6


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with running_brokers(Path(tmp_path_factory.mktemp("brokers"))) as running:
        yield running


@pytest.fixture(scope="module", params=["local-cluster", "standalone"])
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = Path(tmp_path_factory.mktemp("spark"))
    if request.param == "local-cluster":
        with cluster_session(f"local-cluster[{WORKERS},1,{MEMORY_MB}]", folder) as session:
            yield session
    else:
        with standalone_master(folder) as master, cluster_session(master, folder) as session:
            yield session


@pytest.fixture
def topic(brokers: Brokers) -> str:
    name = f"topic-{uuid4().hex[:12]}"
    make_topic(brokers.name_server, name, 4)
    return name


def send(brokers: Brokers, topic: str, first: int, count: int) -> None:
    with Producer("cluster-story", brokers.name_server) as producer:
        for at in range(first, first + count, 50):
            numbers = range(at, min(at + 50, first + count))
            producer.send_batch([Message(topic, b"%d" % number, keys=[f"n{number}"]) for number in numbers])


def table(spark: SparkSession, brokers: Brokers, topic: str, **options: object) -> DataFrame:
    reader = spark.read.format("rocketmq").option("nameServer", brokers.name_server)
    return reader.options(subscribe=topic, **{name: str(value) for name, value in options.items()}).load()


def stream(spark: SparkSession, brokers: Brokers, topic: str, **options: object) -> DataFrame:
    reader = spark.readStream.format("rocketmq").option("nameServer", brokers.name_server)
    given = {name: str(value) for name, value in options.items()}
    return reader.options(subscribe=topic, startingOffsets="earliest", **given).load()


def run(rows: DataFrame, checkpoint: Path, kind: str, target: str | None = None, **options: str) -> list[int]:
    """Run a query until it has read what is there; return how many rows its batches had."""
    writing = rows.writeStream.format(kind).options(checkpointLocation=str(checkpoint), **options)
    query = writing.trigger(availableNow=True).start(target)
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def numbers_of(rows: DataFrame) -> list[int]:
    return sorted(int(row.body) for row in rows.selectExpr("cast(body as string) as body").collect())


def test_a_batch_read_is_shared_by_the_executors_and_has_each_message_once(
    spark: SparkSession, brokers: Brokers, topic: str
) -> None:
    send(brokers, topic, 0, 3_000)
    rows = table(spark, brokers, topic, minPartitions=TASKS)

    # An executor has one process that all its Python workers are children of.
    parent = udf(lambda _: os.getppid(), "bigint", useArrow=False)
    found = rows.select("body", parent("body").alias("executor")).collect()

    assert sorted(int(row.body) for row in found) == list(range(3_000))
    assert len({row.executor for row in found}) == WORKERS


def test_a_stream_reads_all_in_batches_goes_on_after_a_restart_and_has_no_lag(
    spark: SparkSession, brokers: Brokers, topic: str, tmp_path: Path
) -> None:
    target, checkpoint = tmp_path / "target", tmp_path / "checkpoint"
    options = {"maxMessagesPerTrigger": 400, "groupId": f"group-{topic}", "minPartitions": TASKS}
    send(brokers, topic, 0, 1_000)

    first = run(stream(spark, brokers, topic, **options), checkpoint, "parquet", str(target))
    send(brokers, topic, 1_000, 300)
    second = run(stream(spark, brokers, topic, **options), checkpoint, "parquet", str(target))

    assert (first, second) == ([400, 400, 200], [300])
    assert numbers_of(spark.read.parquet(str(target))) == list(range(1_300))
    with PullConsumer(f"group-{topic}", brokers.name_server) as consumer, Admin(brokers.name_server) as admin:
        lags = [admin.max_offset(one) - (consumer.committed(one) or 0) for one in consumer.queues(topic)]
    assert set(lags) == {0}


def test_a_batch_write_is_in_the_topic_once(spark: SparkSession, brokers: Brokers, topic: str) -> None:
    rows = spark.range(0, 2_000, 1, TASKS).selectExpr("cast(id as string) as body")

    rows.write.format("rocketmq").options(
        nameServer=brokers.name_server, topic=topic, createTopics="true"
    ).mode("append").save()

    assert numbers_of(table(spark, brokers, topic)) == list(range(2_000))


def test_a_query_whose_executor_is_killed_within_a_batch_writes_each_row_once(
    spark: SparkSession, brokers: Brokers, topic: str, tmp_path: Path
) -> None:
    source, killed = f"{topic}-source", tmp_path / "killed"
    make_topic(brokers.name_server, source, 4)
    send(brokers, source, 0, 3_000)

    def kill_once(body: bytes) -> bytes:
        # Not among the first: some rows are with the sink already.
        if int(body) % 700 == 699 and int(body) > 1_500 and not killed.exists():
            killed.touch()
            # The executor is the parent of its workers' parent.
            parent = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
            os.kill(int(parent), signal.SIGKILL)
        return body

    rows = stream(spark, brokers, source, maxMessagesPerTrigger=1_500, minPartitions=2)
    rows = rows.select(udf(kill_once, "binary", useArrow=False)("body").alias("body"))
    run(
        rows,
        tmp_path / "checkpoint",
        "rocketmq",
        nameServer=brokers.name_server,
        topic=topic,
        createTopics="true",
    )

    assert killed.exists()
    found = messages_in(brokers.name_server, topic)
    assert bodies(found) == sorted(str(number) for number in range(3_000))
    assert len(set(ids(found))) == 3_000
    eventually(lambda: executor_count(spark) == WORKERS, PATIENCE_S, what="another executor is there")


def test_tasks_of_an_executor_share_its_connections(
    spark: SparkSession, brokers: Brokers, topic: str
) -> None:
    send(brokers, topic, 0, 500)

    def read() -> None:
        assert table(spark, brokers, topic, minPartitions=4 * TASKS).count() == 500

    read()
    kept = brokers.peers()
    read()

    assert kept
    eventually(lambda: brokers.peers() == kept, PATIENCE_S, what="the same connections as before")
