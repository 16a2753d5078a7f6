"""A batch read of a topic, without Spark: what is planned, and what each task reads."""

import json
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import trustme

pytest.importorskip("pyspark")

from pyspark.sql.datasource import InputPartition
from sink_stage import batch_of, write
from spark_stage import columns_of, make_topic, numbers, read_batch, rows_of, send_numbers, source, tasks_of

from pyromq import Admin, Message, Producer, PullConsumer
from pyromq.clock import SystemClock
from pyromq.codes import RequestCode
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.settings import NetSettings
from pyromq.errors import BodyTooLarge, ConfigError
from pyromq.namesrv.namesrv import NameServer
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.cluster import Cluster, ThreadCluster, running_cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import eventually
from pyromq.wire.command import Command
from pyspark_rocketmq.failures import ReadFailed

COUNT = 40


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_cluster(brokers=2, data_dir=Path(tmp_path_factory.mktemp("spark"))) as cluster:
        yield cluster.namesrv_address


@pytest.fixture(scope="module")
def numbered(name_server: str) -> str:
    """A topic with 40 numbers, on two brokers with four queues each."""
    topic = "numbered"
    make_topic(name_server, topic)
    with Producer("spark-test", name_server) as producer:
        for number in range(COUNT):
            tags = "even" if number % 2 == 0 else "odd"
            message = Message(topic, str(number).encode(), tags=tags, keys=[f"n{number}", "all"])
            message.properties["square"] = str(number * number)
            producer.send(message)
    return topic


@pytest.fixture
def topic(name_server: str) -> str:
    name = f"t-{uuid4().hex[:10]}"
    make_topic(name_server, name)
    return name


def test_every_message_is_read_once_with_all_of_its_columns(name_server: str, numbered: str) -> None:
    rows = read_batch(nameServer=name_server, subscribe=numbered)

    assert numbers(rows) == list(range(COUNT))
    row = next(row for row in rows if row["body"] == b"7")
    now = datetime.now(UTC)
    assert (row["topic"], row["tags"], row["keys"], row["flag"]) == (numbered, "odd", "n7 all", 0)
    assert row["broker"] in ("broker-a", "broker-b")
    assert dict(row["properties"])["square"] == "49"
    assert "MIN_OFFSET" not in dict(row["properties"])
    assert dict(row["properties"])["UNIQ_KEY"] == row["msg_id"]
    assert now - timedelta(hours=1) < row["born_timestamp"] <= row["store_timestamp"] + timedelta(seconds=1)
    assert row["born_host"].startswith("127.0.0.1:")
    assert (row["message_group"], row["deliver_at"], row["reconsume_times"]) == (None, None, 0)
    assert len({(row["broker"], row["queue_id"], row["queue_offset"]) for row in rows}) == COUNT


def test_small_queues_share_a_task_and_big_ranges_are_split(name_server: str, numbered: str) -> None:
    made = source(nameServer=name_server, subscribe=numbered)
    reader = made.reader(columns_of(made, None))
    split = source(nameServer=name_server, subscribe=numbered, minPartitions=7)
    splitter = split.reader(columns_of(split, None))

    assert len(tasks_of(reader)) == 1
    tasks = tasks_of(splitter)
    assert len(tasks) == 7
    assert {sum(one.end - one.start for one in task.ranges) for task in tasks} == {5, 6}
    assert numbers(list(rows_of(splitter, tasks))) == list(range(COUNT))


def test_a_read_of_nothing_is_empty(name_server: str, topic: str) -> None:
    made = source(nameServer=name_server, subscribe=topic)
    reader = made.reader(columns_of(made, None))

    assert tasks_of(reader) == []
    # What Spark makes of no task at all.
    assert list(reader.read(InputPartition(None))) == []


def test_brokers_filter_by_tags_and_by_sql(tmp_path: Path, name_server: str, numbered: str) -> None:
    odd = read_batch(nameServer=name_server, subscribe=numbered, tags="odd || none")

    assert numbers(odd) == list(range(1, COUNT, 2))
    with running_cluster(data_dir=tmp_path, enable_property_filter=True) as cluster:
        with Producer("sql", cluster.namesrv_address) as producer:
            for number in range(10):
                message = Message("sql", str(number).encode())
                message.properties["n"] = str(number)
                producer.send(message)
        big = read_batch(nameServer=cluster.namesrv_address, subscribe="sql", sql="n >= 7")
    assert numbers(big) == [7, 8, 9]


def test_a_pattern_matches_whole_names_and_no_system_topic(name_server: str, numbered: str) -> None:
    rows = read_batch(
        nameServer=name_server, subscribePattern="number.*|.*SYS.*|TBW.*|broker-a|.*_REPLY_TOPIC|TRANS.*"
    )

    assert {row["topic"] for row in rows} == {numbered}
    with pytest.raises(ReadFailed, match=r"subscribePattern: no topic matches 'umbere'"):
        read_batch(nameServer=name_server, subscribePattern="umbere")


def test_queues_can_be_assigned(name_server: str, numbered: str) -> None:
    one = read_batch(nameServer=name_server, assign=json.dumps({numbered: {"broker-a": [1]}}))
    both = read_batch(nameServer=name_server, assign=json.dumps({numbered: [1, 2]}))

    assert {(row["broker"], row["queue_id"]) for row in one} == {("broker-a", 1)}
    assert {(row["broker"], row["queue_id"]) for row in both} == {
        (broker, queue) for broker in ("broker-a", "broker-b") for queue in (1, 2)
    }
    with pytest.raises(
        ReadFailed, match=r"assign: topic 'numbered' has no queue 9 on broker-a; it has broker-a/0"
    ):
        read_batch(nameServer=name_server, assign=json.dumps({numbered: {"broker-a": [9]}}))


def test_offsets_of_queues_are_given_as_json(name_server: str, numbered: str) -> None:
    start = {
        numbered: {"broker-a": {"0": 2, "1": -1, "2": -2, "3": 0}, "broker-b": dict.fromkeys("0123", -1)}
    }

    rows = read_batch(nameServer=name_server, subscribe=numbered, startingOffsets=json.dumps(start))

    found = {(row["queue_id"], row["queue_offset"]) for row in rows}
    assert found == {(0, 2), (0, 3), (0, 4)} | {(queue, at) for queue in (2, 3) for at in range(5)}
    ended = read_batch(
        nameServer=name_server,
        assign=json.dumps({numbered: {"broker-b": [0]}}),
        startingOffsets=json.dumps({numbered: {"0": 1}}),
        endingOffsets=json.dumps({numbered: {"broker-b": {"0": 3}}}),
    )
    assert [row["queue_offset"] for row in ended] == [1, 2]


def test_offsets_that_are_not_there_are_refused_by_name(name_server: str, numbered: str) -> None:
    def read(start: object, **options: object) -> None:
        assigned = json.dumps({numbered: {"broker-a": [0, 1]}})
        read_batch(nameServer=name_server, assign=assigned, startingOffsets=json.dumps(start), **options)

    with pytest.raises(
        ReadFailed,
        match=r"^startingOffsets: topic 'numbered', queue 0 of broker-a, offset 99: the queue ends at 5",
    ):
        read({numbered: {"0": 99, "1": 0}})
    with pytest.raises(ReadFailed, match=r"^startingOffsets: numbered/broker-a/1 is read, but not named"):
        read({numbered: {"0": 1}})
    with pytest.raises(ReadFailed, match=r"queue 3 is not among the queues that are read"):
        read({numbered: {"0": 1, "1": 1, "3": 1}})
    with pytest.raises(ReadFailed, match=r"offset 4: the read ends before it, at 2"):
        read({numbered: {"0": 4, "1": 0}}, endingOffsets=json.dumps({numbered: {"0": 2, "1": 2}}))


def test_a_group_says_where_to_start(name_server: str, topic: str) -> None:
    make_topic(name_server, topic, queue_count=1)
    send_numbers(name_server, topic, 0, 20)
    with PullConsumer("half-read", name_server) as consumer:
        for queue in consumer.queues(topic):
            if queue.broker_name == "broker-a":
                consumer.commit(queue, consumer.max_offset(queue) - 1)

    rows = read_batch(nameServer=name_server, subscribe=topic, startingOffsets="group", groupId="half-read")

    # All of the broker that the group never read, and the last of the other.
    by_broker = [row["broker"] for row in rows]
    assert (by_broker.count("broker-a"), by_broker.count("broker-b")) == (1, 10)
    with PullConsumer("half-read", name_server) as consumer:
        after = [consumer.committed(queue) for queue in consumer.queues(topic)]
    # RocketMQ says 0 of a queue that begins there and that the group never read.
    assert after == [9, 0]


def test_times_say_where_to_start_and_end(name_server: str, topic: str) -> None:
    send_numbers(name_server, topic, 0, 16)
    time_ms = _later(name_server, topic)
    send_numbers(name_server, topic, 16, 8)
    second_ms = _later(name_server, topic)
    send_numbers(name_server, topic, 24, 8)
    iso = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()
    options = {"nameServer": name_server, "subscribe": topic}

    assert numbers(read_batch(**options, startingTimestamp=time_ms)) == list(range(16, 32))
    assert numbers(read_batch(**options, startingTimestamp=iso, endingTimestamp=second_ms)) == list(
        range(16, 24)
    )
    assert numbers(read_batch(**options, endingTimestamp=iso.replace("+00:00", ""))) == list(range(16))
    assert read_batch(**options, startingTimestamp="2100-01-01T00:00:00Z") == []
    by_queue = json.dumps({topic: dict.fromkeys("0123", time_ms)})
    assert numbers(read_batch(**options, startingOffsetsByTimestamp=by_queue)) == list(range(16, 32))


@pytest.mark.parametrize("second", [0, 1, 3, 8, 9])
def test_a_time_is_found_in_a_long_queue(tmp_path: Path, second: int) -> None:
    clock = ManualClock()
    with running_cluster(data_dir=tmp_path, clock=clock, default_topic_queue_nums=1) as cluster:
        begin_ms = clock.now_ms()
        for batch in range(9):
            send_numbers(cluster.namesrv_address, "long", 40 * batch, 40)
            clock.advance(1_000)
        options = {"nameServer": cluster.namesrv_address, "subscribe": "long"}

        rows = read_batch(**options, startingTimestamp=begin_ms + 1_000 * second)

        assert numbers(rows) == list(range(40 * second, 360))


def _later(name_server: str, topic: str) -> int:
    """Return a time behind all messages of a topic, and wait until it is there."""
    rows = read_batch("store_timestamp timestamp", nameServer=name_server, subscribe=topic)
    last_ms = max(int(row["store_timestamp"].timestamp() * 1000) for row in rows)
    while time.time() * 1000 < last_ms + 2:
        pass
    return last_ms + 1


def test_keys_are_found_by_the_index(name_server: str, numbered: str) -> None:
    two = read_batch(nameServer=name_server, subscribe=numbered, keys="n3, n5 ,n3")
    everything = read_batch("keys string", nameServer=name_server, subscribe=numbered, keys="all")

    assert numbers(two) == [3, 5]
    assert {row["keys"] for row in everything} == {f"n{number} all" for number in range(COUNT)}
    assert read_batch(nameServer=name_server, subscribe=numbered, keys="nobody") == []
    assert read_batch(nameServer=name_server, subscribe=numbered, keys="n3", endingTimestamp=1000) == []


def test_more_messages_have_a_key_than_a_broker_finds_at_once(tmp_path: Path) -> None:
    clock = ManualClock()
    with running_cluster(data_dir=tmp_path, clock=clock, default_topic_queue_nums=1) as cluster:
        options = {"nameServer": cluster.namesrv_address, "subscribe": "keyed"}
        for second in range(4):
            send_numbers(cluster.namesrv_address, "keyed", 50 * second, 50, keys=["same"])
            clock.advance(2_000)

        assert numbers(read_batch(**options, keys="same")) == list(range(200))
        send_numbers(cluster.namesrv_address, "keyed", 200, 130, keys=["same"])
        with pytest.raises(ReadFailed, match=r"^keys: topic 'keyed', key 'same': .*64 of one second"):
            read_batch(**options, keys="same")


def test_dead_letters_and_retries_of_a_group_are_topics(name_server: str) -> None:
    for prefix in ("DLQ", "RETRY"):
        make_topic(name_server, f"%{prefix}%billing", queue_count=1)
        with Producer("spark-test", name_server) as producer:
            producer.send(Message(f"%{prefix}%billing", prefix.encode()))

    assert [row["body"] for row in read_batch(nameServer=name_server, dlq="billing")] == [b"DLQ"]
    assert [row["body"] for row in read_batch(nameServer=name_server, retry="billing")] == [b"RETRY"]


def test_compressed_bodies_and_long_ranges(name_server: str, topic: str) -> None:
    make_topic(name_server, topic, queue_count=1)
    body = b"x" * 20_000
    with Producer("spark-test", name_server) as producer:
        producer.send(Message(topic, body))
        for start in range(0, 3000, 100):
            producer.send_batch([Message(topic, b"%d" % number) for number in range(start, start + 100)])

    rows = read_batch("body binary, queue_offset bigint", nameServer=name_server, subscribe=topic)

    assert [row["body"] for row in rows if len(row["body"]) > 10] == [body]
    assert len(rows) == 3001
    assert numbers([row for row in rows if len(row["body"]) < 10]) == list(range(3000))


@pytest.mark.row("MM-05")
def test_a_body_that_grows_too_large_is_told_with_its_place(name_server: str, topic: str) -> None:
    make_topic(name_server, topic, queue_count=1)
    with Producer("spark-test", name_server) as producer:
        producer.send(Message(topic, b"small"))
        producer.send(Message(topic, bytes(2 << 20)))
    options = {"nameServer": name_server, "subscribe": topic}

    with pytest.raises(
        BodyTooLarge, match=r"queue 0 of \S+, offset \d\).* more than 1048576 bytes.*decompressedBytesMax"
    ):
        read_batch("body binary", **options, decompressedBytesMax="1m")
    rows = read_batch("queue_offset bigint", **options, decompressedBytesMax="1m")
    assert len(rows) == len(read_batch("body binary", **options)) == 2


@pytest.mark.row("MM-05")
def test_bodies_that_are_too_large_together_are_pulled_by_and_by(name_server: str, topic: str) -> None:
    make_topic(name_server, topic, queue_count=1)
    with Producer("spark-test", name_server) as producer:
        for number in range(10):
            producer.send(Message(topic, bytes([number]) * (1 << 20)))

    rows = read_batch(
        "body binary", nameServer=name_server, subscribe=topic, decompressedBytesMax=str(1 << 20)
    )

    assert sorted((row["body"][0], len(row["body"])) for row in rows) == [(n, 1 << 20) for n in range(10)]


def test_kafka_s_columns(name_server: str, numbered: str) -> None:
    rows = read_batch(nameServer=name_server, subscribe=numbered, schema="kafka")

    assert list(rows[0]) == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    ]
    row = next(row for row in rows if row["value"] == b"7")
    assert (row["key"], row["topic"], row["timestampType"]) == (b"n7 all", numbered, 1)
    assert {"key": "square", "value": b"49"} in row["headers"]


def test_a_delayed_message_says_when_it_was_due(tmp_path: Path) -> None:
    due = datetime.now(UTC) + timedelta(hours=1)
    clock = ManualClock(int(time.time() * 1_000))
    with running_cluster(data_dir=tmp_path, clock=clock) as cluster:
        with Producer("spark-test", cluster.namesrv_address) as producer:
            producer.send(Message("orders", b"later", deliver_at=due))
        clock.advance(3_700_000)
        columns = "deliver_at timestamp, store_timestamp timestamp"
        rows = eventually(lambda: read_batch(columns, nameServer=cluster.namesrv_address, subscribe="orders"))

    assert abs(rows[0]["deliver_at"] - due) < timedelta(milliseconds=2)
    assert rows[0]["store_timestamp"] >= rows[0]["deliver_at"]


def test_a_topic_that_does_not_exist_is_named_with_the_way_out(name_server: str) -> None:
    with pytest.raises(ReadFailed, match=r"^subscribe: topic 'nowhere' does not exist.*updateTopic"):
        read_batch(nameServer=name_server, subscribe="nowhere")


def test_a_cluster_that_is_away_is_tried_again_and_then_named() -> None:
    with pytest.raises(ReadFailed, match=r"^planning the read of subscribe: .*127.0.0.1:1.*tried 2 times"):
        read_batch(nameServer="127.0.0.1:1", subscribe="orders", retries=1, retryIntervalMs=10)


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ("keyz string", "a topic has no column keyz; it has topic, broker"),
        ("body string", r"column body is binary, not string; .*cast\(body as string\)"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(schema: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read_batch(schema, nameServer="127.0.0.1:1", subscribe="orders")


class TlsCluster(Cluster):
    """A cluster that takes TLS on all of its ports."""

    async def _start_name_server(self, folder: Path, closing: AsyncExitStack) -> None:
        paths = {
            "tls_server_cert_path": str(folder / "server.pem"),
            "tls_server_key_path": str(folder / "key.pem"),
        }
        settings = NamesrvSettings(listen_port=0, kv_config_path=str(folder / "kvConfig.json"))
        self.name_server = NameServer(settings, NetSettings(**paths), clock=SystemClock())
        await self.name_server.start()
        closing.push_async_callback(self.name_server.close)
        self._overrides |= paths


def test_reads_and_writes_over_tls_check_the_servers_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    for pem in certificate.cert_chain_pems:
        pem.write_to_path(tmp_path / "server.pem", append=True)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    with ThreadCluster(TlsCluster(data_dir=tmp_path)) as cluster:
        send_numbers(cluster.namesrv_address, "secret", 0, 5)
        options = {"nameServer": cluster.namesrv_address, "subscribe": "secret", "tls": "true", "retries": 0}

        rows = read_batch(**options, tlsTrustCertPath=tmp_path / "ca.pem")

        assert numbers(rows) == list(range(5))
        with pytest.raises(ReadFailed, match="certificate"):
            read_batch(**options, tlsTrustCertPath=tmp_path / "other.pem")
        sink = {"nameServer": cluster.namesrv_address, "topic": "secret", "tls": "true"}
        write(batch_of(body=["5"]), **sink, delivery="at-least-once", tlsTrustCertPath=tmp_path / "ca.pem")
        assert numbers(read_batch(**options, tlsTrustCertPath=tmp_path / "ca.pem")) == list(range(6))


def test_queues_that_may_not_be_written_any_more_are_read(name_server: str) -> None:
    topic = f"t-{uuid4().hex[:10]}"
    make_topic(name_server, topic, queue_count=4)
    send_numbers(name_server, topic, 0, 16)
    header = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "1"}
    header |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    links = BlockingLinks(NetSettings())
    with Admin(name_server) as admin:
        for broker in admin.route(topic).broker_datas:
            command = Command(RequestCode.UPDATE_AND_CREATE_TOPIC, ext=dict(header))
            assert links.request(broker.broker_addrs[0], command, 5.0).code == 0
    links.close()

    assert numbers(read_batch(nameServer=name_server, subscribe=topic)) == list(range(16))
