"""What `pyromq doctor` finds about masters and their slaves."""

import shutil
from pathlib import Path
from typing import Any

from doctor_stage import DoctorStage
from failover_stage import stage_of
from slave_stage import Pair, running_pair

from pyromq.config.choices import BrokerRole
from pyromq.testing.waiting import aeventually

ONLY = ("--only", "replicas")


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
    async with running_pair(tmp_path, broker_role=BrokerRole.SYNC_MASTER) as pair:
        stage = DoctorStage(pair.namesrv_address)
        await pair.stop(pair.slave)

        examined = await stage.aexamine(*ONLY)

        ((subject, severity),) = examined.severities.items()
        assert (examined.status, severity) == (1, "problem")
        finding = examined.one(subject)
        assert "is SYNC_MASTER, and no slave of it is there" in finding["message"]
        assert "--set brokerRole=SLAVE" in finding["do"]

        pair.slave = pair._stage("other", is_slave=True)
        await pair.start(pair.slave)
        await aeventually(lambda: is_well(stage), what="the doctor finds nothing")


async def test_a_broker_with_slaves_only_is_a_problem(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await pair.stop(pair.master)

        examined = await DoctorStage(pair.namesrv_address).aexamine(*ONLY)

        (finding,) = examined.found
        assert (examined.status, finding["severity"]) == (1, "problem")
        assert f"has no master, only slave 1 at {pair.slave.address}" in finding["message"]
        assert "brokerRole=ASYNC_MASTER" in finding["do"]

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


async def is_well(stage: DoctorStage) -> bool:
    return not (await stage.aexamine(*ONLY)).found
