"""Namespaces, batches in parts, compressions and hooks: both faces against a cluster in this process."""

from collections.abc import Iterator

import pytest
from client_faces import Face

from pyromq import (
    ClientSettings,
    Compression,
    Message,
    NoRoute,
    PullConsumer,
    ReceivedMessage,
    SendHook,
    Sending,
    SendStatus,
)
from pyromq.codes import COMPRESSION_MASK
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        yield cluster


def read(address: str, topic: str, count: int) -> list[ReceivedMessage]:
    """Return a topic's messages once there are so many."""

    def found() -> list[ReceivedMessage] | None:
        try:
            queues = consumer.queues(topic)
        except NoRoute:
            return None
        messages = [message for queue in queues for message in consumer.pull(queue, 0).messages]
        return messages if len(messages) >= count else None

    with PullConsumer("readers", address) as consumer:
        return eventually(found)


@pytest.mark.row("PR-23")
def test_what_is_sent_in_a_namespace_is_there_under_its_full_name(
    face: Face, address: str, topic: str
) -> None:
    with face.Producer("pg", address, ClientSettings(namespace="shop")) as producer:
        queue = producer.queues(topic)[1]
        sent = producer.send(Message(topic, b"x"), queue=queue)

    (message,) = read(address, f"shop%{topic}", 1)
    assert sent.queue == queue
    assert (message.topic, message.properties["INSTANCE_ID"]) == (f"shop%{topic}", "shop")


@pytest.mark.row("SM-17")
@pytest.mark.parametrize(("tries_max", "prefix"), [("3", "%RETRY%"), ("2", "%DLQ%")])
def test_a_broker_counts_the_tries_of_a_message_by_what_the_send_says(
    face: Face, address: str, topic: str, tries_max: str, prefix: str
) -> None:
    group, tried = f"counted-{topic}", {"RECONSUME_TIME": "2", "MAX_RECONSUME_TIMES": tries_max}
    with face.Producer("pg", address) as producer:
        producer.send(Message(f"%RETRY%{group}", b"x", properties=tried))

    (message,) = read(address, prefix + group, 1)
    assert (message.body, message.reconsume_times) == (b"x", 2)


@pytest.mark.row("PR-18", "PR-23")
def test_an_admin_of_a_namespace_sees_its_topics_by_their_own_names(
    face: Face, address: str, topic: str
) -> None:
    settings = ClientSettings(namespace="shop")
    with face.Admin(address, settings) as admin, face.Producer("pg", address, settings) as producer:
        admin.create_topic(topic, 2)
        sent = producer.send(Message(topic, b"x", keys=["42"]))

        assert admin.route(topic).queue_datas[0].read_queue_nums == 2
        by_id = admin.find_message(topic, sent.message_id)
        (by_key,) = eventually(lambda: admin.query_message(topic, "42"))
        at_its_place = admin.view_message(by_id.offset_message_id)
        assert admin.max_offset(by_id.queue) == 1
    assert {found.queue for found in (by_id, by_key, at_its_place)} == {sent.queue}


@pytest.mark.row("BA-05", "BA-06", "BA-07")
def test_more_messages_than_a_batch_may_have_are_sent_in_parts(face: Face, address: str, topic: str) -> None:
    settings = ClientSettings(max_message_size=2_000)
    messages = [Message(topic, f"{number:03}".encode() * 30) for number in range(40)]

    with face.Admin(address) as admin, face.Producer("pg", address, settings) as producer:
        # Made by the first batch, the name server would know of it a little later.
        admin.create_topic(topic, 4)
        queue = producer.queues(topic)[0]
        results = producer.send_batches(messages, queue=queue)

    assert len(results) > 2
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    received = []
    with PullConsumer("readers", address) as consumer:
        while len(received) < len(messages):
            received += consumer.pull(queue, len(received)).messages
    assert [message.body for message in received] == [message.body for message in messages]
    assert [message.message_id for message in received] == ",".join(
        result.message_id for result in results
    ).split(",")


@pytest.mark.row("MM-05")
@pytest.mark.parametrize("kind", Compression)
def test_a_large_body_arrives_whole_however_it_is_compressed(
    face: Face, address: str, topic: str, kind: Compression
) -> None:
    body = b"long and the same again " * 1_000

    with face.Producer("pg", address, ClientSettings(compress_type=kind)) as producer:
        producer.send(Message(topic, body))

    (message,) = read(address, topic, 1)
    assert message.body == body
    assert message.size < len(body)
    assert message.sys_flag & COMPRESSION_MASK


class Counting(SendHook):
    """Counts what leaves and what is answered."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def before(self, sending: Sending) -> None:
        self.seen.append(f"before {sending.queue.broker_name}")

    def after(self, sending: Sending) -> None:
        assert sending.result is not None
        self.seen.append(f"after {sending.result.status}")


@pytest.mark.row("SM-13")
def test_hooks_see_every_send(face: Face, address: str, topic: str) -> None:
    hook = Counting()

    with face.Producer("pg", address, hooks=[hook]) as producer:
        producer.send(Message(topic, b"x"))
        producer.send_batch([Message(topic, b"y")])

    assert hook.seen == ["before broker-a", "after SEND_OK"] * 2


@pytest.mark.row("QS-05", "QS-13")
@pytest.mark.parametrize(
    "settings",
    [ClientSettings(send_latency_fault_enable=True), ClientSettings(send_least_latency_enable=True)],
)
def test_messages_arrive_whatever_chooses_the_queue(
    face: Face, address: str, topic: str, settings: ClientSettings
) -> None:
    with face.Producer("pg", address, settings) as producer:
        for _ in range(20):
            producer.send(Message(topic, b"x"))

    assert len(read(address, topic, 20)) == 20
