"""The metrics of POP: what was handed out and what became of it."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from pyromq.broker.pop.pop_asks import AckResult, PopStatus
from pyromq.broker.pop.pop_door import Pop
from pyromq.net.metrics import Figure, FigureKind, Values

Result = TypeVar("Result", AckResult, PopStatus)


def pop_figures(pop: Pop) -> list[Figure]:
    """Return the metrics of POP; how much of each topic is in flight is in the lags."""
    counts = pop.counts
    return [
        _counter("pyromq_pops_total", "Pops, by how they ended.", lambda: counts.pops),
        _counter(
            "pyromq_pop_acks_total",
            "Acknowledgements of popped messages, by whether they came in time.",
            lambda: counts.acknowledgements,
        ),
        _counter(
            "pyromq_pop_changes_total",
            "Changes of the time for which popped messages are invisible, by whether they came in time.",
            lambda: counts.changes,
        ),
        Figure(
            "pyromq_pop_revives_total",
            "Popped messages that nobody acknowledged in time, and that come again.",
            (),
            lambda: {(): counts.revived},
            FigureKind.COUNTER,
        ),
        Figure(
            "pyromq_pop_inflight_messages",
            "Popped messages that are not finished, but for those in order.",
            (),
            lambda: {(): pop.in_flight_count},
        ),
        Figure("pyromq_held_pops", "Pops that wait for messages.", (), lambda: {(): pop.all_held_count}),
    ]


def _counter(name: str, about: str, read: Callable[[], Counter[Result]]) -> Figure:
    def values() -> Values:
        return {(result.name.lower(),): count for result, count in read().items()}

    return Figure(name, about, ("result",), values, FigureKind.COUNTER)
