"""The Spark source on real brokers of Apache, 4.9 and 5.x: planned and read as Spark does it, without a JVM.

The one JVM is the broker's; `tests/spark` has Spark itself.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from harness.observer import Observer
from harness.servers import OURS_AND_APACHES, Cluster, start_apache

pytest.importorskip("pyspark")

from spark_stage import Query, make_topic, numbers, read_batch, send_numbers

from pyromq import Message, Producer, PullConsumer
from pyromq.codes import RequestCode
from pyromq.config.settings import ClientSettings, NetSettings
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.waiting import eventually
from pyromq.wire.command import Command
from pyspark_rocketmq.failures import MessagesLost, ReadFailed

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

APACHES = [kind for kind in OURS_AND_APACHES if kind.startswith("apache")]
SECRET = "12345678"


@pytest.fixture(params=APACHES)
def servers(request: pytest.FixtureRequest, running: Callable[[str], Cluster]) -> Cluster:
    """Real servers, started from their Maven artifacts."""
    return running(request.param)


@pytest.fixture
def topic(servers: Cluster) -> str:
    name = f"spark-{uuid4().hex[:10]}"
    _make_topic(servers.name_server, name)
    return name


def _make_topic(name_server: str, topic: str) -> None:
    make_topic(name_server, topic, queue_count=2)
    eventually(lambda: Observer(name_server).queues(topic), what=f"{topic} has a route")


def test_a_batch_has_every_message_and_finds_keys_tags_and_times(servers: Cluster, topic: str) -> None:
    options = {"nameServer": servers.name_server, "subscribe": topic}
    with Producer("spark-apache", servers.name_server) as producer:
        for number in range(200):
            tags = "even" if number % 2 == 0 else "odd"
            producer.send(Message(topic, b"%d" % number, tags=tags, keys=[f"n{number}"]))
        producer.send(Message(topic, b"9" * 20_000))

    rows = read_batch(**options, minPartitions=3)
    small = [row for row in rows if len(row["body"]) < 10]
    assert numbers(small) == list(range(200))
    assert [len(row["body"]) for row in rows if len(row["body"]) > 10] == [20_000]
    assert {row["broker"] for row in rows} == {"broker-a"}
    assert len(read_batch(**options, tags="odd")) == 100
    eventually(lambda: numbers(read_batch(**options, keys="n7")) == [7], what="the index has the key")
    at_ms = int(sorted(row["store_timestamp"] for row in small)[100].timestamp() * 1000)
    before, after = (
        read_batch(**options, endingTimestamp=at_ms),
        read_batch(**options, startingTimestamp=at_ms),
    )
    assert len(before) + len(after) == 201
    assert all(row["store_timestamp"].timestamp() * 1000 >= at_ms - 0.5 for row in after)
    assert read_batch(**options, startingTimestamp="2100-01-01") == []


def test_a_stream_goes_on_and_its_lag_is_seen(servers: Cluster, topic: str) -> None:
    name_server, group = servers.name_server, f"g-{uuid4().hex[:8]}"
    options = {"nameServer": name_server, "subscribe": topic, "startingOffsets": "earliest", "groupId": group}
    send_numbers(name_server, topic, 0, 50)
    with Query(**options, maxMessagesPerTrigger=30) as query:
        query.reader.prepareForTriggerAvailableNow()
        assert [len(query.batch()) for _ in range(3)] == [30, 20, 0]
    send_numbers(name_server, topic, 50, 5)
    with Query(None, query.at, **options) as query:
        assert numbers(query.batch()) == list(range(50, 55))
        assert query.batch() == []

    with PullConsumer(group, name_server) as consumer:
        queues = consumer.queues(topic)
        assert [consumer.max_offset(one) - (consumer.committed(one) or 0) for one in queues] == [0, 0]
    eventually(lambda: Observer(name_server).queues(f"%RETRY%{group}"), what="mqadmin knows the group")


# 4.9 cannot let a mapped file go on the Java that the tests have (17), and so cannot delete a topic; nor can
# 5.x without its timers, whose metrics it wants to change.
@pytest.mark.parametrize("servers", ["apache-5-timers"], indirect=True)
def test_a_topic_that_was_created_again_is_noticed(servers: Cluster, topic: str) -> None:
    name_server = servers.name_server
    options = {"nameServer": name_server, "subscribe": topic, "startingOffsets": "earliest", "retries": 3}
    send_numbers(name_server, topic, 0, 10)
    with Query(**options) as query:
        assert len(query.batch()) == 10
        _delete(servers, topic)
        _make_topic(name_server, topic)
        send_numbers(name_server, topic, 100, 20)
        with pytest.raises(MessagesLost, match="created again"):
            query.batch()
    with Query(None, query.at, **options, failOnDataLoss="false") as query:
        assert numbers(query.batch()) == list(range(100, 120))
        assert json.loads(str(query.at))["inc"]


def _delete(servers: Cluster, topic: str) -> None:
    links = BlockingLinks(NetSettings())
    for code, address in (
        (RequestCode.DELETE_TOPIC_IN_BROKER, servers.brokers["broker-a"]),
        (RequestCode.DELETE_TOPIC_IN_NAMESRV, servers.name_server),
    ):
        assert links.request(address, Command(code, ext={"topic": topic}), 10.0).code == 0
    links.close()
    eventually(lambda: not Observer(servers.name_server).queues(topic), what="the topic is gone")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker of 4.9 that wants to know who asks."""
    folder: Path = tmp_path_factory.mktemp("acl")
    accounts = folder / "home" / "conf" / "plain_acl.yml"
    accounts.parent.mkdir(parents=True)
    accounts.write_text(
        f"accounts:\n- accessKey: spark-user\n  secretKey: {SECRET}\n  whiteRemoteAddress:\n  admin: true\n"
        "  defaultTopicPerm: PUB|SUB\n  defaultGroupPerm: PUB|SUB\n"
    )
    with ExitStack() as closing:
        yield start_apache("apache-4.9", folder, closing, aclEnable="true")


def test_requests_are_signed_where_a_broker_wants_it(guarded: Cluster) -> None:
    settings = ClientSettings(access_key="spark-user", secret_key=SECRET)
    with Producer("spark-acl", guarded.name_server, settings) as producer:
        for number in range(20):
            producer.send(Message("guarded", b"%d" % number))
    options = {"nameServer": guarded.name_server, "subscribe": "guarded", "retries": 0}

    rows = read_batch(**options, accessKey="spark-user", secretKey=SECRET)

    assert numbers(rows) == list(range(20))
    with pytest.raises(ReadFailed, match=r"spark-user|Check signature|signature"):
        read_batch(**options, accessKey="spark-user", secretKey="another")
