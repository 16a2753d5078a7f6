"""The client when servers are away: fail-over, retries, and errors that say what to do."""

import socket
from collections.abc import Iterator

import pytest
from client_faces import Face

from pyromq import (
    ClientSettings,
    ConnectFailed,
    ConsumeFrom,
    Message,
    NoRoute,
    PyroError,
    SendFailed,
    SendHook,
    Sending,
    TopicNotFound,
)
from pyromq.errors import NetworkError
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually

#: A broker that comes back is known at the next look at the route, which is half a minute away otherwise.
PATIENT = ClientSettings(send_msg_timeout=20_000, poll_name_server_interval=200)


class Counting(SendHook):
    """Notes the broker of every try."""

    def __init__(self) -> None:
        self.brokers: list[str] = []

    def after(self, sending: Sending) -> None:
        self.brokers.append(sending.queue.broker_name)


@pytest.fixture
def two_brokers() -> Iterator[ThreadCluster]:
    with running_cluster(2) as cluster:
        yield cluster


@pytest.fixture
def dead_address() -> Iterator[str]:
    """An address that refuses connections: it is taken, and nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.row("NS-17", "NS-18")
def test_a_dead_name_server_is_passed_over(face: Face, two_brokers: ThreadCluster, dead_address: str) -> None:
    servers = f"{dead_address};{two_brokers.namesrv_address}"

    # Whichever of the two the random start picks.
    for _ in range(4):
        with face.Producer("group", servers, PATIENT) as producer:
            producer.send(Message("t", b"x"))


@pytest.mark.row("SM-04", "QS-02", "QS-03")
def test_while_one_of_two_brokers_is_away_every_message_goes_to_the_other(
    face: Face, two_brokers: ThreadCluster
) -> None:
    with face.Admin(two_brokers.namesrv_address) as admin:
        admin.create_topic("t", 2)
    with face.Producer("group", two_brokers.namesrv_address, PATIENT) as producer:
        both = {producer.send(Message("t", b"x")).queue.broker_name for _ in range(4)}
        two_brokers.stop_broker("broker-a")
        one = {producer.send(Message("t", b"x")).queue.broker_name for _ in range(4)}
        two_brokers.start_broker("broker-a")
        again = eventually(
            lambda: "broker-a" in {producer.send(Message("t", b"x")).queue.broker_name for _ in range(4)}
        )

    assert both == {"broker-a", "broker-b"}
    assert one == {"broker-b"}
    assert again


@pytest.mark.row("SM-04", "SM-12")
def test_when_all_brokers_are_away_the_error_names_them_and_the_way_out(
    face: Face, two_brokers: ThreadCluster
) -> None:
    with face.Producer("group", two_brokers.namesrv_address) as producer:
        producer.send(Message("t", b"x"))
        two_brokers.stop_broker("broker-a")
        two_brokers.stop_broker("broker-b")

        with pytest.raises(SendFailed) as caught:
            producer.send(Message("t", b"x"))

    assert len(caught.value.brokers) == 3
    assert set(caught.value.brokers) == {"broker-a", "broker-b"}
    for word in ("'t'", "3 times", two_brokers.namesrv_address, "--advertise"):
        assert word in str(caught.value)


@pytest.mark.row("QS-14", "SM-14", "SM-15")
def test_a_message_for_the_queue_of_a_dead_broker_is_tried_once(
    face: Face, two_brokers: ThreadCluster
) -> None:
    tries = Counting()
    with face.Producer("group", two_brokers.namesrv_address, hooks=[tries]) as producer:
        first = producer.send(Message("t", b"x")).queue
        two_brokers.stop_broker(first.broker_name)
        tries.brokers.clear()

        for chosen in ({"queue": first}, {"selector": lambda _queues, _message: first}):
            with pytest.raises(NetworkError):
                producer.send(Message("t", b"x"), **chosen)

    assert tries.brokers == [first.broker_name] * 2


def test_without_a_name_server_the_error_names_the_address(face: Face, dead_address: str) -> None:
    with (
        face.Producer("group", dead_address) as producer,
        pytest.raises(ConnectFailed, match=dead_address),
    ):
        producer.send(Message("t", b"x"))


@pytest.mark.row("PR-11", "PR-09")
def test_brokers_that_create_no_topics_leave_a_new_one_without_a_route(face: Face) -> None:
    with (
        running_cluster(auto_create_topic_enable=False) as cluster,
        face.Admin(cluster.namesrv_address) as admin,
        face.Producer("group", cluster.namesrv_address) as producer,
    ):
        with pytest.raises(TopicNotFound):
            admin.route("TBW102")
        with pytest.raises(NoRoute, match="autoCreateTopicEnable"):
            producer.send(Message("new", b"x"))

        admin.create_topic("new")

        assert producer.send(Message("new", b"x")).queue.topic == "new"


@pytest.mark.row("PR-12")
def test_a_topic_created_by_one_message_is_on_one_broker_only(face: Face, two_brokers: ThreadCluster) -> None:
    with (
        face.Producer("group", two_brokers.namesrv_address) as producer,
        face.Admin(two_brokers.namesrv_address) as admin,
    ):
        sent = producer.send(Message("lonely", b"x"))

        def brokers() -> list[str] | None:
            try:
                return [queues.broker_name for queues in admin.route("lonely").queue_datas]
            except TopicNotFound:
                return None

        assert eventually(brokers) == [sent.queue.broker_name]


@pytest.mark.row("PR-07", "NS-14", "PR-15")
def test_a_producer_learns_of_new_queues_by_asking_again(face: Face, two_brokers: ThreadCluster) -> None:
    settings = ClientSettings(poll_name_server_interval=50)
    address = two_brokers.namesrv_address
    with face.Producer("group", address, settings) as producer, face.Admin(address) as admin:
        admin.create_topic("t", 1)
        assert len(producer.queues("t")) == 2

        admin.create_topic("t", 3)

        assert len(eventually(lambda: len(queues := producer.queues("t")) == 6 and queues)) == 6


def test_a_consumer_reads_on_after_its_broker_came_back(face: Face) -> None:
    with running_cluster() as cluster:
        address = cluster.namesrv_address
        with (
            face.Producer("group", address, PATIENT) as producer,
            face.PullConsumer("readers", address, start_from=ConsumeFrom.FIRST_OFFSET) as consumer,
        ):
            producer.send(Message("t", b"1"), queue=producer.queues("t")[0])
            bodies = eventually(lambda: poll_or_nothing(consumer, "t"))
            cluster.stop_broker("broker-a")
            cluster.start_broker("broker-a")
            eventually(lambda: sent(producer, Message("t", b"2")))
            bodies += eventually(lambda: poll_or_nothing(consumer, "t"))

    assert bodies == [b"1", b"2"]


def poll_or_nothing(consumer, topic: str) -> list[bytes] | None:
    try:
        return [message.body for message in consumer.poll_topic(topic, wait_ms=100)]
    except (NoRoute, NetworkError):
        return None


def sent(producer, message: Message) -> bool:
    try:
        producer.send(message)
    except PyroError:
        return False
    return True
