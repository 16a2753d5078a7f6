"""Requests and replies: both faces against a cluster in this process."""

import threading
from collections.abc import Callable, Iterator

import pytest
from client_faces import Face

from pyromq import (
    Admin,
    ClientClosed,
    ConsumeFrom,
    Message,
    MessageIllegal,
    NoRoute,
    Producer,
    PullConsumer,
    PyroError,
    ReceivedMessage,
    RequestTimeout,
    reply_to,
)
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually

PATIENT_MS = 20_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
def topic(request: pytest.FixtureRequest, address: str) -> str:
    """A topic on both brokers that no other test uses."""
    topic = f"t-{abs(hash(request.node.nodeid))}"
    with Admin(address) as admin:
        admin.create_topic(topic, queue_count=2)
        eventually(lambda: len(admin.route(topic).queue_datas) == 2)
    return topic


class Replier:
    """Reads a topic on a thread and replies «body!» to everything."""

    def __init__(self, address: str, topic: str) -> None:
        self.served: list[ReceivedMessage] = []
        self._address, self._topic = address, topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "Replier":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(30)

    def _serve(self) -> None:
        with (
            PullConsumer(f"g-{self._topic}", self._address, start_from=ConsumeFrom.FIRST_OFFSET) as consumer,
            Producer("repliers", self._address) as producer,
        ):
            done: set[str] = set()
            while not self._is_over.wait(0.01):
                for message in self._found(consumer):
                    if message.message_id not in done:
                        done.add(message.message_id)
                        self.served.append(message)
                        producer.send(reply_to(message, message.body + b"!"))

    def _found(self, consumer: PullConsumer) -> list[ReceivedMessage]:
        try:
            queues = consumer.queues(self._topic)
        except NoRoute:
            return []
        return [message for queue in queues for message in consumer.pull(queue, 0).messages]


@pytest.mark.row("SM-18", "SM-19")
def test_a_request_gets_its_reply(face: Face, address: str, topic: str) -> None:
    with Replier(address, topic) as replier, face.Producer("askers", address) as producer:
        replies = [
            producer.request(Message(topic, f"{number}".encode()), timeout_ms=PATIENT_MS)
            for number in range(5)
        ]

    assert [reply.body for reply in replies] == [b"0!", b"1!", b"2!", b"3!", b"4!"]
    assert len(replier.served) == 5


@pytest.mark.row("SM-19")
def test_requests_at_the_same_time_get_their_own_replies(face: Face, address: str, topic: str) -> None:
    with Replier(address, topic), face.Producer("askers", address) as producer:
        queue = producer.queues(topic)[0]
        first = producer.request(Message(topic, b"a"), queue=queue, timeout_ms=PATIENT_MS)
        second = producer.request(
            Message(topic, b"b"), selector=lambda queues, _: queues[-1], timeout_ms=PATIENT_MS
        )

    assert (first.body, second.body) == (b"a!", b"b!")


@pytest.mark.row("SM-19")
def test_a_callback_gets_the_reply_on_another_thread(address: str, topic: str) -> None:
    got: list[tuple[bytes, threading.Thread]] = []

    def note(reply: ReceivedMessage | None, error: BaseException | None) -> None:
        assert reply is not None
        got.append((reply.body, threading.current_thread()))

    with Replier(address, topic), Producer("askers", address) as producer:
        futures = [
            producer.request_async(Message(topic, body), note, timeout_ms=PATIENT_MS)
            for body in (b"a", b"b", b"c")
        ]
        bodies = [future.result(30).body for future in futures]
        eventually(lambda: len(got) == 3)

    assert bodies == [b"a!", b"b!", b"c!"]
    assert sorted(body for body, _ in got) == [b"a!", b"b!", b"c!"]
    assert threading.current_thread() not in [thread for _, thread in got]


@pytest.mark.row("SM-19")
def test_a_callback_gets_the_timeout(face: Face, address: str, topic: str) -> None:
    ended: list[BaseException | None] = []

    with face.Producer("askers", address) as producer:

        def ask(timeout_ms: int) -> None:
            producer.request_async(
                Message(topic, b"?"), lambda _reply, error: ended.append(error), timeout_ms=timeout_ms
            ).result(60)

        error = no_reply_to(ask)
        eventually(lambda: any(heard is error for heard in ended))


@pytest.mark.row("SM-12", "SM-19")
def test_a_request_that_nobody_answers_says_so(face: Face, address: str, topic: str) -> None:
    with face.Producer("askers", address) as producer:
        error = no_reply_to(lambda timeout_ms: producer.request(Message(topic, b"?"), timeout_ms=timeout_ms))

    assert "Does a consumer read the topic" in str(error)
    assert error.code == 10006


def no_reply_to(ask: Callable[[int], object]) -> RequestTimeout:
    """Ask what nobody answers, and return the error of a request that was stored in time.

    The time is for the sending too, so a busy machine may need more than one usually does.
    """
    with pytest.raises(PyroError) as caught:
        ask(300)
    if "is stored in topic" not in str(caught.value):
        with pytest.raises(PyroError) as caught:
            ask(10_000)
    assert isinstance(caught.value, RequestTimeout)
    return caught.value


def test_a_request_is_checked_as_any_message(face: Face, address: str) -> None:
    with face.Producer("askers", address) as producer, pytest.raises(MessageIllegal):
        producer.request(Message("not a topic", b"?"))


def test_a_producer_that_is_closed_asks_nothing(face: Face, address: str, topic: str) -> None:
    producer = face.Producer("askers", address)
    with producer:
        pass

    with pytest.raises(ClientClosed):
        producer.request(Message(topic, b"?"))


def test_a_large_reply_arrives_whole(face: Face, address: str, topic: str) -> None:
    body = b"long " * 10_000
    with Replier(address, topic), face.Producer("askers", address) as producer:
        reply = producer.request(Message(topic, body), timeout_ms=PATIENT_MS)

    assert reply.body == body + b"!"
