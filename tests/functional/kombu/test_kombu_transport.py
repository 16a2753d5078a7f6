"""kombu's queues and exchanges on a cluster, with the real kombu."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue

import pyromq.kombu
from pyromq import Admin, ConfigError
from pyromq.errors import NetworkError, NoRoute
from pyromq.kombu.queue_names import exchange_topic, topic_of
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture(params=["pop", "pull"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connections(cluster: ThreadCluster) -> Iterator[Any]:
    made: list[Connection] = []

    def connect(**options: Any) -> Connection:
        options.setdefault("visibility_timeout", 5)
        connection = Connection(f"pyromq://{cluster.namesrv_address}", transport_options=options)
        made.append(connection)
        return connection

    yield connect
    for connection in made:
        connection.release()


def a_name() -> str:
    return f"q.{uuid.uuid4().hex[:12]}"


class Taken:
    """A consumer of some queues, and what it got."""

    def __init__(self, connection: Connection, *queues: Queue, prefetch: int = 0, **options: Any) -> None:
        self.connection = connection
        self.messages: list[Any] = []
        channel = connection.channel()
        if prefetch:
            channel.basic_qos(0, prefetch, False)
        self.consumer = Consumer(channel, list(queues), on_message=self.messages.append, **options)
        self.consumer.consume()

    def until(self, count: int) -> list[Any]:
        while len(self.messages) < count:
            self.connection.drain_events(timeout=30)
        return [message.payload for message in self.messages]

    def ack(self) -> None:
        for message in self.messages:
            if not message.acknowledged:
                message.ack()

    def nothing_more(self) -> None:
        with pytest.raises(TimeoutError):
            self.connection.drain_events(timeout=0.5)


def test_a_direct_exchange_gives_each_message_to_the_queue_of_its_key(connections: Any, mode: str) -> None:
    exchange = Exchange(a_name(), "direct")
    paid, open_ = (Queue(a_name(), exchange, routing_key=key) for key in ("paid", "open"))
    connection = connections(mode=mode)
    producer = Producer(connection.channel())
    producer.publish({"n": 1}, exchange=exchange, routing_key="paid", declare=[paid, open_])
    producer.publish({"n": 2}, exchange=exchange, routing_key="open")

    taken = Taken(connections(mode=mode), paid)

    assert taken.until(1) == [{"n": 1}]
    taken.ack()
    assert Taken(connections(mode=mode), open_).until(1) == [{"n": 2}]


def test_a_topic_exchange_matches_patterns(connections: Any) -> None:
    exchange = Exchange(a_name(), "topic")
    queue = Queue(a_name(), exchange, routing_key="order.*.paid")
    connection = connections()
    producer = Producer(connection.channel())
    for key in ("order.7.paid", "order.7.open", "bill.7.paid"):
        producer.publish(key, exchange=exchange, routing_key=key, declare=[queue])

    taken = Taken(connection, queue)

    assert taken.until(1) == ["order.7.paid"]
    taken.nothing_more()


@pytest.mark.parametrize("lasts", [True, False], ids=["queues that last", "temporary queues"])
def test_every_queue_that_is_bound_to_a_fanout_exchange_gets_all_messages(
    connections: Any, lasts: bool
) -> None:
    exchange = Exchange(a_name(), "fanout")
    queues = [Queue(a_name(), exchange, durable=lasts, auto_delete=not lasts) for _ in range(3)]
    sender = Producer(connections().channel(), exchange)
    sender.publish("before anybody was bound", declare=[exchange])
    taken = [Taken(connections(), queue) for queue in queues]

    for number in range(5):
        sender.publish(number)

    for one in taken:
        assert sorted(one.until(5)) == [0, 1, 2, 3, 4]
        one.nothing_more()


def test_members_of_one_fanout_queue_share_its_messages(connections: Any) -> None:
    exchange = Exchange(a_name(), "fanout")
    queue = Queue(a_name(), exchange)
    first = Taken(connections(), queue)
    sender = Producer(connections().channel(), exchange)
    for number in range(4):
        sender.publish(number, declare=[exchange])
    first.until(4)
    first.ack()
    first.connection.release()
    second = Taken(connections(), queue)
    sender.publish("later")

    assert second.until(1) == ["later"]


def test_what_is_not_acknowledged_comes_to_another_consumer(connections: Any, mode: str) -> None:
    queue = Queue(a_name(), Exchange(a_name()), routing_key="k")
    connection = connections(mode=mode)
    Producer(connection.channel()).publish("work", exchange=queue.exchange, routing_key="k", declare=[queue])
    first = Taken(connections(mode=mode), queue)
    first.until(1)
    first.connection.release()

    second = Taken(connections(mode=mode), queue)

    assert second.until(1) == ["work"]
    assert second.messages[0].delivery_info["redelivered"] is True
    second.ack()


def test_a_message_that_is_requeued_comes_again_and_one_that_is_rejected_is_a_dead_letter(
    connections: Any, cluster: ThreadCluster
) -> None:
    queue = Queue(a_name(), Exchange(a_name()), routing_key="k")
    connection = connections()
    Producer(connection.channel()).publish("bad", exchange=queue.exchange, routing_key="k", declare=[queue])
    taken = Taken(connection, queue)
    taken.until(1)
    taken.messages[0].requeue()
    taken.until(2)
    taken.messages[1].reject()

    with Admin(cluster.namesrv_address) as admin:
        eventually(lambda: f"%DLQ%{topic_of(queue.name)}" in admin.topics(), 30, what="a dead letter")
    taken.nothing_more()


def test_a_consumer_gets_no_more_than_its_prefetch_count(connections: Any, mode: str) -> None:
    queue = Queue(a_name(), Exchange(a_name()), routing_key="k")
    producer = Producer(connections(mode=mode).channel())
    for number in range(6):
        producer.publish(number, exchange=queue.exchange, routing_key="k", declare=[queue])
    taken = Taken(connections(mode=mode), queue, prefetch=2)
    taken.until(2)
    taken.nothing_more()

    taken.messages[0].ack()

    assert len(taken.until(3)) == 3
    taken.nothing_more()


def test_one_message_is_got_and_a_queue_is_counted_purged_and_deleted(
    connections: Any, cluster: ThreadCluster
) -> None:
    name = a_name()
    connection = connections()
    queue = Queue(name, Exchange(a_name()), routing_key="k")(connection.channel())
    queue.declare()
    producer = Producer(connection.channel(), queue.exchange, routing_key="k")
    for number in range(3):
        producer.publish(number)
    got = queue.get()
    assert got is not None
    got.ack()

    assert queue.purge() == 2
    assert queue.get() is None
    queue.delete()

    with Admin(cluster.namesrv_address) as admin:
        assert topic_of(name) not in admin.topics()


def test_no_ack_consumers_never_see_a_message_twice(connections: Any) -> None:
    queue = Queue(a_name(), Exchange(a_name()), routing_key="k")
    Producer(connections().channel()).publish("x", exchange=queue.exchange, routing_key="k", declare=[queue])
    taken = Taken(connections(), queue, no_ack=True)
    taken.until(1)
    taken.connection.release()

    Taken(connections(), queue).nothing_more()


def test_a_connection_without_a_name_server_says_so() -> None:
    with pytest.raises((NetworkError, NoRoute)):
        Connection("pyromq://127.0.0.1:1").connect()


def test_an_option_that_means_nothing_is_refused(connections: Any) -> None:
    with pytest.raises(ConfigError, match="it may be 5 to 300"):
        connections(visibility_timeout=3_600).connect()
    with pytest.raises(ConfigError, match='it must be "auto", "pop" or "pull"'):
        connections(mode="push").connect()


def test_names_of_queues_stay_apart_as_topics() -> None:
    names = ["a.b", "a-b", "a%2Eb", "ä", "exchange|a", "x" * 200, "x" * 199]

    assert len({topic_of(name) for name in names} | {exchange_topic("a")}) == len(names) + 1
    assert topic_of("celery@host.pidbox") == "celery%40host%2Epidbox"
    assert all(len(topic_of(name)) <= 127 for name in names)


def test_kombu_knows_the_transport_by_name() -> None:
    assert Connection("pyromq://127.0.0.1:9876").get_transport_cls() is pyromq.kombu.Transport
