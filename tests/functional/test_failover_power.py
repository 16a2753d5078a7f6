"""Replicas whose machines lost power: who may take over, with a real etcd."""

import dataclasses
import shutil
from pathlib import Path

import pytest
from failover_stage import LONG_S, TOPIC, Stage, crash, in_sync_of, is_acknowledged, stage_of

from pyromq.broker.failover.supervisor import Supervisor
from pyromq.codes import RequestCode
from pyromq.config.choices import FlushDiskType
from pyromq.testing.requests import pull_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.record import iter_records

pytestmark = [pytest.mark.timeout(180), pytest.mark.row("HA-09")]


async def bodies_at(replica: Supervisor) -> list[bytes]:
    async with WireClient(replica.address) as client:
        answer = await client.ask(RequestCode.PULL_MESSAGE, pull_fields(TOPIC))
    return [record.body for record in iter_records(answer.body)]


def lose_power(stage: Stage, number: int, *, back_to: Path | None = None) -> None:
    """Leave a replica's folder as a power cut does: with an older state, and the traces of another boot."""
    folder = stage.folder_of(number)
    if back_to is not None:
        shutil.rmtree(folder)
        shutil.copytree(back_to, folder)
    (folder / "abort").write_text("another boot")


async def test_a_replica_that_lost_acknowledged_messages_with_its_power_does_not_take_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It booted first, was still in sync, became master, and what the other had was cut."""
    async with stage_of(tmp_path) as stage:
        master = await stage.master()
        slave = stage.others(master)[0]
        at, slave_at = stage.replicas.index(master), stage.replicas.index(slave)
        assert await is_acknowledged(master.address, b"first")
        await slave.close()
        shutil.copytree(stage.folder_of(slave_at), tmp_path / "earlier")
        await stage.restart(slave_at)
        await stage.in_sync(2)
        assert await is_acknowledged(master.address, b"second")

        await crash(master)
        await crash(stage.replicas[slave_at])
        lose_power(stage, slave_at, back_to=tmp_path / "earlier")
        lose_power(stage, at)
        back = await stage.restart(slave_at)
        await aeventually(lambda: back.is_master or "may lack what was acknowledged" in caplog.text, LONG_S)
        assert not back.is_master

        await stage.restart(at)
        assert await stage.master() is stage.replicas[at]
        await stage.in_sync(2)

        async def has_both() -> bool:
            return await bodies_at(stage.replicas[at]) == [b"first", b"second"]

        await aeventually(has_both, LONG_S, what="both messages can be read")


async def test_a_replica_that_lost_power_comes_in_sync_again_when_it_has_all(tmp_path: Path) -> None:
    async with stage_of(tmp_path) as stage:
        master = await stage.master()
        slave_at = 1 - stage.replicas.index(master)
        assert await is_acknowledged(master.address, b"first")
        await crash(stage.replicas[slave_at])
        lose_power(stage, slave_at)

        back = await stage.restart(slave_at)
        assert back._identity.is_in_doubt
        await aeventually(lambda: not back._identity.is_in_doubt, LONG_S, what="it doubts no more")
        await stage.in_sync(2)
        await aeventually(lambda: back.address in in_sync_of(master), LONG_S)


async def test_under_synchronous_flush_a_replica_that_lost_power_takes_over(tmp_path: Path) -> None:
    """It acknowledged nothing that its disk did not have."""
    async with stage_of(tmp_path, flush_disk_type="SYNC_FLUSH") as stage:
        master = await stage.master()
        slave_at = 1 - stage.replicas.index(master)
        assert await is_acknowledged(master.address, b"first")
        await crash(master)
        await crash(stage.replicas[slave_at])
        lose_power(stage, slave_at)

        back = await stage.restart(slave_at)

        assert await stage.master(but=master) is back
        assert await bodies_at(back) == [b"first"]


async def test_how_the_last_life_acknowledged_counts_and_not_the_settings_of_this_one(tmp_path: Path) -> None:
    async with stage_of(tmp_path, 1) as stage:
        (replica,) = stage.replicas
        assert await is_acknowledged(replica.address, b"first")
        await crash(replica)
        lose_power(stage, 0)
        process = stage._processes[0]
        store = dataclasses.replace(process.store, flush_disk_type=FlushDiskType.SYNC_FLUSH)
        stage._processes[0] = dataclasses.replace(process, store=store)

        back = await stage.restart(0)

        assert back._identity.is_synced
        # Alone, it has all that is left.
        assert await stage.master() is back
        await aeventually(lambda: not back._identity.is_in_doubt, LONG_S)
