"""Messages with a time of their own, by both faces of the client, on a clock that is moved by hand."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pyromq import ClientSettings, IllegalOperation, Message, MessageIllegal, SendFailed, WaitingMessage
from pyromq import Producer as BlockingProducer
from pyromq.aio import Admin, Producer
from pyromq.codes import ResponseCode
from pyromq.model import MessageQueue
from pyromq.testing.cluster import Cluster, running_cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually

pytestmark = pytest.mark.row("DE-10")

DAY_MS = 24 * 3_600_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def cluster(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Cluster]:
    async with Cluster(brokers=2, data_dir=tmp_path, clock=clock) as cluster:
        yield cluster


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncIterator[Admin]:
    async with Admin(cluster.namesrv_address) as admin:
        yield admin


@pytest.fixture
async def producer(cluster: Cluster) -> AsyncIterator[Producer]:
    async with Producer("timed", cluster.namesrv_address) as producer:
        yield producer


async def delivered(admin: Admin, producer: Producer, topic: str) -> int:
    return sum([await admin.max_offset(queue) for queue in await producer.queues(topic)])


async def test_messages_come_at_their_time(
    clock: ManualClock, admin: Admin, producer: Producer, cluster: Cluster
) -> None:
    # On both brokers: made by its first messages, it would be only where they happen to go.
    await admin.create_topic("orders", 4)
    moment = datetime.fromtimestamp(clock.now_ms() / 1_000, UTC) + timedelta(hours=2)
    for message in (
        Message("orders", b"one", delay=3_600),
        Message("orders", b"two", deliver_at=moment),
        Message("orders", b"three", deliver_at=clock.now_ms() + 3 * 3_600_000),
    ):
        assert (await producer.send(message)).recall_handle is not None
    for hour in range(1, 4):
        assert await delivered(admin, producer, "orders") == hour - 1
        clock.advance(3_600_000)

        async def arrived(count: int = hour) -> bool:
            return await delivered(admin, producer, "orders") == count

        await aeventually(arrived)
    assert await admin.waiting() == []


async def test_what_waits_is_listed_across_brokers_and_recalled(
    clock: ManualClock, admin: Admin, producer: Producer
) -> None:
    queues = await producer.queues("orders")
    assert len({queue.broker_name for queue in queues}) == 2
    sent = [
        await producer.send(
            Message("orders", b"%d" % number, keys=[f"k{number}"], delay=3_600 - number),
            queue=queues[number % len(queues)],
        )
        for number in range(20)
    ]

    waiting: list[WaitingMessage] = []
    while page := await admin.waiting("orders", count=6, after=waiting[-1] if waiting else None):
        waiting += page

    assert [int(one.message.body) for one in waiting] == list(reversed(range(20)))
    assert {one.recall_handle for one in waiting} == {one.recall_handle for one in sent}
    assert [one.message.queue for one in waiting] == [one.queue for one in reversed(sent)]
    assert sum((await admin.count_waiting()).values()) == 20
    (found,) = await admin.waiting(key="k7")
    assert found.recall_handle is not None
    assert await producer.recall("orders", found.recall_handle) == sent[7].message_id
    with pytest.raises(IllegalOperation):
        await producer.recall("orders", found.recall_handle)
    assert await admin.waiting(key="k7") == []


async def test_a_range_of_time_has_both_its_ends(
    clock: ManualClock, admin: Admin, producer: Producer
) -> None:
    now_ms = clock.now_ms()
    for hour in (1, 2, 3):
        await producer.send(Message("orders", b"%d" % hour, deliver_at=now_ms + hour * 3_600_000))

    found = await admin.waiting(begin_ms=now_ms + 3_600_000, end_ms=now_ms + 2 * 3_600_000)

    assert [one.message.body for one in found] == [b"1", b"2"]


async def test_in_a_namespace_topics_have_their_own_names(cluster: Cluster) -> None:
    settings = ClientSettings(namespace="ns")
    async with (
        Producer("timed", cluster.namesrv_address, settings) as producer,
        Admin(cluster.namesrv_address, settings) as admin,
    ):
        sent = await producer.send(Message("orders", b"x", delay=60))
        (one,) = await admin.waiting("orders")
        assert (one.message.topic, one.recall_handle) == ("orders", sent.recall_handle)
        assert sent.recall_handle is not None
        assert await producer.recall("orders", sent.recall_handle) == sent.message_id


@pytest.mark.parametrize("when", [{"delay": timedelta(days=367)}, {"deliver_at": 9_999_999_999_999}])
async def test_a_time_beyond_a_year_is_refused_with_the_limit(
    producer: Producer, when: dict[str, timedelta | int]
) -> None:
    with pytest.raises(MessageIllegal, match="31622400"):
        await producer.send(Message("orders", b"x", **when))  # type: ignore[arg-type]


async def test_a_transaction_cannot_be_timed(producer: Producer) -> None:
    from pyromq.client.plans.transaction_plans import half_of

    with pytest.raises(MessageIllegal, match="cannot be delayed as well"):
        half_of(producer._runner.session, Message("orders", b"x", delay=1))


async def test_a_broker_with_timers_switched_off_says_so(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, timer_wheel_enable=False) as cluster,
        Producer("timed", cluster.namesrv_address) as producer,
    ):
        with pytest.raises(SendFailed, match="timerWheelEnable is false"):
            await producer.send(Message("orders", b"x", delay=60))


def test_the_blocking_face_does_the_same() -> None:
    from pyromq import Admin as BlockingAdmin

    with (
        running_cluster() as cluster,
        BlockingProducer("timed", cluster.namesrv_address) as producer,
        BlockingAdmin(cluster.namesrv_address) as admin,
    ):
        admin.create_topic("orders", 4)
        sent = producer.send(Message("orders", b"x", delay=timedelta(days=1)))
        (one,) = admin.waiting("orders")
        assert one.message.message_id == sent.message_id
        assert admin.count_waiting() == {"broker-a": 1}
        assert sent.recall_handle is not None
        assert producer.recall("orders", sent.recall_handle) == sent.message_id
        with pytest.raises(IllegalOperation) as refused:
            producer.recall("orders", sent.recall_handle)
        assert refused.value.code == ResponseCode.ILLEGAL_OPERATION
        assert admin.max_offset(MessageQueue("orders", "broker-a", sent.queue.queue_id)) == 0
