"""From a producer of ours to push consumers of ours, on our servers and on Apache's 4.9 and 5.x."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest
from client_faces import Face, face_of
from harness.servers import OURS_AND_APACHES, Cluster
from push_stage import FIRST, QUICK, Handler, own, progress, read_topic

from pyromq import (
    Admin,
    Delivery,
    Message,
    MessageQueue,
    NoRoute,
    Producer,
    PushConsumer,
    ReceivedMessage,
    reply_to,
    select_by_hash,
)
from pyromq.kernel import IS_COMPILED
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

QUEUES = 4
PATIENCE_S = 60
_numbers = itertools.count(1)


@pytest.fixture(params=OURS_AND_APACHES)
def address(request: pytest.FixtureRequest, running: Callable[[str], Cluster]) -> str:
    """The name server of our servers, and of real ones."""
    return running(request.param).name_server


@pytest.fixture(params=["blocking", "asyncio"])
def face(request: pytest.FixtureRequest) -> Iterator[Face]:
    with face_of(request.param) as face:
        yield face


@pytest.fixture
def producer(address: str) -> Iterator[Producer]:
    with Producer("told_producer", address) as producer:
        yield producer


@pytest.fixture
def queues(address: str, producer: Producer) -> list[MessageQueue]:
    """The queues of a topic of this test alone."""
    topic = f"told_{next(_numbers)}"
    with Admin(address) as admin:
        admin.create_topic(topic, QUEUES)

    def found() -> list[MessageQueue]:
        try:
            return producer.queues(topic)
        except NoRoute:
            return []

    return eventually(found, PATIENCE_S)


@pytest.fixture
def topic(queues: list[MessageQueue]) -> str:
    return queues[0].topic


@pytest.fixture
def group(topic: str) -> str:
    return f"{topic}_group"


@pytest.mark.row("CO-02", "CO-11", "MM-09", "DE-01", "OF-07")
def test_a_listener_gets_what_it_wants_and_what_is_delayed_later(
    face: Face, address: str, topic: str, group: str, producer: Producer, queues: list[MessageQueue]
) -> None:
    handler = Handler()
    with face.PushConsumer(group, address, listener=handler, **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic, "paid || refunded")
        for tag in ("paid", "cancelled", "refunded"):
            producer.send(Message(topic, tag.encode(), tags=tag))
        sent = producer.send(Message(topic, b"delayed", tags="paid", delay_level=1))
        eventually(lambda: len(handler.got) >= 3, PATIENCE_S)
        eventually(lambda: sum(progress(address, group, queue) or 0 for queue in queues) >= 3, PATIENCE_S)

    delayed = next(message for message in handler.got if message.body == b"delayed")
    assert sorted(handler.bodies) == [b"delayed", b"paid", b"refunded"]
    assert delayed.message_id == sent.message_id
    assert delayed.stored_at_ms - delayed.born_at_ms >= 900


@pytest.mark.row("SM-01", "SM-17")
def test_plain_sends_are_stored_as_they_were_sent(face: Face, address: str, topic: str) -> None:
    """From the second on they have no plan: the kernel makes their frames and reads the broker's answers."""
    with face.Producer("plain_producer", address) as sender:
        sent = {
            result.message_id: (number, result)
            for number in range(60)
            for result in [
                sender.send(
                    Message(
                        topic,
                        b"%d" % number,
                        tags="paid",
                        keys=["a", f"k{number}"],
                        properties={"city": 'Å"bo'},
                    )
                )
            ]
        }
        if IS_COMPILED:
            plain = sender._runner.plain_sends
            assert plain._teacher.kernel.knows_topic(topic)

    stored = read_topic(address, topic, 60)

    assert {message.message_id for message in stored} == set(sent)
    for message in stored:
        number, result = sent[message.message_id]
        assert (message.body, message.tags) == (b"%d" % number, "paid")
        assert (message.properties["KEYS"], message.properties["city"]) == (f"a k{number}", 'Å"bo')
        assert (message.queue, message.queue_offset) == (result.queue, result.queue_offset)
        assert message.offset_message_id == result.offset_message_id


@pytest.mark.row("RT-01", "RT-06")
def test_a_failed_message_comes_again_and_one_given_up_is_a_dead_letter(
    face: Face, address: str, topic: str, group: str, producer: Producer
) -> None:
    def fail(message: ReceivedMessage, delivery: Delivery) -> bool:
        handler(message)
        delivery.delay_level = -1 if message.body == b"hopeless" else 1
        return message.reconsume_times > 0

    handler = Handler()
    with face.PushConsumer(group, address, listener=fail, **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic)
        for body in (b"late", b"hopeless"):
            producer.send(Message(topic, body))
        eventually(lambda: len(handler.got) >= 3, PATIENCE_S)
        (dead,) = read_topic(address, f"%DLQ%{group}", 1)

    assert sorted(handler.bodies) == [b"hopeless", b"late", b"late"]
    assert {message.topic for message in handler.got} == {topic}
    assert dead.body == b"hopeless"


@pytest.mark.row("OR-02", "OR-03", "OR-04", "QS-17", "SM-14")
def test_messages_of_one_key_are_handled_in_order_by_members_that_come_and_go(
    face: Face, address: str, topic: str, group: str, producer: Producer
) -> None:
    got: dict[str, list[int]] = defaultdict(list)
    keys = [f"customer {number}" for number in range(8)]

    def listen(message: ReceivedMessage) -> bool:
        number = int(message.body)
        if number not in got[message.keys[0]]:  # a move may repeat some
            got[message.keys[0]].append(number)
        return number % 7 != 3 or message.reconsume_times > 0

    def send(first: int) -> None:
        for number in range(first, first + 10):
            for key in keys:
                one = Message(topic, b"%d" % number, keys=[key.replace(" ", "-")])
                producer.send(one, selector=select_by_hash(key))
        eventually(lambda: sum(map(len, got.values())) >= (first + 10) * len(keys), PATIENCE_S)

    def new() -> object:
        consumer = face.PushConsumer(group, address, listener=listen, order="orderly", **QUICK, **FIRST)
        consumer.subscribe(topic)
        return consumer

    with new() as one:
        send(0)
        with new() as two:
            eventually(lambda: len(own(one, topic)) == len(own(two, topic)) == QUEUES // 2, PATIENCE_S)
            assert not set(own(one, topic)) & set(own(two, topic))
            send(10)
        eventually(lambda: len(own(one, topic)) == QUEUES, PATIENCE_S)
        send(20)

    assert list(got.values()) == [list(range(30))] * len(keys)


@pytest.mark.row("SM-19")
def test_a_listener_replies_to_requests(
    face: Face, address: str, topic: str, group: str, producer: Producer
) -> None:
    def reply(message: ReceivedMessage) -> None:
        producer.send(reply_to(message, message.body + b"!"))

    # Its listener sends, and so blocks: that is no work for the loop on which the other face takes replies.
    with (
        PushConsumer(group, address, listener=reply, **QUICK, **FIRST) as consumer,
        face.Producer(f"{group}_asking", address) as asking,
    ):
        consumer.subscribe(topic)
        answers = [
            asking.request(Message(topic, b"%d" % number), timeout_ms=PATIENCE_S * 1_000).body
            for number in range(3)
        ]

    assert answers == [b"0!", b"1!", b"2!"]
