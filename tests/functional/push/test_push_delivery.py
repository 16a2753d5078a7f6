"""What listeners of push consumers get, and where their group is."""

import threading
from collections import Counter

import pytest
from client_faces import Face, face_of
from push_stage import FIRST, QUICK, Handler, ask, progress, send, total_progress

import pyromq
from pyromq import (
    Message,
    ReceivedMessage,
    Refused,
)
from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.waiting import eventually
from pyromq.wire.bodies.offset_bodies import decode_reset_offsets

# What a listener gets ------------------------------------------------------------------------------------


@pytest.mark.row("CO-02", "CO-03", "CO-11")
def test_a_listener_gets_every_message_once(face: Face, address, topic, group, producer, queues) -> None:
    handler = Handler()
    with face.PushConsumer(group, address, listener=handler, **QUICK) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: consumer.assignment() and len(consumer.assignment()) >= 4)
        bodies = send(producer, topic, 40)
        eventually(lambda: len(handler.got) >= 40)

    assert sorted(handler.bodies) == sorted(bodies)
    assert {message.topic for message in handler.got} == {topic}


def test_only_wanted_tags_come(face: Face, address, topic, group, producer, queues) -> None:
    # In one queue: whoever got the last has passed the others.
    for tag in ("paid", "cancelled", "refunded"):
        producer.send(Message(topic, tag.encode(), tags=tag), queue=queues[0])
    handler = Handler()
    with face.PushConsumer(group, address, listener=handler, **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic, "paid || refunded")
        eventually(lambda: len(handler.got) >= 2)

    assert sorted(handler.bodies) == [b"paid", b"refunded"]


def test_a_broker_that_knows_no_sql_is_no_silent_failure(face: Face, address, topic, group, queues) -> None:
    consumer = face.PushConsumer(group, address, listener=Handler(), **QUICK)
    consumer.subscribe(topic, sql="amount > 10")

    with pytest.raises(Refused, match="SQL92"):
        consumer.start()


def test_a_coroutine_listener_is_awaited(address, topic, group, producer, queues) -> None:
    bodies = send(producer, topic, 10)
    got: list[bytes] = []

    async def listen(message: ReceivedMessage) -> bool:
        got.append(message.body)
        return True

    with (
        face_of("asyncio") as face,
        face.PushConsumer(group, address, listener=listen, **QUICK, **FIRST) as consumer,
    ):
        consumer.subscribe(topic)
        eventually(lambda: len(got) >= 10)

    assert sorted(got) == sorted(bodies)


@pytest.mark.row("CO-10")
def test_a_batch_listener_gets_lists_of_one_queue(
    face: Face, address, topic, group, producer, queues
) -> None:
    for _ in range(20):
        for queue in queues[:2]:
            producer.send(Message(topic, b"x"), queue=queue)
    batches: list[list[ReceivedMessage]] = []
    with face.PushConsumer(
        group,
        address,
        batch_listener=lambda messages: batches.append(messages),
        consume_message_batch_max_size=8,
        **QUICK,
        **FIRST,
    ) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: sum(map(len, batches)) >= 40)

    assert max(map(len, batches)) > 1
    assert all(len(batch) <= 8 for batch in batches)
    assert all(len({message.queue for message in batch}) == 1 for batch in batches)


@pytest.mark.row("BA-08")
def test_a_batch_has_no_more_than_a_broker_gives_at_once(
    face: Face, address, topic, group, producer, queues
) -> None:
    for number in range(100):
        producer.send(Message(topic, b"%d" % number), queue=queues[0])
    batches: list[list[ReceivedMessage]] = []
    with face.PushConsumer(
        group,
        address,
        batch_listener=lambda messages: batches.append(messages),
        consume_message_batch_max_size=1_024,
        pull_batch_size=1_024,
        **QUICK,
        **FIRST,
    ) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: sum(map(len, batches)) >= 100)

    assert max(map(len, batches)) == 32


def test_topics_come_and_go_while_it_runs(face: Face, address, topic, group, producer, queues) -> None:
    handler = Handler()
    with face.PushConsumer(group, address, listener=handler, **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic)
        send(producer, topic, 4)
        # Not only taken: what a listener still has when its queue goes comes again.
        eventually(lambda: total_progress(address, group, queues) == 4)
        consumer.unsubscribe(topic)
        eventually(lambda: not [queue for queue in consumer.assignment() if queue.topic == topic])
        producer.send(Message(topic, b"unwanted"))
        consumer.subscribe(topic)
        eventually(lambda: len(handler.got) >= 5)

    assert handler.bodies[4:] == [b"unwanted"]


def test_a_suspended_consumer_takes_nothing_until_it_is_resumed(
    face: Face, address, topic, group, producer, queues
) -> None:
    handler = Handler()
    with face.PushConsumer(
        group, address, listener=handler, push_suspend_max_time_millis=50, **QUICK, **FIRST
    ) as consumer:
        consumer.subscribe(topic)
        producer.send(Message(topic, b"before"))
        eventually(lambda: len(handler.got) == 1)
        consumer.suspend()
        # A pull that a broker holds may still bring something; the next one is not sent.
        while True:
            before = len(handler.got)
            send(producer, topic, 8)
            try:
                eventually(lambda before=before: len(handler.got) > before, timeout_s=0.5)
            except AssertionError:
                break
        consumer.resume()
        eventually(lambda: len(handler.got) >= before + 8)


# Where a group is ----------------------------------------------------------------------------------------


@pytest.mark.row("OF-01", "OF-07")
def test_what_is_done_is_committed_while_it_runs(face: Face, address, topic, group, producer, queues) -> None:
    for _ in range(7):
        producer.send(Message(topic, b"x"), queue=queues[2])
    with face.PushConsumer(group, address, listener=Handler(), **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic)

        eventually(lambda: progress(address, group, queues[2]) == 7)


@pytest.mark.row("OF-08")
def test_closing_commits_and_the_next_goes_on_there(
    face: Face, address, topic, group, producer, queues
) -> None:
    slow = QUICK | {"persist_consumer_offset_interval": 60_000}
    first, second = Handler(), Handler()
    send(producer, topic, 12)
    with face.PushConsumer(group, address, listener=first, **slow, **FIRST) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: len(first.got) >= 12)
    producer.send(Message(topic, b"later"))
    with face.PushConsumer(group, address, listener=second, **slow, **FIRST) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: second.got)

    assert second.bodies == [b"later"]


@pytest.mark.row("OF-08")
def test_progress_does_not_pass_a_message_that_is_not_finished(
    address, topic, group, producer, queues
) -> None:
    for number in range(5):
        producer.send(Message(topic, b"%d" % number), queue=queues[0])
    is_free = threading.Event()
    handler = Handler(lambda message: is_free.wait(60) and None if message.body == b"2" else None)
    with pyromq.PushConsumer(group, address, listener=handler, **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: len(handler.got) == 5)
        # What follows is finished before this one is: its progress comes with, or after, all that is to come.
        producer.send(Message(topic, b"x"), queue=queues[1])
        eventually(lambda: progress(address, group, queues[1]) == 1)
        eventually(lambda: progress(address, group, queues[0]) == 2)
        is_free.set()
        eventually(lambda: progress(address, group, queues[0]) == 5)


@pytest.mark.row("OF-04", "OF-09")
def test_a_new_group_begins_a_young_queue_at_its_begin(
    face: Face, address, topic, group, producer, queues
) -> None:
    send(producer, topic, 4)
    handler = Handler()
    with face.PushConsumer(group, address, listener=handler, **QUICK) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: len(handler.got) == 4)


def test_progress_can_be_reset_by_an_operator(
    face: Face, cluster, address, topic, group, producer, queues
) -> None:
    bodies = send(producer, topic, 8)
    handler = Handler()
    with face.PushConsumer(group, address, listener=handler, **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: total_progress(address, group, queues) == 8)
        answer = ask(
            cluster,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            {"topic": topic, "group": group, "timestamp": "0", "isForce": "true"},
        )
        assert answer.code == ResponseCode.SUCCESS
        assert set(decode_reset_offsets(answer.body).values()) == {0}
        eventually(lambda: len(handler.got) >= 16)

    assert Counter(handler.bodies) == dict.fromkeys(bodies, 2)
