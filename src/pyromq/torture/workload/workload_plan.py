"""The plan of a workload: the kinds of messages that it mixes, and how often each of them comes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Final

from pyromq.torture.stage import Promises


class WorkloadKind(StrEnum):
    """A kind of message, or of a question, that a workload may have."""

    PLAIN = "plain"
    BATCH = "batch"
    COMPRESSED = "compressed"
    LARGE = "large"
    ORDERED = "ordered"
    DELAYED = "delayed"
    TIMED = "timed"
    TRANSACTION = "transaction"
    FAILING = "failing"
    REQUEST = "request"
    STAGED = "staged"
    POPPED = "popped"
    FILTERED = "filtered"
    OFFSETS = "offsets"
    TOPICS = "topics"
    ENDS = "ends"
    STRANGERS = "strangers"


#: Seconds between two of a kind, on average, in a run of a minute; a few hundred messages in all.
PAUSES_S: Final[dict[WorkloadKind, float]] = {
    WorkloadKind.PLAIN: 0.6,
    WorkloadKind.BATCH: 2.0,
    WorkloadKind.COMPRESSED: 3.0,
    WorkloadKind.LARGE: 15.0,
    WorkloadKind.ORDERED: 0.6,
    WorkloadKind.DELAYED: 1.5,
    WorkloadKind.TIMED: 1.5,
    WorkloadKind.TRANSACTION: 1.2,
    WorkloadKind.FAILING: 2.5,
    WorkloadKind.REQUEST: 2.0,
    WorkloadKind.STAGED: 4.0,
    WorkloadKind.POPPED: 0.8,
    WorkloadKind.FILTERED: 1.0,
    WorkloadKind.OFFSETS: 1.0,
    WorkloadKind.TOPICS: 6.0,
    WorkloadKind.ENDS: 1.0,
    WorkloadKind.STRANGERS: 3.0,
}
#: Kinds that go beside those that are drawn: without them little is there to be promised.
_ALWAYS: Final = (WorkloadKind.PLAIN, WorkloadKind.ENDS)
#: Kinds that are not drawn with the others; and the last draws that let a run have pops, a quarter of all.
#: They were added later, and the seeds that found something before (`FOUND` in tests/simulation) have none.
_APART: Final = (WorkloadKind.STRANGERS, WorkloadKind.POPPED)
_POPS: Final = (0.4, 0.65)


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """The kinds of a run, and the seconds between two of each on average."""

    pauses_s: Mapping[WorkloadKind, float] = field(default_factory=lambda: dict(PAUSES_S))

    @property
    def kinds(self) -> tuple[WorkloadKind, ...]:
        """The kinds, in a fixed order."""
        return tuple(kind for kind in WorkloadKind if kind in self.pauses_s)

    def has(self, *kinds: WorkloadKind) -> bool:
        """Return whether one of these kinds is in the run."""
        return any(kind in self.pauses_s for kind in kinds)

    @classmethod
    def of(cls, *kinds: WorkloadKind, pace: float = 1.0) -> "WorkloadPlan":
        """Return a plan of some kinds; a `pace` of 2 sends twice as often."""
        return cls({kind: PAUSES_S[kind] / pace for kind in WorkloadKind if kind in kinds})

    @classmethod
    def everything(cls, pace: float = 1.0) -> "WorkloadPlan":
        """Return a plan of all kinds."""
        return cls.of(*WorkloadKind, pace=pace)

    @classmethod
    def draw(cls, chance: Random, promises: Promises) -> "WorkloadPlan":
        """Choose kinds and how often they come."""
        others = [kind for kind in WorkloadKind if kind not in (*_ALWAYS, *_APART)]
        drawn = chance.sample(others, chance.randint(3, 6))
        chosen = {*_ALWAYS, *drawn, *((WorkloadKind.STRANGERS,) if promises.has_access_control else ())}
        pace = chance.choice((0.5, 1.0, 1.0, 2.0))
        if _POPS[0] <= chance.random() < _POPS[1]:
            chosen.add(WorkloadKind.POPPED)
        return cls.of(*chosen, pace=pace)
