"""A short run of one group, all of it drawn from a seed: how large it is, how it is set, what happens to it.

Small files, short leases and distances between brokers bring out what a run with the usual settings meets
once in a day. The same seed is the same story.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from pyromq.torture.faults import DISK_KINDS, Kind
from pyromq.torture.schedule import TARGETS, Fault

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
WEIGHTS: Mapping[Kind, float] = {
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


@dataclass(frozen=True, slots=True)
class Variation:
    """A run: how large the group is, how it is set, and what happens to it."""

    seed: int
    replicas: int
    settings: Mapping[str, object]
    faults: tuple[Fault, ...]
    #: How far the brokers are from each other.
    distance_s: float = 0.0

    @property
    def has_disks(self) -> bool:
        """Whether the brokers need disks of their own."""
        return any(fault.kind in DISK_KINDS for fault in self.faults)

    @property
    def has_clocks(self) -> bool:
        """Whether the brokers need clocks of their own."""
        return any(fault.kind is Kind.CLOCK_JUMP for fault in self.faults)

    @property
    def seconds(self) -> float:
        """When the last fault is over."""
        return max((fault.at_s + fault.lasts_s for fault in self.faults), default=0.0)

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.replicas} replicas: {'; '.join(map(str, self.faults))}"


def draw_variation(
    seed: int,
    *,
    without: frozenset[Kind] = frozenset(),
    only: tuple[Kind, ...] = (),
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
        faults.append(Fault(kind, round(at_s, 2), round(lasts_s, 2), target, chance.randrange(1 << 30)))
        # The next begins while this one lasts, soon after it, or when everything is well again.
        at_s += chance.choice((chance.uniform(0, lasts_s), lasts_s + chance.uniform(0, 0.5), lasts_s + 2.0))
    return Variation(seed, replicas, settings, tuple(faults), distance_s)


def _kind(chance: Random, without: frozenset[Kind], only: tuple[Kind, ...]) -> Kind:
    kinds = list(only or WEIGHTS)
    drawn = chance.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
    return Kind.KILL if drawn in without else drawn
