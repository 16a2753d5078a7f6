"""Schedules of faults, drawn from a seed: the same seed is the same schedule.

What the machine does in between is its own affair, so a replay is the same story, not the same microseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from torture.clocks import find_library
from torture.disks import why_no_disks


class Kind(StrEnum):
    """What can be done to a cluster."""

    KILL = "kill"
    AMBUSH = "ambush"
    LONELY = "lonely master"
    KILL_OFTEN = "kill often"
    KILL_ALL = "kill all"
    TERMINATE = "terminate"
    PAUSE = "pause"
    SHORT_PAUSES = "short pauses"
    ISOLATE = "isolate"
    CUT_ETCD = "cut from etcd"
    CUT_TO_ETCD = "cut to etcd, one way"
    CUT_OF_ETCD = "cut of etcd, one way"
    CUT_PEER = "cut from a peer"
    CUT_TO_PEER = "cut to a peer, one way"
    CUT_OF_PEER = "cut of a peer, one way"
    DELAY = "delay"
    CHOP = "chop"
    TEAR = "tear connections"
    REFUSE = "refuse connections"
    KILL_ETCD = "kill etcd"
    PAUSE_ETCD = "pause etcd"
    FULL_DISK = "full disk"
    SLOW_DISK = "slow disk"
    STUCK_DISK = "stuck disk"
    CLOCK_JUMP = "clock jump"
    SWITCH = "switch master"
    NEW_DISK = "new disk"


class Target(StrEnum):
    """Whom a fault is done to, as things are at that moment."""

    MASTER = "master"
    SLAVE = "slave"
    ANY = "any"


#: What a network of the kernel's own is good for, and what goes with it.
NAMESPACE_KINDS = (
    Kind.KILL,
    Kind.AMBUSH,
    Kind.LONELY,
    Kind.PAUSE,
    Kind.ISOLATE,
    Kind.CUT_ETCD,
    Kind.CUT_TO_ETCD,
    Kind.CUT_OF_ETCD,
    Kind.CUT_PEER,
    Kind.CUT_TO_PEER,
    Kind.CUT_OF_PEER,
)
DISK_KINDS = {Kind.FULL_DISK, Kind.SLOW_DISK, Kind.STUCK_DISK}

_WEIGHTS: Mapping[Kind, float] = {
    Kind.KILL: 5,
    Kind.AMBUSH: 4,
    Kind.LONELY: 2,
    Kind.KILL_OFTEN: 2,
    Kind.KILL_ALL: 1,
    Kind.TERMINATE: 1.5,
    Kind.PAUSE: 3,
    Kind.SHORT_PAUSES: 1,
    Kind.ISOLATE: 2,
    Kind.CUT_ETCD: 1.5,
    Kind.CUT_TO_ETCD: 1,
    Kind.CUT_OF_ETCD: 1,
    Kind.CUT_PEER: 1.5,
    Kind.CUT_TO_PEER: 1,
    Kind.CUT_OF_PEER: 1,
    Kind.DELAY: 1,
    Kind.CHOP: 0.7,
    Kind.TEAR: 0.7,
    Kind.REFUSE: 0.7,
    Kind.KILL_ETCD: 1,
    Kind.PAUSE_ETCD: 1,
    Kind.FULL_DISK: 1.2,
    Kind.SLOW_DISK: 1.2,
    Kind.STUCK_DISK: 1,
    Kind.CLOCK_JUMP: 1.2,
    Kind.SWITCH: 1,
    Kind.NEW_DISK: 1.5,
}
#: A master is the one whose loss is felt.
_TARGETS = (Target.MASTER, Target.MASTER, Target.MASTER, Target.SLAVE, Target.ANY)


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong for some time."""

    kind: Kind
    at_s: float
    lasts_s: float
    target: Target
    #: What else has to be drawn.
    dice: int

    def __str__(self) -> str:
        return f"{self.at_s:.1f}–{self.at_s + self.lasts_s:.1f} s {self.kind} ({self.target})"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A run: how large the group is, how it is set, and what happens to it."""

    seed: int
    is_synchronous: bool
    replicas: int
    settings: Mapping[str, object]
    faults: tuple[Fault, ...]
    has_namespaces: bool = False
    #: How far the nodes are from each other.
    distance_s: float = 0.0

    @property
    def has_disks(self) -> bool:
        """Whether the nodes need disks of their own."""
        return any(fault.kind in DISK_KINDS for fault in self.faults)

    @property
    def has_clocks(self) -> bool:
        """Whether the nodes need clocks of their own."""
        return any(fault.kind is Kind.CLOCK_JUMP for fault in self.faults)

    def __str__(self) -> str:
        mode = "synchronous" if self.is_synchronous else "asynchronous"
        where = ", in namespaces" if self.has_namespaces else ""
        return f"seed {self.seed}, {mode}, {self.replicas} replicas{where}: " + "; ".join(
            map(str, self.faults)
        )


def impossible_kinds() -> dict[Kind, str]:
    """Return what cannot be done on this machine, and why."""
    reasons: dict[Kind, str] = {}
    if reason := why_no_disks():
        reasons |= dict.fromkeys(DISK_KINDS, reason)
    if find_library() is None:
        reasons[Kind.CLOCK_JUMP] = "there is no libfaketime, and it cannot be fetched"
    return reasons


def draw(
    seed: int,
    *,
    is_synchronous: bool = True,
    without: frozenset[Kind] = frozenset(),
    only: tuple[Kind, ...] = (),
    faults_max: int = 4,
    has_namespaces: bool = False,
) -> Schedule:
    """Draw a schedule; kinds that cannot be done here are replaced by others, the rest stays as it is."""
    if has_namespaces:
        only = NAMESPACE_KINDS
    chance = Random(seed)
    replicas = chance.choice((2, 3, 3))
    lease_ms = chance.choice((2_000, 3_000, 3_000))
    settings = {
        "failoverLease": lease_ms,
        "inSyncTimeout": chance.choice((500, 1_000, 2_000)),
        "minInSyncReplicas": chance.choice((1, 1, 2)),
        "mappedFileSizeCommitLog": chance.choice((128, 256, 1024)) * 1024,
        "haSendHeartbeatInterval": chance.choice((100, 500)),
        "haHousekeepingInterval": chance.choice((1_500, 3_000)),
        "slaveTimeout": chance.choice((1_000, 3_000)),
        "flushDiskType": chance.choice(("ASYNC_FLUSH", "ASYNC_FLUSH", "SYNC_FLUSH")),
        "haTransferBatchSize": chance.choice((4, 32, 32)) * 1024,
    }
    distance_s = chance.choice((0.0, 0.003, 0.03))
    at_s, faults = chance.uniform(0.3, 1.0), []
    for _ in range(chance.randrange(2, faults_max + 1)):
        kind = _kind(chance, without, only)
        lasts_s = chance.choice(
            (chance.uniform(0.1, 1.0), chance.uniform(1.0, 2.5), chance.uniform(2.5, 4.5))
        )
        target = chance.choice(_TARGETS)
        faults.append(Fault(kind, round(at_s, 2), round(lasts_s, 2), target, chance.randrange(1 << 30)))
        # The next begins while this one lasts, soon after it, or when everything is well again.
        at_s += chance.choice((chance.uniform(0, lasts_s), lasts_s + chance.uniform(0, 0.5), lasts_s + 2.0))
    return Schedule(seed, is_synchronous, replicas, settings, tuple(faults), has_namespaces, distance_s)


def _kind(chance: Random, without: frozenset[Kind], only: tuple[Kind, ...]) -> Kind:
    kinds = list(only or _WEIGHTS)
    drawn = chance.choices(kinds, [_WEIGHTS[kind] for kind in kinds])[0]
    return Kind.KILL if drawn in without else drawn
