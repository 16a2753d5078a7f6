"""A page of metrics for Prometheus: figures that are read when they are asked for.

    Prometheus ── GET /metrics ──► HTTP server, on a thread ── turns of the loop ──► a server's tables

A figure is read when a page is wanted and is kept nowhere, so nothing is counted while messages pass. The
tables belong to the loop: figures are read there, the thread writes the page. What takes long (the lag of
thousands of groups) is prepared in slices of SLICE_S, with turns of the loop between them.

Histograms are the exception: how long something took is known only then. Who observes does it once for a
request that took the long way, and once for a buffer full of requests that the kernel answered.
"""

import asyncio
import logging
import time
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Final

from pyromq.kernel import WHY_PURE
from pyromq.net.process_health import HealthChecks, ProcessHealth
from pyromq.net.status_server import StatusServer
from pyromq.release import VERSION

if TYPE_CHECKING:
    from prometheus_client.core import Metric

log = logging.getLogger(__name__)

#: Seconds that a page waits for the loop.
PAGE_S_MAX: Final = 10.0
#: Seconds of the loop that one slice of what takes long may have.
SLICE_S: Final = 0.001
#: How many values of one figure are on a page, unless told otherwise.
SERIES_MAX: Final = 50_000
LEFT_OUT: Final = "pyromq_metrics_left_out"

#: Values by the values of the labels.
Values = Mapping[tuple[str, ...], float]


class FigureKind(StrEnum):
    """The kind of a figure: it goes up and down, only up, or it tells how values are spread."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric: its name, what it is, what its values are told apart by, and how they are read."""

    name: str
    about: str
    labels: tuple[str, ...]
    read: Callable[[], Values]
    kind: FigureKind = FigureKind.GAUGE


def build_info() -> Figure:
    """Return the metric that tells which version runs, and at which speed."""
    speed = "compiled" if WHY_PURE is None else "pure"
    return Figure(
        "pyromq_build_info",
        "1; the version of PyroMQ and its speed are the labels.",
        ("version", "speed"),
        lambda: {(VERSION, speed): 1},
    )


class Histogram:
    """A histogram: counts of values by range, told apart by labels; observed and read on one thread."""

    def __init__(self, name: str, about: str, labels: tuple[str, ...], bounds: Sequence[float]) -> None:
        self.name = name
        self.about = about
        self.labels = labels
        self.bounds = tuple(bounds)
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, value: float, labels: tuple[str, ...] = (), count: int = 1) -> None:
        """Note a value, or one that came several times."""
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self.bounds) + 1)
            self._sums[labels] = 0.0
        counts[bisect_left(self.bounds, value)] += count
        self._sums[labels] += value * count

    def read(self) -> list[tuple[tuple[str, ...], list[tuple[str, float]], float]]:
        """Return labels, counts up to each bound, and the sum."""
        names = [*map(str, self.bounds), "+Inf"]
        return [
            (labels, list(zip(names, map(float, accumulate(counts)), strict=True)), self._sums[labels])
            for labels, counts in self._counts.items()
        ]


#: What is done before the figures are read, in slices: each `next` is a small part of it.
Preparation = Callable[[], Generator[None, None, None]]


class MetricsPage:
    """Serves figures over HTTP while it is started; a collector in the sense of prometheus-client.

    Beside them it serves what `health` finds. `labels` are on every value. Of a figure with more than
    `series_max` values the first so many are on the page, and one more figure says how many are not.
    """

    def __init__(
        self,
        figures: Iterable[Figure],
        labels: Mapping[str, str],
        *,
        histograms: Iterable[Histogram] = (),
        prepare: Sequence[Preparation] = (),
        series_max: int = SERIES_MAX,
        health: HealthChecks = tuple,
    ) -> None:
        self._left_out: dict[tuple[str, ...], float] = {}
        # The last one: what was left out is known when the others were read.
        self.figures = [
            *figures,
            Figure(LEFT_OUT, "Values that a page has no room for.", ("metric",), lambda: self._left_out),
        ]
        self._labels = dict(labels)
        self.histograms = list(histograms)
        self._prepare = prepare
        self._series_max = series_max
        # Two who ask at once must not prepare into the same tables.
        self._reading = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._health = health
        self._server: StatusServer | None = None

    @property
    def port(self) -> int:
        """The port that is listened on; known once it is started."""
        assert self._server is not None
        return self._server.port

    @property
    def url(self) -> str:
        """The address that Prometheus reads."""
        assert self._server is not None
        return f"{self._server.url}/metrics"

    async def start(self, host: str, port: int) -> None:
        """Listen; raise ListenFailed if that cannot be."""
        # Only now: a server without metrics need not load it.
        from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app

        # Described by what it collects only when it is asked: the loop does not wait for itself.
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        ProcessCollector(registry=registry)
        page = make_wsgi_app(registry)
        server = StatusServer({"/": page, "/metrics": page, **ProcessHealth(self._health).pages()})
        await server.start(
            host, port, what="metrics", settings="metricsPromExporterPort or metricsPromExporterHost"
        )
        self._server = server

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await self._server.close()

    def collect(self) -> "Iterator[Metric]":
        """Read all figures; called by the thread that writes a page."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        read = asyncio.run_coroutine_threadsafe(self._read(), self._loop)
        values_of, spread_of = read.result(PAGE_S_MAX)
        own = list(self._labels.values())
        for figure, values in zip(self.figures, values_of, strict=True):
            make = CounterMetricFamily if figure.kind == FigureKind.COUNTER else GaugeMetricFamily
            family = make(figure.name, figure.about, labels=[*self._labels, *figure.labels])
            for label_values, value in values.items():
                family.add_metric([*own, *label_values], value)
            yield family
        for histogram, spread in zip(self.histograms, spread_of, strict=True):
            wide = HistogramMetricFamily(
                histogram.name, histogram.about, labels=[*self._labels, *histogram.labels]
            )
            for label_values, buckets, total in spread:
                wide.add_metric([*own, *label_values], buckets, total)
            yield wide

    async def _read(
        self,
    ) -> tuple[list[Values], list[list[tuple[tuple[str, ...], list[tuple[str, float]], float]]]]:
        async with self._reading:
            for prepare in self._prepare:
                await in_slices(prepare())
            self._left_out = {}
            values = []
            for figure in self.figures:
                values.append(self._bounded(figure.name, figure.read()))
                await asyncio.sleep(0)
            return values, [histogram.read() for histogram in self.histograms]

    def _bounded(self, name: str, values: Values) -> Values:
        if len(values) <= self._series_max:
            return values
        self._left_out[name,] = len(values) - self._series_max
        return dict(islice(values.items(), self._series_max))


async def in_slices(work: Generator[None, None, None]) -> None:
    """Do something that takes long, with turns of the loop between its slices."""
    began = time.perf_counter()
    for _ in work:
        if time.perf_counter() - began >= SLICE_S:
            await asyncio.sleep(0)
            began = time.perf_counter()
