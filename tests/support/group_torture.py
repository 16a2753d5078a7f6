"""Short runs of one group of `pyromq.torture`, for tests: forked processes, Debian's etcd and libfaketime."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import forked_command
from debian_packages import fetched
from etcd import program

from pyromq.torture.cluster_plan import Plan
from pyromq.torture.faults import DISK_KINDS, FaultKind
from pyromq.torture.killable_clients import LivesLoop
from pyromq.torture.probe.probe import ProbePlan
from pyromq.torture.run_outcome import RunOutcome
from pyromq.torture.servers import process_clock
from pyromq.torture.servers.node_disk import why_no_disks
from pyromq.torture.servers.processes import RunningProcess, start_pyromq
from pyromq.torture.stage import Promises, Topology
from pyromq.torture.torture_run import Order, Run
from pyromq.torture.variation import Variation

#: Five producers that hardly pause: what a run of some seconds lives on.
PROBE = ProbePlan(producers=5, pause_s=0.03)
#: A machine that is busy with other things is no fault of the group's.
SETTLE_S_MAX = 60.0
#: Seconds of load behind the last fault: on a busy machine little is acknowledged while there are faults.
QUIET_S = 4.0


class Forked:
    """A process that was forked from one that has imported the program already."""

    def __init__(self, process: ForkServerProcess) -> None:
        assert process.pid is not None
        self._process = process
        self.pid: int = process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        return self._process.exitcode

    def signal(self, number: signal.Signals) -> None:
        if self.is_alive:
            # It may end, and another thread learn of that, in between.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def wait(self, timeout_s: float) -> bool:
        self._process.join(timeout_s)
        return not self._process.is_alive()


def start_forked(
    arguments: Sequence[str], log: Path, environment: Mapping[str, str], prefix: Sequence[str]
) -> RunningProcess:
    """Start `pyromq` without its half second of imports; not where a library must be loaded before it."""
    if environment or prefix:
        return start_pyromq(arguments, log, environment, prefix)
    return Forked(forked_command.start_pyromq(arguments, log))


@cache
def clock_library() -> Path | None:
    """Return libfaketime, fetched if need be; None where it cannot be had."""
    found = process_clock.find_library()
    if found is not None:
        return found
    try:
        folder = fetched("libfaketime", ["libfaketime"])
    except (OSError, subprocess.SubprocessError):
        return None
    return next(folder.rglob(process_clock.NAME), None)


def impossible_kinds() -> frozenset[FaultKind]:
    """Return what cannot be done on this machine."""
    kinds = DISK_KINDS if why_no_disks() else frozenset()
    return kinds if clock_library() is not None else kinds | {FaultKind.CLOCK_JUMP}


def run_variation(
    variation: Variation, folder: Path, *, is_synchronous: bool = True, has_namespaces: bool = False
) -> Run:
    """Run it with nothing but the probe, and return it with its outcome."""
    promises = Promises(
        Topology.FAILOVER,
        replicas=variation.replicas,
        is_sync_flush=variation.settings["flushDiskType"] == "SYNC_FLUSH",
        is_sync_master=is_synchronous,
    )
    plan = Plan(
        promises=promises,
        settings=variation.settings,
        etcd=program(),
        has_disks=variation.has_disks,
        clock_library=clock_library() if variation.has_clocks else None,
        has_namespaces=has_namespaces,
        start=start_forked,
    )
    order = Order(
        plan=plan,
        seed=variation.seed,
        seconds=variation.seconds + QUIET_S,
        schedule=variation.faults,
        workload=None,
        probe=PROBE,
        distance_s=variation.distance_s,
        settle_s_max=SETTLE_S_MAX,
    )
    folder.mkdir(parents=True)

    async def main() -> Run:
        run = Run(order, folder, RunOutcome(variation.seed, str(variation)))
        await run.run()
        return run

    with asyncio.Runner(loop_factory=LivesLoop) as runner:
        return runner.run(main())


def with_namespaces(variation: Variation) -> Variation:
    """Return the same without distances, which the kernel's links do not have."""
    return replace(variation, distance_s=0.0)
