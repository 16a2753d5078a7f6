"""Requests, replies and transactions between our client and Java's 4.9.8, on our servers and on Apache's."""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from client_faces import Face, face_of
from harness.missing import unavailable
from harness.program import Program
from harness.servers import Cluster
from harness.toolchains import Unavailable, java_class

from pyromq import (
    Admin,
    ClientSettings,
    ConsumeFrom,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    TransactionState,
    reply_to,
)
from pyromq.testing.cluster import running_cluster
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

PATIENT_S = 90
PATIENT_MS = 60_000
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def ours() -> Iterator[str]:
    """A cluster of ours whose broker asks about transactions soon."""
    with running_cluster(transaction_time_out=1_000, transaction_check_interval=1_000) as cluster:
        yield cluster.namesrv_address


@pytest.fixture(params=["ours", "apache-4.9", "apache-5"])
def address(request: pytest.FixtureRequest, ours: str, running: Callable[[str], Cluster]) -> str:
    return ours if request.param == "ours" else running(request.param).name_server


@pytest.fixture
def java(address: str, tmp_path: Path) -> Iterator[Program]:
    """The Java program, on the 4.9.8 client."""
    try:
        command = java_class("Correspondents", "4.9.8", (f"-Duser.home={tmp_path}",))
    except Unavailable as error:
        unavailable(error)
    program = Program([*command, address], folder=tmp_path, env=dict(os.environ))
    yield program
    program.close()


@pytest.fixture(params=["blocking", "asyncio"])
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    with face_of(request.param) as face:
        yield face


@pytest.fixture
def topic(address: str) -> str:
    """A topic of this test alone."""
    topic = f"letters_{next(_numbers)}"
    with Admin(address) as admin:
        admin.create_topic(topic, queue_count=2)
        eventually(lambda: admin.route(topic), PATIENT_S)
    return topic


@contextmanager
def replying(address: str, topic: str) -> Iterator[None]:
    """Reply «body!» to every message, by our push consumer."""
    with Producer("our_repliers", address, ClientSettings(send_msg_timeout=PATIENT_MS)) as producer:

        def listen(message: ReceivedMessage) -> None:
            producer.send(reply_to(message, message.body + b"!"))

        consumer = PushConsumer(
            f"our_repliers_{topic}", address, listener=listen, consume_from=ConsumeFrom.FIRST_OFFSET
        )
        consumer.subscribe(topic)
        with consumer:
            yield


@pytest.mark.row("SM-18", "SM-19")
def test_java_asks_and_we_reply(java: Program, address: str, topic: str) -> None:
    with replying(address, topic):
        events = java.do("request", topic, "question")

    assert [event["text"] for event in events if event["event"] == "reply"] == ["question!"]


@pytest.mark.row("SM-18", "SM-19")
def test_we_ask_and_java_replies(face: Face, java: Program, address: str, topic: str) -> None:
    java.do("serve", topic)

    with face.Producer("our_askers", address) as producer:
        reply = producer.request(Message(topic, b"question"), timeout_ms=PATIENT_MS)

    assert reply.body == b"question!"


def bodies(address: str, topic: str) -> list[bytes]:
    with PullConsumer("our_readers", address) as consumer:
        return [
            message.body for queue in consumer.queues(topic) for message in consumer.pull(queue, 0).messages
        ]


@pytest.mark.row("TX-04", "TX-05")
def test_java_leaves_a_transaction_open_and_we_commit_it(
    face: Face, java: Program, address: str, topic: str
) -> None:
    group = f"members_{topic}"
    java.do("open", group, topic, "order")

    def check(message: ReceivedMessage) -> TransactionState:
        return TransactionState.COMMIT

    def never(*_: object) -> TransactionState:
        raise AssertionError("nothing is executed here")

    with face.TransactionProducer(group, address, execute=never, check=check) as producer:
        producer.announce(topic)
        eventually(lambda: bodies(address, topic) == [b"order"], PATIENT_S)


@pytest.mark.row("TX-04", "TX-05")
def test_we_leave_a_transaction_open_and_java_commits_it(
    face: Face, java: Program, address: str, topic: str
) -> None:
    group = f"members_{topic}"

    def unknown(*_: object) -> TransactionState:
        return TransactionState.UNKNOWN

    settings = ClientSettings(send_msg_timeout=PATIENT_MS)
    with face.TransactionProducer(group, address, settings, execute=unknown, check=unknown) as producer:
        producer.send_in_transaction(Message(topic, b"order"))
        java.do("answer", group, topic)
        eventually(lambda: bodies(address, topic) == [b"order"], PATIENT_S)

    assert {event["text"] for event in java.of("checked")} == {"order"}
