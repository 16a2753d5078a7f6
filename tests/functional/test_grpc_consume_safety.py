"""Consumers of gRPC on brokers that wait for the disk, that are ill, and that are no master."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from grpc_consumers import TOPIC, consumer_of, name_of
from grpc_sdk import message, put_topic, sdk_of

from pyromq.broker.broker import Broker
from pyromq.config.choices import FlushDiskType
from pyromq.errors import SyncFailed
from pyromq.kernel import IS_COMPILED
from pyromq.testing.cluster import Cluster
from pyromq.testing.waiting import aeventually
from pyromq.wire.grpc.grpc_codes import GrpcCode


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(data_dir=tmp_path, has_grpc=True, flush_disk_type=request.param) as cluster:
        put_topic(cluster, TOPIC)
        yield cluster


@pytest.fixture
def broker(cluster: Cluster) -> Broker:
    [broker] = cluster.brokers.values()
    return broker


async def send(cluster: Cluster, *bodies: bytes) -> None:
    async with sdk_of(cluster, "sender") as sdk:
        for number, body in enumerate(bodies):
            await sdk.stored(message(TOPIC, body, f"ID-{number}"))


async def test_operations_are_answered_when_they_are_as_safe_as_sends(
    cluster: Cluster, broker: Broker
) -> None:
    await send(cluster, b"one", b"two", b"three")
    async with consumer_of(cluster) as consumer:
        one, two, three = (await consumer.receive_all(3)).handles
        assert name_of((await consumer.ack(one)).status) == "OK"
        changed = await consumer.change(two, 60_000)
        assert name_of(changed.status) == "OK"
        assert name_of(await consumer.forward(three)) == "OK"
        mixed = await consumer.ack(two, changed.receipt_handle)

    assert [name_of(entry.status) for entry in mixed.entries] == ["INVALID_RECEIPT_HANDLE", "OK"]
    assert broker.pop.in_flight_count == 0


async def test_an_acknowledgement_outlives_the_broker(cluster: Cluster) -> None:
    await send(cluster, b"one", b"two")
    async with consumer_of(cluster) as consumer:
        found = await consumer.receive_all(2)
        assert name_of((await consumer.ack(found.handles[0])).status) == "OK"
    await cluster.stop_broker("broker-a")
    await cluster.start_broker("broker-a")
    [broker] = cluster.brokers.values()
    async with consumer_of(cluster) as consumer:
        assert name_of((await consumer.ack(found.handles[1])).status) == "OK"
    assert broker.pop.in_flight_count == 0


async def test_changes_outlive_the_broker(cluster: Cluster, broker: Broker) -> None:
    count, rounds = 8, 3
    await send(cluster, *(b"%d" % number for number in range(count)))
    async with consumer_of(cluster) as consumer:
        before = handles = (await consumer.receive_all(count)).handles
        for _ in range(rounds):
            # The first round teaches the kernel, which has the others where nothing waits for the disk.
            changed = [await consumer.change(handle, 60_000) for handle in handles]
            assert {name_of(one.status) for one in changed} == {"OK"}
            before, handles = handles, [one.receipt_handle for one in changed]
    door = broker.grpc.door
    assert door is not None
    assert door.calls["ChangeInvisibleDuration", GrpcCode.OK] == rounds * count
    if IS_COMPILED:
        assert door.plain_acks is not None
        is_quick = broker.store.settings.flush_disk_type == FlushDiskType.ASYNC_FLUSH
        assert (door.plain_acks.kernel.changed >= (rounds - 1) * count) == is_quick
    await cluster.stop_broker("broker-a")
    await cluster.start_broker("broker-a")
    [broker] = cluster.brokers.values()
    assert broker.pop.in_flight_count == count
    async with consumer_of(cluster) as consumer:
        assert {name_of((await consumer.ack(handle)).status) for handle in before} == {
            "INVALID_RECEIPT_HANDLE"
        }
        assert {name_of((await consumer.ack(handle)).status) for handle in handles} == {"OK"}
    assert broker.pop.in_flight_count == 0


async def test_an_ill_broker_refuses_consumers_with_the_reason(cluster: Cluster, broker: Broker) -> None:
    await send(cluster, b"one", b"two")
    async with consumer_of(cluster) as consumer:
        found = await consumer.receive_all(2)
        # So the kernel knows their queues.
        one, two = [(await consumer.change(handle, 60_000)).receipt_handle for handle in found.handles]
        broker.store._note_failure(SyncFailed("the disk is gone"))
        acked = await consumer.ack(one)
        changed = await consumer.change(two, 60_000)
        forwarded = await consumer.forward(two)
        received = await consumer.receive()

    for status in (acked.status, changed.status, forwarded):
        assert name_of(status) == "INTERNAL_SERVER_ERROR"
        assert "service not available now" in status.message
    assert (received.name, received.bodies) == ("INTERNAL_SERVER_ERROR", [])


async def test_a_waiting_receive_of_many_is_found_by_its_message(cluster: Cluster, broker: Broker) -> None:
    async with consumer_of(cluster) as consumer:
        waiting = asyncio.ensure_future(consumer.receive())
        await aeventually(lambda: broker.pop.held_count(consumer.group, TOPIC))
        await send(cluster, b"one")
        assert (await waiting).bodies == [b"one"]
