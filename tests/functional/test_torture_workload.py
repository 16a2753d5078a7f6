"""The torture's workload on brokers without faults: every promise is looked at, and none is broken."""

from dataclasses import replace
from pathlib import Path

import pytest
from torture_cluster import cluster_stage

from pyromq.torture.checker import PromiseVerdict, judge
from pyromq.torture.history import History
from pyromq.torture.workload import MixedWorkload, WorkloadKind, WorkloadPlan

SETTLE_S = 60.0
#: Promises that this run is not about, and one that needs a dead letter early enough.
ELSEWHERE = {
    "accounts see only what they may",
    "recalled messages do not come",
    "replayed dead letters come again",
}
#: Kinds that find defects of their own, and have tests of their own.
APART = (WorkloadKind.TIMED, WorkloadKind.LARGE, WorkloadKind.STRANGERS)


async def played(
    folder: Path, plan: WorkloadPlan, seconds: float, *, brokers: int = 2, has_access_control: bool = False
) -> list[PromiseVerdict]:
    """Run a plan, and return what the checker says."""
    stage_of = cluster_stage(folder, brokers=brokers, has_access_control=has_access_control)
    async with stage_of as stage:
        history = History(stage.now_s)
        workload = MixedWorkload(stage, history, plan)
        await workload.prepare()
        await workload.run(seconds)
        await workload.settle(SETTLE_S)
    verdicts = judge(history, stage.promises)
    assert not list(history.of("client_ended"))
    return verdicts


def broken(verdicts: list[PromiseVerdict]) -> dict[str, list[str]]:
    """Return what broke, with the first few proofs of each."""
    return {verdict.promise: verdict.broken[:3] for verdict in verdicts if verdict.broken}


async def test_no_promise_breaks_while_nothing_is_wrong(tmp_path: Path) -> None:
    kinds = [kind for kind in WorkloadKind if kind not in APART]
    verdicts = await played(tmp_path, WorkloadPlan.of(*kinds, pace=6), 12.0)
    assert broken(verdicts) == {}
    idle = {verdict.promise for verdict in verdicts if not verdict.checked}
    assert idle <= ELSEWHERE


async def test_timed_messages_keep_their_promises(tmp_path: Path) -> None:
    verdicts = await played(
        tmp_path, WorkloadPlan.of(WorkloadKind.PLAIN, WorkloadKind.TIMED, pace=8), 8.0, brokers=1
    )
    assert broken(verdicts) == {}


async def test_large_messages_keep_their_promises(tmp_path: Path) -> None:
    verdicts = await played(
        tmp_path, WorkloadPlan.of(WorkloadKind.PLAIN, WorkloadKind.LARGE, pace=20), 4.0, brokers=1
    )
    assert broken(verdicts) == {}


async def test_a_stranger_is_kept_out(tmp_path: Path) -> None:
    plan = WorkloadPlan.of(WorkloadKind.PLAIN, WorkloadKind.TRANSACTION, WorkloadKind.STRANGERS, pace=4)
    assert broken(await played(tmp_path, plan, 5.0, has_access_control=True)) == {}


@pytest.mark.parametrize(("groups", "deleted"), [(1, True), (2, False)])
async def test_a_topic_is_deleted_when_every_master_was_told(
    tmp_path: Path, groups: int, deleted: bool
) -> None:
    """A master that no name server knew at that moment would bring the topic back (simulation, seed 365)."""
    async with cluster_stage(tmp_path) as stage:
        history = History(stage.now_s)
        workload = MixedWorkload(
            stage, history, WorkloadPlan.of(WorkloadKind.PLAIN, WorkloadKind.TOPICS, pace=20)
        )
        await workload.prepare()
        promises, stage.promises = stage.promises, replace(stage.promises, groups=groups)
        await workload.run(2.0)
        orders = [event.kind for event in history.of("topic_deleted", "order_failed")]
        stage.promises = promises
        await workload.settle(SETTLE_S)

    assert set(orders) == {"topic_deleted" if deleted else "order_failed"}
