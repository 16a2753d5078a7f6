"""One run from begin to end: a cluster, load, faults, peace, and the judge.

starting ─► load and faults ─► healed ─► settled ─► stopped ─► files looked at ─► judged
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random

from pyromq.errors import PyroError
from pyromq.torture.checker import PromiseVerdict, judge
from pyromq.torture.cluster_plan import Plan
from pyromq.torture.fault_schedule import ScheduledFault
from pyromq.torture.file_audit import examine_files, until_equal
from pyromq.torture.history import History
from pyromq.torture.nemesis import Nemesis
from pyromq.torture.probe.probe import Probe, ProbePlan
from pyromq.torture.probe.verdicts import judge_probes
from pyromq.torture.process_stage import ProcessStage
from pyromq.torture.run_outcome import RunOutcome
from pyromq.torture.servers.process_cluster import START_S_MAX, ProcessCluster, running_cluster
from pyromq.torture.workload import MixedWorkload, WorkloadPlan

#: What a healed cluster has until everybody has everything.
SETTLE_S_MAX = 120.0
#: Between two looks at who is master.
_LOOK_S = 0.3
SERVES_AGAIN = "the cluster serves again when the faults are over"
SERVES_THE_SAME = "every broker of a group serves the same messages"


class Phase(StrEnum):
    """The phase of a run."""

    STARTING = "starting"
    RUNNING = "under load and faults"
    HEALING = "healed: clients get what they are owed"
    EXAMINING = "stopped: files and history are examined"
    OVER = "over"


@dataclass(frozen=True, kw_only=True)
class Order:
    """The order for a run: plan, seed, length and faults."""

    plan: Plan
    seed: int
    seconds: float
    #: What goes wrong, and when.
    schedule: Sequence[ScheduledFault] = ()
    #: The load of clients, and of those who ask every broker; None: without them.
    workload: WorkloadPlan | None = field(default_factory=WorkloadPlan.everything)
    probe: ProbePlan | None = field(default_factory=ProbePlan)
    #: How long everything takes between two brokers.
    distance_s: float = 0.0
    settle_s_max: float = SETTLE_S_MAX
    keeps_data: bool = False


class Run:
    """A run; whoever watches it looks at its attributes."""

    def __init__(self, order: Order, folder: Path, outcome: RunOutcome) -> None:
        self.order = order
        self.folder = folder
        self.outcome = outcome
        self.phase = Phase.STARTING
        self._began_at_s = time.monotonic()
        #: When load and faults began.
        self.loaded_at_s: float | None = None
        self.history = History(self.now_s)
        self.cluster: ProcessCluster | None = None
        self.nemesis: Nemesis | None = None
        self._probes: list[Probe] = []
        #: A group and an epoch → when that was last said to be the group's.
        self._looks: dict[tuple[str, int], float] = {}
        self._stop = asyncio.Event()

    def now_s(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._began_at_s

    def interrupt(self) -> None:
        """Let the load end now; everything is healed, settled and judged all the same."""
        self.outcome.is_interrupted = True
        self._stop.set()

    async def run(self) -> RunOutcome:
        """Do all of it. What the data folder holds then says what happened, whatever was raised."""
        try:
            async with running_cluster(self.order.plan, self.folder, keeps=self._keeps_data) as cluster:
                self.cluster = cluster
                await self._play(cluster)
                await self._judge()
        finally:
            self.outcome.seconds = self.now_s()
            self.history.save(self.folder / "history.jsonl")
            self.outcome.history_file = self.folder / "history.jsonl"
        self.outcome.count(self.history)
        self.phase = Phase.OVER
        return self.outcome

    def _keeps_data(self) -> bool:
        """Whether somebody will want to look at the servers' files: who asked for it, or a broken promise."""
        return self.order.keeps_data or not self.outcome.verdicts or bool(self.outcome.broken)

    # The acts -----------------------------------------------------------------------------------------

    async def _play(self, cluster: ProcessCluster) -> None:
        stage = ProcessStage(cluster, self.order.seed, self._began_at_s)
        workload = None
        if self.order.workload is not None:
            workload = MixedWorkload(stage, self.history, self.order.workload)
        watching = asyncio.create_task(self._watch(cluster))
        try:
            await self._prepare(cluster, workload)
            async with AsyncExitStack() as probing:
                for probe in self._probes:
                    await probing.enter_async_context(probe.running())
                await self._load(cluster, stage, workload)
                await self._make_peace(cluster, workload)
            await until_equal(cluster)
            await self._read_out()
        finally:
            watching.cancel()
            await asyncio.wait([watching])
            await stage.close()
        self.phase = Phase.EXAMINING
        cluster.look_after()
        await cluster.kill_brokers()
        self.outcome.verdicts += await examine_files(cluster, self.history)
        for node in cluster.nodes:
            self.outcome.errors += node.errors()

    async def _prepare(self, cluster: ProcessCluster, workload: MixedWorkload | None) -> None:
        """Wait until every group has its master and all replicas, and make the topics."""
        if self.order.probe is not None:
            chance = Random(f"probes of {self.order.seed}")
            self._probes = [
                Probe(cluster, group, self.history, self.order.probe, Random(chance.random()))
                for group in cluster.masters
            ]
        for probe in self._probes:
            await probe.prepare()
        if workload is not None:
            await workload.prepare()
        until_s = self.now_s() + START_S_MAX
        for group in cluster.masters if cluster.etcd is not None else ():
            while len(await cluster.in_sync(group)) < len(cluster.members(group)):
                if self.now_s() > until_s:
                    raise PyroError(f"the replicas of {group} are not in sync after {START_S_MAX:.0f} s")
                await asyncio.sleep(0.1)

    async def _load(
        self, cluster: ProcessCluster, stage: ProcessStage, workload: MixedWorkload | None
    ) -> None:
        """Let clients work and faults happen, until the time is over or somebody says so."""
        self.phase = Phase.RUNNING
        self.loaded_at_s = self.now_s()
        order = self.order
        cluster.wires.distance_s = order.distance_s
        self.nemesis = Nemesis(cluster, self.history, self.now_s, stage)
        tasks = {asyncio.create_task(self.nemesis.run(order.schedule))}
        # Without a workload the probes go on for as long, behind the last fault too.
        rest = asyncio.sleep(order.seconds) if workload is None else workload.run(order.seconds)
        tasks.add(asyncio.create_task(rest))
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await _until_done_or(tasks, stopping)
        finally:
            stopping.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, stopping, return_exceptions=True)
            if workload is not None:
                workload.stop()

    async def _make_peace(self, cluster: ProcessCluster, workload: MixedWorkload | None) -> None:
        """Undo all harm, and let everybody get what is owed to them."""
        self.phase = Phase.HEALING
        await cluster.heal()
        self.history.note("healed", "all")
        healed_at_s = self.now_s()
        broken: list[str] = []
        try:
            await self._until_probed()
            if workload is not None:
                await workload.settle(self.order.settle_s_max)
        except PyroError as error:
            broken.append(f"{self.order.settle_s_max:.0f} s after the last fault: {error}")
            if workload is not None:
                with suppress(PyroError):
                    await workload.close()
        self.outcome.verdicts.append(PromiseVerdict(SERVES_AGAIN, len(cluster.masters), broken))
        self.outcome.settled_s = self.now_s() - healed_at_s

    async def _until_probed(self) -> None:
        """Wait until every group acknowledges again; raises PyroError when one does not in time."""
        before = {probe.group: probe.acknowledged for probe in self._probes}
        until_s = self.now_s() + self.order.settle_s_max
        for probe in self._probes:
            while probe.acknowledged == before[probe.group]:
                if self.now_s() > until_s:
                    raise PyroError(f"{probe.group} has no master: nothing is acknowledged")
                await asyncio.sleep(0.05)

    async def _read_out(self) -> None:
        """Let the probes say what every group has."""
        for (group, epoch), at_s in self._looks.items():
            self.history.note("reign", group, group=group, epoch=epoch, seen_until_s=round(at_s, 3))
        reasons = [await probe.read_out() for probe in self._probes]
        if reasons:
            broken = [reason for reason in reasons if reason]
            self.outcome.verdicts.append(PromiseVerdict(SERVES_THE_SAME, len(reasons), broken))

    async def _judge(self) -> None:
        promises = self.order.plan.promises
        found: list[PromiseVerdict] = []
        if self.order.workload is not None:
            found += await asyncio.to_thread(judge, self.history, promises)
        found += await asyncio.to_thread(
            judge_probes, self.history, promises, self.order.plan.unshipped_s_max
        )
        self.outcome.verdicts = [*found, *self.outcome.verdicts]

    async def _watch(self, cluster: ProcessCluster) -> None:
        """Note who is master as that changes, and complain of servers that ended by themselves."""
        while True:
            for group in list(cluster.masters):
                asked_at_s = self.now_s()
                state = await cluster.state(group)
                number = cluster.number_of(state.get("master"))
                if number is None:
                    continue
                epoch = int(state["epoch"])
                if (group, epoch) not in self._looks:
                    cluster.masters[group] = number
                    self.history.note("master", cluster.nodes[number].title, group=group, epoch=epoch)
                self._looks[group, epoch] = asked_at_s
            cluster.look_after()
            await asyncio.sleep(_LOOK_S)


async def _until_done_or(tasks: set["asyncio.Task[None]"], stopping: "asyncio.Task[bool]") -> None:
    """Wait for all of the tasks, or for the one that says that it is enough; raise what a task raised."""
    left: set[asyncio.Task[None]] = set(tasks)
    while left and not stopping.done():
        done, _ = await asyncio.wait({*left, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopping}:
            task.result()
        left -= done


#: Called some times a second while a run goes on.
Look = Callable[[Run], None]


async def watched(run: Run, look: Look, every_s: float) -> RunOutcome:
    """Run, and let somebody look."""
    running = asyncio.create_task(run.run())
    try:
        while not running.done():
            look(run)
            await asyncio.wait([running], timeout=every_s)
    finally:
        running.cancel()
        await asyncio.wait([running])
    look(run)
    return running.result()
