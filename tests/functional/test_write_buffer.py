"""A master with a write buffer (transientStorePoolEnable): what is readable, what is copied, what is lost.

The clock stands still: nothing is committed before a test moves it by `commitIntervalCommitLog`, 200 ms.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import ManualStage, Peer, after_a_crash, copy_as_it_is, running_stage
from reign_stage import reign_of
from slave_stage import running_pair
from staged_files import StagedFiles

from pyromq.codes import RequestCode, ResponseCode, SysFlag
from pyromq.testing.requests import send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.wire import properties as names
from pyromq.wire.bodies.registration_bodies import decode_key_values
from pyromq.wire.message_id import parse_offset_message_id

INTERVAL_MS = 200


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[ManualStage]:
    async with running_stage(tmp_path / "master", transient_store_pool_enable=True) as stage:
        yield stage


async def runtime(client: Peer) -> dict[str, str]:
    return decode_key_values((await client.request(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table


def log_file(folder: Path) -> bytes:
    (log,) = (folder / "commitlog").iterdir()
    return log.read_bytes()


@pytest.mark.row("FL-04", "ST-15")
async def test_a_message_is_read_when_it_is_committed_and_not_before(stage: ManualStage) -> None:
    client = stage.connect()
    sent = await client.send("orders", b"in the buffer")
    assert sent.code == ResponseCode.SUCCESS
    assert await client.stored("orders") == []
    assert b"in the buffer" not in log_file(stage.folder)

    stage.clock.advance(INTERVAL_MS)

    (record,) = await client.await_stored("orders")
    assert record.body == b"in the buffer"
    assert b"in the buffer" in log_file(stage.folder)


@pytest.mark.row("FL-04")
async def test_a_held_pull_is_answered_with_the_commit(stage: ManualStage) -> None:
    client = stage.connect()
    await client.send("orders", b"one")
    pulling = await stage.hold(stage.connect("reader").pull("orders", hold_ms=20_000))

    stage.clock.advance(INTERVAL_MS)

    assert (await pulling).code == ResponseCode.SUCCESS


@pytest.mark.row("FL-04", "ST-15")
async def test_a_kill_takes_what_is_not_committed_and_nothing_else(
    stage: ManualStage, tmp_path: Path
) -> None:
    client = stage.connect()
    await client.send("orders", b"committed")
    stage.clock.advance(INTERVAL_MS)
    await client.await_stored("orders")
    for body in (b"lost one", b"lost two"):
        await client.send("orders", body)

    async with after_a_crash(stage, tmp_path / "killed") as survivor:
        client = survivor.connect()
        again = await client.send("orders", b"next")
        assert (again.ext or {})["queueOffset"] == "1"
        assert [record.body for record in await client.stored("orders")] == [b"committed", b"next"]


@pytest.mark.row("FL-04")
async def test_a_clean_stop_commits_everything(stage: ManualStage) -> None:
    await stage.connect().send("orders", b"last words")

    await stage.restart()

    (record,) = await stage.connect().stored("orders")
    assert record.body == b"last words"


@pytest.mark.row("ST-14", "ST-15")
async def test_runtime_information_tells_what_waits_for_commit_and_for_flush(stage: ManualStage) -> None:
    client = stage.connect()
    before = await runtime(client)
    assert before["remainHowManyDataToCommit"] == "0 B"
    assert before["remainTransientStoreBufferNumbs"] == "5"

    await client.send("orders", b"x" * 100)
    written = await runtime(client)
    size = int(written["remainHowManyDataToCommit"].removesuffix(" B"))
    assert size > 100
    assert written["commitLogMaxOffset"] == "0"
    assert written["remainHowManyDataToFlush"] == "0 B"
    assert written["remainTransientStoreBufferNumbs"] == "4"

    stage.clock.advance(INTERVAL_MS)
    await client.await_stored("orders")
    committed = await runtime(client)
    assert committed["remainHowManyDataToCommit"] == "0 B"
    assert committed["commitLogMaxOffset"] == str(size)
    assert committed["remainHowManyDataToFlush"] == f"{size} B"

    # flushCommitLogThoroughInterval
    stage.clock.advance(10_000)

    async def is_flushed() -> bool:
        return (await runtime(client))["remainHowManyDataToFlush"] == "0 B"

    await aeventually(is_flushed, what="the disk has it")


@pytest.mark.row("FL-04")
async def test_fewer_pages_than_the_least_wait_for_the_thorough_interval(tmp_path: Path) -> None:
    settings = {"commit_commit_log_least_pages": 4, "commit_commit_log_thorough_interval": 60_000}
    async with running_stage(tmp_path, transient_store_pool_enable=True, **settings) as stage:
        client = stage.connect()
        await client.send("orders", b"one")
        stage.clock.advance(INTERVAL_MS)
        # Five pages, and all that is before them.
        await client.send("orders", b"x" * 20_480, queue_id=1)
        assert await client.stored("orders") == []
        stage.clock.advance(INTERVAL_MS)
        await client.await_stored("orders", queue_id=1)
        assert len(await client.stored("orders")) == 1


@pytest.mark.row("FL-04")
@pytest.mark.parametrize(
    "settings", [{"flush_disk_type": "SYNC_FLUSH"}, {"broker_role": "SLAVE", "broker_id": 1}]
)
async def test_there_is_no_buffer_under_synchronous_flush_and_on_a_slave(
    tmp_path: Path, settings: dict[str, object]
) -> None:
    async with running_stage(tmp_path, transient_store_pool_enable=True, **settings) as stage:
        assert "remainHowManyDataToCommit" not in await runtime(stage.connect())
        assert not stage.broker.store.is_buffered


@pytest.mark.row("FL-04")
async def test_the_shortcuts_of_sends_and_pulls_keep_to_what_is_committed(stage: ManualStage) -> None:
    """With the kernel, sends and pulls like earlier ones are not handled in Python."""
    client, count = stage.connect(), 0

    async def send() -> None:
        nonlocal count
        fields = send_v2_fields("orders")
        sent = await client.request(RequestCode.SEND_MESSAGE_V2, fields, body=b"%d" % count)
        assert sent.code == ResponseCode.SUCCESS, sent.remark
        count += 1

    for committed in range(0, 9, 3):
        for _ in range(3):
            await send()
            pulled = await client.pull("orders")
            assert (pulled.ext or {})["maxOffset"] == str(committed)
            assert len(await client.stored("orders")) == committed
        stage.clock.advance(INTERVAL_MS)
        records = await client.await_stored("orders", count)
        assert [record.body for record in records] == [b"%d" % at for at in range(count)]


async def test_a_transaction_whose_half_is_in_the_buffer_can_be_committed(stage: ManualStage) -> None:
    client = stage.connect()
    properties = {names.TRANSACTION_PREPARED: "true", names.PRODUCER_GROUP: "payers"}
    half = await client.send("orders", properties=properties, sys_flag=int(SysFlag.TRANSACTION_PREPARED))
    ext = half.ext or {}
    fields = {
        "producerGroup": "payers",
        "tranStateTableOffset": ext["queueOffset"],
        "commitLogOffset": parse_offset_message_id(ext["msgId"]).position,
        "commitOrRollback": int(SysFlag.TRANSACTION_COMMIT),
        "msgId": "ID",
    }
    ended = await client.request(RequestCode.END_TRANSACTION, fields)
    assert ended.code == ResponseCode.SUCCESS, ended.remark

    stage.clock.advance(INTERVAL_MS)

    assert len(await client.await_stored("orders")) == 1


async def test_a_full_disk_keeps_the_buffer_until_there_is_room(tmp_path: Path) -> None:
    files = StagedFiles()
    async with running_stage(tmp_path, files=files, transient_store_pool_enable=True) as stage:
        client = stage.connect()
        await client.send("orders", b"kept")
        files.full_name = "0000"
        stage.clock.advance(INTERVAL_MS)
        store = stage.broker.store
        await aeventually(lambda: not store.is_writable, what="the commit finds the disk full")
        assert (await client.send("orders", b"refused")).code != ResponseCode.SUCCESS

        files.full_name = None
        # The next look at the disk, and the next commit.
        stage.clock.advance(10_000)
        await aeventually(lambda: store.is_writable, what="there is room")
        stage.clock.advance(INTERVAL_MS)

        (record,) = await client.await_stored("orders")
        assert record.body == b"kept"


@pytest.mark.row("FL-04")
async def test_a_slave_gets_what_is_committed_and_a_synchronous_master_waits_for_it(tmp_path: Path) -> None:
    """On the machine's clock: the answer says that the slave has it, so that it was committed before."""
    pool = {"transient_store_pool_enable": True}
    async with running_pair(tmp_path, broker_role="SYNC_MASTER", **pool) as pair:
        client = pair.master.connect()

        async def is_copied() -> bool:
            return (await client.send("orders")).code == ResponseCode.SUCCESS

        await aeventually(is_copied, what="the slave is there")
        store, copy = pair.master.broker.store, pair.slave.broker.store
        assert store.is_buffered
        assert not copy.is_buffered
        end = store.committed_position
        assert copy.max_position == end > 0
        copy_as_it_is(tmp_path / "one", tmp_path / "killed")

    async with running_stage(tmp_path / "killed") as survivor:
        assert survivor.broker.max_position >= end


async def test_a_replica_that_has_all_that_is_committed_is_not_behind(tmp_path: Path) -> None:
    """With failover: a replica that is behind for long leaves the in-sync set; nobody sent this message."""
    pool = {"transient_store_pool_enable": True}
    async with reign_of(tmp_path, role="ASYNC_MASTER", flush="ASYNC_FLUSH", **pool) as stage:
        client = stage.connect()
        stage.broker.commit()
        store, followers = stage.broker.store, stage.followers
        replica = followers.connected("10.0.0.2:1", 2)
        followers.in_sync = frozenset({2})
        followers.acknowledged(replica, store.committed_position)

        await client.send("orders", b"in the buffer")
        stage.clock.advance(INTERVAL_MS - 1)
        assert store.committed_position < store.max_position
        assert (followers.lag_bytes(replica), followers.behind_s(replica)) == (0, 0.0)

        stage.broker.commit()
        assert followers.lag_bytes(replica) > 0
        stage.clock.advance(1_000)
        assert followers.behind_s(replica) == 1.0
