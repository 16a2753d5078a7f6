"""A slave's tables: copied from its master, never ahead of the log, and what clients left flows back."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from harness.ports import free_broker_port
from kinds_stage import Peer, Stage, text_of
from slave_stage import Pair, running_pair

from pyromq.broker.broker import Broker
from pyromq.broker.replication.copied_tables import CopiedTables, TableCopier
from pyromq.broker.replication.following import Following
from pyromq.broker.replication.standing import Leader, Standing
from pyromq.clock import SystemClock
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.choices import MessageRequestMode
from pyromq.config.settings import BrokerProcess, BrokerSettings, NetSettings, StoreSettings
from pyromq.model import MessageQueue
from pyromq.net.links import Links
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire.bodies.group_bodies import decode_group_table
from pyromq.wire.bodies.lock_bodies import LockBatch, encode_lock_batch
from pyromq.wire.bodies.request_mode_bodies import (
    RequestModeSetting,
    decode_request_modes,
    encode_request_mode,
)
from pyromq.wire.java_json import loads


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with running_pair(tmp_path) as pair:
        yield pair


async def commit(client: Peer, offset: int, *, group: str = "readers", queue_id: int = 0) -> None:
    answer = await client.request(
        RequestCode.UPDATE_CONSUMER_OFFSET,
        {"consumerGroup": group, "topic": "orders", "queueId": queue_id, "commitOffset": offset},
    )
    assert answer.code == ResponseCode.SUCCESS


async def progress(client: Peer, *, group: str = "readers", queue_id: int = 0) -> int | None:
    answer = await client.request(
        RequestCode.QUERY_CONSUMER_OFFSET,
        {"consumerGroup": group, "topic": "orders", "queueId": queue_id, "setZeroIfNotFound": "false"},
    )
    return int((answer.ext or {})["offset"]) if answer.code == ResponseCode.SUCCESS else None


async def create_topic(client: Peer, topic: str, queues: int = 3) -> None:
    answer = await client.request(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
        },
    )
    assert answer.code == ResponseCode.SUCCESS, answer.remark


def on_disk(pair: Pair, name: str) -> str:
    return text_of(pair.slave.folder / "config" / name)


@pytest.mark.row("HA-13")
@pytest.mark.parametrize(
    "code",
    [
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_DELAY_OFFSET,
    ],
)
async def test_a_slave_answers_for_its_tables_as_its_master_does(pair: Pair, code: int) -> None:
    master, slave = pair.master.connect(), pair.slave.connect()
    await create_topic(master, "orders")
    await master.heartbeat(consumer="readers")
    await master.send("orders", properties={"DELAY": "1"})
    await commit(master, 1)
    await master.await_stored("orders")

    await pair.caught_up()

    theirs, ours = await master.request(code), await slave.request(code)
    assert loads(ours.body) == loads(theirs.body)


@pytest.mark.row("HA-13")
async def test_what_a_slave_copied_is_in_its_files(pair: Pair) -> None:
    master = pair.master.connect()
    await create_topic(master, "orders", 5)
    await master.heartbeat(consumer="readers")
    await commit(master, 7)
    await master.send("orders", properties={"DELAY": "1"})
    await master.await_stored("orders")

    await pair.caught_up()

    assert json.loads(on_disk(pair, "topics.json"))["topicConfigTable"]["orders"]["readQueueNums"] == 5
    assert '"readers"' in on_disk(pair, "subscriptionGroup.json")
    assert loads(on_disk(pair, "consumerOffset.json"))["offsetTable"]["orders@readers"] == {0: 7}
    assert loads(on_disk(pair, "delayOffset.json"))["offsetTable"] == {1: 1}


@pytest.mark.row("HA-13")
async def test_a_slave_copies_as_soon_as_it_has_found_its_master(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await pair.stop(pair.slave)
        await create_topic(pair.master.connect(), "orders", 5)

        # On a clock that stands still: nothing comes by the ten seconds.
        await pair.restart_slave(ManualClock())

        await aeventually(lambda: '"orders"' in on_disk(pair, "topics.json"))


async def test_what_a_slave_added_for_its_own_clients_goes_with_the_master_s_next_change(pair: Pair) -> None:
    master, slave = pair.master.connect(), pair.slave.connect()
    await pair.caught_up()
    await slave.heartbeat(consumer="strangers")
    await pair.caught_up()
    kept = (await slave.request(RequestCode.GET_ALL_TOPIC_CONFIG)).body.decode()
    await create_topic(master, "orders")

    await pair.caught_up()

    topics = (await slave.request(RequestCode.GET_ALL_TOPIC_CONFIG)).body.decode()
    assert "%RETRY%strangers" in kept
    assert "%RETRY%strangers" not in topics
    assert '"orders"' in topics


# Progress that clients brought


@pytest.mark.row("HA-13")
async def test_what_was_committed_at_the_slave_flows_back_when_the_master_returns(pair: Pair) -> None:
    master = pair.master.connect()
    for _ in range(9):
        await master.send("orders")
    await commit(master, 3)
    await pair.caught_up()
    await pair.stop(pair.master)
    await commit(pair.slave.connect(), 8)

    await pair.start_master()

    back = pair.master.connect()
    await aeventually(lambda: pair.copier.copies and pair.slave.broker.max_position, what="it follows")

    async def told() -> bool:
        await pair.copier.copy()
        return await progress(back) == 8

    await aeventually(told)
    assert await progress(pair.slave.connect()) == 8


async def test_a_master_that_is_ahead_is_not_told(pair: Pair) -> None:
    master, slave = pair.master.connect(), pair.slave.connect()
    await master.send("orders")
    await commit(master, 5)
    await commit(slave, 2)
    await commit(slave, 9, queue_id=1)

    await pair.caught_up()

    assert (await progress(master), await progress(slave)) == (5, 5)
    assert (await progress(master, queue_id=1), await progress(slave, queue_id=1)) == (9, 9)
    assert len(pair.copier.committed_here) == 0


async def test_progress_that_went_back_at_the_master_goes_back_at_the_slave(pair: Pair) -> None:
    master, slave = pair.master.connect(), pair.slave.connect()
    await commit(master, 5)
    await pair.caught_up()
    await commit(master, 2)

    await pair.caught_up()

    assert await progress(slave) == 2


# Never ahead of the log


@pytest.mark.row("HA-13")
async def test_progress_counts_only_when_the_log_is_there(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await pair.stop(pair.slave)
        master = pair.master.connect()
        await master.send("orders", properties={"DELAY": "1"})
        await master.await_stored("orders")
        await commit(master, 1)
        async with copying_from(pair.master, tmp_path / "copy") as (broker, copier):
            await copier.copy()
            assert broker.topics.get("orders") is not None
            assert broker.groups.offsets.progress("readers", "orders", 0) is None
            assert broker.kinds.delayed.encode() == b'{"offsetTable":{}}'

            copy_log(pair.master, broker)
            await copier.copy()
            assert broker.groups.offsets.progress("readers", "orders", 0) == 1
            assert broker.kinds.delayed.encode() == b'{"offsetTable":{1:1}}'


@pytest.mark.row("HA-13")
async def test_progress_is_not_taken_from_a_master_that_lost_what_its_slave_has(tmp_path: Path) -> None:
    """It lost power, and with it the delivery of a message that waited; the slave has that, and may lead."""
    behind = Stage(tmp_path / "behind", SystemClock(), broker_role="ASYNC_MASTER")
    await behind.start()
    async with running_pair(tmp_path) as pair, copying_from(behind, tmp_path / "copy") as (broker, copier):
        try:
            master = pair.master.connect()
            await master.send("orders", properties={"DELAY": "1"})
            await master.await_stored("orders")
            copy_log(pair.master, broker)
            broker.kinds.delayed.load()
            broker.groups.offsets.commit("readers", "orders", 0, 1)

            await copier.copy()

            assert copier.copies == 1
            assert dict(broker.kinds.delayed.progress) == {1: 1}
            assert broker.groups.offsets.progress("readers", "orders", 0) == 1
        finally:
            await behind.close()


@pytest.mark.row("HA-13")
async def test_what_was_said_over_one_link_is_not_used_over_the_next(pair: Pair, tmp_path: Path) -> None:
    """The master may have lost power between them, and what it said is then of a log that is gone."""
    master = pair.master.connect()
    await master.send("orders")
    await commit(master, 1)
    async with copying_from(pair.master, tmp_path / "copy") as (broker, copier):
        await copier.copy()
        await commit(master, 0)
        copy_log(pair.master, broker)

        copier.copy_soon()
        await copier.copy()

        assert broker.groups.offsets.progress("readers", "orders", 0) == 0


@pytest.mark.row("HA-13")
async def test_with_failover_tables_are_copied_from_none_but_who_sends_its_log(tmp_path: Path) -> None:
    """Who was elected last is followed until the next is, and came back as a slave, with less."""
    etcd: dict[str, object] = {"failover": "etcd://127.0.0.1:1", "broker_role": "SLAVE"}
    last = Stage(tmp_path / "last", SystemClock(), standing=Standing(epoch=1), broker_id=1, **etcd)
    await last.start()
    leader = Leader(last.address, f"127.0.0.1:{free_broker_port()}")
    slave = Stage(
        tmp_path / "slave", SystemClock(), standing=Standing(epoch=1, leader=leader), broker_id=2, **etcd
    )
    await slave.start()
    try:
        slave.broker.groups.offsets.commit("readers", "orders", 0, 8)
        replicating = slave.broker.replicating
        assert isinstance(replicating, Following)
        assert replicating.copier is not None

        await replicating.copier.copy()

        assert replicating.copier.copies == 0
        assert await progress(slave.connect()) == 8
    finally:
        await slave.close()
        await last.close()


@asynccontextmanager
async def copying_from(master: Stage, folder: Path) -> AsyncIterator[tuple[Broker, TableCopier]]:
    """Yield a slave whose log the test appends, and the copier of a master's tables to it."""
    process = BrokerProcess(
        broker=BrokerSettings(broker_name="copy"),
        store=StoreSettings(store_path_root_dir=str(folder), mapped_file_size_commit_log=4 << 20),
        net=NetSettings(),
    )
    broker = Broker(process, clock=SystemClock(), use_kernel=False)
    broker.store.open()
    links = Links(NetSettings())
    copier = TableCopier(
        CopiedTables(
            topics=broker.topics,
            groups=broker.groups,
            delayed=broker.kinds.delayed,
        ),
        store=broker.store,
        links=links,
        durability=_Synced(),  # type: ignore[arg-type]
        master=lambda: master.address,
    )
    try:
        yield broker, copier
    finally:
        await copier.close()
        await links.close()
        broker.store.close()


def copy_log(master: Stage, broker: Broker) -> None:
    """Append what a master's log has and this one has not."""
    segment = master.broker.store.log.segment_at(0)
    assert segment is not None
    broker.store.append_copied(bytes(segment.map[broker.store.max_position : master.broker.max_position]))


class _Synced:
    async def sync_now(self) -> None:
        """Nothing: a test looks at memory."""


# What else is copied


async def test_a_slave_knows_who_holds_which_queue(pair: Pair) -> None:
    master, slave = pair.master.connect(), pair.slave.connect()
    held = MessageQueue("orders", "broker-a", 1)
    body = encode_lock_batch(LockBatch(consumer_group="readers", client_id="me", queues=[held]))
    await master.request(RequestCode.LOCK_BATCH_MQ, body=body)

    await pair.caught_up()

    other = encode_lock_batch(LockBatch(consumer_group="readers", client_id="another", queues=[held]))
    answer = await slave.request(RequestCode.LOCK_BATCH_MQ, body=other)
    assert loads(answer.body) == {"lockOKMQSet": []}
    await aeventually(lambda: '"me"' in on_disk(pair, "queueLocks.json"))


async def test_a_slave_knows_how_groups_consume_and_what_5x_says_of_them(pair: Pair) -> None:
    master, slave = pair.master.connect(), pair.slave.connect()
    await create_topic(master, "orders")
    group = b'{"groupName":"readers","consumeMessageOrderly":true,"attributes":{"+priority.factor":"7"}}'
    setting = RequestModeSetting(topic="orders", consumer_group="readers", mode=MessageRequestMode.POP)
    await master.request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group)
    await master.request(RequestCode.SET_MESSAGE_REQUEST_MODE, body=encode_request_mode(setting))

    await pair.caught_up()

    modes = await slave.request(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    groups = await slave.request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    copied = decode_group_table(groups.body).subscription_group_table["readers"]
    refused = await slave.request(RequestCode.SET_MESSAGE_REQUEST_MODE, body=encode_request_mode(setting))
    assert decode_request_modes(modes.body) == {"orders": {"readers": setting}}
    assert (copied.is_fifo, copied.attributes) == (True, {"priority.factor": "7"})
    assert "slave" in (refused.remark or "")
    await aeventually(lambda: '"POP"' in on_disk(pair, "messageRequestMode.json"))


async def test_a_slave_lets_no_file_go_that_its_master_still_has(pair: Pair) -> None:
    await pair.master.connect().send("orders")

    await pair.caught_up()

    assert pair.slave.broker.store.may_go_before(1 << 40) == 0
