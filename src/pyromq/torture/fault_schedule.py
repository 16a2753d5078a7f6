"""Schedules of faults, drawn from a seed: the same seed is the same schedule.

What the machine does in between is its own affair, so a replay is the same story, not the same microseconds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from pyromq.torture.faults import FaultKind

#: Seconds without faults at the begin of a run.
CALM_S = 3.0


class FaultTarget(StrEnum):
    """Whom a fault is done to, as things are at that moment."""

    MASTER = "master"
    SLAVE = "slave"
    ANY = "any"


#: A master is the one whose loss is felt.
TARGETS = (FaultTarget.MASTER, FaultTarget.MASTER, FaultTarget.MASTER, FaultTarget.SLAVE, FaultTarget.ANY)


@dataclass(frozen=True, slots=True)
class ScheduledFault:
    """One thing that goes wrong for some time."""

    kind: FaultKind
    at_s: float
    lasts_s: float
    target: FaultTarget
    #: What else has to be drawn.
    dice: int

    def __str__(self) -> str:
        return f"{self.at_s:.1f}–{self.at_s + self.lasts_s:.1f} s {self.kind} ({self.target})"


def draw(
    seed: int, weights: Mapping[FaultKind, float], seconds: float, lease_s: float
) -> Iterator[ScheduledFault]:
    """Draw faults for so many seconds: shorter than a lease and longer, alone and on top of each other."""
    chance = Random(f"faults of {seed}")
    at_s = CALM_S + chance.uniform(0.0, 1.0)
    while weights:
        kind = chance.choices(list(weights), list(weights.values()))[0]
        lasts_s = chance.choice(
            (chance.uniform(0.2, 1.0), chance.uniform(1.0, lease_s), chance.uniform(lease_s, 2.5 * lease_s))
        )
        target, dice = chance.choice(TARGETS), chance.randrange(1 << 30)
        if at_s + 1.0 > seconds:
            return
        yield ScheduledFault(kind, round(at_s, 2), round(min(lasts_s, seconds - at_s), 2), target, dice)
        # The next begins while this one lasts, soon after it, or when everything is well again.
        at_s += chance.choice(
            (
                chance.uniform(0.0, lasts_s),
                lasts_s + chance.uniform(0.0, 1.0),
                lasts_s + lease_s + chance.uniform(0.0, 4.0),
            )
        )
