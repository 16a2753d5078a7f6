"""What is sent is read back: both faces of the client against a cluster in this process."""

import threading
from collections.abc import Iterator

import pytest
from client_faces import Face

from pyromq import (
    ConsumeFrom,
    Message,
    MessageIllegal,
    MessageQueue,
    NoRoute,
    PullStatus,
    SendStatus,
    TopicNotFound,
    select_by_hash,
)
from pyromq.codes import SysFlag
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def producer(face: Face, address: str):
    with face.Producer("producers", address) as producer:
        yield producer


@pytest.fixture
def consumer(face: Face, address: str, topic: str):
    """A consumer in a group of its own that reads from the beginning."""
    with face.PullConsumer(f"g-{topic}", address, start_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        yield consumer


@pytest.fixture
def admin(face: Face, address: str):
    with face.Admin(address) as admin:
        yield admin


def known(consumer, topic: str) -> list[MessageQueue]:
    """The queues of a topic that was just created, once the name server knows them."""

    def queues() -> list[MessageQueue] | None:
        try:
            return consumer.queues(topic)
        except NoRoute:
            return None

    return eventually(queues)


def read_all(consumer, topic: str, count: int, **how) -> list:
    known(consumer, topic)
    found: list = []
    for message in consumer.messages(topic, **how):
        found.append(message)
        if len(found) == count:
            break
    return found


@pytest.mark.row("SM-01", "MM-01", "MM-02")
def test_a_message_arrives_as_it_was_sent(producer, consumer, topic: str) -> None:
    message = Message(topic, b"body", tags="paid", keys=["k1", "k2"], properties={"city": "Turku"}, flag=7)

    sent = producer.send(message)
    (received,) = read_all(consumer, topic, 1)

    assert sent.status is SendStatus.SEND_OK
    assert (received.topic, received.body, received.flag) == (topic, b"body", 7)
    assert (received.tags, received.keys) == ("paid", ["k1", "k2"])
    assert received.properties["city"] == "Turku"
    assert received.message_id == sent.message_id
    assert received.offset_message_id == sent.offset_message_id
    assert (received.queue, received.queue_offset) == (sent.queue, sent.queue_offset)


@pytest.mark.row("MM-03")
def test_every_message_has_a_unique_id_of_32_characters(producer, topic: str) -> None:
    ids = [producer.send(Message(topic, b"x")).message_id for _ in range(20)]

    assert len(set(ids)) == 20
    assert {len(each) for each in ids} == {32}
    assert all(each == each.upper() for each in ids)


@pytest.mark.row("PR-06", "PR-08", "PR-09", "PR-10")
def test_the_first_message_creates_its_topic_with_four_queues(producer, admin, topic: str) -> None:
    with pytest.raises(TopicNotFound):
        admin.route(topic)
    template = admin.route("TBW102").queue_datas[0]
    assert (template.read_queue_nums, template.perm) == (8, 7)

    producer.send(Message(topic, b"x"))

    def created():
        try:
            return admin.route(topic).queue_datas[0]
        except TopicNotFound:
            return None

    queues = eventually(created)
    assert (queues.read_queue_nums, queues.write_queue_nums, queues.perm) == (4, 4, 6)


@pytest.mark.row("PR-17", "PR-19")
def test_messages_go_to_the_queue_that_is_given(producer, consumer, topic: str) -> None:
    queue = producer.queues(topic)[2]

    results = [producer.send(Message(topic, b"%d" % number), queue=queue) for number in range(3)]

    assert [(result.queue, result.queue_offset) for result in results] == [(queue, 0), (queue, 1), (queue, 2)]
    known(consumer, topic)
    assert [message.body for message in consumer.pull(queue, 0).messages] == [b"0", b"1", b"2"]


@pytest.mark.row("PR-17", "QS-17", "SM-14")
def test_messages_of_one_key_stay_in_order(producer, consumer, topic: str) -> None:
    for number in range(5):
        for key in ("a", "b", "c"):
            producer.send(Message(topic, f"{key}{number}".encode()), selector=select_by_hash(key))

    received = read_all(consumer, topic, 15)

    for key in ("a", "b", "c"):
        bodies = [message.body.decode() for message in received if message.body.startswith(key.encode())]
        assert bodies == [f"{key}{number}" for number in range(5)]


@pytest.mark.row("QS-01")
def test_messages_spread_evenly_over_the_queues(producer, topic: str) -> None:
    results = [producer.send(Message(topic, b"x")) for _ in range(12)]

    queue_ids = [result.queue.queue_id for result in results]
    assert all(queue_ids.count(queue_id) == 3 for queue_id in range(4))


@pytest.mark.row("SM-03", "PR-17")
def test_a_oneway_message_arrives(producer, consumer, topic: str) -> None:
    producer.send_oneway(Message(topic, b"gone"))

    assert [message.body for message in read_all(consumer, topic, 1)] == [b"gone"]


@pytest.mark.row("BA-01", "BA-07", "PR-17")
def test_a_batch_is_stored_in_one_queue_one_behind_the_other(producer, consumer, topic: str) -> None:
    messages = [Message(topic, b"%d" % number, tags="t", keys=[str(number)]) for number in range(5)]

    sent = producer.send_batch(messages)

    received = read_all(consumer, topic, 5)
    assert [message.body for message in received] == [b"0", b"1", b"2", b"3", b"4"]
    assert [message.queue_offset for message in received] == [sent.queue_offset + at for at in range(5)]
    assert sent.message_id == ",".join(message.message_id for message in received)
    assert sent.offset_message_id == ",".join(message.offset_message_id for message in received)


@pytest.mark.row("BA-03", "BA-04")
def test_a_batch_that_breaks_a_rule_is_not_sent(producer, topic: str) -> None:
    with pytest.raises(MessageIllegal):
        producer.send_batch([Message(topic, b"1"), Message("other", b"2")])
    with pytest.raises(MessageIllegal):
        producer.send_batch([Message(topic, bytes(1024 * 1024)) for _ in range(5)])


@pytest.mark.row("MM-05")
def test_a_large_body_travels_compressed_and_arrives_plain(producer, consumer, topic: str) -> None:
    body = b"all work and no play " * 20_000

    producer.send(Message(topic, body))
    (received,) = read_all(consumer, topic, 1)

    assert received.body == body
    assert received.sys_flag & SysFlag.COMPRESSED
    assert received.size < 10_000


def test_a_pull_is_held_until_a_message_comes(producer, consumer, topic: str) -> None:
    queue = producer.queues(topic)[0]
    producer.send(Message(topic, b"first"), queue=queue)
    known(consumer, topic)
    held: list = []
    thread = threading.Thread(target=lambda: held.append(consumer.pull(queue, 1, wait_ms=20_000)))
    thread.start()

    producer.send(Message(topic, b"second"), queue=queue)

    thread.join(60)
    assert [message.body for message in held[0].messages] == [b"second"]


def test_a_pull_past_the_end_finds_nothing_new(producer, consumer, topic: str) -> None:
    queue = producer.queues(topic)[0]
    producer.send(Message(topic, b"only"), queue=queue)
    known(consumer, topic)

    at_the_end = consumer.pull(queue, 1)
    far_past_it = consumer.pull(queue, 100)

    assert (at_the_end.status, at_the_end.next_offset) == (PullStatus.NO_NEW_MESSAGE, 1)
    assert (far_past_it.status, far_past_it.next_offset) == (PullStatus.OFFSET_ILLEGAL, 1)


@pytest.mark.row("FI-01")
def test_only_messages_with_the_wanted_tags_are_read(producer, consumer, topic: str) -> None:
    # «Aa» and «BB» have one hash, so the broker lets «Aa» through and the client does not.
    for tag in ("Aa", "BB", "c", None):
        producer.send(Message(topic, str(tag).encode(), tags=tag), queue=producer.queues(topic)[0])

    received = read_all(consumer, topic, 2, tags="BB || c")

    assert [message.tags for message in received] == ["BB", "c"]


@pytest.mark.row("MM-12")
def test_progress_is_the_offset_that_is_read_next(producer, consumer, topic: str) -> None:
    queue = producer.queues(topic)[1]
    for _ in range(3):
        producer.send(Message(topic, b"x"), queue=queue)
    known(consumer, topic)

    consumer.commit(queue, 2)

    assert consumer.committed(queue) == 2


def test_a_group_goes_on_where_it_stopped(face: Face, address: str, producer, topic: str) -> None:
    queue = producer.queues(topic)[0]
    for number in range(6):
        producer.send(Message(topic, b"%d" % number), queue=queue)
    group = f"g-{topic}"
    with face.PullConsumer(group, address, start_from=ConsumeFrom.FIRST_OFFSET) as first:
        before = [message.body for message in read_all(first, topic, 4)]

    with face.PullConsumer(group, address) as second:
        after = [message.body for message in second.messages(topic, idle_ms=200)]

    assert (before, after) == ([b"0", b"1", b"2", b"3"], [b"4", b"5"])


def test_a_message_whose_handling_failed_comes_again(face: Face, address: str, producer, topic: str) -> None:
    queue = producer.queues(topic)[0]
    for number in range(3):
        producer.send(Message(topic, b"%d" % number), queue=queue)
    group = f"g-{topic}"

    def fail_at_the_second() -> None:
        with face.PullConsumer(group, address, start_from=ConsumeFrom.FIRST_OFFSET) as first:
            known(first, topic)
            for message in first.messages(topic):
                if message.body == b"1":
                    raise LookupError("the application's own")

    with pytest.raises(LookupError):
        fail_at_the_second()
    with face.PullConsumer(group, address) as second:
        after = [message.body for message in second.messages(topic, idle_ms=200)]

    assert after == [b"1", b"2"]


def test_a_poll_returns_what_is_there_and_nothing_when_nothing_is(producer, consumer, topic: str) -> None:
    producer.send(Message(topic, b"x"))
    known(consumer, topic)

    assert [message.body for message in consumer.poll_topic(topic)] == [b"x"]
    assert consumer.poll_topic(topic, wait_ms=50) == []


@pytest.mark.row("PR-18")
def test_a_queue_s_begin_end_and_times_are_known(producer, consumer, admin, topic: str) -> None:
    queue = producer.queues(topic)[0]
    for _ in range(3):
        producer.send(Message(topic, b"x"), queue=queue)
    known(consumer, topic)
    messages = consumer.pull(queue, 0).messages
    first, last = messages[0], messages[-1]

    assert (consumer.min_offset(queue), consumer.max_offset(queue)) == (0, 3)
    assert (admin.min_offset(queue), admin.max_offset(queue)) == (0, 3)
    assert consumer.offset_by_time(queue, 0) == 0
    # 4.9.8 gives any of the messages that were stored in the same millisecond.
    assert messages[consumer.offset_by_time(queue, first.stored_at_ms)].stored_at_ms == first.stored_at_ms
    assert consumer.offset_by_time(queue, last.stored_at_ms + 10_000) >= 2
    assert admin.earliest_time(queue) == first.stored_at_ms


@pytest.mark.row("PR-18", "MM-04")
def test_a_message_is_found_by_its_key_and_by_both_ids(producer, admin, topic: str) -> None:
    admin.create_topic(topic, queue_count=2)
    sent = producer.send(Message(topic, b"findable", keys=["needle"]))

    by_key = eventually(lambda: admin.query_message(topic, "needle"))
    by_place = admin.view_message(sent.offset_message_id)
    by_unique_id = admin.find_message(topic, sent.message_id)

    assert [message.message_id for message in by_key] == [sent.message_id]
    assert by_place.queue == sent.queue
    assert by_place.body == by_unique_id.body == b"findable"


@pytest.mark.row("PR-18")
def test_a_topic_that_is_created_has_the_queues_that_were_asked_for(producer, admin, topic: str) -> None:
    admin.create_topic(topic, queue_count=3)

    assert len(eventually(lambda: admin.route(topic)).queue_datas) == 1
    assert [queue.queue_id for queue in producer.queues(topic)] == [0, 1, 2]


def test_the_cluster_shows_its_brokers(admin, cluster: ThreadCluster) -> None:
    table = admin.cluster()

    assert table.cluster_addr_table == {"DefaultCluster": ["broker-a"]}
    assert table.broker_addr_table["broker-a"].broker_addrs == {0: cluster.broker_addresses[0]}


@pytest.mark.row("PR-11")
def test_a_topic_that_nobody_knows_cannot_be_read(consumer) -> None:
    with pytest.raises(NoRoute, match="updateTopic"):
        consumer.queues("nobody-knows-it")
