"""What consumers that pop are expected to do, in the same words on our brokers and on Apache's.

Each function is one story: it has a topic of four queues and a group of its own, and asserts.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from client_faces import Face

from pyromq import ConsumeFrom, HandleExpired, Message, NoRoute, ReceivedMessage
from pyromq.testing.waiting import eventually

#: Longer than the shortest invisible time.
SLOW_S = 9


@dataclass
class PopStage:
    """A cluster, one face of the client, and the names of one test."""

    face: Face
    address: str
    topic: str
    group: str
    #: Whether the broker is Apache's, which revives messages some seconds late and takes stale handles.
    is_apache: bool = False
    closing: ExitStack = field(default_factory=ExitStack)

    def create_topic(self, queue_count: int = 4) -> None:
        with self.face.Admin(self.address) as admin:
            admin.create_topic(self.topic, queue_count)

    def send(self, bodies: list[str], **words: Any) -> None:
        with self.face.Producer("pop-senders", self.address) as producer:
            for body in bodies:
                producer.send(Message(self.topic, body.encode(), **words))

    def simple(self, tags: str = "*", **words: Any) -> Any:
        """Return a started simple consumer that is closed at the end."""
        wanted = {"consume_from": ConsumeFrom.FIRST_OFFSET}
        sql = words.pop("sql", None)
        consumer = self.face.SimpleConsumer(self.group, self.address, **(wanted | words))
        consumer.subscribe(self.topic, tags, sql=sql)
        return self.closing.enter_context(consumer)

    def push(self, listener: Callable[..., object], tags: str = "*", **words: Any) -> Any:
        """Return a started push consumer that pops and is closed at the end."""
        wanted = {"consume_from": ConsumeFrom.FIRST_OFFSET, "mode": "pop"}
        consumer = self.face.PushConsumer(self.group, self.address, listener=listener, **(wanted | words))
        consumer.subscribe(self.topic, tags)
        return self.closing.enter_context(consumer)


def received(consumer: Any, count: int, **words: Any) -> list[ReceivedMessage]:
    """Receive until there were so many messages."""
    found: list[ReceivedMessage] = []

    def enough() -> bool:
        found.extend(consumer.receive(**({"wait_ms": 500} | words)))
        return len(found) >= count

    eventually(enough)
    return found


def bodies(messages: list[ReceivedMessage]) -> list[str]:
    return sorted(message.body.decode() for message in messages)


class Heard:
    """A listener that notes what it was called with."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.times: list[tuple[str, int]] = []
        self._lock = threading.Lock()

    def note(self, message: ReceivedMessage) -> None:
        with self._lock:
            self.bodies.append(message.body.decode())
            self.times.append((message.body.decode(), message.reconsume_times))

    def __call__(self, message: ReceivedMessage) -> None:
        self.note(message)


# Simple consumers ----------------------------------------------------------------------------------------


def messages_of_all_queues_are_received_as_they_were_sent(stage: PopStage) -> None:
    stage.send([f"m{n}" for n in range(20)], tags="paid", keys=["k1", "k2"], properties={"city": "Turku"})
    consumer = stage.simple()
    messages = received(consumer, 20, max_messages=8)
    assert bodies(messages) == sorted(f"m{n}" for n in range(20))
    assert len({message.queue for message in messages}) == 4
    message = messages[0]
    assert (message.topic, message.tags, message.keys) == (stage.topic, "paid", ["k1", "k2"])
    assert (message.properties["city"], message.reconsume_times) == ("Turku", 0)
    consumer.ack(messages)


def what_is_acknowledged_never_comes_again_and_the_rest_does(stage: PopStage) -> None:
    stage.send(["done", "left"])
    consumer = stage.simple()
    first = received(consumer, 2, invisible_duration_ms=1_000)
    consumer.ack(next(message for message in first if message.body == b"done"))
    (again,) = received(consumer, 1, invisible_duration_ms=30_000)
    assert (again.body, again.reconsume_times, again.topic) == (b"left", 1, stage.topic)
    assert again.message_id == next(one.message_id for one in first if one.body == b"left")
    consumer.ack(again)
    assert consumer.receive(wait_ms=300) == []


def a_message_that_is_given_more_time_is_not_handed_out_meanwhile(stage: PopStage) -> None:
    stage.send(["long", "short"])
    consumer = stage.simple()
    messages = received(consumer, 2, invisible_duration_ms=3_000)
    long = next(message for message in messages if message.body == b"long")
    consumer.change_invisible_duration(long, 60_000)
    (again,) = received(consumer, 1)
    assert again.body == b"short"
    # The new handle is the one that counts.
    consumer.ack([long, again])


def a_message_that_failed_is_handed_out_again_at_once(stage: PopStage) -> None:
    stage.send(["once more"])
    consumer = stage.simple()
    (message,) = received(consumer, 1, invisible_duration_ms=600_000)
    consumer.change_invisible_duration(message, 0)
    (again,) = received(consumer, 1)
    assert (again.body, again.reconsume_times) == (b"once more", 1)
    consumer.ack(again)
    if not stage.is_apache:
        with pytest.raises(HandleExpired, match="longer invisible time"):
            consumer.change_invisible_duration(message, 1_000)


def a_receive_that_waits_is_answered_when_a_message_comes(stage: PopStage) -> None:
    consumer = stage.simple()
    consumer.receive(wait_ms=0)
    found: list[ReceivedMessage] = []
    waiting = threading.Thread(target=lambda: found.extend(consumer.receive(wait_ms=30_000)))
    waiting.start()
    stage.send(["hello"])
    waiting.join(20)
    assert bodies(found) == ["hello"]
    consumer.ack(found)


def only_the_wanted_tags_are_received(stage: PopStage) -> None:
    stage.send(["a1", "a2"], tags="a")
    stage.send(["b1"], tags="b")
    stage.send(["c1"], tags="c")
    messages = received(stage.simple("a || c"), 3)
    assert bodies(messages) == ["a1", "a2", "c1"]


def only_what_the_sql_takes_is_received(stage: PopStage) -> None:
    stage.send(["cheap"], properties={"price": "3"})
    stage.send(["dear"], properties={"price": "30"})
    messages = received(stage.simple(sql="price > 10"), 1)
    assert bodies(messages) == ["dear"]


def members_share_the_messages_of_one_queue(stage: PopStage) -> None:
    stage.send([f"m{n}" for n in range(16)])
    one, other = stage.simple(), stage.simple()
    found: list[ReceivedMessage] = []

    def enough() -> bool:
        for member in (one, other):
            found.extend(member.receive(2, wait_ms=0))
        return len(found) >= 16

    eventually(enough)
    assert bodies(found) == sorted(f"m{n}" for n in range(16))
    one.ack(found)


def received_in_order_the_rest_of_a_queue_waits(stage: PopStage) -> None:
    stage.send(["first", "second", "third"])
    consumer = stage.simple(order="orderly")
    (first,) = received(consumer, 1, max_messages=1, invisible_duration_ms=60_000)
    assert consumer.receive(wait_ms=200) == []
    consumer.ack(first)
    later = received(consumer, 2)
    assert [message.body for message in (first, *later)] == [b"first", b"second", b"third"]
    consumer.ack(later)


# Push consumers ------------------------------------------------------------------------------------------


def a_listener_is_called_once_with_every_message(stage: PopStage) -> None:
    heard = Heard()
    stage.push(heard)
    stage.send([f"m{n}" for n in range(100)])
    eventually(lambda: len(heard.bodies) >= 100)
    assert Counter(heard.bodies) == Counter(f"m{n}" for n in range(100))


def a_message_that_failed_comes_again(stage: PopStage) -> None:
    heard = Heard()

    def listener(message: ReceivedMessage, delivery: Any) -> bool:
        heard.note(message)
        delivery.delay_level = 1
        return message.reconsume_times > 0

    stage.push(listener)
    stage.send(["twice"])
    eventually(lambda: len(heard.times) >= 2)
    assert heard.times == [("twice", 0), ("twice", 1)]


def a_message_that_failed_too_often_is_a_dead_letter(stage: PopStage) -> None:
    heard = Heard()

    def listener(message: ReceivedMessage, delivery: Any) -> bool:
        heard.note(message)
        delivery.delay_level = 1
        return False

    stage.push(listener, max_reconsume_times=1)
    stage.send(["hopeless"])
    with stage.face.DeadLetters(stage.address) as letters:
        (letter,) = eventually(lambda: dead_letters_of(letters, stage.group))
    assert heard.times == [("hopeless", 0), ("hopeless", 1)]
    assert (letter.message.body, letter.topic) == (b"hopeless", stage.topic)


def dead_letters_of(letters: Any, group: str) -> list[Any]:
    try:
        return list(letters.read(group))
    except NoRoute:
        return []


def what_a_consumer_leaves_at_its_end_goes_to_others(stage: PopStage) -> None:
    heard, may_go_on = Heard(), threading.Event()

    def stuck(message: ReceivedMessage) -> None:
        heard.note(message)
        may_go_on.wait(30)

    stage.send([f"m{n}" for n in range(12)])
    first = stage.push(stuck, consume_thread_min=1, consume_thread_max=1)
    eventually(lambda: heard.bodies)
    may_go_on.set()
    first.close()
    rest = Heard()
    stage.push(rest)
    eventually(lambda: len(set(heard.bodies) | set(rest.bodies)) == 12)
    assert not set(heard.bodies) & set(rest.bodies)


def a_slow_listener_is_not_disturbed(stage: PopStage) -> None:
    heard, slow_ends = Heard(), threading.Event()

    def slow(message: ReceivedMessage) -> None:
        heard.note(message)
        slow_ends.wait(SLOW_S)

    async def slow_on_a_loop(message: ReceivedMessage) -> None:
        heard.note(message)
        await asyncio.to_thread(slow_ends.wait, SLOW_S)

    stage.push(slow if stage.face.is_blocking else slow_on_a_loop, pop_invisible_time=5_000)
    stage.send(["slow"])
    eventually(lambda: heard.bodies)
    other = Heard()
    stage.push(other, pop_invisible_time=5_000)
    slow_ends.wait(SLOW_S)
    assert (heard.bodies, other.bodies) == (["slow"], [])


def in_order_a_failed_message_is_tried_again_before_the_next(stage: PopStage) -> None:
    heard = Heard()

    def listener(message: ReceivedMessage) -> bool:
        heard.note(message)
        return message.body != b"m1" or message.reconsume_times > 1

    stage.send([f"m{n}" for n in range(5)])
    stage.push(listener, order="orderly", suspend_current_queue_time_millis=10)
    eventually(lambda: "m4" in heard.bodies)
    assert heard.bodies == ["m0", "m1", "m1", "m1", "m2", "m3", "m4"]
