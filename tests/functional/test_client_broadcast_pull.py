"""Pull consumers that broadcast: each reads everything, and remembers by itself how far it got."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from client_faces import Face

from pyromq import ClientSettings, ConfigError, ConsumeFrom, Message, MessageQueue
from pyromq.client.consumer.broadcast_offsets import BroadcastOffsets
from pyromq.client.identity import local_address
from pyromq.errors import CorruptRecord
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually

COUNT = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def topic(request: pytest.FixtureRequest, face: Face, address: str) -> str:
    """A topic of four queues with messages, which no other test uses."""
    name = f"b-{abs(hash(request.node.nodeid))}"
    with face.Admin(address) as admin, face.Producer("producers", address) as producer:
        admin.create_topic(name, 4)
        send(producer, name)
    return name


@pytest.fixture
def member(face: Face, address: str, topic: str, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Make consumers that begin with the first message; they are closed at the end if they are not yet."""
    with ExitStack() as closing:

        def make(instance: str = "one", **how: Any) -> Any:
            settings = ClientSettings(
                instance_name=instance,
                local_offset_store_dir=str(tmp_path),
                persist_consumer_offset_interval=50,
                namespace=how.pop("namespace", ""),
            )
            how.setdefault("start_from", ConsumeFrom.FIRST_OFFSET)
            consumer = face.PullConsumer(f"g-{topic}", address, settings, model="broadcasting", **how)
            closing.callback(consumer.close)
            consumer.start()
            return consumer

        yield make


def send(producer: Any, topic: str) -> None:
    for number in range(COUNT):
        producer.send(Message(topic, b"%d" % number))


def read(consumer: Any, count: int = COUNT) -> list[int]:
    found: list[int] = []

    def enough() -> bool:
        found.extend(int(message.body) for message in consumer.poll(100))
        return len(found) >= count

    eventually(enough, what=f"{count} messages")
    return sorted(found)


def queues_of(topic: str) -> list[MessageQueue]:
    return [MessageQueue(topic, "broker-a", number) for number in range(4)]


def file_of(tmp_path: Path, topic: str, instance: str = "one", *, prefix: str = "") -> BroadcastOffsets:
    return BroadcastOffsets(tmp_path, f"{local_address()}@{instance}", f"{prefix}g-{topic}")


@pytest.mark.row("CO-04")
def test_each_member_reads_every_queue_and_gets_every_message(member: Any, topic: str) -> None:
    members = [member("one"), member("two")]
    for consumer in members:
        consumer.subscribe(topic)

    for consumer in members:
        assert read(consumer) == list(range(COUNT))
        assert consumer.assignment() == queues_of(topic)


@pytest.mark.row("OF-02")
def test_progress_is_in_the_member_s_file_and_no_broker_knows_it(
    face: Face, address: str, member: Any, topic: str, tmp_path: Path
) -> None:
    consumer = member()
    consumer.subscribe(topic)
    read(consumer)

    consumer.commit()

    assert file_of(tmp_path, topic).load() == dict.fromkeys(queues_of(topic), COUNT // 4)
    assert [consumer.committed(queue) for queue in queues_of(topic)] == [COUNT // 4] * 4
    with face.PullConsumer(f"g-{topic}", address) as plain:
        # What a broker answers of a group that it does not know, while the first message is there.
        assert [plain.committed(queue) for queue in queues_of(topic)] == [0] * 4


@pytest.mark.row("OF-02")
def test_what_is_finished_is_saved_from_time_to_time(member: Any, topic: str, tmp_path: Path) -> None:
    consumer = member()
    consumer.subscribe(topic)
    read(consumer)

    # The next question says that all before is finished.
    assert consumer.poll(1) == []
    eventually(lambda: sum(file_of(tmp_path, topic).load().values()) == COUNT)


@pytest.mark.row("OF-02")
def test_a_member_that_comes_back_goes_on_where_its_file_says(
    face: Face, address: str, member: Any, topic: str
) -> None:
    first = member()
    first.subscribe(topic)
    read(first)
    first.close()

    again = member()
    again.subscribe(topic)
    with face.Producer("producers", address) as producer:
        producer.send(Message(topic, b"99"))

    assert read(again, 1) == [99]


def test_nothing_is_saved_that_is_not_committed(member: Any, topic: str, tmp_path: Path) -> None:
    consumer = member(auto_commit=False)
    consumer.subscribe(topic)
    read(consumer)
    consumer.close()

    assert file_of(tmp_path, topic).load() == {}


def test_assigned_queues_are_remembered_in_the_file_too(member: Any, topic: str, tmp_path: Path) -> None:
    consumer = member()
    queue = queues_of(topic)[2]
    consumer.assign([queue])
    read(consumer, COUNT // 4)
    consumer.seek(queue, 3)
    consumer.commit()

    assert file_of(tmp_path, topic).load() == {queue: 3}


def test_reading_a_topic_in_turn_is_remembered_in_the_file_too(
    member: Any, topic: str, tmp_path: Path
) -> None:
    consumer = member()

    assert len(list(consumer.messages(topic, idle_ms=50))) == COUNT
    consumer.close()

    assert file_of(tmp_path, topic).load() == dict.fromkeys(queues_of(topic), COUNT // 4)


def test_an_offset_committed_by_hand_is_in_the_file(member: Any, topic: str, tmp_path: Path) -> None:
    consumer = member()
    consumer.commit(queues_of(topic)[1], 4)

    assert file_of(tmp_path, topic).load() == {queues_of(topic)[1]: 4}
    assert consumer.committed(queues_of(topic)[1]) == 4


def test_the_file_has_the_names_of_a_namespace_as_java_s_does(
    face: Face, address: str, member: Any, topic: str, tmp_path: Path
) -> None:
    settings = ClientSettings(namespace="shop")
    with face.Admin(address, settings) as admin, face.Producer("producers", address, settings) as producer:
        admin.create_topic(topic, 4)
        send(producer, topic)
    consumer = member(namespace="shop")
    consumer.subscribe(topic)
    read(consumer)
    consumer.commit()

    saved = file_of(tmp_path, topic, prefix="shop%").load()
    assert saved == dict.fromkeys(queues_of(f"shop%{topic}"), COUNT // 4)
    assert consumer.committed(queues_of(topic)[0]) == COUNT // 4


def test_a_damaged_file_ends_the_start_and_says_what_to_do(member: Any, topic: str, tmp_path: Path) -> None:
    path = file_of(tmp_path, topic).path
    path.parent.mkdir(parents=True)
    path.write_text("{")

    with pytest.raises(CorruptRecord, match="Put a good copy in its place"):
        member()


def test_a_model_that_there_is_not_is_refused(face: Face) -> None:
    with pytest.raises(ConfigError, match="model is 'broadcast'; it must be 'clustering' or 'broadcasting'"):
        face.PullConsumer("group", "127.0.0.1:1", model="broadcast")
