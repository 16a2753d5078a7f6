"""What a slave acknowledged is there after its machine lost power, under synchronous flush."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from kinds_stage import Stage, settle
from replication_stage import Cutter, stop
from replication_stage import Stage as Links
from staged_files import StagedFiles

from pyromq.broker.durability.acknowledgement import Durability, FlushTimeout
from pyromq.broker.replication.following import Following
from pyromq.broker.replication.role import Leading
from pyromq.broker.replication.standing import Leader, Standing
from pyromq.clock import SystemClock
from pyromq.codes import ResponseCode
from pyromq.config.choices import FlushDiskType
from pyromq.config.settings import StoreSettings
from pyromq.errors import ServiceNotAvailable
from pyromq.store.files import Files
from pyromq.store.store import MessageStore
from pyromq.testing.disk import SimulatedDisk
from pyromq.testing.waiting import aeventually

pytestmark = pytest.mark.row("HA-02", "HA-04")

SLAVE_ID = 1
SYNCED = StoreSettings(flush_disk_type=FlushDiskType.SYNC_FLUSH)
ETCD = {"failover": "etcd://127.0.0.1:1"}
both_dialects = pytest.mark.parametrize("with_epochs", [False, True], ids=["static roles", "failover"])


@asynccontextmanager
async def pair(
    folder: Path, slave_files: Files, *, with_epochs: bool, flush: str = "SYNC_FLUSH"
) -> AsyncIterator[tuple[Stage, Stage]]:
    """Run a synchronous master and its slave, which has all that the master has."""
    standing = Standing(epoch=1, in_sync=frozenset({SLAVE_ID})) if with_epochs else None
    common: dict[str, object] = {"slave_timeout": 60_000, "flush_disk_type": flush}
    common |= ETCD if with_epochs else {}
    master = Stage(folder / "master", SystemClock(), standing=standing, broker_role="SYNC_MASTER", **common)
    await master.start()
    leader = Leader(master.address, master.broker.ha_address)
    slave = Stage(
        folder / "slave",
        SystemClock(),
        files=slave_files,
        standing=Standing(epoch=1, leader=leader) if with_epochs else None,
        broker_role="SLAVE",
        broker_id=SLAVE_ID,
        ha_master_address="" if with_epochs else leader.ha_address,
        **common,
    )
    await slave.start()
    try:
        await aeventually(lambda: is_followed(master, slave), 20, what="the slave follows")
        yield master, slave
    finally:
        await slave.close()
        await master.close()


def is_followed(master: Stage, slave: Stage) -> bool:
    leading, following = master.broker.replicating, slave.broker.replicating
    assert isinstance(leading, Leading)
    assert isinstance(following, Following)
    return (
        following.client is not None
        and following.client.is_connected
        and (leading.followers.connected_count == 1)
    )


@both_dialects
async def test_a_slave_acknowledges_what_its_own_disk_has(tmp_path: Path, with_epochs: bool) -> None:
    files = StagedFiles()
    async with pair(tmp_path, files, with_epochs=with_epochs) as (master, slave):
        client = master.connect()
        assert (await client.send("orders")).code == ResponseCode.SUCCESS
        before = files.log_syncs
        with files.held_syncs():
            sends = [asyncio.ensure_future(client.send("orders")) for _ in range(20)]
            await aeventually(lambda: slave.broker.max_position == master.broker.max_position > 0)
            await aeventually(lambda: files.log_syncs > before)
            await settle()
            # The slave has the bytes in its memory, and the master on its disk.
            assert not any(send.done() for send in sends)

        assert {(await send).code for send in sends} == {ResponseCode.SUCCESS}


@both_dialects
async def test_under_asynchronous_flush_a_slave_acknowledges_what_it_copied(
    tmp_path: Path, with_epochs: bool
) -> None:
    files = StagedFiles()
    async with pair(tmp_path, files, with_epochs=with_epochs, flush="ASYNC_FLUSH") as (master, _):
        with files.held_syncs():
            assert (await master.connect().send("orders")).code == ResponseCode.SUCCESS


class PlayedDisk:
    """A slave's disk whose syncs end as the test says."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, asyncio.Future[None]]] = []

    def __call__(self, end: int) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if end == 0:
            future.set_result(None)
        else:
            self.asked.append((end, future))
        return future


@pytest.mark.parametrize("id_", [None, 2], ids=["static roles", "failover"])
async def test_a_disk_that_is_only_slow_is_waited_for_and_one_that_failed_ends_the_link(
    tmp_path: Path, id_: int | None
) -> None:
    disk = PlayedDisk()
    async with Links(tmp_path) as links:
        master = await links.master(epoch=None if id_ is None else 1)
        end = master.write(3)
        slave = await links.slave(master.address, id_=id_, on_disk=disk)
        await slave.has(end)
        await aeventually(lambda: len(disk.asked) == 1)

        # More comes while the sync is under way, and waits for the next one.
        later = master.write(3)
        await slave.has(later)
        assert [asked for asked, _ in disk.asked] == [end]
        disk.asked[0][1].set_exception(FlushTimeout("late"))
        await aeventually(lambda: len(disk.asked) == 2)
        assert [follower.acked for follower in master.followers.members] == [0]

        slave.store.sync()
        disk.asked[1][1].set_result(None)
        await aeventually(lambda: [one.acked for one in master.followers.members] == [later])

        master.write(1)
        await aeventually(lambda: len(disk.asked) == 3)
        failed = ServiceNotAvailable(ResponseCode.SERVICE_NOT_AVAILABLE, "the disk is gone")
        disk.asked[2][1].set_exception(failed)
        await aeventually(lambda: "the disk is gone" in (slave.client.trouble or ""))


@both_dialects
async def test_a_slave_that_lost_power_has_all_that_was_acknowledged(
    tmp_path: Path, with_epochs: bool
) -> None:
    disk = SimulatedDisk()
    async with pair(tmp_path, disk, with_epochs=with_epochs) as (master, slave):
        client = master.connect()
        for seed in range(10):
            sent = await asyncio.gather(*(client.send("orders", b"x" * 200) for _ in range(5)))
            assert {answer.code for answer in sent} == {ResponseCode.SUCCESS}
            acknowledged = master.broker.max_position

            survivor = MessageStore(
                slave.broker.settings.store,
                clock=SystemClock(),
                files=disk.after_power_cut(random.Random(seed)),
            )
            survivor.open()

            assert survivor.max_position >= acknowledged
            survivor.close()


@pytest.mark.parametrize("id_", [None, 2], ids=["static roles", "failover"])
async def test_a_slave_that_comes_back_acknowledges_nothing_that_its_disk_does_not_have(
    tmp_path: Path, id_: int | None
) -> None:
    """Its first word says how far its log goes, and a killed process leaves there what no sync has seen."""
    disk = PlayedDisk()
    async with Links(tmp_path) as links:
        master = await links.master(epoch=None if id_ is None else 1)
        end = master.write(3)
        slave = await links.slave(master.address, id_=id_)
        await slave.has(end)
        await stop(slave)
        await aeventually(lambda: not master.followers.connected_count)

        slave = await links.slave(master.address, id_=id_, on_disk=disk)
        await aeventually(lambda: [asked for asked, _ in disk.asked] == [end])
        assert slave.client.connects_count == 0

        disk.asked[0][1].set_result(None)
        await aeventually(lambda: [one.acked for one in master.followers.members] == [end])


@pytest.mark.parametrize("id_", [None, 2], ids=["static roles", "failover"])
async def test_a_slave_whose_link_breaks_in_the_midst_of_a_record_follows_again(
    tmp_path: Path, id_: int | None
) -> None:
    """The beginning of a record is never on the disk, so nobody may wait until it is."""
    disks: list[Durability] = []

    def on_disk(end: int) -> "asyncio.Future[None]":
        return disks[0].flushed(end)

    async with Links(tmp_path) as links:
        master = await links.master(epoch=None if id_ is None else 1)
        end = master.write(40, 900)
        async with Cutter(master.address, [9_000, 7_500, 3_333]) as cutter:
            slave = await links.slave(cutter.address, id_=id_, on_disk=on_disk)
            disks.append(Durability(slave.store, SYNCED, SystemClock()))
            await slave.has(end)
            await aeventually(lambda: master.followers.members[0].acked == end)
            assert cutter.cut_count == 3
            await stop(slave)
        disks[0].close()
