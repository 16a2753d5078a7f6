"""Options that choose messages mean the same for a stream as for a batch; a broker that dies in a read."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip("pyspark")

from spark_stage import Query, make_topic, numbers, read_batch, send_numbers, source, tasks_of

from pyromq import Message, Producer, PullConsumer
from pyromq.testing.cluster import running_cluster
from pyspark_rocketmq.failures import ReadFailed
from pyspark_rocketmq.source import source_reading, stream


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = Path(tmp_path_factory.mktemp("spark"))
    with running_cluster(data_dir=folder, enable_property_filter=True) as cluster:
        yield cluster.namesrv_address


@pytest.fixture
def topic(name_server: str) -> str:
    name = f"t-{uuid4().hex[:10]}"
    make_topic(name_server, name, queue_count=2)
    return name


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "WAIT_S", 0.05)


def send_marked(name_server: str, topic: str, first: int, count: int) -> None:
    """Send numbers with a tag and a property that say whether they are even."""
    with Producer("marked", name_server) as producer:
        for number in range(first, first + count):
            kind = "even" if number % 2 == 0 else "odd"
            message = Message(topic, b"%d" % number, tags=kind)
            message.properties["kind"] = kind
            producer.send(message)


@pytest.mark.parametrize("chosen", [{"tags": "even"}, {"sql": "kind = 'even'"}], ids=["tags", "sql"])
def test_brokers_filter_a_stream_by_tags_and_by_sql(
    name_server: str, topic: str, chosen: dict[str, str]
) -> None:
    options = {"nameServer": name_server, "subscribe": topic, "startingOffsets": "earliest", **chosen}
    send_marked(name_server, topic, 0, 10)
    with Query(**options) as query:
        first = query.batch()
        send_marked(name_server, topic, 10, 6)
        second = query.batch()

    assert (numbers(first), numbers(second)) == ([0, 2, 4, 6, 8], [10, 12, 14])


@pytest.mark.parametrize("kind", ["dlq", "retry"])
def test_dead_letters_and_retries_of_a_group_are_streams(name_server: str, kind: str) -> None:
    group = f"group-{uuid4().hex[:8]}"
    make_topic(name_server, f"%{kind.upper()}%{group}", queue_count=1)
    with Query(nameServer=name_server, startingOffsets="earliest", **{kind: group}) as query:
        query.batch()
        send_numbers(name_server, f"%{kind.upper()}%{group}", 0, 3)
        rows = query.batch()

    assert numbers(rows) == [0, 1, 2]


def test_a_stream_starts_at_offsets_given_as_json(name_server: str, topic: str) -> None:
    send_numbers(name_server, topic, 0, 10)
    starts = json.dumps({topic: {"broker-a": {"0": -1, "1": 2}}})
    with Query(nameServer=name_server, subscribe=topic, startingOffsets=starts) as query:
        rows = query.batch()

    assert {row["queue_id"] for row in rows} == {1}
    assert sorted(row["queue_offset"] for row in rows) == [2, 3, 4]


def test_a_stream_starts_where_a_group_was(name_server: str, topic: str) -> None:
    send_numbers(name_server, topic, 0, 10)
    group = f"group-{uuid4().hex[:8]}"
    with PullConsumer(group, name_server) as consumer:
        for queue in consumer.queues(topic):
            consumer.pull(queue, 0)
            consumer.commit(queue, 4)
    with Query(nameServer=name_server, subscribe=topic, startingOffsets="group", groupId=group) as query:
        rows = query.batch()

    assert sorted(row["queue_offset"] for row in rows) == [4, 4]


def test_a_stream_starts_at_a_time(name_server: str, topic: str) -> None:
    send_numbers(name_server, topic, 0, 4)
    before = read_batch(nameServer=name_server, subscribe=topic)
    starts_ms = int(max(row["store_timestamp"] for row in before).timestamp() * 1_000) + 1
    while int(_last_stored(name_server, topic) * 1_000) < starts_ms:
        send_numbers(name_server, topic, 100, 1)
    with Query(nameServer=name_server, subscribe=topic, startingTimestamp=starts_ms) as query:
        rows = query.batch()

    assert rows
    assert all(row["store_timestamp"].timestamp() * 1_000 >= starts_ms for row in rows)


def _last_stored(name_server: str, topic: str) -> float:
    return float(
        max(row["store_timestamp"].timestamp() for row in read_batch(nameServer=name_server, subscribe=topic))
    )


def test_a_stream_has_kafka_s_columns_and_chosen_ones(name_server: str, topic: str) -> None:
    options = {"nameServer": name_server, "subscribe": topic, "startingOffsets": "earliest"}
    send_numbers(name_server, topic, 0, 2, keys=["k"], tags="t")
    with Query(**options, schema="kafka") as query:
        kafka = query.batch()
    with Query("keys string, queue_id int", None, **options) as query:
        chosen = query.batch()

    assert sorted(row["value"] for row in kafka) == [b"0", b"1"]
    assert {row["key"] for row in kafka} == {b"k"}
    assert set(kafka[0]) == {
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    }
    assert [set(row) for row in chosen] == [{"keys", "queue_id"}] * 2


def test_no_more_tasks_are_made_than_may_be(name_server: str, topic: str) -> None:
    send_numbers(name_server, topic, 0, 30)
    for count in (1, 2):
        made = source(nameServer=name_server, subscribe=topic, minPartitions=1, maxPartitions=count)
        assert 1 <= len(tasks_of(made.reader(made.schema()))) <= count


def test_a_broker_that_dies_in_the_middle_of_a_read_is_waited_for_and_nothing_is_lost_or_doubled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Many small pulls, and a batch for each: the first rows are out when the broker goes.
    monkeypatch.setattr(source_reading, "PULL_COUNT", 8)
    monkeypatch.setattr(source_reading, "AHEAD_MAX", 1)
    monkeypatch.setattr("pyspark_rocketmq.source.gathering.BATCH_ROWS", 8)
    with running_cluster(data_dir=tmp_path) as cluster:
        make_topic(cluster.namesrv_address, "dies", queue_count=1)
        send_numbers(cluster.namesrv_address, "dies", 0, 100)
        made = source(nameServer=cluster.namesrv_address, subscribe="dies", retries=1_000, retryIntervalMs=50)
        reader = made.reader(made.schema())
        (task,) = tasks_of(reader)
        batches = reader.read(task)
        rows = next(batches).to_pylist()
        cluster.stop_broker("broker-a")
        starting = threading.Timer(0.5, cluster.start_broker, ("broker-a",))
        starting.start()
        rows += [row for batch in batches for row in batch.to_pylist()]
        starting.join()

    assert [int(row["body"]) for row in rows] == list(range(100))


def test_a_broker_that_stays_away_in_the_middle_of_a_read_is_named_with_topic_queue_and_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_reading, "PULL_COUNT", 8)
    monkeypatch.setattr(source_reading, "AHEAD_MAX", 1)
    monkeypatch.setattr("pyspark_rocketmq.source.gathering.BATCH_ROWS", 8)
    with running_cluster(data_dir=tmp_path) as cluster:
        make_topic(cluster.namesrv_address, "gone", queue_count=1)
        send_numbers(cluster.namesrv_address, "gone", 0, 50)
        made = source(nameServer=cluster.namesrv_address, subscribe="gone", retries=2, retryIntervalMs=10)
        reader = made.reader(made.schema())
        (task,) = tasks_of(reader)
        batches = reader.read(task)
        next(batches)
        cluster.stop_broker("broker-a")

        with pytest.raises(ReadFailed, match=r"topic 'gone', queue 0 of broker-a, offset 8") as failed:
            list(batches)

    assert "retries" in str(failed.value).splitlines()[0]
