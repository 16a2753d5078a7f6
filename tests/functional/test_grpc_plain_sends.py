"""Sends that the kernel takes: the same records and answers as Python's, whatever the request is."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from grpc_sdk import SERVICE, Sdk, message, put_topic, sdk_of

from pyromq.broker.broker import Broker
from pyromq.broker.grpc.plain_sends_door import PlainSendsDoor
from pyromq.config.choices import BrokerRole, FlushDiskType
from pyromq.kernel import IS_COMPILED
from pyromq.net.http2.grpc_calls import GrpcMethod
from pyromq.testing.cluster import Cluster
from pyromq.testing.waiting import aeventually
from pyromq.wire import properties as names
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode
from pyromq.wire.grpc.grpc_times import timestamp_of
from pyromq.wire.record import Record

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="the kernel is not compiled")

QUEUES = 4
PATH = f"{SERVICE}SendMessage"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(has_grpc=True) as cluster:
        put_topic(cluster, "Mixed", queues=QUEUES, kind="MIXED")
        put_topic(cluster, "Normal", queues=QUEUES)
        async with sdk_of(cluster) as sdk:
            for topic in ("Mixed", "Normal"):
                for number in range(QUEUES):
                    await sdk.stored(message(topic, message_id=f"WARM-{number}"))
            far = timestamp_of(broker_of(cluster)._clock.now_ms() + 3_600_000)
            await sdk.stored(message("Mixed", delivery_timestamp=far))
        yield cluster


@pytest.fixture
async def sdk(cluster: Cluster) -> AsyncIterator[Sdk]:
    async with sdk_of(cluster) as sdk:
        yield sdk


def broker_of(cluster: Cluster) -> Broker:
    [broker] = cluster.brokers.values()
    return broker


def plain_of(cluster: Cluster) -> PlainSendsDoor:
    door = broker_of(cluster).grpc.door
    assert door is not None
    assert door.plain_sends is not None
    return door.plain_sends


@contextmanager
def by_python(cluster: Cluster) -> Iterator[None]:
    """Have Python do all sends meanwhile."""
    door = broker_of(cluster).grpc.door
    assert door is not None
    methods = door.table.methods
    kept, methods[PATH] = methods[PATH], GrpcMethod(unary=plain_of(cluster)._unary)
    try:
        yield
    finally:
        methods[PATH] = kept


def last_record(cluster: Cluster, begin: int) -> Record | None:
    """Return the record that was stored at a position, None if there is none."""
    store = broker_of(cluster).store
    return None if store.max_position == begin else store.record_at(begin)


def essence(record: Record | None) -> tuple[Any, ...] | None:
    """Return what does not depend on when and where it was stored."""
    if record is None:
        return None
    properties = names.decode(record.properties)
    real_queue = properties.pop(names.REAL_QUEUE_ID, str(record.queue_id))
    group_or_nothing = real_queue if names.SHARDING_KEY in properties else None
    return (
        record.topic,
        record.body,
        properties,
        record.sys_flag,
        record.born_at_ms,
        group_or_nothing,
    )


async def outcome(cluster: Cluster, sdk: Sdk, data: bytes) -> tuple[Any, ...]:
    """Send bytes, and return what was answered and stored."""
    begin = broker_of(cluster).store.max_position
    answer = await raw(sdk, data)
    for entry in answer.entries:
        entry.ClearField("offset")
    return answer, essence(last_record(cluster, begin))


async def raw(sdk: Sdk, data: bytes) -> pb.SendMessageResponse:
    call = sdk._channel.unary_unary(PATH, response_deserializer=pb.SendMessageResponse.FromString)
    answer = await call(data, metadata=sdk._metadata())
    assert isinstance(answer, pb.SendMessageResponse)
    return answer


def request(*messages: pb.Message) -> bytes:
    return pb.SendMessageRequest(messages=messages).SerializeToString()


def with_own(made: pb.Message, **own: str) -> pb.Message:
    made.user_properties.update(own)
    return made


def plain_requests(now_ms: int) -> list[pb.Message]:
    return [
        message("Normal"),
        message("Normal", bytes(range(256)) * 40),
        message("Normal", tag="A", keys=["k1", "k2"]),
        message("Normal", tag="", keys=[], trace_context="00-1-2-01", born_host="build-7"),
        with_own(message("Normal"), colour="red", size="9", empty=""),
        with_own(message("Normal", keys=["a b"]), **{f"name-{n}": f"value {n}" for n in range(20)}),
        message("Normal", message_type=2, queue_id=3, delivery_attempt=7, body_encoding=1),
        message("Mixed", message_group="order-1"),
        message("Mixed", message_group="group-42", tag="x"),
        message("Mixed", delivery_timestamp=timestamp_of(now_ms + 60_000)),
        message("Mixed", delivery_timestamp=timestamp_of(now_ms + 60_000), message_group="g"),
        pb.Message(
            topic=pb.Resource(resource_namespace="ns", name="Normal"),
            body=b"x",
            system_properties=pb.SystemProperties(message_id="NO-TIME"),
        ),
    ]


def other_requests(now_ms: int) -> list[pb.Message]:
    return [
        message("Normal", b""),
        message("Nowhere"),
        message("Normal", message_id=" "),
        message("Normal", message_id="消息"),
        message("Normal", message_id="I" * 300),
        message("Normal", tag="a|b"),
        message("Normal", tag=" a"),
        message("Normal", tag="标签", keys=["键"]),
        message("Normal", keys=["k\n"]),
        message("Normal", message_group="g"),
        message("Normal", message_type=4),
        message("Normal", delivery_timestamp=timestamp_of(now_ms + 1000)),
        message("Mixed", delivery_timestamp=timestamp_of(now_ms - 60_000)),
        message("Mixed", delivery_timestamp=timestamp_of(now_ms + 90_000_000)),
        message("Mixed", message_group="消息组"),
        message("Mixed", message_group="g" * 64),
        with_own(message("Normal"), KEYS="k"),
        with_own(message("Normal"), 名="值"),
        with_own(message("Normal"), **{f"name-{n}": "v" for n in range(60)}),
        with_own(message("Normal"), big="v" * 17_000),
        message("Normal", body_digest=pb.Digest(type=2, checksum="00")),
        message("Normal", body_encoding=2),
        message("Normal", priority=1),
    ]


async def test_plain_requests_are_the_kernels_and_stored_alike(cluster: Cluster, sdk: Sdk) -> None:
    plain = plain_of(cluster)
    for made in plain_requests(broker_of(cluster)._clock.now_ms()):
        data = request(made)
        before = plain.kernel.count
        by_kernel = await outcome(cluster, sdk, data)
        assert plain.kernel.count == before + 1, made
        with by_python(cluster):
            assert await outcome(cluster, sdk, data) == by_kernel, made
        assert by_kernel[0].status.code == GrpcCode.OK
        assert by_kernel[1] is not None


async def test_other_requests_have_the_same_answers(cluster: Cluster, sdk: Sdk) -> None:
    for made in other_requests(broker_of(cluster)._clock.now_ms()):
        data = request(made)
        by_kernel = await outcome(cluster, sdk, data)
        with by_python(cluster):
            assert await outcome(cluster, sdk, data) == by_kernel, made


async def test_several_messages_are_pythons(cluster: Cluster, sdk: Sdk) -> None:
    before = plain_of(cluster).kernel.count
    answer = await raw(sdk, request(message("Normal", b"1"), message("Normal", b"2")))
    assert [entry.status.code for entry in answer.entries] == [GrpcCode.OK] * 2
    assert plain_of(cluster).kernel.count == before


async def test_bytes_that_were_changed_anywhere_have_the_same_outcome(cluster: Cluster, sdk: Sdk) -> None:
    chance = random.Random(20)
    made = plain_requests(broker_of(cluster)._clock.now_ms())
    taken = 0
    for _ in range(400):
        data = bytearray(request(chance.choice(made)))
        for _ in range(chance.choice((1, 1, 2, 5))):
            at = chance.randrange(len(data))
            if chance.random() < 0.3:
                del data[at]
            else:
                data[at] = chance.choice((0, 1, 2, 0x20, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        before = plain_of(cluster).kernel.count
        by_kernel = await tried(cluster, sdk, bytes(data))
        taken += plain_of(cluster).kernel.count - before
        with by_python(cluster):
            assert await tried(cluster, sdk, bytes(data)) == by_kernel, bytes(data)
    assert taken > 10, "some of what was changed is plain all the same"


async def tried(cluster: Cluster, sdk: Sdk, data: bytes) -> Any:
    try:
        return await outcome(cluster, sdk, data)
    except grpc.aio.AioRpcError as error:
        return error.code()


async def test_sends_of_many_clients_are_stored_together(cluster: Cluster) -> None:
    begin = broker_of(cluster).store.max_position
    before = plain_of(cluster).kernel.count

    async def one(number: int) -> None:
        async with sdk_of(cluster, f"client-{number}") as sdk:
            answers = await asyncio.gather(
                *(sdk.stored(message("Normal", message_id=f"{number}-{n}")) for n in range(30))
            )
            assert [answer.message_id for answer in answers] == [f"{number}-{n}" for n in range(30)]

    await asyncio.gather(*(one(number) for number in range(10)))
    assert plain_of(cluster).kernel.count == before + 300
    found = 0
    store = broker_of(cluster).store
    for queue_id in range(QUEUES):
        found += store.max_offset("Normal", queue_id)
    assert found == QUEUES + 300
    assert store.max_position > begin
    # Of connections that have ended nothing is kept.
    await aeventually(lambda: plain_of(cluster).kernel.inlet_count == 0)


async def test_a_busy_broker_says_so(cluster: Cluster, sdk: Sdk, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_of(cluster)
    durability, end = broker.durability, broker.store.max_position
    assert durability is not None
    assert durability._busy is not None
    sends = durability._busy.sends
    # As if so many waited for their answers.
    monkeypatch.setattr(sends, "count", sends.capacity)
    before = plain_of(cluster).kernel.count
    by_kernel = await asyncio.gather(*(sdk.send(message("Normal")) for _ in range(5)))
    assert plain_of(cluster).kernel.count == before + 5
    with by_python(cluster):
        by_kernel.append(await sdk.send(message("Normal")))
    assert {answer.status.code for answer in by_kernel} == {GrpcCode.TOO_MANY_REQUESTS}
    assert len({answer.status.message for answer in by_kernel}) == 1
    assert broker.store.max_position == end


async def test_an_operator_who_changes_a_topic_is_heard_at_once(cluster: Cluster, sdk: Sdk) -> None:
    assert (await sdk.send(message("Normal"))).status.code == GrpcCode.OK
    put_topic(cluster, "Normal", queues=QUEUES, kind="FIFO")
    answer = await sdk.send(message("Normal"))
    assert answer.status.code == GrpcCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    put_topic(cluster, "Normal", queues=QUEUES, perm=4)
    assert (await sdk.send(message("Normal"))).status.code == GrpcCode.FORBIDDEN


async def test_a_synchronous_flush_is_waited_for() -> None:
    async with Cluster(has_grpc=True, flush_disk_type=FlushDiskType.SYNC_FLUSH) as cluster:
        put_topic(cluster, "Normal", queues=1)
        async with sdk_of(cluster) as sdk:
            await sdk.stored(message("Normal"))
            await sdk.stored(message("Normal"))
            receipts = await asyncio.gather(*(sdk.stored(message("Normal")) for _ in range(20)))
            assert sorted(receipt.offset for receipt in receipts) == list(range(2, 22))
            assert broker_of(cluster).store.flushed_position == broker_of(cluster).store.max_position


async def test_a_message_that_no_slave_has_is_said_to_be_stored_here_only() -> None:
    settings: dict[str, Any] = {"broker_role": BrokerRole.SYNC_MASTER}
    async with Cluster(has_grpc=True, **settings) as cluster:
        put_topic(cluster, "Normal", queues=1)
        async with sdk_of(cluster) as sdk:
            for number in range(3):
                answer = await sdk.send(message("Normal", message_id=f"ID{number}"))
                assert answer.status.code == GrpcCode.HA_NOT_AVAILABLE
                [entry] = answer.entries
                assert (entry.status.code, entry.message_id, entry.offset) == (
                    GrpcCode.HA_NOT_AVAILABLE,
                    f"ID{number}",
                    number,
                )
