"""Counts of what POP did since the start, for metrics."""

from collections import Counter
from dataclasses import dataclass, field

from pyromq.broker.pop.pop_asks import AckResult, PopStatus


@dataclass(slots=True)
class PopCounts:
    """Counts since the start: pops by how they ended, acknowledgements and changes by what became of them."""

    pops: Counter[PopStatus] = field(default_factory=Counter)
    acknowledgements: Counter[AckResult] = field(default_factory=Counter)
    changes: Counter[AckResult] = field(default_factory=Counter)
    #: Messages that were stored again because nobody acknowledged them in time.
    revived: int = 0
