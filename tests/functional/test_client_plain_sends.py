"""Plain sends, without their plans: with default settings, over real sockets, in both faces.

Each test first sees to it that the producer sends plainly: what it tests would hold for the plan's sends too.
"""

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from client_faces import Face
from played_broker import QUEUES, PlayedBroker, answer_to, played_broker

from pyromq import (
    ClientClosed,
    ClientSettings,
    Message,
    MessageIllegal,
    Producer,
    Refused,
    RequestTimeout,
    SendFailed,
    SendHook,
    SendStatus,
    aio,
)
from pyromq.client.plans import send_plans
from pyromq.codes import ResponseCode
from pyromq.kernel import IS_COMPILED
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import aeventually, eventually
from pyromq.wire.command import Command

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="plain sends are compiled")

ORDER = Message("orders", b"body", tags="paid", keys=["42", "43"], properties={"city": "Turku"})


class PlanCount:
    """Counts the plans of sends that begin, and those that go on from a first try."""

    def __init__(self) -> None:
        self.begun = 0
        self.gone_on = 0


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> PlanCount:
    count, send, go_on = PlanCount(), send_plans.send, send_plans.go_on

    def counted_send(*args: Any) -> Any:
        count.begun += 1
        return send(*args)

    def counted_go_on(*args: Any) -> Any:
        count.gone_on += 1
        return go_on(*args)

    monkeypatch.setattr(send_plans, "send", counted_send)
    monkeypatch.setattr(send_plans, "go_on", counted_go_on)
    return count


@pytest.fixture
def broker() -> Iterator[PlayedBroker]:
    with played_broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster(2) as cluster:
        yield cluster


def until_plain(producer: Any, plans: PlanCount, message: Message = ORDER) -> None:
    """Send until sends need no plan: a route that failed is asked for again after a second."""

    def is_plain() -> bool:
        plans.begun = plans.gone_on = 0
        # To each queue of two brokers.
        for _ in range(8):
            producer.send(message)
        return not plans.begun + plans.gone_on

    eventually(is_plain)


def sends_since(broker: PlayedBroker, before: int) -> list[Command]:
    return [command for command, _ in broker.sends[before:]]


# The way is taken


@pytest.mark.row("SM-01", "SM-17")
def test_a_plain_send_needs_no_plan_and_stores_the_same(
    face: Face, address: str, topic: str, group: str, plans: PlanCount
) -> None:
    with face.Producer(group, address) as producer:
        until_plain(producer, plans, Message(topic, b"first"))
        sent = [
            producer.send(Message(topic, b"%d" % n, tags="paid", keys="a b", properties={"city": "Åbo"}))
            for n in range(20)
        ]
        # The second shape of properties was learnt by the first such message.
        assert plans.begun + plans.gone_on <= 1

    assert {one.status for one in sent} == {SendStatus.SEND_OK}
    assert len({one.message_id for one in sent}) == 20
    assert len({(one.queue, one.queue_offset) for one in sent}) == 20
    # All queues have their turns, with or without a plan.
    assert max(sum(one.queue == other.queue for other in sent) for one in sent) <= 3
    with face.Admin(address) as admin:
        for number, one in enumerate(sent):
            stored = admin.view_message(one.offset_message_id)
            assert (stored.body, stored.tags, stored.properties["KEYS"]) == (b"%d" % number, "paid", "a b")
            assert (stored.properties["city"], stored.message_id) == ("Åbo", one.message_id)
            assert (stored.topic, stored.queue.queue_id) == (topic, one.queue.queue_id)


def test_threads_share_one_connection_and_each_gets_its_own_answer(
    broker: PlayedBroker, plans: PlanCount
) -> None:
    with Producer("group", broker.address) as producer:
        until_plain(producer, plans)
        before = len(broker.sends)
        with ThreadPoolExecutor(32) as pool:
            results = list(pool.map(lambda n: producer.send(Message("orders", b"%d" % n)), range(500)))

    came = broker.sends[before:]
    assert len(came) == 500
    assert plans.gone_on + plans.begun <= 1
    assert len({connection for _, connection in came[1:]}) == 1
    by_id = {_unique_id(command): command.body for command, _ in came}
    assert [by_id[result.message_id] for result in results] == [b"%d" % number for number in range(500)]


async def test_sends_of_one_turn_leave_in_one_write(broker: PlayedBroker, plans: PlanCount) -> None:
    async with aio.Producer("group", broker.address) as producer:
        for _ in range(3):
            await producer.send(ORDER)
        (link,) = [link for link in producer._runner.plain_sends._links.open_links.values() if link.peer]
        writes: list[int] = []
        transport = link._transport

        class Counted:
            """The transport, whose writes are counted."""

            def __getattr__(self, name: str) -> Any:
                return getattr(transport, name)

            def write(self, data: bytes) -> None:
                writes.append(1)
                transport.write(data)

            def writelines(self, frames: list[bytes]) -> None:
                writes.append(len(frames))
                transport.writelines(frames)

        link._transport = Counted()
        await asyncio.gather(*(producer.send(ORDER) for _ in range(100)))
        link._transport = transport

    assert writes[0] == 100


def _unique_id(command: Command) -> str:
    pairs = dict(pair.split("\x01") for pair in (command.ext or {})["i"].split("\x02"))
    return pairs["UNIQ_KEY"]


class Hook(SendHook):
    """Counts the tries."""

    def __init__(self) -> None:
        self.count = 0

    def after(self, _sending: object) -> None:
        self.count += 1


def test_a_hook_sees_every_try_and_no_send_is_plain(
    face: Face, broker: PlayedBroker, plans: PlanCount
) -> None:
    hook = Hook()
    with face.Producer("group", broker.address, hooks=[hook]) as producer:
        for _ in range(5):
            producer.send(ORDER)

    assert (hook.count, plans.begun) == (5, 5)


@pytest.mark.parametrize(
    "message",
    [
        Message("orders", b"x", delay_level=3),
        Message("orders", b"x" * 5_000),
        Message("orders", b"x", wait_stored=False),
        Message("orders", b"x", properties={"UNIQ_KEY": "mine"}),
        Message("orders", b"x", tags="a\tb"),
    ],
    ids=["delayed", "to be compressed", "not waited for", "with an id", "with a control character"],
)
def test_what_is_not_plain_has_its_plan(
    face: Face, broker: PlayedBroker, plans: PlanCount, message: Message
) -> None:
    with face.Producer("group", broker.address) as producer:
        until_plain(producer, plans)
        plans.begun = 0
        for _ in range(3):
            producer.send(message)

        assert (plans.begun, plans.gone_on) == (3, 0)


def test_what_is_illegal_is_refused_by_the_plan(face: Face, broker: PlayedBroker, plans: PlanCount) -> None:
    with face.Producer("group", broker.address) as producer:
        until_plain(producer, plans)
        before = len(broker.sends)
        for message in (
            Message("orders", b""),
            Message("orders", "text"),  # type: ignore[arg-type]
            Message("orders", b"x", keys=["a b"]),
            Message("orders", b"x", properties={"city": ""}),
            Message("orders", b"x", properties={"TAGS": "x"}),
            Message("no topic!", b"x"),
        ):
            with pytest.raises(MessageIllegal):
                producer.send(message)
        assert len(broker.sends) == before


# Other outcomes are the plan's


@pytest.mark.row("SM-04", "SM-08", "SM-12")
@pytest.mark.parametrize(
    "code", [ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION, ResponseCode.TOPIC_NOT_EXIST]
)
def test_a_refusal_that_another_broker_may_mend_is_tried_three_times(
    face: Face, broker: PlayedBroker, plans: PlanCount, code: int
) -> None:
    with face.Producer("group", broker.address) as producer:
        until_plain(producer, plans)
        before = len(broker.sends)
        broker.plays = [lambda send: answer_to(send, code, "no")] * 3
        with pytest.raises(SendFailed) as failed:
            producer.send(ORDER)

    assert failed.value.code == code
    assert len(broker.sends) - before == 3
    assert (plans.begun, plans.gone_on) == (0, 1)
    # It is one message, whose copies consumers can tell.
    assert len({_unique_id(send) for send in sends_since(broker, before)}) == 1


@pytest.mark.row("SM-08")
def test_another_refusal_is_final(face: Face, broker: PlayedBroker, plans: PlanCount) -> None:
    with face.Producer("group", broker.address) as producer:
        until_plain(producer, plans)
        before = len(broker.sends)
        broker.plays = [lambda send: answer_to(send, ResponseCode.SYSTEM_BUSY, "[TIMEOUT_CLEAN_QUEUE]")]
        with pytest.raises(Refused, match="TIMEOUT_CLEAN_QUEUE"):
            producer.send(ORDER)
        assert len(broker.sends) - before == 1
        # Nothing is left of it.
        plans.gone_on = 0
        producer.send(ORDER)
        assert plans.gone_on == 0


@pytest.mark.row("SM-09")
@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT),
        (ResponseCode.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE),
    ],
)
def test_a_message_that_is_less_safe_than_asked_is_told_so(
    face: Face, broker: PlayedBroker, plans: PlanCount, code: int, status: SendStatus
) -> None:
    with face.Producer("group", broker.address) as producer:
        until_plain(producer, plans)
        broker.plays = [lambda send: answer_to(send, code)]
        result = producer.send(ORDER)

    assert result.status is status
    assert result.message_id == _unique_id(broker.sends[-1][0])


@pytest.mark.parametrize(
    "changes",
    [
        {"MSG_REGION": "north", "TRACE_ON": "false"},
        {"transactionId": "T-1"},
        {"recallHandle": "handle"},
        {"msgId": "with \\ and é"},
        {"queueId": "3", "more": "fields"},
    ],
)
def test_an_answer_means_what_the_plan_reads_in_it(
    face: Face, broker: PlayedBroker, plans: PlanCount, changes: dict[str, str]
) -> None:
    with face.Producer("group", broker.address) as producer:
        until_plain(producer, plans)
        broker.plays = [lambda send: answer_to(send, **changes)] * 2
        plain = producer.send(ORDER)
        planned = producer.send(ORDER, selector=lambda queues, _message: queues[plain.queue.queue_id])

    # A compressed body, say, or a chosen queue: the plan's answer has another id and, it may be, queue.
    assert {**_fields(plain), "queue": None} == {**_fields(planned), "queue": None}
    if "queueId" in changes:
        assert plain.queue.queue_id == 3


def _fields(result: Any) -> dict[str, Any]:
    return {
        name: getattr(result, name)
        for name in ("status", "offset_message_id", "queue_offset", "transaction_id", "recall_handle")
    } | {"region": result.region_id, "trace": result.is_trace_on}


# Connections


@pytest.mark.row("SM-04", "SM-16")
@pytest.mark.parametrize("part", [0, 1, 9, 60])
def test_a_connection_that_ends_within_an_answer_is_tried_elsewhere(
    face: Face, broker: PlayedBroker, plans: PlanCount, part: int
) -> None:
    ended = threading.Event()

    def end_in_the_middle(send: Command) -> bytes | None:
        # What is written of the answer may get lost with the connection.
        broker._connections[broker.sends[-1][1] - 1].sendall(answer_to(send)[:part])
        ended.set()
        return None

    with face.Producer("group", broker.address) as producer:
        until_plain(producer, plans)
        before = len(broker.sends)
        broker.plays = [end_in_the_middle]
        result = producer.send(ORDER)
        assert ended.is_set()
        assert result.status is SendStatus.SEND_OK
        assert len({_unique_id(send) for send in sends_since(broker, before)}) == 1
        assert len(broker.sends) - before == 2
        # The next ones have a connection again.
        until_plain(producer, plans)


def test_answers_may_come_in_pieces(face: Face, broker: PlayedBroker, plans: PlanCount) -> None:
    def trickle(send: Command) -> bytes:
        frame = answer_to(send)
        connection = broker._connections[broker.sends[-1][1] - 1]
        for at in range(len(frame) - 1):
            connection.sendall(frame[at : at + 1])
        return frame[-1:]

    with face.Producer("group", broker.address) as producer:
        until_plain(producer, plans)
        broker.plays = [trickle] * 3
        results = [producer.send(ORDER) for _ in range(3)]

    assert [result.status for result in results] == [SendStatus.SEND_OK] * 3
    assert plans.gone_on == 0


@pytest.mark.row("SM-10")
def test_an_answer_that_comes_too_late_is_nobodys(face: Face, broker: PlayedBroker, plans: PlanCount) -> None:
    late: list[Command] = []

    def keep(send: Command) -> bytes:
        late.append(send)
        return b""

    def answer_both(send: Command) -> bytes:
        return answer_to(late[0], queueOffset="77") + answer_to(send, queueOffset="78")

    with face.Producer("group", broker.address) as producer:
        until_plain(producer, plans)
        broker.plays = [keep]
        with pytest.raises(RequestTimeout):
            producer.send(ORDER, timeout_ms=50)
        broker.plays = [answer_both]
        assert producer.send(ORDER).queue_offset == 78


def test_closing_ends_the_sends_in_flight(face: Face, broker: PlayedBroker, plans: PlanCount) -> None:
    came = threading.Event()

    def keep(_send: Command) -> bytes:
        came.set()
        return b""

    producer = face.Producer("group", broker.address)
    producer.__enter__()
    try:
        until_plain(producer, plans)
        broker.plays = [keep]
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(producer.send, ORDER, timeout_ms=60_000)
            assert came.wait(30)
            producer.close()
            with pytest.raises(ClientClosed):
                sending.result(30)
        with pytest.raises(ClientClosed):
            producer.send(ORDER)
    finally:
        producer.__exit__(None, None, None)


async def test_a_cancelled_send_gives_its_place_back(broker: PlayedBroker) -> None:
    came = threading.Event()

    def keep(_send: Command) -> bytes:
        came.set()
        return b""

    async with aio.Producer("group", broker.address) as producer:
        for _ in range(3):
            await producer.send(ORDER)
        link = producer._runner.plain_sends._links.open_links[broker.address]
        broker.plays = [keep]
        task = asyncio.ensure_future(producer.send(ORDER))
        await aeventually(came.is_set)
        assert len(link.waiting) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not link.waiting
        assert (await producer.send(ORDER)).status is SendStatus.SEND_OK


async def test_sends_wait_for_room_when_the_broker_takes_no_bytes(broker: PlayedBroker) -> None:
    may_read = threading.Event()

    def hold(send: Command) -> bytes:
        may_read.wait(30)
        return answer_to(send)

    settings = ClientSettings(compress_msg_body_over_howmuch=4 << 20, send_msg_timeout=30_000)
    async with aio.Producer("group", broker.address, settings) as producer:
        for _ in range(3):
            await producer.send(ORDER)
        link = producer._runner.plain_sends._links.open_links[broker.address]
        broker.plays = [hold]
        large = Message("orders", bytes(512 * 1024))
        sending = [asyncio.ensure_future(producer.send(large)) for _ in range(64)]
        await aeventually(lambda: not link.takes_requests)
        waiting = link._out_bytes + link._transport.get_write_buffer_size()
        assert waiting < 16 << 20, "what waits for the broker is bounded"
        may_read.set()
        results = await asyncio.gather(*sending)

    assert {result.status for result in results} == {SendStatus.SEND_OK}


def test_a_child_of_fork_sends_on_connections_of_its_own(broker: PlayedBroker, plans: PlanCount) -> None:
    with Producer("group", broker.address) as producer:
        until_plain(producer, plans)
        before, used = len(broker.sends), {number for _, number in broker.sends}
        child = os.fork()
        if child == 0:  # the child; what it finds is its exit status
            try:
                ok = all(producer.send(ORDER).status is SendStatus.SEND_OK for _ in range(10))
                os._exit(0 if ok else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        numbers = {number for _, number in broker.sends[before:]}
        ids = {_unique_id(command)[:24] for command, _ in broker.sends}
        producer.send(ORDER)
        assert (plans.begun, plans.gone_on) == (0, 0)

    assert len(broker.sends) - before == 11
    assert not numbers & used
    # Parent and child do not give the same ids.
    assert len(ids) > 1


def test_a_broker_that_ends_an_idle_connection_costs_no_send(broker: PlayedBroker, plans: PlanCount) -> None:
    with Producer("group", broker.address) as producer:
        until_plain(producer, plans)
        link = producer._runner.plain_sends._links.shared_links[broker.address]
        # As long ago as it takes to look again.
        link._used_at -= 10
        broker.end_connections()
        eventually(lambda: not link.takes_requests)
        before = len(broker.sends)
        assert producer.send(ORDER).status is SendStatus.SEND_OK

    assert len(broker.sends) - before == 1


def test_another_threads_failure_is_nobody_elses(broker: PlayedBroker, plans: PlanCount) -> None:
    """Each of many sends in flight on one connection has the outcome that the broker gave it."""

    def play(send: Command) -> bytes:
        if send.body == b"bad":
            return answer_to(send, ResponseCode.SYSTEM_BUSY, "no")
        return answer_to(send)

    with Producer("group", broker.address) as producer:
        until_plain(producer, plans)
        broker.plays = [play] * 400

        def send(number: int) -> bool:
            body = b"bad" if number % 4 == 0 else b"good"
            try:
                producer.send(Message("orders", body))
            except Refused:
                return body == b"bad"
            return body == b"good"

        with ThreadPoolExecutor(16) as pool:
            assert all(pool.map(send, range(400)))


def test_a_queue_that_a_topic_gets_is_sent_to(
    face: Face, address: str, topic: str, group: str, plans: PlanCount
) -> None:
    settings = ClientSettings(poll_name_server_interval=100)
    with face.Admin(address) as admin, face.Producer(group, address, settings) as producer:
        admin.create_topic(topic, 1)
        until_plain(producer, plans, Message(topic, b"x"))
        admin.create_topic(topic, 3)

        def queues() -> set[int]:
            return {producer.send(Message(topic, b"x")).queue.queue_id for _ in range(8)}

        eventually(lambda: queues() == {0, 1, 2})
        until_plain(producer, plans, Message(topic, b"x"))


def test_the_number_of_queues_is_that_of_the_route(broker: PlayedBroker, face: Face) -> None:
    with face.Producer("group", broker.address) as producer:
        results = [producer.send(ORDER) for _ in range(3 * QUEUES)]

    taken = [result.queue.queue_id for result in results]
    assert taken == [(taken[0] + number) % QUEUES for number in range(3 * QUEUES)]
