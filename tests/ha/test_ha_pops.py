"""Popped messages that are in flight when the master is killed, and when it is back: real processes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from failover_stage import LONG_S
from grpc_consumers import GrpcConsumer, name_of
from grpc_sdk import Sdk, message, resource
from harness.ports import free_broker_port
from replica_processes import Replica, master_of, pair

from pyromq import ConnectFailed, ConsumeFrom, HandleExpired, Message, ReceivedMessage
from pyromq.aio import Admin, Producer, SimpleConsumer
from pyromq.testing.waiting import aeventually
from pyromq.wire.grpc import grpc_messages as pb

pytestmark = pytest.mark.timeout(240)

TOPIC, GROUP = "Orders", "readers"
#: The shortest that gRPC's consumers may ask for, and one that no test lasts.
SHORT_MS, LONG_MS = 10_000, 600_000


@dataclass
class Group:
    """Two replicas, each with a port for gRPC."""

    name_server: str
    ports: dict[Replica, int]
    master: Replica
    slave: Replica

    async def kill_master(self) -> None:
        """Kill the master, and return when the other replica has taken its place."""
        self.master.end()
        self.master, self.slave = await master_of(self.slave), self.master

    async def whole_again(self) -> None:
        """Bring the lost replica back; return when it is in sync."""
        await self.slave.start()
        await master_of(self.master, in_sync=2)

    @asynccontextmanager
    async def consumer(self) -> AsyncIterator[GrpcConsumer]:
        """Return the one consumer, whose address is that of the master."""
        async with Sdk(f"127.0.0.1:{self.ports[self.master]}", "consumer") as sdk:
            yield GrpcConsumer(sdk, GROUP, TOPIC)


@asynccontextmanager
async def group_of(folder: Path) -> AsyncIterator[Group]:
    ports = [free_broker_port(), free_broker_port()]
    settings = [{"grpcServerPort": port} for port in ports]
    async with pair(folder, settings=settings) as (master, slave, cluster):
        by_folder = dict(zip(("one", "two"), ports, strict=True))
        known = {replica: by_folder[replica.folder.name] for replica in (master, slave)}
        async with Admin(cluster.namesrv_address) as admin:
            await admin.create_topic(TOPIC, 2)
        yield Group(cluster.namesrv_address, known, master, slave)


def handles_by_body(messages: list[pb.Message]) -> dict[str, str]:
    return {one.body.decode(): one.system_properties.receipt_handle for one in messages}


async def popped(consumer: GrpcConsumer, prefix: str, count: int, invisible_ms: int) -> dict[str, str]:
    """Send messages, receive them, and return their handles by body."""
    for index in range(count):
        await consumer.sdk.stored(message(TOPIC, f"{prefix}-{index}".encode(), f"{prefix}-{index}"))
    found = handles_by_body((await consumer.receive_all(count, invisible_ms=invisible_ms)).messages)
    assert len(found) == count
    return found


async def acked(consumer: GrpcConsumer, handle: str) -> str:
    return name_of((await consumer.ack(handle)).status)


@pytest.mark.row("PO-02", "PO-03")
async def test_handles_of_a_master_that_was_killed_are_those_of_the_next(tmp_path: Path) -> None:
    async with group_of(tmp_path) as group:
        async with group.consumer() as consumer:
            long = await popped(consumer, "long", 4, LONG_MS)
            changed = await consumer.change(long["long-3"], LONG_MS)
            short = await popped(consumer, "short", 4, SHORT_MS)
            assert [await acked(consumer, short[f"short-{index}"]) for index in (0, 1)] == ["OK"] * 2
            assert await acked(consumer, long["long-0"]) == "OK"

        await group.kill_master()

        async with group.consumer() as consumer:
            assert await acked(consumer, long["long-3"]) == "INVALID_RECEIPT_HANDLE"
            # With what a change made of it, for the first time, and once more.
            for handle in (changed.receipt_handle, long["long-1"], long["long-0"]):
                assert await acked(consumer, handle) == "OK"
            again = (await consumer.receive_all(2, invisible_ms=LONG_MS)).messages

            # Their time was over with that of those which were acknowledged.
            assert sorted(one.body for one in again) == [b"short-2", b"short-3"]
            assert {one.system_properties.delivery_attempt for one in again} == {2}
            assert await acked(consumer, short["short-2"]) == "INVALID_RECEIPT_HANDLE"
            assert (await consumer.receive()).bodies == []
            handles = handles_by_body(again)
            assert await acked(consumer, handles["short-2"]) == "OK"
        await group.whole_again()

        await group.kill_master()

        async with group.consumer() as consumer:
            assert await acked(consumer, handles["short-3"]) == "OK"
            assert await acked(consumer, long["long-2"]) == "OK"
            await consumer.sdk.stored(message(TOPIC, b"last", "last"))
            assert (await consumer.receive_all(1)).bodies == [b"last"]
            assert (await consumer.receive()).bodies == []


async def doors(group: Group, asked: Replica, *addresses: int) -> set[tuple[int, int]]:
    """Ask a replica for the route, as a client that was told these ports; return broker ids and ports."""
    told = pb.Endpoints(scheme=1, addresses=[pb.Address(host="127.0.0.1", port=port) for port in addresses])
    topic = resource(TOPIC)
    async with Sdk(f"127.0.0.1:{group.ports[asked]}") as sdk:
        route = await sdk.call("QueryRoute", pb.QueryRouteRequest(topic=topic, endpoints=told))
        request = pb.QueryAssignmentRequest(topic=topic, group=resource(GROUP), endpoints=told)
        shares = await sdk.call("QueryAssignment", request)
    if {name_of(route.status), name_of(shares.status)} != {"OK"}:
        # A replica that has just begun has not copied the topics yet.
        return set()
    queues = [*route.message_queues, *(share.message_queue for share in shares.assignments)]
    return {
        (queue.broker.id, address.port) for queue in queues for address in queue.broker.endpoints.addresses
    }


@pytest.mark.row("GR-13")
async def test_each_replica_says_where_the_master_is_and_so_does_the_next_one(tmp_path: Path) -> None:
    async with group_of(tmp_path) as group:
        async with Producer("senders", name_server=group.name_server) as producer:
            # A new topic without a message may be lost with its master (docs/limits.md).
            await producer.send(Message(TOPIC, b"first"))
        for _ in range(2):
            master, slave = group.ports[group.master], group.ports[group.slave]

            async def all_say_so(master: int = master, slave: int = slave) -> bool:
                found = [
                    await doors(group, group.master, master),
                    await doors(group, group.master, slave, master),
                    await doors(group, group.slave, slave),
                    await doors(group, group.slave, slave, master),
                ]
                masters = [{port for broker_id, port in one if broker_id == 0} for one in found]
                return masters == [{master}] * 4

            await aeventually(all_say_so, LONG_S, what="all are told the one master's port")
            await group.kill_master()
            await group.whole_again()


async def taken(consumer: SimpleConsumer, count: int, invisible_ms: int) -> dict[str, ReceivedMessage]:
    """Receive so many messages, and return them by body."""
    found: dict[str, ReceivedMessage] = {}

    async def all_there() -> bool:
        got = await consumer.receive(count - len(found), invisible_ms, wait_ms=2_000)
        found.update({one.body.decode(): one for one in got})
        return len(found) == count

    await aeventually(all_there, LONG_S, what=f"{count} messages are received")
    return found


@pytest.mark.row("PO-02", "PO-03")
async def test_our_simple_consumer_goes_on_with_what_it_has_when_the_master_is_killed(tmp_path: Path) -> None:
    async with (
        group_of(tmp_path) as group,
        Producer("senders", name_server=group.name_server) as producer,
        SimpleConsumer(GROUP, group.name_server, consume_from=ConsumeFrom.FIRST_OFFSET) as consumer,
    ):
        consumer.subscribe(TOPIC)
        for body in (b"a", b"b", b"c", b"d"):
            await producer.send(Message(TOPIC, body))
        found = await taken(consumer, 4, SHORT_MS)
        await consumer.change_invisible_duration(found["b"], LONG_MS)
        await consumer.ack(found["a"])

        await group.kill_master()

        async def is_acknowledged() -> bool:
            # The first try finds that the master is away, and has the name server asked.
            try:
                await consumer.ack(found["b"])
            except ConnectFailed:
                return False
            return True

        await aeventually(is_acknowledged, LONG_S, what="the next master takes the handle")
        again = await taken(consumer, 2, LONG_MS)
        assert set(again) == {"c", "d"}
        assert {one.reconsume_times for one in again.values()} == {1}
        with pytest.raises(HandleExpired):
            await consumer.change_invisible_duration(found["c"], LONG_MS)
        await consumer.ack(list(again.values()))
        assert await consumer.receive(wait_ms=2_000) == []
