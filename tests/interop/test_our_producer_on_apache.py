"""Our producers on our servers and on Apache's: transactions, requests, parts of batches, and more."""

import itertools
import threading
from collections.abc import Callable, Iterator

import pytest
from client_faces import Face, face_of
from harness.servers import OURS_AND_APACHES, Cluster

from pyromq import (
    Admin,
    ClientSettings,
    Compression,
    ConsumeFrom,
    Message,
    NoRoute,
    Producer,
    PullConsumer,
    ReceivedMessage,
    RequestTimeout,
    TransactionState,
    reply_to,
)
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

PATIENT_S = 90
PATIENT_MS = 60_000
PATIENT = ClientSettings(send_msg_timeout=PATIENT_MS)
COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN
_numbers = itertools.count(1)


@pytest.fixture(params=OURS_AND_APACHES)
def address(request: pytest.FixtureRequest, running: Callable[[str], Cluster]) -> str:
    """The name server of our servers, and of real ones, started from their Maven artifacts."""
    return running(request.param).name_server


@pytest.fixture(params=["blocking", "asyncio"])
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    with face_of(request.param) as face:
        yield face


@pytest.fixture
def topic(address: str) -> str:
    """A topic of this test alone."""
    return created(address, f"produced_{next(_numbers)}")


def created(address: str, topic: str) -> str:
    with Admin(address) as admin:
        admin.create_topic(topic, queue_count=2)
        eventually(lambda: admin.route(topic), PATIENT_S)
    return topic


def found(consumer: PullConsumer, topic: str) -> list[ReceivedMessage]:
    try:
        queues = consumer.queues(topic)
    except NoRoute:
        return []
    return [message for queue in queues for message in consumer.pull(queue, 0).messages]


def see(address: str, topic: str, *bodies: bytes) -> list[ReceivedMessage]:
    """Return a topic's messages once they are these."""

    def seen() -> list[ReceivedMessage] | None:
        messages = found(consumer, topic)
        return messages if sorted(message.body for message in messages) == sorted(bodies) else None

    with PullConsumer("produced_readers", address, start_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        return eventually(seen, PATIENT_S, what=f"{bodies!r} in {topic}")


@pytest.mark.row("TX-01", "TX-02", "TX-03")
def test_a_transaction_is_committed_or_rolled_back(face: Face, address: str, topic: str) -> None:
    with face.TransactionProducer(
        f"group_{topic}", address, PATIENT, execute=lambda _, fate: fate, check=lambda _: UNKNOWN
    ) as producer:
        producer.send_in_transaction(Message(topic, b"rolled back"), ROLLBACK)
        result = producer.send_in_transaction(Message(topic, b"committed", keys=["k"]), COMMIT)
        (message,) = see(address, topic, b"committed")

    assert (result.state, message.message_id, message.keys) == (COMMIT, result.message_id, ["k"])


@pytest.mark.row("TX-04", "TX-05")
def test_a_transaction_that_is_not_known_is_asked_about(face: Face, address: str, topic: str) -> None:
    asked: list[ReceivedMessage] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message)
        return COMMIT if message.body == b"yes" else ROLLBACK

    with face.TransactionProducer(
        f"group_{topic}", address, PATIENT, execute=lambda *_: UNKNOWN, check=check
    ) as producer:
        producer.send_in_transaction(Message(topic, b"no"))
        producer.send_in_transaction(Message(topic, b"yes"))
        eventually(lambda: {message.body for message in asked} == {b"yes", b"no"}, PATIENT_S)
        see(address, topic, b"yes")

    assert {message.topic for message in asked} == {topic}


@pytest.mark.row("SM-18", "SM-19")
def test_a_request_gets_its_reply(face: Face, address: str, topic: str) -> None:
    is_over = threading.Event()

    def reply() -> None:
        done: set[str] = set()
        with (
            PullConsumer("produced_services", address, start_from=ConsumeFrom.FIRST_OFFSET) as consumer,
            Producer("produced_services", address, PATIENT) as producer,
        ):
            while not is_over.wait(0.05):
                for message in found(consumer, topic):
                    if message.message_id not in done:
                        done.add(message.message_id)
                        producer.send(reply_to(message, message.body + b"!"))

    service = threading.Thread(target=reply, daemon=True)
    service.start()
    with face.Producer(f"group_{topic}", address) as producer:
        replies = [
            producer.request(Message(topic, body), timeout_ms=PATIENT_MS).body
            for body in (b"a", b"b" * 9_000)
        ]
    is_over.set()
    service.join(PATIENT_S)

    assert replies == [b"a!", b"b" * 9_000 + b"!"]


def test_a_request_without_a_reply_ends(face: Face, address: str, topic: str) -> None:
    with (
        face.Producer(f"group_{topic}", address) as producer,
        pytest.raises(RequestTimeout, match="reply_to"),
    ):
        producer.request(Message(topic, b"?"), timeout_ms=3_000)


@pytest.mark.row("BA-05", "BA-06")
def test_batches_are_sent_in_parts(face: Face, address: str, topic: str) -> None:
    bodies = [f"{number:02}".encode() * 50 for number in range(20)]
    settings = ClientSettings(max_message_size=1_000, send_msg_timeout=PATIENT_MS)

    with face.Producer(f"group_{topic}", address, settings) as producer:
        results = producer.send_batches([Message(topic, body) for body in bodies])

    see(address, topic, *bodies)
    assert len(results) > 2


@pytest.mark.row("MM-05")
@pytest.mark.parametrize("kind", Compression)
def test_compressed_bodies_come_back_whole(face: Face, address: str, topic: str, kind: Compression) -> None:
    body = b"the same again " * 2_000
    settings = ClientSettings(compress_type=kind, send_msg_timeout=PATIENT_MS)

    with face.Producer(f"group_{topic}", address, settings) as producer:
        producer.send(Message(topic, body))

    (message,) = see(address, topic, body)
    assert message.size < len(body)


@pytest.mark.row("PR-23")
def test_a_namespace_is_kept(face: Face, address: str, topic: str) -> None:
    created(address, f"shop%{topic}")
    settings = ClientSettings(namespace="shop", send_msg_timeout=PATIENT_MS)

    with face.Producer(f"group_{topic}", address, settings) as producer:
        sent = producer.send(Message(topic, b"x"))

    see(address, f"shop%{topic}", b"x")
    assert sent.queue.topic == topic
