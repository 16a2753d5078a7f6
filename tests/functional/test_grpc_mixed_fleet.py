"""Groups with members of several protocols: gRPC and remoting pop together, classic consumers take over."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from grpc_consumers import GROUP, TOPIC, consumer_of, name_of
from grpc_sdk import message, put_topic, resource, sdk_of

from pyromq.aio import Producer, PullConsumer, SimpleConsumer
from pyromq.model import Message, MessageQueue
from pyromq.testing.cluster import Cluster
from pyromq.testing.waiting import aeventually
from pyromq.wire.grpc import grpc_messages as pb

COUNT = 120
QUEUES = 3


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(has_grpc=True) as cluster:
        put_topic(cluster, TOPIC, queues=QUEUES)
        yield cluster


@dataclass
class Ledger:
    """What members got, and what they acknowledged or refused."""

    delivered: Counter[bytes] = field(default_factory=Counter)
    finished: Counter[bytes] = field(default_factory=Counter)
    refused: set[bytes] = field(default_factory=set)
    #: The members that finished something.
    workers: set[str] = field(default_factory=set)

    def takes(self, worker: str, body: bytes) -> bool:
        """Note a delivery; return whether it is finished: each tenth message fails at its first delivery."""
        self.delivered[body] += 1
        if int(body) % 10 == 0 and body not in self.refused:
            self.refused.add(body)
            return False
        self.finished[body] += 1
        self.workers.add(worker)
        return True

    @property
    def is_done(self) -> bool:
        return len(self.finished) == COUNT


async def grpc_member(cluster: Cluster, name: str, ledger: Ledger) -> None:
    async with consumer_of(cluster, name) as consumer:
        while True:
            for shown in (await consumer.receive(batch=4)).messages:
                handle = shown.system_properties.receipt_handle
                if ledger.takes(name, shown.body):
                    assert name_of((await consumer.ack(handle)).status) == "OK"
                else:
                    assert name_of((await consumer.change(handle, 1_000)).status) == "OK"


async def remoting_member(cluster: Cluster, name: str, ledger: Ledger) -> None:
    async with SimpleConsumer(GROUP, name_server=cluster.namesrv_address) as consumer:
        consumer.subscribe(TOPIC)
        while True:
            for received in await consumer.receive(4, wait_ms=5_000):
                if ledger.takes(name, received.body):
                    await consumer.ack(received)
                else:
                    await consumer.change_invisible_duration(received, 1_000)


@pytest.mark.row("PO-24")
async def test_members_of_both_protocols_share_a_group_without_loss_or_duplicates(cluster: Cluster) -> None:
    ledger = Ledger()
    members = [grpc_member(cluster, f"grpc-{number}", ledger) for number in range(3)]
    members += [remoting_member(cluster, f"remoting-{number}", ledger) for number in range(3)]
    tasks = [asyncio.ensure_future(member) for member in members]
    half = COUNT // 2
    async with sdk_of(cluster, "sender") as sdk:
        for number in range(half):
            await sdk.stored(message(TOPIC, b"%d" % number, f"ID-{number}"))
    async with Producer("senders", name_server=cluster.namesrv_address) as producer:
        for number in range(half, COUNT):
            await producer.send(Message(TOPIC, b"%d" % number))
    await aeventually(lambda: ledger.is_done or any(task.done() for task in tasks), 60)
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)

    assert [end for end in ends if not isinstance(end, asyncio.CancelledError)] == []
    assert set(ledger.finished.values()) == {1}
    # Nothing was delivered again but what failed.
    assert {body: count - 1 for body, count in ledger.delivered.items() if count > 1} == dict.fromkeys(
        ledger.refused, 1
    )
    assert len(ledger.refused) == COUNT // 10
    assert {worker.partition("-")[0] for worker in ledger.workers} == {"grpc", "remoting"}
    [broker] = cluster.brokers.values()
    await aeventually(lambda: broker.pop.in_flight_count == 0)


async def test_assignments_of_a_group_are_every_member_s(cluster: Cluster) -> None:
    """One assignment of all queues, whoever asks, and whoever is in the group by remoting."""
    async with SimpleConsumer(GROUP, name_server=cluster.namesrv_address) as remote:
        remote.subscribe(TOPIC)
        await remote.receive(1, wait_ms=1)
        asked = pb.QueryAssignmentRequest(topic=resource(TOPIC), group=resource(GROUP))
        asked.endpoints.scheme = 1
        asked.endpoints.addresses.add(host="127.0.0.1", port=8081)
        answers = []
        for name in ("one", "two"):
            async with sdk_of(cluster, name) as sdk:
                answers.append(await sdk.call("QueryAssignment", asked))

    assert answers[0] == answers[1]
    assert [(each.message_queue.id, each.message_queue.broker.name) for each in answers[0].assignments] == [
        (-1, "broker-a")
    ]


@pytest.mark.row("PO-11")
async def test_a_group_goes_on_where_classic_consumers_were_and_back(cluster: Cluster) -> None:
    async with Producer("senders", name_server=cluster.namesrv_address) as producer:
        for number in range(6):
            await producer.send(Message(TOPIC, b"%d" % number), queue=MessageQueue(TOPIC, "broker-a", 0))
    queue = MessageQueue(TOPIC, "broker-a", 0)
    [broker] = cluster.brokers.values()
    async with PullConsumer(GROUP, name_server=cluster.namesrv_address) as classic:
        await classic.commit(queue, 2)
    async with consumer_of(cluster) as consumer:
        found = await consumer.receive_all(2, batch=2)
        assert found.bodies == [b"2", b"3"]
        # What is in flight is not passed by: a classic consumer would read it again.
        assert broker.groups.offsets.progress(GROUP, TOPIC, 0) == 2
        assert name_of((await consumer.ack(*found.handles)).status) == "OK"
    await aeventually(lambda: broker.groups.offsets.progress(GROUP, TOPIC, 0) == 4)
    async with PullConsumer(GROUP, name_server=cluster.namesrv_address) as classic:
        assert await classic.committed(queue) == 4


async def test_a_message_is_once_in_each_of_two_groups(cluster: Cluster) -> None:
    async with sdk_of(cluster, "sender") as sdk:
        await sdk.stored(message(TOPIC, b"one"))
    groups = []
    for group in ("readers", "writers"):
        async with consumer_of(cluster, group, group=group) as consumer:
            groups.append((await consumer.receive()).bodies)

    assert groups == [[b"one"], [b"one"]]


async def test_a_broker_restart_changes_no_handle(cluster: Cluster) -> None:
    async with sdk_of(cluster, "sender") as sdk:
        for number in range(4):
            await sdk.stored(message(TOPIC, b"%d" % number, f"ID-{number}"))
    async with consumer_of(cluster) as consumer:
        found = await consumer.receive_all(4)
        assert name_of((await consumer.ack(*found.handles[:2])).status) == "OK"
    await cluster.stop_broker("broker-a")
    await cluster.start_broker("broker-a")
    [broker] = cluster.brokers.values()
    assert broker.pop.in_flight_count == 2
    async with consumer_of(cluster) as consumer:
        assert name_of((await consumer.ack(*found.handles)).status) == "OK"
    assert broker.pop.in_flight_count == 0
