"""The schedule of one seed, drawn before anything runs: cluster, settings, load, and faults."""

from dataclasses import dataclass, field
from random import Random
from typing import Final

from pyromq.torture.stage import Promises, Topology
from pyromq.torture.workload import WorkloadPlan
from pyromq.torture.workload.workload_plan import WorkloadKind

#: Seconds of load.
LOAD_S: Final = (12.0, 45.0)


@dataclass(frozen=True, slots=True)
class SimulatedFault:
    """One fault: when, what, whom, and for how long."""

    at_s: float
    kind: str
    #: Numbers that the fault's own code makes a choice of.
    draw: int
    for_s: float

    def __str__(self) -> str:
        """Return it for a person."""
        return f"{self.at_s:.1f} s: {self.kind} for {self.for_s:.1f} s"


@dataclass(frozen=True, slots=True)
class Schedule:
    """One run."""

    seed: int
    promises: Promises
    plan: WorkloadPlan
    uses_kernel: bool
    load_s: float
    faults: list[SimulatedFault] = field(default_factory=list)
    #: Settings of every broker beside the workload's.
    settings: dict[str, str] = field(default_factory=dict)
    #: Bytes of a file of the log.
    log_file_bytes: int = 1 << 20

    def __str__(self) -> str:
        """Return it for a person."""
        promises = self.promises
        words = [
            str(promises.topology),
            f"{promises.groups} x {promises.replicas} brokers",
            "SYNC_FLUSH" if promises.is_sync_flush else "ASYNC_FLUSH",
            "SYNC_MASTER" if promises.is_sync_master else "ASYNC_MASTER",
            *(("access control",) if promises.has_access_control else ()),
            *(("power cuts",) if promises.has_power_cuts else ()),
            *(() if self.uses_kernel else ("without the kernel",)),
            f"{self.load_s:.0f} s of {', '.join(self.plan.kinds)}",
        ]
        return "; ".join(words)


#: What may go wrong anywhere, with the share of each.
_ANYWHERE: Final[dict[str, float]] = {
    "kill": 3.0,
    "kill-inside": 2.0,
    "restart": 1.0,
    "pause": 2.0,
    "cut-clients": 1.0,
    "slow-network": 1.0,
    "chopped": 1.0,
    "lost-answers": 2.0,
    "resets": 1.0,
    "slow-disk": 2.0,
    "full-disk": 1.0,
    "failing-sync": 0.5,
    "failing-write": 0.5,
    "flipped-bit": 0.5,
    "kill-client": 1.5,
    "pause-client": 0.7,
    "kill-namesrv": 0.5,
}
_POWER: Final[dict[str, float]] = {"power": 2.0, "power-inside": 1.5, "rack-power": 1.5}
_REPLICATED: Final[dict[str, float]] = {"cut-replicas": 2.0, "cut-one-way": 1.0}
_FAILOVER: Final[dict[str, float]] = {
    "switch": 1.5,
    "cut-etcd": 3.0,
    "slow-disk-and-cut-etcd": 1.5,
    "pause-etcd": 0.7,
    "kill-etcd": 0.7,
    "cut-master": 2.0,
    "cut-replicas-and-kill": 2.0,
}
_FAILOVER_POWER: Final[dict[str, float]] = {"slow-replica-and-rack-power": 2.5}
_CLOCKS: Final[dict[str, float]] = {"clock-jump": 1.5}
#: What is due by wall clocks; when these jump, nobody can say what is early and what is late.
_TIMED: Final = (WorkloadKind.DELAYED, WorkloadKind.TIMED, WorkloadKind.TRANSACTION, WorkloadKind.FAILING)
#: Seconds that faults last which end by themselves.
_FOR_S: Final = (0.3, 10.0)


def draw(seed: int) -> Schedule:
    """Return the schedule of a seed."""
    chance = Random(f"{seed}/schedule")
    promises = _promises(chance)
    plan = WorkloadPlan.draw(Random(f"{seed}/plan"), promises)
    load_s = chance.uniform(*LOAD_S)
    has_large = plan.has(WorkloadKind.LARGE)
    return Schedule(
        seed=seed,
        promises=promises,
        plan=plan,
        uses_kernel=chance.random() < 0.8,
        load_s=load_s,
        faults=_faults(chance, promises, load_s, has_clocks=not plan.has(*_TIMED)),
        settings=_settings(chance),
        log_file_bytes=(8 << 20) if has_large else chance.choice((128 << 10, 1 << 20)),
    )


def _promises(chance: Random) -> Promises:
    topology = chance.choices(
        (Topology.ALONE, Topology.MASTER_SLAVE, Topology.FAILOVER), weights=(0.3, 0.2, 0.5)
    )[0]
    is_alone = topology is Topology.ALONE
    return Promises(
        topology=topology,
        groups=chance.choice((1, 1, 2)) if is_alone else 1,
        replicas=1 if is_alone else chance.choice((2, 2, 3)) if topology is Topology.FAILOVER else 2,
        is_sync_flush=chance.random() < 0.5,
        is_sync_master=not is_alone and chance.random() < 0.6,
        has_access_control=chance.random() < 0.15,
        has_power_cuts=chance.random() < 0.5,
    )


def _faults(chance: Random, promises: Promises, load_s: float, *, has_clocks: bool) -> list[SimulatedFault]:
    shares = dict(_ANYWHERE)
    if promises.has_power_cuts:
        shares |= _POWER
    if promises.topology is not Topology.ALONE:
        shares |= _REPLICATED
    if promises.topology is Topology.FAILOVER:
        shares |= _FAILOVER
        if promises.has_power_cuts:
            shares |= _FAILOVER_POWER
    if has_clocks:
        shares |= _CLOCKS
    kinds = list(shares)
    count = chance.choice((0, 1, 2, 3, 4, 6))
    return sorted(
        (
            SimulatedFault(
                at_s=chance.uniform(2.0, load_s),
                kind=chance.choices(kinds, weights=list(shares.values()))[0],
                draw=chance.getrandbits(30),
                for_s=chance.uniform(*_FOR_S),
            )
            for _ in range(count)
        ),
        key=lambda fault: fault.at_s,
    )


def _settings(chance: Random) -> dict[str, str]:
    return {
        "flushIntervalCommitLog": chance.choice(("100", "500")),
        "syncFlushTimeout": chance.choice(("5000", "5000", "1000")),
        "slaveTimeout": chance.choice(("3000", "300")),
        "inSyncTimeout": chance.choice(("2000", "2000", "6000")),
        "autoCreateOnAll": chance.choice(("false", "true")),
    }
