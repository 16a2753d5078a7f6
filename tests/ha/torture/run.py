"""One schedule from begin to end: a group, load, faults, peace, and the judge."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from torture.checker import Promise, judge
from torture.clocks import find_library
from torture.cluster import Group, Node, Plan, running_group
from torture.history import Final, History, Outcome, Send
from torture.load import Stage, make_topic, produce, read, read_all
from torture.nemesis import Nemesis
from torture.processes import start_pyromq
from torture.replicas import compare_logs, lag_bytes, read_epochs
from torture.schedule import Schedule

PRODUCERS = 5
#: Generous, because a machine that is busy with other things is no fault of the group's.
START_S_MAX = 150.0
#: Time that a healed group has until somebody acknowledges again, and until all have everything.
PEACE_S_MAX = 60.0
#: Acknowledged messages without which a run says nothing.
ENOUGH = 50
COMPLAINTS_MAX = 20


@dataclass(slots=True)
class Report:
    """What came of a schedule."""

    schedule: str
    seed: int
    is_synchronous: bool
    broken: list[str] = field(default_factory=list)
    acknowledged: int = 0
    refused: int = 0
    unknown: int = 0
    read: int = 0
    #: Acknowledged and gone; only ever more than none with asynchronous replication.
    lost: int = 0
    #: Epochs that have a message in the final log.
    masters: int = 0
    longest_pause_s: float = 0.0
    #: From the end of the faults to the first acknowledgement, and until every replica had everything.
    master_after_s: float = 0.0
    equal_after_s: float = 0.0
    #: Until all were in sync for the first time, and altogether.
    start_s: float = 0.0
    seconds: float = 0.0
    folder: str = ""
    refusals: dict[str, int] = field(default_factory=dict)
    #: What the brokers logged as errors.
    errors: dict[str, int] = field(default_factory=dict)

    def as_json(self) -> str:
        """Return it in a line."""
        return json.dumps(asdict(self))


async def run_schedule(schedule: Schedule, folder: Path) -> Report:
    """Run it, and say what was broken; the history is left in the folder."""
    began_at = time.monotonic()
    report = Report(str(schedule), schedule.seed, schedule.is_synchronous, folder=str(folder))
    history = History()
    plan = Plan(
        replicas=schedule.replicas,
        is_synchronous=schedule.is_synchronous,
        settings=schedule.settings,
        has_disks=schedule.has_disks,
        clock_library=find_library() if schedule.has_clocks else None,
        has_namespaces=schedule.has_namespaces,
    )
    try:
        async with running_group(plan, folder) as group:
            await _Run(schedule, group, history, report).run()
    except (AssertionError, TimeoutError) as error:
        report.broken.append(f"the run ended early: {error!r}")
    finally:
        history.save(folder / "history.jsonl")
        _count(report, history)
    report.seconds = time.monotonic() - began_at
    return report


def _count(report: Report, history: History) -> None:
    report.acknowledged = history.count(Outcome.ACKNOWLEDGED)
    report.refused = history.count(Outcome.REFUSED)
    report.unknown = history.count(Outcome.UNKNOWN)
    report.read = len(history.reads)
    report.refusals = dict(history.refusals.most_common(8))
    del report.broken[COMPLAINTS_MAX:]


class _Run:
    """The acts of the story, in their order."""

    def __init__(self, schedule: Schedule, group: Group, history: History, report: Report) -> None:
        self._schedule = schedule
        self._group = group
        self._history = history
        self._report = report
        faces = {group.network.face(node.number): node.number for node in group.nodes}
        addresses = [group.network.address(node.number) for node in group.nodes]
        self._stage = Stage(history, addresses, faces)
        self._chance = Random(schedule.seed)
        #: When etcd was asked, and in which epoch the group was then.
        self._seen: list[tuple[float, int]] = []

    async def run(self) -> None:
        """Load, faults, peace, verdict."""
        await self._wait_for_a_master()
        async with self._readers(), self._producers(), self._watching():
            await self._until_all_are_in_sync(START_S_MAX)
            self._report.start_s = self._stage.now
            self._stage.longest_pause_s = 0.0
            self._group.wires.distance_s = self._schedule.distance_s
            await Nemesis(self._group, self._stage).run(self._schedule)
            await self._make_peace()
        final = await self._final()
        final.reigns = await self._group.reigns()
        final.not_before = {
            epoch: max((at for at, seen in self._seen if seen < epoch), default=0.0)
            for epochs in final.reigns.values()
            for epoch in epochs
        }
        self._report.longest_pause_s = self._stage.longest_pause_s
        await self._group.kill_all()
        self._judge(final)
        await asyncio.gather(*(self._verify(node) for node in self._group.nodes))

    async def _verify(self, node: Node) -> None:
        """Let `pyromq store verify` have its say on the files; being killed is no fault."""
        log = node.folder / "verify.txt"
        process = start_pyromq(["store", "verify", str(node.store), "--jobs", "1", *node.settings], log)
        if not await asyncio.to_thread(process.wait, PEACE_S_MAX) or process.exit_code != 0:
            self._report.broken.append(f"verify: node {node.number}: {log.read_text()[-1500:]}")

    async def _wait_for_a_master(self) -> None:
        async with asyncio.timeout(START_S_MAX):
            while True:
                for number, address in enumerate(self._stage.addresses):
                    if await make_topic(address):
                        self._stage.master = number
                        return
                for node in self._group.nodes:
                    node.look_after()
                    assert not node.complaints, node.complaints
                await self._stage.pause(0.05)

    async def _until_all_are_in_sync(self, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while await self._group.in_sync() < len(self._group.nodes) or not self._stage.last_answer_at:
                await self._stage.pause(0.05)

    @asynccontextmanager
    async def _producers(self) -> AsyncIterator[None]:
        tasks = [
            asyncio.ensure_future(produce(self._stage, Random(self._chance.random())))
            for _ in range(PRODUCERS)
        ]
        try:
            yield
            self._stage.is_over.set()
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @asynccontextmanager
    async def _readers(self) -> AsyncIterator[None]:
        tasks = [
            asyncio.ensure_future(read(self._stage, Random(self._chance.random()), node.number))
            for node in self._group.nodes
        ]
        try:
            yield
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @asynccontextmanager
    async def _watching(self) -> AsyncIterator[None]:
        """Note the epochs as they come."""

        async def watch() -> None:
            while True:
                asked_at = self._stage.now
                state = await self._group.state()
                if state:
                    self._seen.append((asked_at, state["epoch"]))
                await self._stage.pause(0.2)

        task = asyncio.ensure_future(watch())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _make_peace(self) -> None:
        """Undo all harm, and wait until the group takes messages again."""
        await self._group.heal()
        healed_at = self._stage.now
        try:
            async with asyncio.timeout(PEACE_S_MAX):
                while not self._is_answered_since(healed_at):
                    await self._stage.pause(0.02)
        except TimeoutError:
            self._report.broken.append(f"no master: nothing was acknowledged for {PEACE_S_MAX} s of peace")
        self._report.master_after_s = self._stage.now - healed_at
        await self._stage.pause(0.3)

    def _is_answered_since(self, healed_at: float) -> bool:
        """Whether the group takes messages again, and has taken enough to be judged by."""
        return any(
            send.outcome is Outcome.ACKNOWLEDGED and send.sent_at > healed_at for send in self._youngest()
        ) and (self._history.count(Outcome.ACKNOWLEDGED) > ENOUGH)

    def _youngest(self) -> list[Send]:
        sends = self._history.sends
        return [sends[number] for number in range(max(0, len(sends) - 2000), len(sends))]

    async def _final(self) -> Final:
        """Read the master, and wait until each replica has the same."""
        began_at = time.monotonic()
        last = "nobody could be read"
        while time.monotonic() - began_at < PEACE_S_MAX:
            for node in self._group.nodes:
                node.look_after()
            try:
                finals = [await read_all(self._stage, node.number) for node in self._group.nodes]
            except (OSError, TimeoutError) as error:
                last = repr(error)
            else:
                master = finals[self._stage.master]
                behind = [number for number, final in enumerate(finals) if not _is_end_of(final, master)]
                in_sync = await self._group.in_sync()
                if not behind and in_sync == len(self._group.nodes):
                    self._report.equal_after_s = time.monotonic() - began_at
                    return master
                last = f"nodes {behind} have other messages than node {self._stage.master}; {in_sync} in sync"
            self._stage.is_over.clear()
            await self._stage.pause(0.1)
        self._report.broken.append(f"no convergence: after {PEACE_S_MAX} s of peace {last}")
        return await read_all(self._stage, self._stage.master)

    def _judge(self, final: Final) -> None:
        report, group = self._report, self._group
        master = group.nodes[self._stage.master]
        final.epochs = read_epochs(master.store)
        settings = self._schedule.settings
        unshipped_ms = int(str(settings["inSyncTimeout"])) + 2 * int(str(settings["failoverLease"]))
        promise = Promise(
            is_synchronous=self._schedule.is_synchronous, unshipped_s_max=unshipped_ms / 1000 + 1.0
        )
        verdict = judge(self._history, final, promise)
        report.broken += verdict.broken
        report.lost, report.masters = len(verdict.lost), verdict.masters
        for node in group.nodes:
            if node is not master:
                report.broken += compare_logs(master.store, node.store)
                lag = lag_bytes(master.store, node.store)
                if lag:
                    report.broken.append(f"behind: node {node.number} lacks {lag} bytes of the log")
            report.errors = dict(node.errors() + Counter(report.errors))
            report.broken += node.complaints
            report.broken += node.alarms()


def _is_end_of(final: Final, master: Final) -> bool:
    """Whether a node has what the master has, from where it begins."""
    for queue, messages in master.queues.items():
        own = final.queues.get(queue, {})
        first = min(own, default=0)
        if own != {offset: stored for offset, stored in messages.items() if offset >= first}:
            return False
    return True
