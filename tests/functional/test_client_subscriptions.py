"""Pull consumers that subscribe or assign: both faces against a cluster in this process."""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from client_faces import Face

import pyromq
from pyromq import (
    AlreadyStarted,
    ClientClosed,
    ClientSettings,
    ConfigError,
    ConsumeFrom,
    Message,
    MessageQueue,
    PyroError,
    Refused,
)
from pyromq.client.consumer.allocation import average_by_circle, by_config
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import NetSettings
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually
from pyromq.wire.bodies.lock_bodies import decode_consumer_ids
from pyromq.wire.bodies.running_info import RunningState, decode_running_state
from pyromq.wire.command import Command

QUICK = ClientSettings(
    rebalance_wait_interval=200, poll_name_server_interval=100, persist_consumer_offset_interval=100
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def producer(face: Face, address: str) -> Iterator[Any]:
    with face.Producer("producers", address) as producer:
        yield producer


@pytest.fixture
def admin(face: Face, address: str) -> Iterator[Any]:
    with face.Admin(address) as admin:
        yield admin


@pytest.fixture
def topic(request: pytest.FixtureRequest, admin: Any) -> str:
    """A topic of four queues that no other test uses."""
    name = f"t-{abs(hash(request.node.nodeid))}"
    admin.create_topic(name, 4)
    return name


@pytest.fixture
def member(face: Face, address: str, topic: str) -> Iterator[Callable[..., Any]]:
    """Start members of one group; they are closed at the end if they are not yet."""
    with ExitStack() as closing:

        def start(**how: Any) -> Any:
            how.setdefault("start_from", ConsumeFrom.FIRST_OFFSET)
            consumer = face.PullConsumer(f"g-{topic}", address, **how)
            consumer.start()
            closing.callback(consumer.close)
            return consumer

        yield start


def read(consumer: Any, count: int) -> list[bytes]:
    """Poll until there were so many messages."""
    found: list[bytes] = []

    def enough() -> bool:
        found.extend(message.body for message in consumer.poll(100))
        return len(found) >= count

    eventually(enough, what=f"{count} messages")
    return found


def send(producer: Any, topic: str, count: int, **how: Any) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    for body in bodies:
        producer.send(Message(topic, body, **how))
    return bodies


def queues_of(topic: str) -> list[MessageQueue]:
    return [MessageQueue(topic, "broker-a", number) for number in range(4)]


# Subscribing -----------------------------------------------------------------------------------------------


@pytest.mark.row("CO-01", "RB-11")
def test_a_subscriber_gets_every_message_once(producer: Any, member: Any, topic: str) -> None:
    bodies = send(producer, topic, 50)
    consumer = member()

    consumer.subscribe(topic)

    assert sorted(read(consumer, 50)) == sorted(bodies)
    assert consumer.assignment() == queues_of(topic)
    assert consumer.poll(50) == []


@pytest.mark.row("CO-11")
def test_a_message_that_comes_later_ends_a_poll_that_waits(producer: Any, member: Any, topic: str) -> None:
    consumer = member()
    consumer.subscribe(topic)
    eventually(consumer.assignment)
    later = threading.Timer(0.1, producer.send, [Message(topic, b"late")])
    later.start()

    found = consumer.poll(30_000)
    later.join()

    assert [message.body for message in found] == [b"late"]


def test_a_topic_may_be_subscribed_before_the_start(
    face: Face, address: str, producer: Any, topic: str
) -> None:
    send(producer, topic, 3)
    consumer = face.PullConsumer(f"g-{topic}", address, start_from=ConsumeFrom.FIRST_OFFSET)
    consumer.subscribe(topic)

    with consumer:
        assert len(read(consumer, 3)) == 3


def test_several_topics_are_read_by_one_consumer(producer: Any, admin: Any, member: Any, topic: str) -> None:
    admin.create_topic(f"{topic}-2", 2)
    consumer = member()
    consumer.subscribe(topic)
    consumer.subscribe(f"{topic}-2")
    producer.send(Message(topic, b"one"))
    producer.send(Message(f"{topic}-2", b"two"))

    assert sorted(read(consumer, 2)) == [b"one", b"two"]


def test_only_messages_with_the_wanted_tags_come(producer: Any, member: Any, topic: str) -> None:
    for tags in ("paid", "new", "refunded", "lost"):
        producer.send(Message(topic, tags.encode(), tags=tags))
    consumer = member()

    consumer.subscribe(topic, "paid || refunded")

    assert sorted(read(consumer, 2)) == [b"paid", b"refunded"]
    assert consumer.poll(50) == []


def test_what_brokers_refuse_for_good_is_raised_by_a_poll(member: Any, topic: str) -> None:
    consumer = member()
    consumer.subscribe(topic, sql="price > 10")

    def refusal() -> str | None:
        try:
            consumer.poll(100)
        except Refused as error:
            return str(error)
        return None

    assert "SQL92" in str(eventually(refusal))


def test_what_was_unsubscribed_comes_no_more(producer: Any, member: Any, topic: str) -> None:
    consumer = member(settings=QUICK)
    consumer.subscribe(topic)
    consumer.subscribe(f"{topic}-other")
    eventually(consumer.assignment)

    consumer.unsubscribe(topic)
    send(producer, topic, 4)

    assert consumer.assignment() == []
    assert consumer.poll(200) == []


def test_who_subscribed_nothing_cannot_poll(member: Any) -> None:
    with pytest.raises(ConfigError, match="subscribe to a topic or assign"):
        member().poll(0)


def test_a_topic_that_is_created_later_is_found(producer: Any, admin: Any, member: Any, topic: str) -> None:
    consumer = member(settings=QUICK)
    consumer.subscribe(f"{topic}-late")
    assert consumer.poll(50) == []

    admin.create_topic(f"{topic}-late", 1)
    producer.send(Message(f"{topic}-late", b"x"))

    assert read(consumer, 1) == [b"x"]


# Sharing ---------------------------------------------------------------------------------------------------


@pytest.mark.row("RB-01", "RB-02", "RB-03", "CO-03")
def test_members_share_the_queues_and_take_over_those_of_one_who_leaves(member: Any, topic: str) -> None:
    one, other = member(), member()
    one.subscribe(topic)
    eventually(lambda: one.assignment() == queues_of(topic))

    other.subscribe(topic)
    eventually(lambda: len(one.assignment()) == len(other.assignment()) == 2)
    assert sorted(one.assignment() + other.assignment()) == queues_of(topic)

    other.close()
    eventually(lambda: one.assignment() == queues_of(topic))


@pytest.mark.row("RB-11")
def test_queues_are_shared_by_the_strategy_that_was_given(member: Any, topic: str) -> None:
    members = [member(allocate=average_by_circle) for _ in range(2)]
    for each in members:
        each.subscribe(topic)

    def shares() -> list[list[int]]:
        return sorted([queue.queue_id for queue in each.assignment()] for each in members)

    eventually(lambda: shares() == [[0, 2], [1, 3]])


@pytest.mark.row("RB-11")
def test_by_config_a_member_has_the_queues_it_was_told(member: Any, topic: str) -> None:
    consumer = member(allocate=by_config(queues_of(topic)[1:2]))
    consumer.subscribe(topic)

    eventually(lambda: consumer.assignment() == queues_of(topic)[1:2])


@pytest.mark.row("RB-02")
def test_queues_that_a_topic_gets_later_are_read(producer: Any, admin: Any, member: Any, topic: str) -> None:
    consumer = member(settings=QUICK)
    consumer.subscribe(topic)
    eventually(lambda: len(consumer.assignment()) == 4)

    admin.create_topic(topic, 6)

    eventually(lambda: len(consumer.assignment()) == 6)


@pytest.mark.row("OF-08")
def test_nothing_is_lost_when_a_member_comes_while_messages_do(
    producer: Any, member: Any, topic: str
) -> None:
    bodies = set(send(producer, topic, 100))
    one = member(settings=QUICK)
    one.subscribe(topic)
    found = set(read(one, 10))
    other = member(settings=QUICK)
    other.subscribe(topic)

    def all_came() -> bool:
        for each in (one, other):
            found.update(message.body for message in each.poll(50))
        return found == bodies

    eventually(all_came)


@pytest.mark.row("OF-08")
def test_nothing_is_lost_while_members_come_and_go(producer: Any, member: Any, topic: str) -> None:
    sent: set[bytes] = set()
    found: set[bytes] = set()
    members: list[Any] = []

    def poll_all() -> None:
        for each in members:
            found.update(message.body for message in each.poll(20))

    for step in range(5):
        members.append(member(settings=QUICK))
        members[-1].subscribe(topic)
        for number in range(20):
            body = b"%d-%d" % (step, number)
            producer.send(Message(topic, body))
            sent.add(body)
        poll_all()
        if len(members) > 2:
            members.pop(0).close()

    def all_came() -> bool:
        poll_all()
        return found == sent

    eventually(all_came)


# Progress --------------------------------------------------------------------------------------------------


@pytest.mark.row("OF-07")
def test_the_next_member_goes_on_where_the_last_one_was_closed(
    producer: Any, member: Any, topic: str
) -> None:
    send(producer, topic, 8)
    first = member()
    first.subscribe(topic)
    read(first, 8)
    first.close()
    producer.send(Message(topic, b"new"))

    second = member()
    second.subscribe(topic)

    assert read(second, 1) == [b"new"]


@pytest.mark.row("OF-07")
def test_progress_is_committed_while_the_application_goes_on(producer: Any, member: Any, topic: str) -> None:
    queue = queues_of(topic)[0]
    producer.send(Message(topic, b"x"), queue=queue)
    consumer = member(settings=QUICK)
    consumer.subscribe(topic)
    read(consumer, 1)
    assert consumer.committed(queue) in (None, 0)

    consumer.poll(0)

    eventually(lambda: consumer.committed(queue) == 1)


@pytest.mark.row("OF-07")
def test_without_auto_commit_only_a_commit_commits(producer: Any, member: Any, topic: str) -> None:
    queue = queues_of(topic)[0]
    producer.send(Message(topic, b"x"), queue=queue)
    first = member(auto_commit=False)
    first.subscribe(topic)
    read(first, 1)
    first.close()

    second = member(auto_commit=False)
    second.subscribe(topic)
    assert read(second, 1) == [b"x"]
    second.commit()

    assert second.committed(queue) == 1


def test_one_queue_is_committed_with_an_offset_of_one_s_own(producer: Any, member: Any, topic: str) -> None:
    queue = queues_of(topic)[0]
    consumer = member(auto_commit=False)
    consumer.subscribe(topic)

    consumer.commit(queue, 0)

    assert consumer.committed(queue) == 0
    with pytest.raises(ConfigError, match="queue with its offset"):
        consumer.commit(queue)


@pytest.mark.row("OF-08")
def test_a_message_whose_handling_failed_comes_again(
    face: Face, address: str, producer: Any, topic: str
) -> None:
    for number in range(3):
        producer.send(Message(topic, b"%d" % number), queue=queues_of(topic)[0])

    def fail_at_the_second() -> None:
        with face.PullConsumer(f"g-{topic}", address, start_from=ConsumeFrom.FIRST_OFFSET) as first:
            first.subscribe(topic)
            for message in first:
                if message.body == b"1":
                    raise LookupError("the application's own")

    with pytest.raises(LookupError):
        fail_at_the_second()
    with face.PullConsumer(f"g-{topic}", address) as second:
        second.subscribe(topic)
        assert read(second, 2) == [b"1", b"2"]


# Iterating -------------------------------------------------------------------------------------------------


def test_an_iteration_that_was_left_goes_on_with_the_next_message(
    producer: Any, member: Any, topic: str
) -> None:
    for number in range(4):
        producer.send(Message(topic, b"%d" % number), queue=queues_of(topic)[0])
    consumer = member()
    consumer.subscribe(topic)

    def next_body() -> bytes:
        for message in consumer:
            body: bytes = message.body
            return body
        raise AssertionError("the iteration ended")

    assert [next_body() for _ in range(3)] == [b"0", b"1", b"2"]
    assert read(consumer, 1) == [b"3"]


def test_an_iteration_ends_when_the_consumer_is_closed(producer: Any, member: Any, topic: str) -> None:
    send(producer, topic, 1)
    consumer = member()
    consumer.subscribe(topic)
    closing = threading.Thread(target=consumer.close)

    for message in consumer:
        # It has begun, and nothing more comes.
        assert message.body == b"0"
        closing.start()

    closing.join(60)
    with pytest.raises(ClientClosed):
        consumer.poll(0)


# Assigning, seeking, pausing -------------------------------------------------------------------------------


@pytest.mark.row("CO-01")
def test_assigned_queues_are_read_and_no_others(producer: Any, member: Any, topic: str) -> None:
    for queue in queues_of(topic):
        producer.send(Message(topic, b"%d" % queue.queue_id), queue=queue)
    one, other = member(), member()

    one.assign(queues_of(topic)[:2])
    other.assign(queues_of(topic)[1:])

    assert sorted(read(one, 2)) == [b"0", b"1"]
    assert sorted(read(other, 3)) == [b"1", b"2", b"3"]


def test_another_assignment_takes_the_place_of_the_first(producer: Any, member: Any, topic: str) -> None:
    consumer = member()
    consumer.assign(queues_of(topic)[:1])
    producer.send(Message(topic, b"first"), queue=queues_of(topic)[0])
    assert read(consumer, 1) == [b"first"]

    consumer.assign(queues_of(topic)[1:2])
    producer.send(Message(topic, b"first again"), queue=queues_of(topic)[0])
    producer.send(Message(topic, b"second"), queue=queues_of(topic)[1])

    assert read(consumer, 1) == [b"second"]
    assert consumer.assignment() == queues_of(topic)[1:2]


def test_one_consumer_subscribes_or_assigns_but_not_both(member: Any, topic: str) -> None:
    one, other = member(), member()
    one.subscribe(topic)
    other.assign(queues_of(topic))

    with pytest.raises(ConfigError, match="use another one to assign"):
        one.assign(queues_of(topic))
    with pytest.raises(ConfigError, match="use another one to subscribe"):
        other.subscribe(topic)
    with pytest.raises(ConfigError, match="at least one"):
        member().assign([])


def test_a_seek_repeats_or_skips_messages(producer: Any, member: Any, topic: str) -> None:
    queue = queues_of(topic)[0]
    for number in range(5):
        producer.send(Message(topic, b"%d" % number), queue=queue)
    consumer = member()
    consumer.assign([queue])
    assert len(read(consumer, 5)) == 5

    consumer.seek(queue, 3)
    assert read(consumer, 2) == [b"3", b"4"]
    consumer.seek_to_begin(queue)
    assert read(consumer, 5) == [b"0", b"1", b"2", b"3", b"4"]
    consumer.seek(queue, consumer.offset_for_timestamp(queue, 0))
    consumer.seek_to_end(queue)
    producer.send(Message(topic, b"new"), queue=queue)
    assert read(consumer, 1) == [b"new"]
    with pytest.raises(ConfigError, match="offsets 0 to 6; it cannot be read from 7"):
        consumer.seek(queue, 7)


def test_a_sought_offset_is_what_is_committed(producer: Any, member: Any, topic: str) -> None:
    queue = queues_of(topic)[0]
    for number in range(5):
        producer.send(Message(topic, b"%d" % number), queue=queue)
    consumer = member(auto_commit=False)
    consumer.assign([queue])
    read(consumer, 5)

    consumer.pause([queue])
    consumer.seek(queue, 2)
    consumer.commit()

    assert consumer.committed(queue) == 2


def test_nothing_of_a_paused_queue_comes_until_it_is_resumed(producer: Any, member: Any, topic: str) -> None:
    one, other = queues_of(topic)[:2]
    consumer = member()
    consumer.assign([one, other])
    consumer.pause([one])
    producer.send(Message(topic, b"held"), queue=one)
    producer.send(Message(topic, b"free"), queue=other)

    assert read(consumer, 1) == [b"free"]
    assert consumer.poll(100) == []
    consumer.resume([one])
    assert read(consumer, 1) == [b"held"]


# Looking at a topic ----------------------------------------------------------------------------------------


def test_a_listener_is_told_when_a_topic_gets_other_queues(admin: Any, member: Any, topic: str) -> None:
    told: list[tuple[str, int]] = []
    consumer = member(settings=QUICK)
    assert consumer.fetch_message_queues(topic) == queues_of(topic)

    consumer.on_queues_changed(topic, lambda topic, queues: told.append((topic, len(queues))))
    counts = iter(range(5, 1_000))

    def is_told() -> bool:
        # A change before the first look would go unnoticed; so there is another.
        admin.create_topic(topic, next(counts))
        return bool(told)

    eventually(is_told)
    assert told[0][0] == topic
    assert told[0][1] > 4
    assert consumer.fetch_message_queues(f"{topic}-unknown") == []


# Operators -------------------------------------------------------------------------------------------------


class Operator:
    """Asks a broker about a group, as `mqadmin` does."""

    def __init__(self, cluster: ThreadCluster, group: str) -> None:
        self._links = BlockingLinks(NetSettings())
        self._address, self._group = cluster.broker_addresses[0], group

    def ask(self, code: RequestCode, **ext: str) -> bytes:
        answer = self._links.request(self._address, Command(code, ext=ext), 10)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return answer.body

    def close(self) -> None:
        self._links.close()

    def running(self) -> RunningState:
        ids = self.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=self._group)
        (client_id,) = decode_consumer_ids(ids)
        return decode_running_state(
            self.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, consumerGroup=self._group, clientId=client_id)
        )


@pytest.fixture
def operator(cluster: ThreadCluster, topic: str) -> Iterator[Operator]:
    operator = Operator(cluster, f"g-{topic}")
    yield operator
    operator.close()


def test_an_operator_sees_what_a_consumer_reads(
    producer: Any, member: Any, operator: Operator, topic: str
) -> None:
    producer.send(Message(topic, b"x"), queue=queues_of(topic)[1])
    consumer = member()
    consumer.subscribe(topic, "*")
    eventually(consumer.assignment)

    state = eventually(
        lambda: of if (of := operator.running()).queues[queues_of(topic)[1]].cached_msg_count else None
    )

    assert sorted(state.queues) == queues_of(topic)
    assert state.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    assert [wanted.topic for wanted in state.subscriptions] == [topic]


def test_an_operator_lets_a_consumer_go_back_to_the_beginning(
    producer: Any, member: Any, operator: Operator, topic: str
) -> None:
    bodies = send(producer, topic, 8)
    consumer = member()
    consumer.subscribe(topic)
    assert len(read(consumer, 8)) == 8
    consumer.commit()

    operator.ask(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        topic=topic,
        group=f"g-{topic}",
        timestamp="0",
        isForce="true",
    )

    assert sorted(read(consumer, 8)) == bodies


# Life ------------------------------------------------------------------------------------------------------


def test_in_a_namespace_names_are_the_application_s_own(
    face: Face, address: str, admin: Any, topic: str
) -> None:
    admin.create_topic(f"shop%{topic}", 4)
    settings = ClientSettings(namespace="shop")
    with (
        face.Producer("producers", address, settings) as producer,
        face.PullConsumer(
            f"g-{topic}", address, settings, start_from=ConsumeFrom.FIRST_OFFSET, auto_commit=False
        ) as consumer,
        face.PullConsumer(f"shop%g-{topic}", address) as outsider,
    ):
        producer.send(Message(topic, b"inside"), queue=queues_of(topic)[2])
        consumer.subscribe(topic)
        (message,) = consumer.poll(10_000)

        assert (message.topic, message.queue) == (topic, queues_of(topic)[2])
        assert consumer.assignment() == consumer.fetch_message_queues(topic) == queues_of(topic)
        consumer.commit()
        assert consumer.committed(message.queue) == 1
        assert outsider.committed(queues_of(f"shop%{topic}")[2]) == 1
        consumer.seek_to_begin(message.queue)
        assert [each.body for each in consumer.poll(10_000)] == [b"inside"]
        assert [each.body for each in consumer.messages(topic, idle_ms=50)] == []


def test_a_consumer_goes_on_by_itself_when_its_broker_comes_back(face: Face) -> None:
    with (
        running_cluster() as cluster,
        face.Producer("producers", cluster.namesrv_address) as producer,
        face.PullConsumer(
            "readers", cluster.namesrv_address, QUICK, start_from=ConsumeFrom.FIRST_OFFSET
        ) as consumer,
    ):
        producer.send(Message("orders", b"before"))
        consumer.subscribe("orders")
        assert read(consumer, 1) == [b"before"]

        cluster.stop_broker("broker-a")
        assert consumer.poll(100) == []
        cluster.start_broker("broker-a")

        def is_sent() -> bool:
            try:
                producer.send(Message("orders", b"after"))
            except PyroError:
                return False
            return True

        eventually(is_sent)
        # What was handed out and could not be committed may come again before it.
        eventually(lambda: b"after" in [message.body for message in consumer.poll(100)], 30)


@pytest.mark.row("PR-02")
def test_two_members_under_one_client_id_are_refused(member: Any, topic: str) -> None:
    settings = ClientSettings(instance_name=f"only-{topic}")
    one, other = member(settings=settings), member(settings=settings)
    one.subscribe(topic)

    with pytest.raises(AlreadyStarted, match="instance_name"):
        other.subscribe(topic)

    one.close()
    one.close()
    other.subscribe(topic)
    assert eventually(other.assignment) == queues_of(topic)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_of_fork_is_told_to_make_a_consumer_of_its_own(address: str, admin: Any, topic: str) -> None:
    with pyromq.PullConsumer(f"g-{topic}", address) as consumer:
        consumer.subscribe(topic)
        eventually(consumer.assignment)
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                consumer.poll(0)
            except ClientClosed as error:
                os.write(writing, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writing)
        said = os.read(reading, 1_000).decode()
        os.close(reading)

        assert "started in another process; make a new one" in said
        assert consumer.assignment() == queues_of(topic)
