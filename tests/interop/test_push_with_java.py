"""Our push consumer on Apache's servers, and beside RocketMQ's own DefaultMQPushConsumer in one group."""

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness.clients import CLIENTS
from harness.missing import unavailable
from harness.program import Program
from harness.servers import OURS_AND_APACHES, Cluster
from harness.toolchains import Unavailable

from pyromq import Admin, ConsumeFrom, Delivery, Message, MessageQueue, NoRoute, Producer, PushConsumer
from pyromq import ReceivedMessage as Received
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import NetSettings
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.waiting import eventually
from pyromq.wire.bodies.lock_bodies import decode_consumer_ids
from pyromq.wire.bodies.running_info import (
    DirectResult,
    RunningState,
    decode_direct_consumption,
    decode_running_state,
)
from pyromq.wire.command import Command

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

QUEUES = 8
ROUND = 80
_numbers = itertools.count(1)
#: Real intervals but for what only costs the test time.
SOON: dict[str, Any] = {
    "consume_from": ConsumeFrom.FIRST_OFFSET,
    "rebalance_wait_interval": 2_000,
    "pull_time_delay_mills_when_exception": 500,
}


@pytest.fixture(params=OURS_AND_APACHES)
def servers(request: pytest.FixtureRequest, running: Callable[[str], Cluster]) -> Cluster:
    """Our servers, and Apache's."""
    return running(request.param)


@pytest.fixture
def java(servers: Cluster, tmp_path: Path) -> Iterator[Program]:
    """The driver of the 4.9.8 client."""
    try:
        program = CLIENTS["java-4.9.8"].start(tmp_path, servers.name_server)
    except Unavailable as error:
        unavailable(error)
    yield program
    program.close()


@pytest.fixture
def names() -> tuple[str, str]:
    """A topic and a group of this test alone."""
    number = next(_numbers)
    return f"push_{number}", f"push_group_{number}"


@pytest.fixture
def producer(servers: Cluster, names: tuple[str, str]) -> Iterator[Producer]:
    """A producer that knows the test's topic."""
    topic, _ = names
    with Admin(servers.name_server) as admin, Producer("push_producer", servers.name_server) as producer:
        admin.create_topic(topic, QUEUES)

        def known() -> bool:
            try:
                return len(producer.queues(topic)) == QUEUES
            except NoRoute:
                return False

        eventually(known, 30)
        yield producer


class Watch:
    """What the brokers say of a group."""

    def __init__(self, servers: Cluster, group: str) -> None:
        (self._address,) = servers.brokers.values()
        self._group = group
        self._links = BlockingLinks(NetSettings())

    def ask(self, code: int, **ext: str) -> Command:
        return self._links.request(self._address, Command(code, ext=ext), 15)

    def members(self) -> list[str]:
        answer = self.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=self._group)
        return decode_consumer_ids(answer.body) if answer.code == ResponseCode.SUCCESS else []

    def running(self, client_id: str) -> RunningState | None:
        answer = self.ask(
            RequestCode.GET_CONSUMER_RUNNING_INFO,
            consumerGroup=self._group,
            clientId=client_id,
            jstackEnable="false",
        )
        return decode_running_state(answer.body) if answer.code == ResponseCode.SUCCESS else None

    def shares(self, topic: str) -> list[list[MessageQueue]]:
        """What each member says it has of a topic."""
        states = [self.running(client_id) for client_id in self.members()]
        return [
            sorted(queue for queue, of in state.queues.items() if queue.topic == topic and not of.droped)
            for state in states
            if state is not None
        ]

    def settle(self, topic: str, members: int) -> None:
        """Wait until that many members have each queue once."""

        def settled() -> bool:
            shares = self.shares(topic)
            found = sorted(queue.queue_id for part in shares for queue in part)
            return len(shares) == members and all(shares) and found == list(range(QUEUES))

        eventually(settled, 90)

    def close(self) -> None:
        self._links.close()


@pytest.fixture
def watch(servers: Cluster, names: tuple[str, str]) -> Iterator[Watch]:
    watch = Watch(servers, names[1])
    yield watch
    watch.close()


@pytest.mark.row("CO-03", "RB-01", "RB-02", "RB-03", "RB-07", "OR-03")
@pytest.mark.parametrize("order", ["concurrent", "orderly"])
def test_two_java_members_and_two_of_ours_share_a_topic_as_they_come_and_go(
    servers: Cluster, java: Program, names, producer: Producer, watch: Watch, order: str
) -> None:
    topic, group = names
    ours: list[tuple[int, int]] = []
    sent = 0

    def listen(message: Received) -> None:
        ours.append((message.queue.queue_id, message.queue_offset))

    def new() -> PushConsumer:
        consumer = PushConsumer(group, servers.name_server, listener=listen, order=order, **SOON)
        consumer.subscribe(topic)
        consumer.start()
        return consumer

    def everything() -> list[tuple[int, int]]:
        theirs = [(event["queue"], event["offset"]) for event in java.of("consumed")]
        return list(ours) + theirs

    def send_a_round(members: int) -> None:
        nonlocal sent
        watch.settle(topic, members)
        before = Counter(everything())
        for number in range(ROUND):
            queue = producer.queues(topic)[number % QUEUES]
            producer.send(Message(topic, b"%d" % number, keys=[str(number)]), queue=queue)
        sent += ROUND
        eventually(lambda: len(set(everything())) == sent, 60)
        # What was sent while nobody came or went is consumed once.
        assert {times for place, times in Counter(everything()).items() if place not in before} == {1}

    one = new()
    send_a_round(1)
    java.do("join", "java1", group, topic, order, "*")
    send_a_round(2)
    two = new()
    java.do("join", "java2", group, topic, order, "*")
    send_a_round(4)
    java.do("leave", "java1")
    send_a_round(3)
    one.close()
    send_a_round(2)
    java.do("leave", "java2")
    send_a_round(1)
    two.close()

    places = [(queue, offset) for queue in range(QUEUES) for offset in range(sent // QUEUES)]
    assert sorted(set(everything())) == places
    if order == "orderly":
        by_queue: dict[int, list[int]] = defaultdict(list)
        for queue, offset in ours:
            by_queue[queue].append(offset)
        assert all(offsets == sorted(offsets) for offsets in by_queue.values())


@pytest.mark.row("RT-01", "RT-06")
def test_a_message_that_fails_comes_again_and_one_that_is_given_up_does_not(
    servers: Cluster, names, producer: Producer
) -> None:
    topic, group = names
    got: list[Received] = []

    def listen(message: Received, delivery: Delivery) -> bool:
        got.append(message)
        delivery.delay_level = 1 if message.body == b"again" else -1
        return message.reconsume_times > 0

    consumer = PushConsumer(group, servers.name_server, listener=listen, **SOON)
    consumer.subscribe(topic)
    with consumer:
        for body in (b"again", b"never"):
            producer.send(Message(topic, body))
        eventually(lambda: len(got) == 3, 60)

    assert sorted((message.body, message.reconsume_times, message.topic) for message in got) == [
        (b"again", 0, topic),
        (b"again", 1, topic),
        (b"never", 0, topic),
    ]


@pytest.mark.row("CO-04")
def test_every_broadcasting_member_gets_everything(
    servers: Cluster, names, producer: Producer, tmp_path: Path
) -> None:
    topic, group = names
    got: list[list[bytes]] = [[], []]

    def new(number: int) -> PushConsumer:
        consumer = PushConsumer(
            group,
            servers.name_server,
            listener=lambda message: got[number].append(message.body),
            model="broadcasting",
            instance_name=f"member{number}",
            local_offset_store_dir=str(tmp_path / "offsets"),
            **SOON,
        )
        consumer.subscribe(topic)
        return consumer

    with new(0), new(1):
        for number in range(20):
            producer.send(Message(topic, b"%d" % number))
        eventually(lambda: all(len(part) == 20 for part in got), 60)


def test_operators_see_our_member_and_have_it_consume_a_message(
    servers: Cluster, names, producer: Producer, watch: Watch
) -> None:
    topic, group = names
    got: list[bytes] = []
    consumer = PushConsumer(group, servers.name_server, listener=lambda one: got.append(one.body), **SOON)
    consumer.subscribe(topic)
    with consumer:
        watch.settle(topic, 1)
        result = producer.send(Message(topic, b"one"))
        eventually(lambda: got == [b"one"], 60)
        state = watch.running(consumer.client_id)
        answer = watch.ask(
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            consumerGroup=group,
            clientId=consumer.client_id,
            msgId=result.offset_message_id,
            brokerName=result.queue.broker_name,
        )

    assert state is not None
    assert state.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert {wanted.topic for wanted in state.subscriptions} == {topic, f"%RETRY%{group}"}
    assert decode_direct_consumption(answer.body).consume_result is DirectResult.SUCCESS
    assert got == [b"one", b"one"]
