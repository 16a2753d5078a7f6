"""A short run of one group, all of it drawn from a seed: how large it is, how it is set, what happens to it.

Small files, short leases and distances between brokers bring out what a run with the usual settings meets
once in a day. The same seed is the same story.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from pyromq.torture.fault_schedule import TARGETS, ScheduledFault
from pyromq.torture.faults import DISK_KINDS, FaultKind

#: What a network of the kernel's own is good for, and what goes with it.
NAMESPACE_KINDS = (
    FaultKind.KILL,
    FaultKind.AMBUSH,
    FaultKind.LONELY,
    FaultKind.PAUSE,
    FaultKind.ISOLATE,
    FaultKind.CUT_ETCD,
    FaultKind.CUT_TO_ETCD,
    FaultKind.CUT_OF_ETCD,
    FaultKind.CUT_PEER,
    FaultKind.CUT_TO_PEER,
    FaultKind.CUT_OF_PEER,
)
WEIGHTS: Mapping[FaultKind, float] = {
    FaultKind.KILL: 5,
    FaultKind.AMBUSH: 4,
    FaultKind.LONELY: 2,
    FaultKind.KILL_OFTEN: 2,
    FaultKind.KILL_ALL: 1,
    FaultKind.TERMINATE: 1.5,
    FaultKind.PAUSE: 3,
    FaultKind.SHORT_PAUSES: 1,
    FaultKind.ISOLATE: 2,
    FaultKind.CUT_ETCD: 1.5,
    FaultKind.CUT_TO_ETCD: 1,
    FaultKind.CUT_OF_ETCD: 1,
    FaultKind.CUT_PEER: 1.5,
    FaultKind.CUT_TO_PEER: 1,
    FaultKind.CUT_OF_PEER: 1,
    FaultKind.DELAY: 1,
    FaultKind.CHOP: 0.7,
    FaultKind.TEAR: 0.7,
    FaultKind.REFUSE: 0.7,
    FaultKind.KILL_ETCD: 1,
    FaultKind.PAUSE_ETCD: 1,
    FaultKind.FULL_DISK: 1.2,
    FaultKind.SLOW_DISK: 1.2,
    FaultKind.STUCK_DISK: 1,
    FaultKind.CLOCK_JUMP: 1.2,
    FaultKind.SWITCH: 1,
    FaultKind.NEW_DISK: 1.5,
}


@dataclass(frozen=True, slots=True)
class Variation:
    """A run: how large the group is, how it is set, and what happens to it."""

    seed: int
    replicas: int
    settings: Mapping[str, object]
    faults: tuple[ScheduledFault, ...]
    #: How far the brokers are from each other.
    distance_s: float = 0.0

    @property
    def has_disks(self) -> bool:
        """Whether the brokers need disks of their own."""
        return any(fault.kind in DISK_KINDS for fault in self.faults)

    @property
    def has_clocks(self) -> bool:
        """Whether the brokers need clocks of their own."""
        return any(fault.kind is FaultKind.CLOCK_JUMP for fault in self.faults)

    @property
    def seconds(self) -> float:
        """The second at which the last fault is over."""
        return max((fault.at_s + fault.lasts_s for fault in self.faults), default=0.0)

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.replicas} replicas: {'; '.join(map(str, self.faults))}"


def draw_variation(
    seed: int,
    *,
    without: frozenset[FaultKind] = frozenset(),
    only: tuple[FaultKind, ...] = (),
    faults_max: int = 4,
) -> Variation:
    """Draw a run; kinds that cannot be done here are replaced by kills, the rest stays as it is."""
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
        # A file of the log has room for a message.
        "maxMessageSize": 65_536,
        "mappedFileSizeConsumeQueue": 20 * 300,
    }
    distance_s = chance.choice((0.0, 0.003, 0.03))
    at_s, faults = chance.uniform(0.3, 1.0), []
    for _ in range(chance.randrange(2, faults_max + 1)):
        kind = _kind(chance, without, only)
        lasts_s = chance.choice(
            (chance.uniform(0.1, 1.0), chance.uniform(1.0, 2.5), chance.uniform(2.5, 4.5))
        )
        target = chance.choice(TARGETS)
        faults.append(
            ScheduledFault(kind, round(at_s, 2), round(lasts_s, 2), target, chance.randrange(1 << 30))
        )
        # The next begins while this one lasts, soon after it, or when everything is well again.
        at_s += chance.choice((chance.uniform(0, lasts_s), lasts_s + chance.uniform(0, 0.5), lasts_s + 2.0))
    return Variation(seed, replicas, settings, tuple(faults), distance_s)


def _kind(chance: Random, without: frozenset[FaultKind], only: tuple[FaultKind, ...]) -> FaultKind:
    kinds = list(only or WEIGHTS)
    drawn = chance.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
    return FaultKind.KILL if drawn in without else drawn
