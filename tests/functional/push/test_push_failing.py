"""Messages that fail: retried, given up, tried again in order."""

import asyncio
import threading
from collections import Counter, defaultdict
from typing import Any

import pytest
from client_faces import Face
from push_stage import FIRST, QUICK, Handler, own, progress, read_topic, send

import pyromq
from pyromq import (
    ClientClosed,
    ConsumeResult,
    Message,
    ReceivedMessage,
)
from pyromq.testing.waiting import eventually

# Messages that fail --------------------------------------------------------------------------------------


@pytest.mark.row("RT-01", "RT-06")
def test_a_message_that_fails_comes_again_under_its_topic_and_then_is_a_dead_letter(
    face: Face, address, topic, group, producer, queues
) -> None:
    producer.send(Message(topic, b"bad", keys=["k"]))

    def fail(_message: ReceivedMessage) -> None:
        raise ValueError("no such order")

    handler = Handler(fail)
    with face.PushConsumer(
        group, address, listener=handler, max_reconsume_times=1, **QUICK, **FIRST
    ) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: len(handler.got) == 2, 20)
        (dead,) = read_topic(address, f"%DLQ%{group}", 1)
        queue = handler.got[0].queue
        eventually(lambda: progress(address, group, queue) == 1)

    assert [message.topic for message in handler.got] == [topic, topic]
    assert [message.reconsume_times for message in handler.got] == [0, 1]
    assert handler.got[1].queue.topic == f"%RETRY%{group}"
    assert (dead.body, dead.keys) == (b"bad", ["k"])


def test_false_is_a_retry_too(face: Face, address, topic, group, producer, queues) -> None:
    producer.send(Message(topic, b"bad"))
    handler = Handler(lambda message: message.reconsume_times > 0)
    with face.PushConsumer(group, address, listener=handler, **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: len(handler.got) == 2, 20)


def test_a_listener_may_choose_that_a_message_never_comes_again(
    face: Face, address, topic, group, producer, queues
) -> None:
    producer.send(Message(topic, b"bad"))

    def give_up(_message: ReceivedMessage, delivery: pyromq.Delivery) -> ConsumeResult:
        delivery.delay_level = -1
        return ConsumeResult.RECONSUME_LATER

    with face.PushConsumer(group, address, listener=give_up, **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic)
        (dead,) = read_topic(address, f"%DLQ%{group}", 1)

    assert dead.body == b"bad"


class Witness(pyromq.ConsumeHook):
    """Notes what listeners are called with."""

    def __init__(self) -> None:
        self.seen: list[pyromq.Consuming] = []

    def before(self, consuming: pyromq.Consuming) -> None:
        self.seen.append(consuming)


@pytest.mark.row("HK-01")
def test_a_namespace_is_in_front_of_topic_and_group_and_nobody_sees_it(
    face: Face, address, topic, group
) -> None:
    settings = pyromq.ClientSettings(namespace="shop")
    handler, witness = Handler(lambda message: message.reconsume_times > 0), Witness()
    how = {"listener": handler, "settings": settings, "hooks": [witness], **QUICK, **FIRST}
    with pyromq.Producer("producers", address, settings) as producer:
        producer.send(Message(topic, b"x"))
    with face.PushConsumer(group, address, **how) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: len(handler.got) == 2, 20)
        topics = {queue.topic for queue in consumer.assignment()}

    assert [message.topic for message in handler.got] == [topic, topic]
    assert topics == {f"shop%{topic}", f"%RETRY%shop%{group}"}
    assert {(one.namespace, one.group) for one in witness.seen} == {("shop", f"shop%{group}")}
    assert {one.queue.topic for one in witness.seen} == topics


@pytest.mark.row("BA-10")
def test_one_failure_fails_the_batch(face: Face, address, topic, group, producer, queues) -> None:
    for number in range(3):
        producer.send(Message(topic, b"%d" % number), queue=queues[0])
    batches: list[list[bytes]] = []

    def listen(messages: list[ReceivedMessage]) -> bool:
        batches.append([message.body for message in messages])
        return messages[0].reconsume_times > 0

    with face.PushConsumer(
        group, address, batch_listener=listen, consume_message_batch_max_size=3, **QUICK, **FIRST
    ) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: sum(map(len, batches)) >= 6, 20)

    assert batches[0] == [b"0", b"1", b"2"]
    assert sorted(body for batch in batches[1:] for body in batch) == [b"0", b"1", b"2"]


@pytest.mark.row("CO-10")
def test_of_a_batch_only_what_follows_the_ack_index_comes_again(
    face: Face, address, topic, group, producer, queues
) -> None:
    for number in range(3):
        producer.send(Message(topic, b"%d" % number), queue=queues[0])
    got: list[bytes] = []

    def listen(messages: list[ReceivedMessage], delivery: pyromq.Delivery) -> None:
        got.extend(message.body for message in messages)
        if messages[0].reconsume_times == 0:
            delivery.ack_index = len(messages) - 2

    with face.PushConsumer(
        group, address, batch_listener=listen, consume_message_batch_max_size=3, **QUICK, **FIRST
    ) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: len(got) == 4, 20)

    assert sorted(got) == [b"0", b"1", b"2", b"2"]


# In order ------------------------------------------------------------------------------------------------


@pytest.mark.row("OR-02", "OR-04")
def test_messages_of_a_queue_are_handled_in_order_and_a_failed_one_before_the_next(
    face: Face, address, topic, group, producer, queues
) -> None:
    for number in range(6):
        for queue in queues:
            producer.send(Message(topic, b"%d" % number), queue=queue)
    by_queue: dict[int, list[bytes]] = defaultdict(list)

    def listen(message: ReceivedMessage) -> bool:
        by_queue[message.queue.queue_id].append(message.body)
        return message.body != b"3" or message.reconsume_times >= 2

    with face.PushConsumer(group, address, listener=listen, order="orderly", **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: sum(map(len, by_queue.values())) == 4 * 8)
        eventually(lambda: all(progress(address, group, queue) == 6 for queue in queues))

    assert set(map(tuple, by_queue.values())) == {(b"0", b"1", b"2", b"3", b"3", b"3", b"4", b"5")}


@pytest.mark.row("OR-03", "OF-08")
def test_closing_in_order_waits_for_the_message_that_is_handled_and_commits_it(
    face: Face, address, topic, group, producer, queues
) -> None:
    for number in range(3):
        producer.send(Message(topic, b"%d" % number), queue=queues[0])
    is_called, is_free = threading.Event(), threading.Event()
    first, second = Handler(), Handler()

    async def wait(message: ReceivedMessage) -> None:
        first(message)
        is_called.set()
        await asyncio.to_thread(is_free.wait, 60)

    def wait_on_thread(message: ReceivedMessage) -> None:
        first(message)
        is_called.set()
        is_free.wait(60)

    listener = wait_on_thread if face.is_blocking else wait
    consumer = face.PushConsumer(group, address, listener=listener, order="orderly", **QUICK, **FIRST)
    consumer.subscribe(topic)
    consumer.start()
    assert is_called.wait(60)
    closing = threading.Thread(target=consumer.close)
    closing.start()
    eventually(lambda: is_closing(consumer))
    assert closing.is_alive()
    is_free.set()
    closing.join(60)
    assert not closing.is_alive()
    with face.PushConsumer(group, address, listener=second, order="orderly", **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: len(first.got) + len(second.got) >= 3)

    assert first.bodies + second.bodies == [b"0", b"1", b"2"]


def is_closing(consumer: Any) -> bool:
    try:
        # As it is; but a consumer that is closing refuses it.
        consumer.update_core_pool_size(20)
    except ClientClosed:
        return True
    return False


@pytest.mark.row("OR-01")
def test_a_topic_of_one_queue_is_read_in_the_order_of_its_sends(
    face: Face, address, topic, group, producer
) -> None:
    with pyromq.Admin(address) as admin:
        admin.create_topic(topic, queue_count=1)
        eventually(lambda: has_route(admin, topic))
    bodies = send(producer, topic, 30)
    handler = Handler()
    with face.PushConsumer(group, address, listener=handler, order="orderly", **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: len(handler.got) >= 30)

    assert handler.bodies == bodies


def has_route(admin: pyromq.Admin, topic: str) -> bool:
    try:
        return bool(admin.route(topic).queue_datas)
    except pyromq.TopicNotFound:
        return False


@pytest.mark.row("OR-04")
def test_in_order_a_message_that_fails_too_often_makes_way(
    face: Face, address, topic, group, producer, queues
) -> None:
    for body in (b"bad", b"good"):
        producer.send(Message(topic, body), queue=queues[0])
    handler = Handler(lambda message: message.body == b"good")
    with face.PushConsumer(
        group, address, listener=handler, order="orderly", max_reconsume_times=2, **QUICK, **FIRST
    ) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: b"good" in handler.bodies)
        (dead,) = read_topic(address, f"%DLQ%{group}", 1)

    assert handler.bodies == [b"bad", b"bad", b"bad", b"good"]
    assert dead.body == b"bad"


@pytest.mark.row("OR-03")
def test_a_queue_in_order_is_one_members_at_a_time(
    face: Face, address, topic, group, producer, queues
) -> None:
    got: list[tuple[int, int]] = []
    under_way: Counter[int] = Counter()
    overlaps: list[int] = []

    def listen(message: ReceivedMessage) -> None:
        queue_id = message.queue.queue_id
        under_way[queue_id] += 1
        if under_way[queue_id] > 1:
            overlaps.append(queue_id)
        got.append((queue_id, message.queue_offset))
        under_way[queue_id] -= 1

    def new() -> Any:
        consumer = face.PushConsumer(group, address, listener=listen, order="orderly", **QUICK, **FIRST)
        consumer.subscribe(topic)
        return consumer

    with new() as one:
        send(producer, topic, 40)
        eventually(lambda: len(got) >= 40)
        with new() as two:
            eventually(lambda: own(one, topic) and own(two, topic))
            send(producer, topic, 40)
            eventually(lambda: len(set(got)) >= 80)
        eventually(lambda: len(own(one, topic)) == 4)
        send(producer, topic, 40)
        eventually(lambda: len(set(got)) >= 120)

    assert overlaps == []
    for queue_id in range(4):
        firsts = list(dict.fromkeys(offset for number, offset in got if number == queue_id))
        assert firsts == sorted(firsts)


# Messages that cannot be read ------------------------------------------------------------------------------


@pytest.mark.row("RT-06", "MM-05")
@pytest.mark.parametrize("is_orderly", [False, True])
def test_a_body_that_grows_too_large_is_a_dead_letter_and_holds_nobody_up(
    face: Face, address, topic, group, producer, queues, is_orderly
) -> None:
    for body in (b"before", bytes(2 << 20), b"behind"):
        producer.send(Message(topic, body), queue=queues[0])
    handler = Handler()
    with face.PushConsumer(
        group,
        address,
        listener=handler,
        order="orderly" if is_orderly else "concurrent",
        decompressed_bytes_max=1 << 20,
        max_reconsume_times=0,
        **QUICK,
        **FIRST,
    ) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: len(handler.got) == 2, 20)
        (dead,) = read_topic(address, f"%DLQ%{group}", 1)
        eventually(lambda: progress(address, group, queues[0]) == 3)

    assert sorted(handler.bodies) == [b"before", b"behind"]
    # As it was stored: whoever unpacks more reads it.
    assert dead.body == bytes(2 << 20)
