"""Our client on our servers and, in the same words, on Apache's own 4.9 and 5.x; by both of its faces."""

import asyncio
import inspect
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest
from harness.observer import Observer, Stored
from harness.servers import OURS_AND_APACHES, Cluster

import pyromq
import pyromq.aio
from pyromq import ConsumeFrom, Message, PullStatus, SendStatus
from pyromq.testing.waiting import aeventually, eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

QUEUES = 4
_numbers = itertools.count(1)


@pytest.fixture(params=OURS_AND_APACHES)
def servers(request: pytest.FixtureRequest, running: Callable[[str], Cluster]) -> Cluster:
    """Our servers, and real ones, started from their Maven artifacts."""
    return running(request.param)


@pytest.fixture
def observer(servers: Cluster) -> Observer:
    """Another pair of eyes on the same servers."""
    return Observer(servers.name_server)


@pytest.fixture(params=[pyromq, pyromq.aio], ids=["sync", "aio"])
def face(request: pytest.FixtureRequest) -> ModuleType:
    """The client's module: plain or awaitable."""
    module: ModuleType = request.param
    return module


@asynccontextmanager
async def opened(client: Any) -> AsyncIterator[Any]:
    """Open a client of either face."""
    if hasattr(client, "__aenter__"):
        async with client as open_client:
            yield open_client
    else:
        with client as open_client:
            yield open_client


async def done(value: Any) -> Any:
    """Wait for the awaitable face's answer; the plain one's is there already."""
    return await value if inspect.isawaitable(value) else value


@pytest.fixture
async def topic(servers: Cluster, observer: Observer, face: ModuleType) -> str:
    """A topic of this test alone, made by our client."""
    name = f"ours_{next(_numbers)}"
    async with opened(face.Admin(servers.name_server)) as admin:
        await done(admin.create_topic(name, QUEUES))
    eventually(lambda: observer.queues(name), what=f"{name} has a route")
    return name


@pytest.fixture
async def producer(servers: Cluster, face: ModuleType) -> AsyncIterator[Any]:
    """A started producer."""
    async with opened(face.Producer("ours_producer", servers.name_server)) as client:
        yield client


@pytest.fixture
async def consumer(servers: Cluster, face: ModuleType) -> AsyncIterator[Any]:
    """A started consumer of a group of its own."""
    group = f"ours_group_{next(_numbers)}"
    client = face.PullConsumer(group, servers.name_server, start_from=ConsumeFrom.FIRST_OFFSET)
    client.group_of_test = group
    async with opened(client) as started:
        yield started


@pytest.fixture
async def admin(servers: Cluster, face: ModuleType) -> AsyncIterator[Any]:
    """A started admin client."""
    async with opened(face.Admin(servers.name_server)) as client:
        yield client


def message(topic: str, index: int) -> Message:
    return Message(
        topic,
        f"body {index} é中".encode(),
        tags=f"tag-{index % 2}",
        keys=[f"key-{topic}-{index}", "all"],
        properties={"index": str(index), "note": f"naïve 中文 {index}"},
    )


async def everything(consumer: Any, topic: str, count: int, tags: str = "*") -> list[Any]:
    """Pull each queue from its start to its end, once Apache's queues have followed its log."""

    async def pulled() -> list[Any] | None:
        found = await pull_all(consumer, topic, tags)
        return found if len(found) >= count else None

    found: list[Any] = await aeventually(pulled)
    return found


async def in_store(observer: Observer, topic: str, count: int) -> list[Stored]:
    """Read what a topic holds, once Apache's queues have followed its log."""
    stored: list[Stored] = await aeventually(
        lambda: found if len(found := observer.stored(topic)) >= count else None
    )
    return stored


async def pull_all(consumer: Any, topic: str, tags: str) -> list[Any]:
    """Pull each queue from its start to its end."""
    found = []
    for queue in await done(consumer.queues(topic)):
        offset = 0
        while (
            result := await done(consumer.pull(queue, offset, tags=tags))
        ).status is not PullStatus.NO_NEW_MESSAGE:
            found += result.messages
            offset = result.next_offset
    return found


async def test_a_topic_is_created_with_its_queues(topic: str, observer: Observer, consumer: Any) -> None:
    assert {count for _, count in observer.queues(topic).values()} == {QUEUES}
    assert len(await done(consumer.queues(topic))) == QUEUES


async def test_a_message_comes_back_as_it_was_sent(topic: str, producer: Any, consumer: Any) -> None:
    result = await done(producer.send(message(topic, 7)))
    (got,) = await everything(consumer, topic, 1)
    assert result.status is SendStatus.SEND_OK
    assert (got.topic, got.body, got.tags) == (topic, "body 7 é中".encode(), "tag-1")
    assert got.properties["KEYS"] == f"key-{topic}-7 all"
    assert got.properties["note"] == "naïve 中文 7"
    assert (got.queue, got.queue_offset) == (result.queue, result.queue_offset)
    assert (got.message_id, got.offset_message_id) == (result.message_id, result.offset_message_id)


async def test_a_large_body_is_compressed_and_comes_back_whole(
    topic: str, producer: Any, consumer: Any
) -> None:
    await done(producer.send(Message(topic, b"large " * 10_000)))
    (got,) = await everything(consumer, topic, 1)
    assert got.body == b"large " * 10_000
    assert got.size < 10_000


async def test_many_sends_under_way_at_once_are_all_answered(
    topic: str, producer: Any, observer: Observer, face: ModuleType
) -> None:
    messages = [message(topic, index) for index in range(200)]
    if face is pyromq:
        futures = [producer.send_async(one) for one in messages]
        results = [await asyncio.wrap_future(future) for future in futures]
    else:
        results = await asyncio.gather(*(producer.send(one) for one in messages))
    stored = {
        (one.broker, one.queue, one.offset): int(one.properties["index"])
        for one in await in_store(observer, topic, 200)
    }
    told = {(r.queue.broker_name, r.queue.queue_id, r.queue_offset): index for index, r in enumerate(results)}
    assert told == stored


async def test_a_oneway_message_is_stored(topic: str, producer: Any, observer: Observer) -> None:
    for index in range(10):
        await done(producer.send_oneway(message(topic, index)))
    await aeventually(lambda: len(observer.stored(topic)) == 10)


async def test_a_batch_is_stored_in_one_queue_and_order(
    topic: str, producer: Any, observer: Observer
) -> None:
    result = await done(producer.send_batch([message(topic, index) for index in range(50)]))
    stored = await in_store(observer, topic, 50)
    assert [int(one.properties["index"]) for one in stored] == list(range(50))
    assert {(one.broker, one.queue) for one in stored} == {(result.queue.broker_name, result.queue.queue_id)}
    assert result.offset_message_id == ",".join(one.offset_id for one in stored)


async def test_a_message_goes_to_the_queue_that_was_named(
    topic: str, producer: Any, observer: Observer
) -> None:
    queue = (await done(producer.queues(topic)))[2]
    for index in range(3):
        await done(producer.send(message(topic, index), queue=queue))
    assert {(one.broker, one.queue) for one in await in_store(observer, topic, 3)} == {
        (queue.broker_name, queue.queue_id)
    }


async def test_a_selector_chooses_the_queue(topic: str, producer: Any, observer: Observer) -> None:
    for index in range(8):
        await done(producer.send(message(topic, index), selector=lambda queues, one: queues[-1]))
    assert {one.queue for one in await in_store(observer, topic, 8)} == {QUEUES - 1}


async def test_a_subscription_by_tag_gets_only_its_tag(topic: str, producer: Any, consumer: Any) -> None:
    for index in range(12):
        await done(producer.send(message(topic, index)))
    got = await everything(consumer, topic, 6, tags="tag-1")
    assert sorted(int(one.properties["index"]) for one in got) == [1, 3, 5, 7, 9, 11]


async def test_a_held_pull_is_answered_when_a_message_comes(topic: str, producer: Any, consumer: Any) -> None:
    queue = (await done(consumer.queues(topic)))[0]

    async def pull() -> Any:
        if inspect.iscoroutinefunction(consumer.pull):
            return await consumer.pull(queue, 0, wait_ms=20_000)
        return await asyncio.to_thread(consumer.pull, queue, 0, wait_ms=20_000)

    held = asyncio.create_task(pull())
    await asyncio.to_thread(lambda: None)  # the pull is on its way before the message is
    await done(producer.send(message(topic, 1), queue=queue))
    result = await asyncio.wait_for(held, 15)
    assert result.status is PullStatus.FOUND
    assert [one.body for one in result.messages] == ["body 1 é中".encode()]


async def test_an_offset_beyond_the_end_is_corrected(topic: str, producer: Any, consumer: Any) -> None:
    sent = await done(producer.send(message(topic, 1)))
    await everything(consumer, topic, 1)
    result = await done(consumer.pull(sent.queue, 1000))
    assert (result.status, result.next_offset) == (PullStatus.OFFSET_ILLEGAL, 1)


async def test_a_committed_offset_is_read_back(
    topic: str, producer: Any, consumer: Any, observer: Observer
) -> None:
    sent = await done(producer.send(message(topic, 1)))
    await done(consumer.pull(sent.queue, 0))  # 5.x takes commits only of a group that it has seen
    await done(consumer.commit(sent.queue, 1))
    key = (sent.queue.broker_name, sent.queue.queue_id)
    await aeventually(lambda: observer.committed(consumer.group_of_test, topic)[key] == 1)
    assert await done(consumer.committed(sent.queue)) == 1


async def polled(consumer: Any, count: int) -> list[Any]:
    """Poll until there were so many messages."""
    found: list[Any] = []

    async def enough() -> bool:
        found.extend(await done(consumer.poll(100)))
        return len(found) >= count

    await aeventually(enough, 30)
    return found


@pytest.mark.row("CO-01", "OF-07")
async def test_a_subscriber_gets_every_message_and_commits(
    topic: str, producer: Any, consumer: Any, observer: Observer
) -> None:
    for index in range(12):
        await done(producer.send(message(topic, index)))
    consumer.subscribe(topic, "tag-0 || tag-1")
    found = await polled(consumer, 12)
    await done(consumer.commit())
    assert sorted(int(one.properties["index"]) for one in found) == list(range(12))
    await aeventually(lambda: sum(observer.committed(consumer.group_of_test, topic).values()) == 12)


@pytest.mark.row("RB-01", "RB-02", "RB-03", "CO-03")
async def test_members_share_a_topic_and_take_over_from_one_who_leaves(
    topic: str, consumer: Any, servers: Cluster, face: ModuleType
) -> None:
    queues = sorted(await done(consumer.queues(topic)))
    consumer.subscribe(topic)
    await aeventually(lambda: consumer.assignment() == queues, 30)
    async with opened(face.PullConsumer(consumer.group_of_test, servers.name_server)) as other:
        other.subscribe(topic)
        await aeventually(
            lambda: len(other.assignment()) == len(consumer.assignment()) == len(queues) / 2, 30
        )
        assert sorted(consumer.assignment() + other.assignment()) == queues
    await aeventually(lambda: consumer.assignment() == queues, 30)


@pytest.mark.row("CO-01")
async def test_assigned_queues_are_read_sought_and_iterated(topic: str, producer: Any, consumer: Any) -> None:
    queue = (await done(producer.queues(topic)))[1]
    for index in range(4):
        await done(producer.send(message(topic, index), queue=queue))
    consumer.assign([queue])
    assert len(await polled(consumer, 4)) == 4
    await done(consumer.seek(queue, 2))
    assert [one.queue_offset for one in await polled(consumer, 2)] == [2, 3]
    await done(consumer.seek_to_begin(queue))
    is_awaitable = hasattr(consumer, "__aiter__")
    one = await anext(aiter(consumer)) if is_awaitable else next(iter(consumer))
    assert one.queue_offset == 0


async def test_the_offsets_of_a_queue_are_told(topic: str, producer: Any, consumer: Any) -> None:
    queue = (await done(producer.queues(topic)))[0]
    for index in range(5):
        await done(producer.send(message(topic, index), queue=queue))
    got = await everything(consumer, topic, 5)
    assert await done(consumer.min_offset(queue)) == 0
    assert await done(consumer.max_offset(queue)) == 5
    assert await done(consumer.offset_by_time(queue, got[0].stored_at_ms)) == 0
    assert await done(consumer.offset_by_time(queue, got[-1].stored_at_ms + 60_000)) >= 4


async def test_a_message_is_found_by_its_key_and_by_its_ids(topic: str, producer: Any, admin: Any) -> None:
    sent = [await done(producer.send(message(topic, index))) for index in range(5)]

    async def by_key() -> list[Any]:
        try:
            found: list[Any] = await done(admin.query_message(topic, f"key-{topic}-3"))
        except pyromq.QueryNotFound:  # the index follows the log
            return []
        return found

    (found,) = await aeventually(by_key)
    assert found.properties["index"] == "3"
    assert (await done(admin.view_message(sent[4].offset_message_id))).properties["index"] == "4"
    assert (await done(admin.find_message(topic, sent[2].message_id))).properties["index"] == "2"


async def test_an_unknown_topic_is_made_by_its_first_message(
    producer: Any, observer: Observer, face: ModuleType
) -> None:
    name = f"ours_made_{face.__name__.replace('.', '_')}_{next(_numbers)}"
    await done(producer.send(message(name, 1)))
    await aeventually(lambda: {count for _, count in observer.queues(name).values()} == {4})
