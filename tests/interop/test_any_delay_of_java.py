"""Any delay with a Java client of 5.x on our broker, and with our client on Apache's brokers."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness.missing import unavailable
from harness.program import Program
from harness.servers import Cluster
from harness.toolchains import Unavailable, java_class

from pyromq import Admin, Message, Producer, PullConsumer, Refused
from pyromq.codes import ResponseCode
from pyromq.model import ConsumeFrom
from pyromq.testing.waiting import eventually
from pyromq.wire.recall_handle import decode_recall_handle

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900), pytest.mark.row("DE-10")]

DEADLINE_S = 60
DAY_MS = 24 * 3_600_000


@pytest.fixture
def ours(running: Callable[[str], Cluster]) -> str:
    """Our servers' address."""
    return running("up").name_server


@pytest.fixture
def java(ours: str, tmp_path: Path) -> Iterator[Program]:
    """The 5.x client on our servers."""
    try:
        command = java_class("Delayed", "5.5.0", [f"-Duser.home={tmp_path}"])
    except Unavailable as error:
        unavailable(error)
    program = Program([*command, ours], folder=tmp_path, env={**os.environ, "HOME": str(tmp_path)})
    yield program
    program.close()


def now_ms() -> int:
    return int(time.time() * 1_000)


def test_a_java_client_sends_with_any_delay_and_recalls(ours: str, java: Program) -> None:
    topic = "delayed_of_java"
    with Admin(ours) as admin:
        admin.create_topic(topic, 2)
        eventually(lambda: admin.route(topic), DEADLINE_S)
    began_ms = now_ms()
    due_ms = began_ms + 3_000
    (in_ms, *_) = java.do("send", topic, "in-ms", "ms", 1_500)
    (in_sec, *_) = java.do("send", topic, "in-sec", "sec", 2)
    (at, *_) = java.do("send", topic, "at", "at", due_ms)
    (past, *_) = java.do("send", topic, "past", "at", began_ms - DAY_MS)
    (recalled, *_) = java.do("send", topic, "never", "at", due_ms)

    (answer, *_) = java.do("recall", topic, recalled["handle"])
    (again, *_) = java.do("recall", topic, recalled["handle"])
    java.do("join", "delayed_group", topic)
    eventually(lambda: len(java.of("consumed")) >= 4, DEADLINE_S)

    assert {one["status"] for one in (in_ms, in_sec, at, past, recalled)} == {"SEND_OK"}
    handle = decode_recall_handle(at["handle"])
    assert (handle.topic, handle.due_ms, handle.message_id) == (topic, due_ms, at["id"])
    assert past["handle"] is None
    assert (answer["event"], answer["id"]) == ("recalled", recalled["id"])
    assert (again["event"], again["code"]) == ("refused", ResponseCode.ILLEGAL_OPERATION)
    consumed = {one["body"]: one for one in java.of("consumed")}
    assert {body: one["id"] for body, one in consumed.items()} == {
        "in-ms": in_ms["id"],
        "in-sec": in_sec["id"],
        "at": at["id"],
        "past": past["id"],
    }
    assert consumed["in-ms"]["stored"] - consumed["in-ms"]["born"] >= 1_500
    assert consumed["in-sec"]["stored"] - consumed["in-sec"]["born"] >= 2_000
    assert consumed["at"]["stored"] >= due_ms


def test_a_java_client_is_refused_a_delay_of_more_than_a_year(ours: str, java: Program) -> None:
    (refused, *_) = java.do("send", "delayed_too_far", "far", "ms", 370 * DAY_MS)
    assert (refused["event"], refused["code"]) == ("refused", ResponseCode.MESSAGE_ILLEGAL)
    assert str(366 * DAY_MS // 1_000) in refused["says"]


def test_our_client_s_timed_messages_are_delivered_and_recalled_by_apache_5(
    running: Callable[[str], Cluster],
) -> None:
    address = running("apache-5-timers").name_server
    with Admin(address) as admin, Producer("delayed_ours", address) as producer:
        admin.create_topic("delayed_of_ours", 1)
        eventually(lambda: admin.route("delayed_of_ours"), DEADLINE_S)
        due_ms = now_ms() + 3_000
        for message in (
            Message("delayed_of_ours", b"delay", delay=1.5),
            Message("delayed_of_ours", b"deliver_at", deliver_at=due_ms),
        ):
            producer.send(message)
        never = producer.send(Message("delayed_of_ours", b"never", delay=4))

        assert never.recall_handle is not None
        assert producer.recall("delayed_of_ours", never.recall_handle) == never.message_id
        with pytest.raises(Refused, match="no broker here can list"):
            admin.waiting("delayed_of_ours")
        producer.send(Message("delayed_of_ours", b"last", delay=6))

        with PullConsumer("delayed_reader", address, start_from=ConsumeFrom.FIRST_OFFSET) as consumer:
            received = []
            for message in consumer.messages("delayed_of_ours", idle_ms=DEADLINE_S * 1_000):
                received.append(message)
                if message.body == b"last":
                    break

    assert [message.body for message in received] == [b"delay", b"deliver_at", b"last"]
    # Apache rounds down to its precision.
    assert received[0].stored_at_ms - received[0].born_at_ms >= 1_000


@pytest.mark.parametrize("oneway", [False, True])
def test_our_client_sends_no_timed_message_to_a_broker_that_would_deliver_it_at_once(
    running: Callable[[str], Cluster], oneway: bool
) -> None:
    address = running("apache-4.9").name_server
    with Admin(address) as admin, Producer("delayed_too_old", address) as producer:
        admin.create_topic("delayed_too_old", 1)
        eventually(lambda: admin.route("delayed_too_old"), DEADLINE_S)
        message = Message("delayed_too_old", b"later", delay=3600)

        with pytest.raises(Refused, match=r"older than RocketMQ 5\.0") as refused:
            (producer.send_oneway if oneway else producer.send)(message)

        assert refused.value.code == ResponseCode.VERSION_NOT_SUPPORTED
        assert [admin.max_offset(queue) for queue in producer.queues("delayed_too_old")] == [0]
