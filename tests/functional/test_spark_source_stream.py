"""A stream of a topic, without Spark: offsets, limits, progress, and what happens when a topic changes."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from spark_stage import Query, make_topic, numbers, send_numbers

from pyromq import Admin, Message, Producer, PullConsumer
from pyromq.errors import ConfigError
from pyromq.model import MessageQueue
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyspark_rocketmq.failures import MessagesLost, ReadFailed
from pyspark_rocketmq.source import stream


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadCluster]:
    with running_cluster(brokers=2, data_dir=Path(tmp_path_factory.mktemp("spark"))) as running:
        yield running


@pytest.fixture
def name_server(cluster: ThreadCluster) -> str:
    return cluster.namesrv_address


@pytest.fixture
def topic(name_server: str) -> str:
    name = f"t-{uuid4().hex[:10]}"
    make_topic(name_server, name, queue_count=2)
    return name


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "WAIT_S", 0.05)


def recreate(cluster: ThreadCluster, topic: str, queue_count: int = 2) -> None:
    """Do to the brokers what deleting a topic and creating it again does: its queues begin anew."""

    async def forget() -> None:
        for broker in cluster._cluster.brokers.values():
            broker.store.delete_topic(topic)

    cluster._wait_for(forget())
    make_topic(cluster.namesrv_address, topic, queue_count)


def test_a_stream_begins_at_the_end_and_reads_what_comes_each_once(name_server: str, topic: str) -> None:
    send_numbers(name_server, topic, 0, 5)
    with Query(nameServer=name_server, subscribe=topic) as query:
        assert query.batch() == []
        send_numbers(name_server, topic, 5, 10)
        assert numbers(query.batch()) == list(range(5, 15))
        assert query.batch() == []


def test_the_first_offset_stays_when_it_is_asked_twice(name_server: str, topic: str) -> None:
    with Query(nameServer=name_server, subscribe=topic) as query:
        first = query.reader.initialOffset()
        send_numbers(name_server, topic, 0, 3)
        assert query.reader.initialOffset() == first


def test_offsets_are_canonical_text(name_server: str, topic: str) -> None:
    with Query(nameServer=name_server, subscribe=topic, startingOffsets="earliest") as query:
        send_numbers(name_server, topic, 0, 8)
        query.batch()
        assert query.at is not None
        kept = json.loads(query.at)

        assert kept["v"] == 1
        assert kept["inc"] == {}
        assert kept["q"] == {f"{topic}/broker-{name}/{queue}": 2 for name in "ab" for queue in (0, 1)}
        assert list(kept["q"]) == sorted(kept["q"])
        assert kept["at"].keys() == kept["q"].keys()
        assert json.dumps(query.reader.latestOffset(kept, ReadAllAvailable())) == query.at


def test_a_stream_goes_on_in_another_process_where_it_was(name_server: str, topic: str) -> None:
    options = {"nameServer": name_server, "subscribe": topic, "startingOffsets": "earliest"}
    send_numbers(name_server, topic, 0, 10)
    with Query(**options) as query:
        assert numbers(query.batch()) == list(range(10))
    send_numbers(name_server, topic, 10, 10)

    with Query(None, query.at, **options) as again:
        assert numbers(again.batch()) == list(range(10, 20))


def test_a_batch_that_is_run_again_is_split_in_the_same_way(name_server: str, topic: str) -> None:
    options = {
        "nameServer": name_server,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "minPartitions": 3,
    }
    send_numbers(name_server, topic, 0, 20)
    with Query(**options) as query:
        start = query.reader.initialOffset()
        end = query.reader.latestOffset(start, ReadAllAvailable())
        tasks = query.reader.partitions(start, end)
        send_numbers(name_server, topic, 20, 20)

        assert len(tasks) == 3
        assert query.reader.partitions(start, end) == tasks
        with Query(**options) as other:
            assert other.reader.partitions(start, end) == tasks


def test_a_limit_is_shared_by_backlog_and_every_queue_moves(name_server: str, topic: str) -> None:
    with Producer("skewed", name_server) as producer:
        queues = [MessageQueue(topic, "broker-a", queue) for queue in (0, 1)]
        for number in range(90):
            producer.send(Message(topic, b"%d" % number), queue=queues[0])
        for number in range(90, 100):
            producer.send(Message(topic, b"%d" % number), queue=queues[1])
    options = {"nameServer": name_server, "subscribe": topic, "startingOffsets": "earliest"}

    with Query(**options, maxOffsetsPerTrigger=20) as query:
        assert query.reader.getDefaultReadLimit() == ReadMaxRows(20)
        batches = [query.batch() for _ in range(6)]
        assert [len(batch) for batch in batches] == [20, 20, 20, 20, 20, 0]
        assert numbers([row for batch in batches for row in batch]) == list(range(100))
        assert {row["queue_id"] for row in batches[0]} == {0, 1}
    with Query(**options, maxMessagesPerTrigger=20) as query:
        assert len(query.batch(ReadAllAvailable())) == 100


def test_bytes_limit_a_batch_too(name_server: str, topic: str) -> None:
    send_numbers(name_server, topic, 0, 4)
    with Producer("big", name_server) as producer:
        for number in range(4, 44):
            producer.send(Message(topic, b"%04d" % number + b" " * 2_000))
    options = {"nameServer": name_server, "subscribe": topic, "startingOffsets": "earliest"}

    with Query(**options, maxBytesPerTrigger="20k") as query:
        batches = []
        while batch := query.batch():
            batches.append(batch)
    assert numbers([row for batch in batches for row in batch]) == list(range(44))
    assert len(batches) >= 3
    assert max(len(batch) for batch in batches) < 25


def test_a_batch_waits_for_enough_messages_but_not_for_ever(
    name_server: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"nameServer": name_server, "subscribe": topic, "startingOffsets": "earliest"}
    with Query(**options, minMessagesPerTrigger=10, maxTriggerDelay="1h") as query:
        send_numbers(name_server, topic, 0, 4)
        assert query.batch() == []
        send_numbers(name_server, topic, 4, 6)
        assert len(query.batch()) == 10
    with Query(None, query.at, **options, minMessagesPerTrigger=10, maxTriggerDelay="1ms") as query:
        send_numbers(name_server, topic, 10, 1)
        assert numbers(query.batch()) == [10]


def test_available_now_ends_where_the_topic_ended_when_it_began(name_server: str, topic: str) -> None:
    send_numbers(name_server, topic, 0, 30)
    options = {"nameServer": name_server, "subscribe": topic, "startingOffsets": "earliest"}
    with Query(**options, maxMessagesPerTrigger=12, minMessagesPerTrigger=11) as query:
        query.reader.prepareForTriggerAvailableNow()
        send_numbers(name_server, topic, 30, 10)
        make_topic(name_server, topic, queue_count=4)
        sizes = [len(query.batch()) for _ in range(4)]
    assert sizes == [12, 12, 6, 0]


def test_a_message_ends_the_wait_at_once(
    name_server: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "WAIT_S", 30.0)
    with Query(nameServer=name_server, subscribe=topic) as query:
        query.reader.initialOffset()
        threading.Timer(0.2, send_numbers, (name_server, topic, 0, 1)).start()
        began = time.monotonic()

        assert numbers(query.batch()) == [0]
        assert time.monotonic() - began < 25


def test_the_group_s_lag_reaches_zero(name_server: str, topic: str) -> None:
    group = f"g-{uuid4().hex[:8]}"
    send_numbers(name_server, topic, 0, 12)
    with Query(nameServer=name_server, subscribe=topic, startingOffsets="earliest", groupId=group) as query:
        assert len(query.batch()) == 12
        # Spark asks once more when the last batch is safe.
        assert query.batch() == []

    with PullConsumer(group, name_server) as consumer, Admin(name_server) as admin:
        queues = consumer.queues(topic)
        assert [consumer.committed(queue) for queue in queues] == [
            admin.max_offset(queue) for queue in queues
        ]
        assert admin.route(f"%RETRY%{group}").queue_datas
    with Query(nameServer=name_server, subscribe=topic, startingOffsets="group", groupId=group) as again:
        assert again.batch() == []


def test_new_queues_are_read_from_their_beginning(
    name_server: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "LOOK_S", 0.0)
    with Query(nameServer=name_server, subscribe=topic) as query:
        assert query.batch() == []
        make_topic(name_server, topic, queue_count=4)
        with Producer("new-queues", name_server) as producer:
            for number in range(3):
                producer.send(Message(topic, b"%d" % number), queue=MessageQueue(topic, "broker-b", 3))

        assert numbers(query.batch()) == [0, 1, 2]
        assert query.batch() == []


def test_new_topics_of_a_pattern_are_read(name_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LOOK_S", 0.0)
    name = f"p{uuid4().hex[:8]}"
    make_topic(name_server, f"{name}-one", queue_count=1)
    with Query(nameServer=name_server, subscribePattern=f"{name}-.*") as query:
        assert query.batch() == []
        make_topic(name_server, f"{name}-two", queue_count=1)
        send_numbers(name_server, f"{name}-two", 0, 2)

        assert {row["topic"] for row in query.batch()} == {f"{name}-two"}


@pytest.mark.parametrize("count", [3, 30])
def test_a_topic_that_was_created_again_is_noticed(
    cluster: ThreadCluster, name_server: str, topic: str, count: int
) -> None:
    """With fewer messages than were read, and with more."""
    options = {"nameServer": name_server, "subscribe": topic, "startingOffsets": "earliest", "retries": 0}
    send_numbers(name_server, topic, 0, 12)
    with Query(**options) as query:
        assert len(query.batch()) == 12
        recreate(cluster, topic)
        send_numbers(name_server, topic, 100, count)

        with pytest.raises(
            MessagesLost, match=r"^failOnDataLoss: topic .*, queue \d of broker-.*created again"
        ):
            query.batch()
    with Query(None, query.at, **options, failOnDataLoss="report") as going_on:
        assert numbers(going_on.batch()) == list(range(100, 100 + count))
        assert going_on.batch() == []
        assert json.loads(str(going_on.at))["inc"]
        send_numbers(name_server, topic, 500, 8)
        assert numbers(going_on.batch()) == list(range(500, 508))


def test_a_batch_of_an_older_incarnation_is_not_filled_with_new_messages(
    cluster: ThreadCluster, name_server: str, topic: str
) -> None:
    send_numbers(name_server, topic, 0, 12)
    with Query(nameServer=name_server, subscribe=topic, startingOffsets="earliest", retries=0) as query:
        start = query.reader.initialOffset()
        end = query.reader.latestOffset(start, ReadAllAvailable())
        recreate(cluster, topic)
        send_numbers(name_server, topic, 100, 20)

        (task,) = query.reader.partitions(start, end)
        with pytest.raises(MessagesLost, match="created again"):
            list(query.reader.read(task))


def test_messages_that_expired_are_a_loss_a_report_or_nothing(name_server: str, topic: str) -> None:
    send_numbers(name_server, topic, 0, 12)
    queue = f"{topic}/broker-a/0"
    options = {"nameServer": name_server, "assign": json.dumps({topic: {"broker-a": [0]}}), "retries": 0}
    # As if a message -5 had been next: what is before the first is what expired.
    before = json.dumps({"v": 1, "inc": {}, "at": {}, "q": {queue: -5}})

    with (
        Query(None, before, **options) as query,
        pytest.raises(MessagesLost, match="offset -5: the first message"),
    ):
        query.batch()
    with Query(None, before, **options, failOnDataLoss="report") as query:
        assert len(query.batch()) == 3
        report = query.reader.reportLatestOffset()
        assert report is not None
        assert report["lost"] == {queue: [(-5, 0)]}
        assert report["q"] == {queue: 3}
    with Query(None, before, **options, failOnDataLoss="false") as query:
        assert len(query.batch()) == 3
        assert "lost" not in (query.reader.reportLatestOffset() or {})


def test_a_broker_that_restarts_is_waited_for(tmp_path: Path) -> None:
    with running_cluster(data_dir=tmp_path) as cluster:
        options = {
            "nameServer": cluster.namesrv_address,
            "subscribe": "restart",
            "startingOffsets": "earliest",
        }
        send_numbers(cluster.namesrv_address, "restart", 0, 6)
        with Query(**options, retries=1_000, retryIntervalMs=50) as query:
            start = query.reader.initialOffset()
            end = query.reader.latestOffset(start, ReadAllAvailable())
            tasks = query.reader.partitions(start, end)
            cluster.stop_broker("broker-a")
            starting = threading.Timer(0.5, cluster.start_broker, ("broker-a",))
            starting.start()

            rows = [row for task in tasks for batch in query.reader.read(task) for row in batch.to_pylist()]
            assert numbers(rows) == list(range(6))
            assert query.reader.latestOffset(end, ReadAllAvailable()) == end
            starting.join()


def test_one_of_two_brokers_that_is_away_holds_up_only_its_own_queues(tmp_path: Path) -> None:
    with running_cluster(brokers=2, data_dir=tmp_path) as cluster:
        name_server = cluster.namesrv_address
        make_topic(name_server, "both", queue_count=1)
        options = {
            "nameServer": name_server,
            "subscribe": "both",
            "startingOffsets": "earliest",
        }
        with Query(**options, retries=50, retryIntervalMs=100) as query:
            query.batch()
            cluster.stop_broker("broker-b")
            with Producer("one", name_server) as producer:
                producer.send(Message("both", b"1"), queue=MessageQueue("both", "broker-a", 0))

            assert numbers(query.batch()) == [1]
            cluster.start_broker("broker-b")
            with Producer("two", name_server) as producer:
                producer.send(Message("both", b"2"), queue=MessageQueue("both", "broker-b", 0))
            assert numbers(query.batch()) == [2]


def test_a_checkpoint_of_another_source_is_refused(name_server: str, topic: str) -> None:
    kept = json.dumps({"orders": {"0": 1}})
    with (
        Query(None, kept, nameServer=name_server, subscribe=topic) as query,
        pytest.raises(ConfigError, match="checkpoint of its own"),
    ):
        query.batch()


def test_a_topic_that_does_not_exist_is_named(name_server: str) -> None:
    with (
        Query(nameServer=name_server, subscribe="nowhere") as query,
        pytest.raises(ReadFailed, match=r"^subscribe: topic 'nowhere' does not exist"),
    ):
        query.batch()


def test_a_query_starts_while_its_broker_restarts(tmp_path: Path) -> None:
    with running_cluster(data_dir=tmp_path) as cluster:
        name_server = cluster.namesrv_address
        options = {"nameServer": name_server, "subscribe": "restart", "startingOffsets": "earliest"}
        send_numbers(name_server, "restart", 0, 6)
        with Query(**options) as query:
            assert len(query.batch()) == 6
        send_numbers(name_server, "restart", 6, 2)
        cluster.stop_broker("broker-a")
        starting = threading.Timer(0.5, cluster.start_broker, ("broker-a",))
        starting.start()

        with Query(None, query.at, **options, retries=1_000, retryIntervalMs=50) as again:
            again.reader.prepareForTriggerAvailableNow()
            assert numbers(again.batch()) == [6, 7]
        starting.join()


def test_a_topic_that_goes_away_while_it_is_read_is_an_error_in_the_end(
    cluster: ThreadCluster, name_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "LOOK_S", 0.0)
    with running_cluster() as other:
        make_topic(other.namesrv_address, "going", queue_count=1)
        with Query(
            nameServer=other.namesrv_address, subscribe="going", retries=1, retryIntervalMs=10
        ) as query:
            assert query.batch() == []
            other.stop_broker("broker-a")
            with pytest.raises(ReadFailed, match="going"):
                query.batch()


def test_two_queries_that_share_a_group_are_told_once(
    name_server: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    group = f"g-{uuid4().hex[:8]}"
    options = {"nameServer": name_server, "subscribe": topic, "startingOffsets": "earliest", "groupId": group}
    with Query(**options) as one, Query(**options) as other:
        for first in (0, 10, 20, 30):
            send_numbers(name_server, topic, first, 10)
            assert len(one.batch()) == 10
            assert len(other.batch()) == 10

    told = [record.message for record in caplog.records if "is used by another query" in record.message]
    assert 1 <= len(told) <= 2
    assert group in told[0]


def test_a_query_that_has_its_group_alone_is_told_nothing(
    name_server: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    group = f"g-{uuid4().hex[:8]}"
    with Query(nameServer=name_server, subscribe=topic, startingOffsets="earliest", groupId=group) as query:
        for first in (0, 10, 20):
            send_numbers(name_server, topic, first, 10)
            assert len(query.batch()) == 10

    # A broker tells the members of a group when one joins, and the driver joined it for a moment.
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []
