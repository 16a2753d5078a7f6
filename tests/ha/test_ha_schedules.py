"""A broker group under load lives through faults and keeps its promises: a handful of `make torture-ha`.

Real processes and a real etcd. How it is done is told in tests/ha/torture; `tools/torture_ha.py` does it a
hundred times with whatever the seeds bring, and replays one. Here the seeds are chosen: a master is lost for
longer than its lease, and replicas that stand still for a moment, as on a busy machine, stay in sync.
"""

import asyncio
from pathlib import Path

import pytest
from torture.namespaces import why_no_namespaces
from torture.run import ENOUGH, Report, run_schedule
from torture.schedule import Kind, draw, impossible_kinds

pytestmark = pytest.mark.timeout(600)


def _run(
    folder: Path,
    seed: int,
    *kinds: Kind,
    is_synchronous: bool = True,
    has_namespaces: bool = False,
) -> Report:
    schedule = draw(
        seed,
        is_synchronous=is_synchronous,
        only=kinds,
        without=frozenset(impossible_kinds()),
        faults_max=2,
        has_namespaces=has_namespaces,
    )
    report = asyncio.run(run_schedule(schedule, folder / "run"))
    print(report)
    assert not report.broken, "\n".join([report.schedule, *report.broken])
    assert report.acknowledged > ENOUGH, report
    return report


@pytest.mark.row("HA-02", "HA-09")
def test_kills_of_masters_and_slaves_lose_nothing(tmp_path: Path) -> None:
    assert _run(tmp_path, 357, Kind.KILL, Kind.KILL_ALL, Kind.TERMINATE).lost == 0


@pytest.mark.row("HA-09")
def test_a_master_that_is_stopped_or_cut_off_acknowledges_nothing_when_there_is_another(
    tmp_path: Path,
) -> None:
    assert _run(tmp_path, 621, Kind.PAUSE, Kind.ISOLATE, Kind.CUT_ETCD, Kind.CUT_TO_ETCD).lost == 0


@pytest.mark.row("HA-09")
def test_bad_links_between_replicas_and_a_dead_etcd_lose_nothing(tmp_path: Path) -> None:
    kinds = (Kind.CUT_PEER, Kind.CUT_TO_PEER, Kind.DELAY, Kind.CHOP, Kind.REFUSE, Kind.KILL_ETCD)
    assert _run(tmp_path, 2787, *kinds).lost == 0


def test_full_and_stuck_disks_and_clocks_that_jump_lose_nothing(tmp_path: Path) -> None:
    kinds = (Kind.FULL_DISK, Kind.STUCK_DISK, Kind.SLOW_DISK, Kind.CLOCK_JUMP)
    assert _run(tmp_path, 3840, *kinds).lost == 0


@pytest.mark.row("HA-02")
def test_asynchronous_replication_loses_no_more_than_what_was_not_yet_shipped(
    tmp_path: Path,
) -> None:
    report = _run(tmp_path, 2638, Kind.KILL, Kind.ISOLATE, is_synchronous=False)
    print(f"{report.lost} of {report.acknowledged} acknowledged messages were lost")


@pytest.mark.row("HA-09")
def test_a_partition_of_the_kernel_s_own_loses_nothing(tmp_path: Path) -> None:
    reason = why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    assert _run(tmp_path, 2485, has_namespaces=True).lost == 0
