"""Groups of replicas with a real etcd: who is master, what is waited for, who may take over."""

import asyncio
import logging
import re
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from failover_stage import (
    LONG_S,
    TOPIC,
    UNHURRIED_MS,
    Stage,
    crash,
    in_sync_of,
    is_acknowledged,
    send,
    stage_of,
)

from pyromq.broker.failover import supervisor
from pyromq.broker.failover.endpoints import read_endpoints
from pyromq.broker.failover.etcd_client import EtcdClient, Transaction
from pyromq.broker.replication.following import Following
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import ListenFailed, PyroError, SyncFailed
from pyromq.store.files import DiskUse, SystemFile, SystemFiles
from pyromq.testing.requests import pull_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.record import iter_records

pytestmark = pytest.mark.timeout(180)


async def end_of_queue(address: str) -> int:
    async with WireClient(address) as client:
        answer = await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": 0})
    return int((answer.ext or {})["offset"])


async def bodies_at(address: str) -> list[bytes]:
    async with WireClient(address) as client:
        answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields(TOPIC))
    return [record.body for record in iter_records(answer.body)]


def logs_are_alike(stage: Stage) -> bool:
    """Whether the logs have the same bytes; in files that are full of zeros behind their end."""
    logs = [sorted((stage.folder_of(at) / "commitlog").iterdir()) for at in range(len(stage.replicas))]
    return all(
        one.read_bytes() == other.read_bytes()
        for files in zip(*logs, strict=True)
        for one, other in [files[:2]]
    )


async def test_over_a_switch_nobody_hears_that_a_queue_is_shorter_than_it_was(tmp_path: Path) -> None:
    async with stage_of(tmp_path, 3, failover_lease=UNHURRIED_MS) as stage:
        master = await stage.master()
        for number in range(5):
            assert await is_acknowledged(master.address, b"%d" % number)
        await stage.in_sync(3)
        told: dict[str, list[int]] = {replica.address: [] for replica in stage.replicas}
        is_over = asyncio.Event()

        async def ask_on(address: str) -> None:
            while not is_over.is_set():
                with suppress(PyroError, KeyError, OSError, EOFError):
                    async with WireClient(address) as client:
                        while not is_over.is_set():
                            fields = {"topic": TOPIC, "queueId": 0}
                            answer = await client.ask(RequestCode.GET_MAX_OFFSET, fields)
                            if answer.code == ResponseCode.SUCCESS:
                                told[address].append(int((answer.ext or {})["offset"]))
                # A port that is just closed, or opened again, is not knocked at all the time.
                with suppress(TimeoutError):
                    await asyncio.wait_for(is_over.wait(), 0.05)

        asking = [asyncio.ensure_future(ask_on(address)) for address in told]
        await master.switch_to("")
        successor = await stage.master(but=master)
        await stage.in_sync(3)
        await aeventually(lambda: told[successor.address][-1:] == [5], what="the new master knows the end")
        is_over.set()
        await asyncio.gather(*asking)

        # A slave may lag, and nobody goes back.
        assert all(ends == sorted(ends) for ends in told.values()), told
        assert 0 not in {end for ends in told.values() for end in ends}


@pytest.mark.row("FL-04")
async def test_a_switch_takes_what_is_in_the_write_buffer_along(tmp_path: Path) -> None:
    """Nothing is committed by time: the interval is an hour."""
    pool = {"transient_store_pool_enable": True, "commit_interval_commit_log": 3_600_000}
    async with stage_of(tmp_path, role="ASYNC_MASTER", failover_lease=UNHURRIED_MS, **pool) as stage:
        master = await stage.master()
        assert await is_acknowledged(master.address, b"in the buffer")
        await stage.in_sync(2)

        await master.switch_to("")

        successor = await stage.master(but=master)
        async with WireClient(successor.address) as client:
            answer = await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": 0})
        assert (answer.ext or {})["offset"] == "1"


@pytest.mark.row("HA-09")
async def test_of_several_replicas_one_is_master_and_the_others_follow_it(tmp_path: Path) -> None:
    async with stage_of(tmp_path, 3, failover_lease=UNHURRIED_MS) as stage:
        master = await stage.master()
        for slave in stage.others(master):
            assert slave.broker is not None
            assert isinstance(slave.broker.replicating, Following)
            assert (await send(slave.address, b"x")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert (await send(master.address, b"x")).code == ResponseCode.SUCCESS


async def test_a_master_that_stops_in_order_hands_over_what_it_has(tmp_path: Path) -> None:
    async with stage_of(tmp_path, failover_lease=UNHURRIED_MS) as stage:
        master = await stage.master()
        for number in range(20):
            assert await is_acknowledged(master.address, b"%d" % number)
        number = stage.replicas.index(master)
        await master.close()
        successor = await stage.master(but=master)
        assert await end_of_queue(successor.address) == 20
        await stage.restart(number)
        await stage.in_sync(2)
        assert successor.is_master


@pytest.mark.row("HA-09")
async def test_an_operator_switches_to_a_replica_by_its_name(tmp_path: Path) -> None:
    async with stage_of(tmp_path, 3, failover_lease=UNHURRIED_MS) as stage:
        master = await stage.master()
        assert await is_acknowledged(master.address, b"before")
        target = stage.others(master)[-1]
        async with WireClient(master.address) as client:
            answer = await client.ask(RequestCode.SWITCH_MASTER, {"newMaster": target.address})
        assert (answer.code, answer.ext) == (ResponseCode.SUCCESS, {"newMaster": target.address})
        assert await stage.master(but=master) is target
        assert await is_acknowledged(target.address, b"after")
        assert await end_of_queue(target.address) == 2
        await stage.in_sync(3)


async def test_a_switch_to_a_replica_that_is_not_in_sync_is_refused_and_changes_nothing(
    tmp_path: Path,
) -> None:
    async with stage_of(tmp_path, failover_lease=UNHURRIED_MS) as stage:
        master = await stage.master()
        async with WireClient(master.address) as client:
            answer = await client.ask(RequestCode.SWITCH_MASTER, {"newMaster": "10.9.8.7:10911"})
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert "10.9.8.7:10911 is not in sync" in (answer.remark or "")
            other = stage.others(master)[0].address
            assert other in (answer.remark or "")
        assert await is_acknowledged(master.address, b"x")


async def test_a_slave_that_stops_in_order_is_waited_for_no_more(tmp_path: Path) -> None:
    async with stage_of(tmp_path, failover_lease=UNHURRIED_MS) as stage:
        master = await stage.master()
        (slave,) = stage.others(master)
        await slave.close()
        await stage.in_sync(1)
        assert await is_acknowledged(master.address, b"alone")
        await stage.restart(stage.replicas.index(slave))
        await stage.in_sync(2)


async def test_a_replica_that_is_not_in_sync_does_not_take_over(tmp_path: Path) -> None:
    async with stage_of(tmp_path, failover_lease=UNHURRIED_MS) as stage:
        master = await stage.master()
        (slave,) = stage.others(master)
        master_number, slave_number = stage.replicas.index(master), stage.replicas.index(slave)
        await slave.close()
        await stage.in_sync(1)
        assert await is_acknowledged(master.address, b"the slave has not this")
        await master.close()
        slave = await stage.restart(slave_number)
        await aeventually(
            lambda: slave.view is not None and slave.view.leader is None and slave.broker is not None,
            LONG_S,
            what="the slave sees that nobody is master",
        )
        assert in_sync_of(slave) == (master.address,)
        assert not slave.is_master
        again = await stage.restart(master_number)
        await aeventually(lambda: again.is_master, LONG_S, what="the last in-sync replica is master")


async def test_a_replica_whose_folder_was_emptied_is_not_taken_for_in_sync(tmp_path: Path) -> None:
    async with stage_of(tmp_path) as stage:
        master = await stage.master()
        (slave,) = stage.others(master)
        assert await is_acknowledged(master.address, b"kept")
        # Both are in sync and die; then one comes back with nothing.
        for one in (slave, master):
            await crash(one)
        number = stage.replicas.index(slave)
        stage.keep_port(number)
        shutil.rmtree(stage.folder_of(number))
        emptied = await stage.restart(number)
        await aeventually(
            lambda: emptied.view is not None and in_sync_of(emptied) == (master.address,),
            LONG_S,
            what="the emptied replica is out of sync",
        )
        again = await stage.restart(stage.replicas.index(master))
        await aeventually(lambda: again.is_master, LONG_S, what="the other is master")
        assert await end_of_queue(again.address) == 1
        await stage.in_sync(2)


async def test_an_in_sync_replica_takes_over_when_the_master_dies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with stage_of(tmp_path) as stage:
        master = await stage.master()
        (slave,) = stage.others(master)
        for number in range(50):
            assert await is_acknowledged(master.address, b"%d" % number)
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        await crash(master)
        await stage.master(but=master)
        with capsys.disabled():
            print(f"\n  a replica was master {loop.time() - began_at:.2f} s after the last one had died")
        assert await is_acknowledged(slave.address, b"after")
        assert await end_of_queue(slave.address) == 51
        await stage.restart(stage.replicas.index(master))
        await stage.in_sync(2)
        await aeventually(lambda: logs_are_alike(stage), LONG_S, what="the logs are alike")


async def test_a_master_that_cannot_reach_etcd_acknowledges_nothing_before_another_does(
    tmp_path: Path,
) -> None:
    async with stage_of(tmp_path) as stage:
        master = await stage.master()
        (slave,) = stage.others(master)
        assert await is_acknowledged(master.address, b"before")
        way = stage.way_of(master)
        way.cut()
        # Asked at each turn of the loop: at no moment both may acknowledge.
        both = False
        watching = True

        async def watch() -> None:
            nonlocal both
            while watching:
                both = both or (master.is_master and slave.is_master)
                await asyncio.sleep(0)

        watcher = asyncio.get_running_loop().create_task(watch())
        await stage.master(but=master)
        assert not await is_acknowledged(master.address, b"from the old one")
        assert await is_acknowledged(slave.address, b"from the new one")
        way.heal()
        await stage.in_sync(2)
        watching = False
        await watcher
        assert not both
        assert slave.is_master
        assert await end_of_queue(slave.address) == 2
        await aeventually(lambda: logs_are_alike(stage), LONG_S, what="the logs are alike")


async def test_what_a_replaced_master_had_alone_is_cut_off(tmp_path: Path) -> None:
    async with stage_of(tmp_path, role="ASYNC_MASTER", in_sync_timeout=60_000) as stage:
        master = await stage.master()
        (slave,) = stage.others(master)
        assert await is_acknowledged(master.address, b"both have this")
        await aeventually(lambda: slave.max_position == master.max_position, what="the slave has it")
        # The slave hears nothing for a moment, and the master dies in it.
        await crash(slave)
        assert await is_acknowledged(master.address, b"only the master has this")
        await crash(master)
        slave = await stage.restart(stage.replicas.index(slave))
        await aeventually(lambda: slave.is_master, LONG_S, what="the slave is master")
        assert await is_acknowledged(slave.address, b"only the new master has this")
        again = await stage.restart(stage.replicas.index(master))
        await stage.in_sync(2)
        await aeventually(lambda: again.max_position == slave.max_position, LONG_S)
        await aeventually(lambda: logs_are_alike(stage), LONG_S, what="the logs are alike")


async def test_a_group_goes_on_when_etcd_was_away_for_a_while(tmp_path: Path) -> None:
    async with stage_of(tmp_path) as stage:
        master = await stage.master()
        assert await is_acknowledged(master.address, b"before")
        stage.etcd.kill()
        await aeventually(lambda: not master.is_master, LONG_S, what="the master has no lease")
        assert not await is_acknowledged(master.address, b"meanwhile")
        await asyncio.to_thread(stage.etcd.start)
        again = await stage.master()
        await stage.in_sync(2)
        assert await is_acknowledged(again.address, b"after")


async def test_without_etcd_a_replica_that_knows_its_id_serves_what_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage_of(tmp_path) as stage:
        master = await stage.master()
        (slave,) = stage.others(master)
        assert await is_acknowledged(master.address, b"x")

        async def serves_it() -> bool:
            return await bodies_at(slave.address) == [b"x"]

        await aeventually(
            serves_it, what="the slave has the message, its topic, and the word that it is confirmed"
        )
        await slave.close()
        stage.etcd.kill()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            again = await stage.restart(stage.replicas.index(slave))
        assert again.broker is not None
        assert await end_of_queue(again.address) == 1
        assert await bodies_at(again.address) == [b"x"]
        assert any("etcd does not answer" in record.getMessage() for record in caplog.records)
        assert not again.is_master
        await asyncio.to_thread(stage.etcd.start)
        await stage.in_sync(2)


async def test_a_port_that_is_taken_is_an_error_of_the_start_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    async with stage_of(tmp_path, 1, failover_lease=UNHURRIED_MS) as stage:
        master = await stage.master()
        with pytest.raises(ListenFailed):
            await stage.add(listen_port=master.port)
        stage.replicas.pop()
        assert await is_acknowledged(master.address, b"x")


async def test_with_fewer_in_sync_than_are_asked_for_nothing_is_taken(tmp_path: Path) -> None:
    async with stage_of(tmp_path, min_in_sync_replicas=2, failover_lease=UNHURRIED_MS) as stage:
        master = await stage.master()
        assert await is_acknowledged(master.address, b"x")
        (slave,) = stage.others(master)
        await slave.close()
        await stage.in_sync(1)
        answer = await send(master.address, b"alone")
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "minInSyncReplicas" in (answer.remark or "")
        assert await end_of_queue(master.address) == 1


async def test_a_name_server_that_is_gone_does_not_hold_up_a_new_master(tmp_path: Path) -> None:
    held: list[asyncio.StreamWriter] = []

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        await reader.read()

    silent = await asyncio.start_server(hold, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with stage_of(tmp_path, 1, failover_lease=UNHURRIED_MS) as stage:
        first = await stage.master()
        second = await stage.add(
            namesrv_addr=f"127.0.0.1:{port};{stage.name_server}", register_broker_timeout_mills=600_000
        )
        await stage.in_sync(2)
        await first.close()
        assert await stage.master(but=first) is second
        assert await is_acknowledged(second.address, b"x")
        silent.close()
        for writer in held:
            writer.transport.abort()


@pytest.mark.row("HA-09")
async def test_two_failures_in_a_row_are_survived_by_three_replicas(tmp_path: Path) -> None:
    async with stage_of(tmp_path, 3) as stage:
        for number in range(2):
            master = await stage.master()
            assert await is_acknowledged(master.address, b"%d" % number)
            await crash(master)
        last = await stage.master()
        await stage.in_sync(1)
        assert await is_acknowledged(last.address, b"2")
        assert await end_of_queue(last.address) == 3


async def test_a_master_whose_disk_fails_hands_over_to_one_whose_disk_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stage_of(tmp_path, flush_disk_type="SYNC_FLUSH", failover_lease=UNHURRIED_MS) as stage:
        master = await stage.master()
        (slave,) = stage.others(master)
        assert await is_acknowledged(master.address, b"safe")
        folder = str(stage.folder_of(stage.replicas.index(master)) / "commitlog")
        sync = SystemFile.sync

        def fail(self: SystemFile) -> None:
            if str(self.path).startswith(folder):
                raise SyncFailed(f"{self.path} cannot be synced: Input/output error")
            sync(self)

        monkeypatch.setattr(SystemFile, "sync", fail)
        assert not await is_acknowledged(master.address, b"who knows")
        await stage.master(but=master)
        assert await is_acknowledged(slave.address, b"after")
        monkeypatch.setattr(SystemFile, "sync", sync)
        await stage.in_sync(2)


@pytest.fixture
def full_folders(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Folders whose disks have hardly any room; a master may have such a disk for no time at all."""
    full: set[Path] = set()
    disk_use = SystemFiles.disk_use

    def use(self: SystemFiles, path: Path) -> DiskUse:
        return DiskUse(99, 1) if full & {path, *path.parents} else disk_use(self, path)

    monkeypatch.setattr(SystemFiles, "disk_use", use)
    monkeypatch.setattr(supervisor, "FULL_S", 0.0)
    return full


def look_at_disks(stage: Stage) -> None:
    """Let all replicas have the look that they have every ten seconds."""
    for replica in stage.replicas:
        if replica.broker is not None:
            replica.broker.store.check_disk()
            replica.wake()


async def test_a_master_whose_disk_is_full_hands_over_to_one_that_has_room(
    tmp_path: Path, full_folders: set[Path]
) -> None:
    async with stage_of(tmp_path, 3, failover_lease=UNHURRIED_MS) as stage:
        master = await stage.master()
        also_full, roomy = stage.others(master)
        assert await is_acknowledged(master.address, b"before")
        full_folders.add(stage.folder_of(stage.replicas.index(also_full)))
        look_at_disks(stage)
        await aeventually(
            lambda: master.view is not None and not master.view.replicas[also_full.address].has_room,
            LONG_S,
            what="the master knows that one slave has no room",
        )
        full_folders.add(stage.folder_of(stage.replicas.index(master)))
        look_at_disks(stage)
        assert await stage.master(but=master) is roomy
        await aeventually(lambda: is_acknowledged(roomy.address, b"after"), LONG_S, what="it takes messages")
        # One that was sent while the full slaves were still waited for may be there as well.
        first, *others = await bodies_at(roomy.address)
        assert (first, set(others)) == (b"before", {b"after"})


async def test_a_master_whose_disk_is_full_stays_where_nobody_has_room_and_goes_on_when_it_has(
    tmp_path: Path, full_folders: set[Path]
) -> None:
    async with stage_of(tmp_path, failover_lease=UNHURRIED_MS) as stage:
        master = await stage.master()
        (slave,) = stage.others(master)
        full_folders.add(stage.folder_of(stage.replicas.index(slave)))
        look_at_disks(stage)
        await aeventually(
            lambda: master.view is not None and not master.view.replicas[slave.address].has_room,
            LONG_S,
            what="the master knows that the slave has no room",
        )
        full_folders.add(stage.folder_of(stage.replicas.index(master)))
        look_at_disks(stage)
        answer = await send(master.address, b"no room")
        assert (answer.code, "diskSpaceWarningLevelRatio" in (answer.remark or "")) == (
            ResponseCode.SERVICE_NOT_AVAILABLE,
            True,
        )
        seen = master.view
        await aeventually(lambda: master.view is not seen, LONG_S, what="the master looked again")
        assert master.is_master
        full_folders.clear()
        look_at_disks(stage)
        assert await is_acknowledged(master.address, b"room")


async def test_an_operator_lets_a_group_begin_again_that_has_lost_its_in_sync_replicas(
    tmp_path: Path,
) -> None:
    async with stage_of(tmp_path, failover_lease=UNHURRIED_MS) as stage:
        master = await stage.master()
        (slave,) = stage.others(master)
        assert await is_acknowledged(master.address, b"both have this")
        await slave.close()
        await stage.in_sync(1)
        assert await is_acknowledged(master.address, b"lost with the master")
        await master.close()
        slave = await stage.restart(stage.replicas.index(slave))
        etcd = EtcdClient(read_endpoints(stage.etcd.address))
        assert await etcd.commit(Transaction(deletes=["/pyromq/DefaultCluster/broker-a/state"]))
        await etcd.close()
        await aeventually(lambda: slave.is_master, LONG_S, what="who is there is master")
        assert await end_of_queue(slave.address) == 1
        assert await is_acknowledged(slave.address, b"after")


async def test_a_master_lost_before_anything_was_acknowledged_follows_the_next_one(tmp_path: Path) -> None:
    """It came back with a log that shared no epoch with its successor's empty one, and followed nobody."""
    async with stage_of(tmp_path, slave_timeout=60_000, in_sync_timeout=60_000) as stage:
        master = await stage.master()
        (slave,) = stage.others(master)
        assert master.max_position == 0
        # The slave is in sync, for nothing was acknowledged; it dies before the master's first message.
        await crash(slave)
        sent = asyncio.create_task(is_acknowledged(master.address, b"never acknowledged"))
        await aeventually(lambda: master.max_position > 0, LONG_S, what="the master has a message")
        await crash(master)
        sent.cancel()
        slave = await stage.restart(stage.replicas.index(slave))
        await aeventually(lambda: slave.is_master, LONG_S, what="the slave is master")
        again = await stage.restart(stage.replicas.index(master))
        await stage.in_sync(2)
        assert again.max_position == slave.max_position == 0
        assert await is_acknowledged(slave.address, b"both have this")
        await aeventually(lambda: logs_are_alike(stage), LONG_S, what="the logs are alike")


async def test_a_log_that_came_from_elsewhere_is_kept_where_the_master_has_none_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with stage_of(tmp_path, slave_timeout=60_000, in_sync_timeout=60_000) as stage:
        master = await stage.master()
        (slave,) = stage.others(master)
        await crash(slave)
        sent = asyncio.create_task(is_acknowledged(master.address, b"of an unknown origin"))
        end = await aeventually(lambda: master.max_position, LONG_S, what="the master has a message")
        await crash(master)
        sent.cancel()
        # As a folder of a static role is, that joined with what it had.
        identity = stage.folder_of(stage.replicas.index(master)) / "config" / "replica.json"
        for path in identity.parent.glob("replica.json*"):
            path.write_text(re.sub(r'"origin":"[^"]+"', '"origin":""', path.read_text()))
        slave = await stage.restart(stage.replicas.index(slave))
        await aeventually(lambda: slave.is_master, LONG_S, what="the slave is master")
        again = await stage.restart(stage.replicas.index(master))
        await aeventually(lambda: "follows nobody" in caplog.text, LONG_S, what="it says so")
        assert "no epoch in common" in caplog.text
        assert again.max_position == end
