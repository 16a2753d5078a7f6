"""Counts of what handlers did, for the metrics page of `pyromq run`."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pyromq.app.outcomes import Result
from pyromq.net.metrics import Figure, FigureKind, Histogram

if TYPE_CHECKING:
    from pyromq.app.handler import Handler

SECONDS_BOUNDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
_OF_HANDLER: Final = ("handler", "topic", "consumer_group")


class HandlerMetrics:
    """The figures of one application. On its loop only."""

    def __init__(self) -> None:
        self.seconds = Histogram(
            "pyromq_handler_seconds", "Seconds that a call of a handler took.", _OF_HANDLER, SECONDS_BOUNDS
        )
        self._handled: Counter[tuple[str, ...]] = Counter()
        self._in_flight: Counter[tuple[str, ...]] = Counter()

    def began(self, handler: "Handler") -> None:
        """Note that a call begins."""
        self._in_flight[_labels(handler)] += 1

    def ended(self, handler: "Handler") -> None:
        """Note that a call ended, in whatever way."""
        self._in_flight[_labels(handler)] -= 1

    def handled(self, handler: "Handler", result: Result, seconds: float) -> None:
        """Note the result of a call."""
        labels = _labels(handler)
        self._handled[(*labels, result.value)] += 1
        self.seconds.observe(seconds, labels)

    def figures(self) -> Iterator[Figure]:
        """Return the metrics that are counts."""
        yield Figure(
            "pyromq_handler_messages_total",
            "Messages that a handler was called with, by result: done, retried, dead.",
            (*_OF_HANDLER, "result"),
            lambda: dict(self._handled),
            FigureKind.COUNTER,
        )
        yield Figure(
            "pyromq_handler_in_flight", "Calls of a handler that run now.", _OF_HANDLER, self._running
        )

    def count(self, handler: "Handler", result: Result) -> int:
        """Return how many messages of a handler had a result."""
        return self._handled[(*_labels(handler), result.value)]

    def _running(self) -> Mapping[tuple[str, ...], float]:
        return dict(self._in_flight)


def _labels(handler: "Handler") -> tuple[str, ...]:
    return handler.name, handler.terms.topic, handler.terms.group
