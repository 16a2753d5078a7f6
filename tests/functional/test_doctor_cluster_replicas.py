"""What `pyromq doctor` finds about masters and their slaves."""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from doctor_stage import DoctorStage
from failover_stage import stage_of
from slave_stage import Pair, running_pair

from pyromq.client.aio.asking import Asker
from pyromq.client.observation.observation import Observation
from pyromq.client.observation.snapshot import BrokerSnapshot
from pyromq.clock import SystemClock
from pyromq.config.choices import BrokerRole
from pyromq.testing.waiting import aeventually

ONLY = ("--only", "replicas")
#: A size of files that a command line allows too.
ALLOWED = {"mapped_file_size_commit_log": 8 << 20}


async def fill(pair: Pair, count: int = 20) -> None:
    for _ in range(count):
        answer = await pair.master.connect().send("orders", b"x" * 1000)
        assert answer.code in (0, 11), answer.remark


async def test_a_slave_that_has_all_is_well(tmp_path: Path) -> None:
    async with running_pair(tmp_path, broker_role=BrokerRole.SYNC_MASTER) as pair:
        await fill(pair)
        await pair.caught_up()

        examined = await DoctorStage(pair.namesrv_address).aexamine(*ONLY)

    assert (examined.status, examined.found) == (0, [])


async def test_a_synchronous_master_without_a_slave_is_a_problem_until_one_is_there(tmp_path: Path) -> None:
    async with running_pair(tmp_path, broker_role=BrokerRole.SYNC_MASTER, **ALLOWED) as pair:
        stage = DoctorStage(pair.namesrv_address)
        await pair.stop(pair.slave)

        examined = await stage.aexamine(*ONLY)

        ((subject, severity),) = examined.severities.items()
        assert (examined.status, severity) == (1, "problem")
        finding = examined.one(subject)
        assert "is SYNC_MASTER, and no slave of it is there" in finding["message"]
        async with pasted(the_command(finding), tmp_path):
            await aeventually(lambda: is_well(stage), what="the doctor finds nothing")


@pytest.mark.parametrize("role", [BrokerRole.SYNC_MASTER, BrokerRole.ASYNC_MASTER])
async def test_the_command_for_a_lost_master_makes_its_slave_the_master(
    tmp_path: Path, role: BrokerRole
) -> None:
    async with running_pair(tmp_path, broker_role=role, broker_cluster_name="shop", **ALLOWED) as pair:
        stage = DoctorStage(pair.namesrv_address)
        await fill(pair)
        await pair.caught_up()
        await pair.stop(pair.master)

        examined = await stage.aexamine(*ONLY)

        (finding,) = examined.found
        assert (examined.status, finding["severity"]) == (1, "problem")
        assert f"has no master, only slave 1 at {pair.slave.address}" in finding["message"]
        command = the_command(finding)
        address, end = pair.slave.address, pair.slave.broker.max_position
        await pair.stop(pair.slave)
        async with pasted(command, tmp_path):
            promoted = await aeventually(lambda: the_only_broker(stage), what="the pasted broker is there")
            assert promoted.settings["brokerRole"] == role.value
            assert promoted.settings["storePathRootDir"] == str(tmp_path / "other")
            assert (promoted.cluster, promoted.address) == ("shop", address)
            assert promoted.figures["commitLogMaxOffset"] == str(end)


async def test_a_slave_that_does_not_know_its_lost_masters_role_is_promoted_with_a_word_to_fill_in(
    tmp_path: Path,
) -> None:
    async with running_pair(tmp_path) as pair:
        await pair.stop(pair.master)
        await pair.restart_slave(SystemClock())

        examined = await DoctorStage(pair.namesrv_address).aexamine(*ONLY)

        (finding,) = examined.found
        assert "--set brokerRole=ROLE" in the_command(finding)
        assert "put SYNC_MASTER in place of ROLE if sends waited for a slave" in finding["do"]

        await pair.promote()
        assert (await DoctorStage(pair.namesrv_address).aexamine(*ONLY)).found == []


async def test_a_slave_that_copies_nothing_is_a_problem(tmp_path: Path) -> None:
    # Nobody is where it copies from.
    async with running_pair(tmp_path, ha_master_address="127.0.0.1:1") as pair:
        await fill(pair)

        examined = await DoctorStage(pair.namesrv_address).aexamine(*ONLY, "--watch", "1")

        (finding,) = examined.found
        assert (examined.status, finding["severity"]) == (1, "problem")
        assert "KiB behind its master, and copies nothing" in finding["message"]
        assert finding["facts"]["behind_bytes"] == pair.master.broker.max_position
        assert f"pyromq cluster status -n {pair.namesrv_address} -b {pair.slave.address}" in finding["do"]
        await DoctorStage(pair.namesrv_address).afollow(finding)
        hasty = await DoctorStage(pair.namesrv_address).aexamine(*ONLY)
        assert [one["severity"] for one in hasty.found] == ["warning"]


async def test_a_slave_that_has_more_than_its_master_is_a_problem(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await fill(pair)
        await pair.caught_up()
        # The master's machine comes back without its disk, and the slave's log is nobody's any more.
        await pair.stop(pair.master)
        shutil.rmtree(pair.master.folder)
        await pair.start_master()

        examined = await DoctorStage(pair.namesrv_address).aexamine(*ONLY)

    (finding,) = examined.found
    assert (examined.status, finding["severity"]) == (1, "problem")
    assert "more than its master" in finding["message"]
    assert finding["facts"]["ahead_bytes"] > 20_000
    assert f"mv {tmp_path / 'other'}" in finding["do"]


async def test_a_replica_that_is_gone_is_a_warning_until_it_is_back(tmp_path: Path) -> None:
    async with stage_of(tmp_path, 2, min_in_sync_replicas=1) as group:
        stage = DoctorStage(group.name_server)
        assert (await stage.aexamine(*ONLY)).found == []
        (other,) = group.others(await group.master())
        number = group.replicas.index(other)
        await other.close()
        await group.in_sync(1)

        examined = await stage.aexamine(*ONLY)

        (finding,) = examined.found
        assert (examined.status, finding["severity"]) == (1, "warning")
        assert f"replica {other.address} of" in finding["message"]
        assert finding["message"].endswith("is not there")
        await stage.afollow(finding)

        await group.restart(number)
        await group.in_sync(2)
        await aeventually(lambda: is_well(stage), what="the doctor finds nothing")


async def test_too_few_replicas_in_sync_are_a_problem(tmp_path: Path) -> None:
    async with stage_of(tmp_path, 2, min_in_sync_replicas=2) as group:
        (other,) = group.others(await group.master())
        await other.close()
        await group.in_sync(1)

        examined = await DoctorStage(group.name_server).aexamine(*ONLY)

    worst = examined.found[0]
    assert (examined.status, worst["severity"]) == (1, "problem")
    assert "has 1 replica in sync, and takes messages only with 2" in worst["message"]


async def test_a_group_that_does_not_reach_etcd_has_no_master_and_that_is_a_problem(tmp_path: Path) -> None:
    async with stage_of(tmp_path, 1) as group:
        stage = DoctorStage(group.name_server)
        group.ways[0].cut()

        async def without_a_master() -> list[dict[str, Any]]:
            examined = await stage.aexamine(*ONLY)
            return examined.found if "has no master" in str(examined.found) else []

        (finding,) = await aeventually(without_a_master, 60)

    assert finding["severity"] == "problem"
    assert "etcd decides who is master: is it up, and do the replicas reach it?" in finding["do"]


def the_command(finding: dict[str, Any]) -> str:
    (command,) = [line for line in finding["do"].splitlines() if line.startswith("pyromq ")]
    return str(command)


@asynccontextmanager
async def pasted(command: str, folder: Path) -> AsyncIterator[None]:
    """Run a server's command as it is pasted into a shell, and stop the server at the end."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYROMQ_", "NAMESRV"))},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_DATA_HOME": str(folder / "share"),
    }
    with (folder / "pasted.log").open("wb") as log:
        process = await asyncio.create_subprocess_shell(
            f"exec {command}", cwd=folder, env=environment, stdout=log, stderr=log
        )
    try:
        yield
        assert process.returncode is None, "the pasted server has ended"
    except AssertionError as error:
        error.add_note(f"{command}\n{(folder / 'pasted.log').read_text()}")
        raise
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def the_only_broker(stage: DoctorStage) -> BrokerSnapshot | None:
    """Return what the only broker of the cluster says of itself, once it is there as the master."""
    asker = Asker(stage.name_server)
    observation = Observation(asker)
    await asker.start()
    try:
        await observation.ask_name_servers()
        await observation.ask_brokers(with_settings=True)
    finally:
        await asker.close()
    brokers = observation.snapshot.brokers
    return brokers[0] if len(observation.masters) == len(brokers) == 1 else None


async def is_well(stage: DoctorStage) -> bool:
    return not (await stage.aexamine(*ONLY)).found
