"""Producers and members of groups with default settings: whom they tell, what a start makes, what moves."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from admin_stage import AdminStage
from namesrv_stage import name_server

from pyromq import ClientSettings, Message, MessageQueue, ReceivedMessage
from pyromq.aio import Admin, Producer, PullConsumer, PushConsumer
from pyromq.broker.broker import Broker
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.choices import BrokerRole
from pyromq.config.settings import MIB, BrokerProcess, BrokerSettings, StoreSettings
from pyromq.testing.cluster import Cluster
from pyromq.testing.requests import pull_fields, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.lock_bodies import decode_consumer_ids
from pyromq.wire.bodies.offset_bodies import decode_group_offsets
from pyromq.wire.record import iter_records

TOPIC, GROUP = "orders", "readers"
QUEUES = [MessageQueue(TOPIC, "broker-a", number) for number in range(4)]


class Listener:
    """Remembers what it gets; while `gate` is closed, nothing is finished."""

    def __init__(self, answer: Callable[[ReceivedMessage], bool] = lambda _message: True) -> None:
        self.got: list[ReceivedMessage] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._answer = answer

    async def __call__(self, message: ReceivedMessage) -> bool:
        self.got.append(message)
        await self.gate.wait()
        return self._answer(message)

    @property
    def bodies(self) -> Counter[bytes]:
        return Counter(message.body for message in self.got)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster() as cluster, Admin(cluster.namesrv_address) as admin:
        await admin.create_topic(TOPIC, 4)
        yield cluster


def member(cluster: Cluster, name: str, listener: Listener, **more: object) -> PushConsumer:
    """Return a member of the group; only its name is not the default."""
    consumer = PushConsumer(
        GROUP,
        cluster.namesrv_address,
        listener=listener,
        instance_name=name,
        **more,  # type: ignore[arg-type]
    )
    consumer.subscribe(TOPIC)
    return consumer


def own(consumer: PushConsumer) -> list[MessageQueue]:
    return sorted(queue for queue in consumer.assignment() if queue.topic == TOPIC)


async def members_at(address: str) -> list[str]:
    async with WireClient(address) as client:
        answer = await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP})
    return decode_consumer_ids(answer.body) if answer.code == ResponseCode.SUCCESS else []


async def committed(cluster: Cluster, queue: MessageQueue) -> int | None:
    async with PullConsumer(GROUP, cluster.namesrv_address) as reader:
        return await reader.committed(queue)


async def send(cluster: Cluster, bodies: dict[MessageQueue, list[bytes]]) -> None:
    async with Producer("producers", cluster.namesrv_address) as producer:
        for queue, texts in bodies.items():
            for text in texts:
                await producer.send(Message(TOPIC, text), queue=queue)


# Who is told -----------------------------------------------------------------------------------------------


@pytest.mark.row("PR-20")
async def test_consumers_are_known_at_slaves_too_and_producers_at_masters_only(tmp_path: Path) -> None:
    async with name_server() as names:

        def broker(role: BrokerRole, broker_id: int) -> Broker:
            settings = BrokerSettings(listen_port=0, namesrv_addr=names.address)
            return Broker(
                BrokerProcess(
                    broker=replace(settings, broker_role=role, broker_id=broker_id),
                    store=StoreSettings(
                        store_path_root_dir=str(tmp_path / str(broker_id)), mapped_file_size_commit_log=MIB
                    ),
                )
            )

        master, slave = broker(BrokerRole.ASYNC_MASTER, 0), broker(BrokerRole.SLAVE, 1)
        await master.start()
        await slave.start()
        try:
            async with Admin(names.address) as admin:
                await admin.create_topic(TOPIC, 4)
            pushed = PushConsumer(GROUP, names.address, listener=Listener(), instance_name="push")
            pulled = PullConsumer(GROUP, names.address, ClientSettings(instance_name="pull"))
            pushed.subscribe(TOPIC)
            pulled.subscribe(TOPIC)
            async with pushed, pulled, Producer("producers", names.address) as producer:
                await producer.send(Message(TOPIC, b"x"))
                for at in (master, slave):

                    async def are_known(address: str = at.address) -> bool:
                        return len(await members_at(address)) == 2

                    await aeventually(are_known)
                fields = {"producerGroup": "producers", "topic": TOPIC}
                async with WireClient(master.address) as here, WireClient(slave.address) as there:
                    code = RequestCode.GET_PRODUCER_CONNECTION_LIST

                    async def is_known() -> bool:
                        return (await here.ask(code, fields)).code == ResponseCode.SUCCESS

                    await aeventually(is_known)
                    assert (await there.ask(code, fields)).code != ResponseCode.SUCCESS
            assert await members_at(slave.address) == []
        finally:
            await slave.close()
            await master.close()


@pytest.mark.row("PR-21")
async def test_a_broker_needs_to_know_nothing_of_a_producer_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    fields = send_v2_fields(TOPIC, producerGroup="producers", queueId=0)
    asked = {"producerGroup": "producers", "topic": TOPIC}
    offsets = []
    async with Cluster(data_dir=tmp_path) as cluster:
        address = cluster.broker_addresses[0]
        # Two of one group take turns, and neither ever sent a heartbeat.
        async with WireClient(address) as one, WireClient(address) as two:
            for client in (one, two, one):
                answer = await client.ask(RequestCode.SEND_MESSAGE_V2, fields, b"x")
                offsets.append(int((answer.ext or {})["queueOffset"]))
            known = await one.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, asked)
            assert known.code != ResponseCode.SUCCESS
        async with Producer("producers", cluster.namesrv_address) as producer:
            offsets.append((await producer.send(Message(TOPIC, b"x"), queue=QUEUES[0])).queue_offset)
            await cluster.stop_broker("broker-a")
            await cluster.start_broker("broker-a")
            offsets.append((await producer.send(Message(TOPIC, b"x"), queue=QUEUES[0])).queue_offset)
    assert offsets == [0, 1, 2, 3, 4]
    kept = "".join(path.read_text() for path in (tmp_path / "broker-a" / "config").glob("*.json"))
    assert TOPIC in kept
    assert "producers" not in kept


# What a start makes ----------------------------------------------------------------------------------------


@pytest.mark.row("CO-05")
@pytest.mark.parametrize("model", ["clustering", "broadcasting"])
async def test_a_start_makes_a_member_with_its_topics_its_queues_and_a_place_for_its_progress(
    cluster: Cluster, tmp_path: Path, model: str
) -> None:
    is_clustering = model == "clustering"
    listener = Listener()
    folder = {} if is_clustering else {"local_offset_store_dir": str(tmp_path)}
    async with (
        member(cluster, "one", listener, model=model, **folder) as one,
        Admin(cluster.namesrv_address) as admin,
    ):
        assert await members_at(cluster.broker_addresses[0]) == [one.client_id]
        said = await admin.consumer_connections(GROUP)
        topics = set(said.subscriptions)
        assert topics == ({TOPIC, f"%RETRY%{GROUP}"} if is_clustering else {TOPIC})
        # The group's retry topic is shared out as well.
        await aeventually(
            lambda: own(one) == QUEUES and {queue.topic for queue in one.assignment()} == topics
        )

        await send(cluster, {queue: [b"x"] for queue in QUEUES})
        await aeventually(lambda: len(listener.got) == 4)
        client_id = one.client_id
    assert await members_at(cluster.broker_addresses[0]) == []
    file = tmp_path / client_id / GROUP / "offsets.json"
    assert file.exists() != is_clustering
    async with WireClient(cluster.broker_addresses[0]) as client:
        table = decode_group_offsets((await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)).body)
    progress = table.get(f"{TOPIC}@{GROUP}", {})
    assert progress == (dict.fromkeys(range(4), 1) if is_clustering else {})


# How queues are shared and move ----------------------------------------------------------------------------


@pytest.mark.row("RB-04")
async def test_queues_are_shared_by_what_a_broker_has_of_topics_members_and_progress(
    cluster: Cluster,
) -> None:
    listeners = [Listener() for _ in range(3)]
    async with member(cluster, "one", listeners[0]) as one:
        await aeventually(lambda: own(one) == QUEUES)
        await send(cluster, {queue: [b"first"] * 3 for queue in QUEUES})
        await aeventually(lambda: len(listeners[0].got) == 12)
        # Members: who is there gets a share.
        async with member(cluster, "two", listeners[1]) as two:
            await aeventually(lambda: (len(own(one)), len(own(two))) == (2, 2))
            assert sorted(own(one) + own(two)) == QUEUES
            both = {one.client_id, two.client_id}
            assert set(await members_at(cluster.broker_addresses[0])) == both
            await send(cluster, {queue: [b"second"] for queue in QUEUES})
            await aeventually(lambda: len(listeners[0].got) + len(listeners[1].got) == 16)
    # Progress: whoever comes goes on where they were. Topics: their queues are what is shared.
    assert [await committed(cluster, queue) for queue in QUEUES] == [4] * 4
    async with Admin(cluster.namesrv_address) as admin:
        await admin.create_topic(TOPIC, 6)
    async with member(cluster, "three", listeners[2]) as three:
        await aeventually(lambda: len(own(three)) == 6)
        await send(cluster, {queue: [b"third"] for queue in QUEUES})
        await aeventually(lambda: len(listeners[2].got) == 4)

    assert listeners[0].bodies + listeners[1].bodies == {b"first": 12, b"second": 4}
    assert listeners[2].bodies == {b"third": 4}


@pytest.mark.row("RB-06")
async def test_a_queue_that_moves_while_its_message_is_worked_on_brings_it_twice(cluster: Cluster) -> None:
    first, second = Listener(), Listener()
    first.gate.clear()
    async with member(cluster, "one", first) as one:
        await aeventually(lambda: own(one) == QUEUES)
        await send(cluster, {queue: [b"%d" % queue.queue_id] for queue in QUEUES})
        await aeventually(lambda: len(first.got) == 4)

        async with member(cluster, "two", second) as two:
            await aeventually(lambda: len(own(two)) == 2)
            moved = own(two)
            await aeventually(lambda: len(second.got) == 2)
            first.gate.set()
            await aeventually(lambda: own(one) == [queue for queue in QUEUES if queue not in moved])

    # Those of the queues that moved came again, to the new owner, and no other did.
    assert first.bodies == Counter(b"%d" % queue.queue_id for queue in QUEUES)
    assert second.bodies == Counter(b"%d" % queue.queue_id for queue in moved)


@pytest.mark.row("RB-06")
async def test_a_queue_read_in_order_pauses_while_it_moves_and_then_all_comes_at_once(
    cluster: Cluster,
) -> None:
    first, second = Listener(), Listener()
    async with member(cluster, "one", first, order="orderly") as one:
        await aeventually(lambda: own(one) == QUEUES)
        first.gate.clear()
        await send(cluster, {queue: [b"held"] for queue in QUEUES})
        await aeventually(lambda: len(first.got) == 4)

        async with member(cluster, "two", second, order="orderly") as two:
            both = {one.client_id, two.client_id}

            async def are_both_known() -> bool:
                return set(await members_at(cluster.broker_addresses[0])) == both

            await aeventually(are_both_known)
            later = [b"%d" % number for number in range(20)]
            await send(cluster, dict.fromkeys(QUEUES, later))
            # The pause: the old owner holds the lock until its listener ends, and nobody gets what came.
            assert (set(first.bodies), own(two), second.got) == ({b"held"}, [], [])

            first.gate.set()
            await aeventually(lambda: len(own(two)) == 2)
            moved = own(two)
            await aeventually(lambda: len(first.got) + len(second.got) == 4 * 21)

    # The old owner may work on until it hears of the new one; nothing comes twice, and all in order.
    for queue in moved:
        got = [message.body for message in first.got + second.got if message.queue == queue]
        assert got == [b"held", *later]
        assert any(message.queue == queue for message in second.got)


@pytest.mark.row("RT-05")
async def test_each_member_s_own_limit_decides_over_what_it_sends_back(cluster: Cluster) -> None:
    def refuse(_message: ReceivedMessage) -> bool:
        return False

    patient, strict = Listener(refuse), Listener(refuse)
    async with (
        member(cluster, "patient", patient) as one,
        member(cluster, "strict", strict, max_reconsume_times=0) as two,
    ):
        await aeventually(lambda: (len(own(one)), len(own(two))) == (2, 2))
        await send(cluster, {queue: [b"%d" % queue.queue_id] for queue in QUEUES})
        await aeventually(lambda: (len(patient.got), len(strict.got)) == (2, 2))

        async def bodies_of(topic: str, queue_id: int) -> Counter[bytes]:
            async with WireClient(cluster.broker_addresses[0]) as client:
                answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields(topic, queueId=queue_id))
            return Counter(record.body for record in iter_records(answer.body))

        # The group's limit is sixteen; who says nothing waits for the first retry, at delay level 3.
        for place, listener in (((f"%DLQ%{GROUP}", 0), strict), (("SCHEDULE_TOPIC_XXXX", 2), patient)):

            async def are_there(place: tuple[str, int] = place, wanted: Listener = listener) -> bool:
                return await bodies_of(*place) == wanted.bodies

            await aeventually(are_there)


# How many queues -------------------------------------------------------------------------------------------


@pytest.mark.row("OR-05")
async def test_a_topic_has_as_many_queues_as_its_first_producer_or_an_operator_says(cluster: Cluster) -> None:
    names = cluster.namesrv_address

    async def count(topic: str) -> tuple[int, int]:
        async with Admin(names) as admin:
            (data,) = (await admin.route(topic)).queue_datas
        return data.read_queue_nums, data.write_queue_nums

    for wanted, topic in ((None, "by-default"), (2, "by-producer"), (99, "by-a-greedy-one")):
        settings = ClientSettings() if wanted is None else ClientSettings(default_topic_queue_nums=wanted)
        async with Producer("producers", names, settings) as producer:
            await producer.send(Message(topic, b"x"))
    assert [await count(topic) for topic in ("by-default", "by-producer", "by-a-greedy-one")] == [
        (4, 4),
        (2, 2),
        (8, 8),
    ]

    def told(*words: str) -> int:
        return AdminStage(names).admin(*words).exit_code

    place = ("-b", cluster.broker_addresses[0])
    assert await asyncio.to_thread(told, "updateTopic", "-t", "mine", *place, "-r", "5", "-w", "3") == 0
    assert await count("mine") == (5, 3)

    listener = Listener()
    consumer = PushConsumer("of-mine", names, listener=listener, order="orderly")
    consumer.subscribe("mine")
    async with consumer, Producer("producers", names) as producer:
        await aeventually(lambda: sum(queue.topic == "mine" for queue in consumer.assignment()) == 5)
        assert len(await producer.queues("mine")) == 3
