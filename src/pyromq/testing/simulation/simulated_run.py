"""Runs one schedule: the cluster, the load, the faults, the healing, and the judgement."""

import asyncio
import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyromq.errors import PyroError
from pyromq.testing.simulation.simulated_faults import SimulatedNemesis
from pyromq.testing.simulation.simulated_machines import Process
from pyromq.testing.simulation.simulated_schedule import Schedule, draw
from pyromq.testing.simulation.simulated_stage import SimulatedStage
from pyromq.testing.simulation.world import World
from pyromq.torture.checker import PromiseVerdict, judge
from pyromq.torture.history import History, HistoryEvent
from pyromq.torture.workload import MixedWorkload

#: Seconds of simulated time that the workload has to come to rest, when all is healed.
SETTLE_S = 120.0


@dataclass(slots=True)
class SimulatedOutcome:
    """The result of one schedule."""

    schedule: Schedule
    verdicts: list[PromiseVerdict] = field(default_factory=list)
    events: list[HistoryEvent] = field(default_factory=list)
    simulated_s: float = 0.0
    steps: int = 0
    messages: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    #: What ended the run before it could be judged.
    mistake: str = ""
    digest: str = ""
    trace: list[str] = field(default_factory=list)

    @property
    def broken(self) -> list[tuple[str, str]]:
        """The promises that were broken, each with what broke it."""
        found = [(verdict.promise, text) for verdict in self.verdicts for text in verdict.broken]
        return [*found, *((("the run came to its end", self.mistake),) if self.mistake else ())]


def run_seed(seed: int, *, keeps_trace: bool = False, has_digest: bool = True) -> SimulatedOutcome:
    """Run what a seed says."""
    return run_schedule(draw(seed), keeps_trace=keeps_trace, has_digest=has_digest)


def run_schedule(
    schedule: Schedule, *, keeps_trace: bool = False, has_digest: bool = True
) -> SimulatedOutcome:
    """Run a schedule, and judge it; without a digest of all that moved it is faster."""
    _allow_many_files()
    outcome = SimulatedOutcome(schedule)
    with _silence(), World(schedule.seed, keeps_trace=keeps_trace, has_digest=has_digest) as world:
        history = History(world.loop.time)
        if has_digest or keeps_trace:
            history.on_event = lambda event: world.trace(event)

        def unhandled(process: Process | None, context: dict[str, object]) -> None:
            error = context.get("exception")
            history.note(
                "unhandled",
                process.name if process is not None else "simulation",
                message=str(context.get("message"))[:200],
                error=f"{type(error).__name__}: {error}"[:300],
            )

        world.loop.on_unhandled = unhandled
        stage = SimulatedStage(world, schedule, history)
        nemesis = SimulatedNemesis(stage)
        try:
            world.run(_play(stage, nemesis))
        except (PyroError, RuntimeError, AssertionError) as error:
            outcome.mistake = f"{type(error).__name__}: {error}"
        outcome.verdicts = [*judge(history, schedule.promises), stage.witness.verdict()]
        outcome.events = history.events
        outcome.simulated_s = world.loop.time()
        outcome.steps = world.loop.steps
        outcome.messages = sum(1 for _ in history.of("ack"))
        outcome.faults = nemesis.counts
        outcome.digest = world.digest
        outcome.trace = world.trace_lines
    return outcome


async def _play(stage: SimulatedStage, nemesis: SimulatedNemesis) -> None:
    world = stage.world
    await stage.start()
    await asyncio.sleep(3.0)
    workload = MixedWorkload(stage, stage.history, stage.schedule.plan)

    async def act() -> None:
        await workload.prepare()
        faults = asyncio.create_task(nemesis.run(stage.schedule.faults))
        await workload.run(stage.schedule.load_s)
        await faults
        nemesis.heal()
        await asyncio.sleep(5.0)
        await workload.settle(SETTLE_S)

    process = world.start(world.add_machine("workload", "10.2.0.1"), "workload", act())
    await asyncio.shield(process.ended)


def _allow_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def _silence() -> Iterator[None]:
    """Let servers and clients log nothing while they are simulated; whoever comes next logs as before."""
    logger = logging.getLogger("pyromq")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
