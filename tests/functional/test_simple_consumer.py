"""Simple consumers on our broker: the stories that Apache's brokers know too, and what is our own."""

import os
import threading
from collections.abc import Iterator

import pop_stories
import pytest
from client_faces import Face
from pop_stories import PopStage, bodies, received

import pyromq
from pyromq import ConfigError, Message
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster(enable_property_filter=True) as cluster:
        yield cluster


@pytest.fixture
def stage(face: Face, address: str, topic: str, group: str) -> Iterator[PopStage]:
    stage = PopStage(face, address, topic, group)
    with stage.closing:
        stage.create_topic()
        yield stage


@pytest.mark.parametrize(
    "story",
    [
        pop_stories.messages_of_all_queues_are_received_as_they_were_sent,
        pop_stories.a_message_that_is_given_more_time_is_not_handed_out_meanwhile,
        pop_stories.a_message_that_failed_is_handed_out_again_at_once,
        pop_stories.a_receive_that_waits_is_answered_when_a_message_comes,
        pop_stories.only_the_wanted_tags_are_received,
        pop_stories.only_what_the_sql_takes_is_received,
    ],
    ids=lambda story: story.__name__,
)
def test_a_story(stage: PopStage, story) -> None:
    story(stage)


@pytest.mark.row("PO-03")
def test_what_is_acknowledged_never_comes_again_and_the_rest_does(stage: PopStage) -> None:
    pop_stories.what_is_acknowledged_never_comes_again_and_the_rest_does(stage)


@pytest.mark.row("PO-01")
def test_members_share_the_messages_of_one_queue(face: Face, address: str, topic: str, group: str) -> None:
    stage = PopStage(face, address, topic, group)
    with stage.closing:
        stage.create_topic(1)
        pop_stories.members_share_the_messages_of_one_queue(stage)


def test_received_in_order_the_rest_of_a_queue_waits(
    face: Face, address: str, topic: str, group: str
) -> None:
    stage = PopStage(face, address, topic, group)
    with stage.closing:
        stage.create_topic(1)
        pop_stories.received_in_order_the_rest_of_a_queue_waits(stage)


def test_topics_of_a_namespace_have_their_own_names(face: Face, address: str, topic: str, group: str) -> None:
    settings = pyromq.ClientSettings(namespace="shop")
    with face.Producer("senders", address, settings) as producer:
        producer.send(Message(topic, b"x"))
    with face.SimpleConsumer(
        group, address, settings, consume_from=pyromq.ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        consumer.subscribe(topic)
        (message,) = received(consumer, 1, invisible_duration_ms=1_000)
        assert (message.topic, message.queue.topic) == (topic, topic)
        (again,) = received(consumer, 1)
        assert (again.topic, again.reconsume_times) == (topic, 1)
        consumer.ack(again)


def test_a_subscription_that_is_added_later_is_received_too(stage: PopStage) -> None:
    consumer = stage.simple()
    consumer.subscribe(f"{stage.topic}-other")
    consumer.unsubscribe(stage.topic)
    with pytest.raises(pyromq.NoRoute):
        consumer.receive(wait_ms=0)
    consumer.unsubscribe(f"{stage.topic}-other")
    consumer.subscribe(stage.topic)
    stage.send(["here"])
    assert bodies(received(consumer, 1)) == ["here"]


# Arguments -----------------------------------------------------------------------------------------------


def test_what_cannot_be_received_is_refused_with_what_to_do(face: Face, address: str, group: str) -> None:
    with face.SimpleConsumer(group, address) as consumer:
        with pytest.raises(ConfigError, match="subscribe to a topic first"):
            consumer.receive(wait_ms=0)
        consumer.subscribe("t")
        with pytest.raises(ConfigError, match="1 to 32"):
            consumer.receive(33)
        with pytest.raises(ConfigError, match="12 hours"):
            consumer.receive(1, 0)


def test_a_message_of_another_consumer_has_no_handle(stage: PopStage) -> None:
    stage.send(["pulled"])
    with stage.face.PullConsumer(
        f"{stage.group}-other", stage.address, start_from=pyromq.ConsumeFrom.FIRST_OFFSET
    ) as reader:
        message = next(iter(reader.messages(stage.topic)))
    with pytest.raises(ConfigError, match="not received by a SimpleConsumer"):
        stage.simple().ack(message)


def test_a_group_that_pops_does_not_begin_at_a_time() -> None:
    with pytest.raises(ConfigError, match="pyromq group reset"):
        pyromq.SimpleConsumer("g", "127.0.0.1:1", consume_from=pyromq.ConsumeFrom.TIMESTAMP)


# Brokers -------------------------------------------------------------------------------------------------


@pytest.fixture
def pair(face: Face, topic: str, group: str) -> Iterator[tuple[ThreadCluster, PopStage]]:
    """Two brokers with a topic on both."""
    with running_cluster(2) as cluster:
        stage = PopStage(face, cluster.namesrv_address, topic, group)
        with stage.closing:
            stage.create_topic(1)
            yield cluster, stage


def queues_of(stage: PopStage) -> list[pyromq.MessageQueue]:
    with stage.face.PullConsumer("looking", stage.address) as reader:
        found: list[pyromq.MessageQueue] = eventually(
            lambda: queues if len(queues := reader.fetch_message_queues(stage.topic)) == 2 else None
        )
        return found


def send_to(stage: PopStage, queue: pyromq.MessageQueue, body: bytes) -> None:
    with stage.face.Producer("senders", stage.address) as producer:
        producer.send(Message(stage.topic, body), queue=queue)


def test_a_receive_that_waits_is_answered_by_whichever_broker_gets_a_message(pair) -> None:
    _, stage = pair
    queues = queues_of(stage)
    consumer = stage.simple()
    consumer.receive(wait_ms=0)
    for queue in queues:
        found: list[pyromq.ReceivedMessage] = []
        waiting = threading.Thread(target=lambda found=found: found.extend(consumer.receive(wait_ms=30_000)))
        waiting.start()
        send_to(stage, queue, queue.broker_name.encode())
        waiting.join(20)
        assert bodies(found) == [queue.broker_name]
        consumer.ack(found)


def test_messages_of_a_broker_that_is_there_come_while_another_is_away(pair) -> None:
    cluster, stage = pair
    first, second = queues_of(stage)
    consumer = stage.simple()
    consumer.receive(wait_ms=0)
    send_to(stage, second, b"there")
    cluster.stop_broker(first.broker_name)
    assert bodies(received(consumer, 1)) == ["there"]
    cluster.start_broker(first.broker_name)
    send_to(stage, first, b"back")
    assert bodies(received(consumer, 1)) == ["back"]


def test_what_was_acknowledged_before_a_restart_does_not_come_after_it(pair) -> None:
    cluster, stage = pair
    first, _ = queues_of(stage)
    for number in range(4):
        send_to(stage, first, b"m%d" % number)
    consumer = stage.simple()
    messages = received(consumer, 4, invisible_duration_ms=3_000)
    consumer.ack(messages[:2])
    cluster.stop_broker(first.broker_name)
    cluster.start_broker(first.broker_name)
    # The handles of before still hold.
    consumer.ack(messages[2])
    again = received(consumer, 1)
    assert [message.body for message in again] == [messages[3].body]
    assert consumer.receive(wait_ms=300) == []


def test_a_child_of_fork_receives_on_connections_of_its_own(address: str, topic: str, group: str) -> None:
    stage = PopStage(Face(None), address, topic, group)
    with stage.closing:
        stage.create_topic()
        stage.send(["parent", "child"])
        consumer = stage.simple()
        (first,) = consumer.receive(1)
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                (second,) = received(consumer, 1)
                consumer.ack(second)
                os.write(writing, second.body)
            finally:
                os._exit(0)
        os.close(writing)
        body = os.read(reading, 100)
        os.waitpid(child, 0)
        os.close(reading)
        consumer.ack(first)
    assert {first.body, body} == {b"parent", b"child"}
