"""What Prometheus sees of a broker: names and labels are RocketMQ 5.x's where it has them, else `pyromq_…`.

    Prometheus ── GET /metrics ──► HTTP server, on a thread ── one turn of the loop ──► the broker's tables

A figure is read when it is asked for and is kept nowhere, so nothing is counted while messages pass. The
tables belong to the loop: all figures of a page are read there, in one turn; the thread writes the page.
"""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIServer

from pyromq.broker.arrivals import Arrivals
from pyromq.broker.clients import Client, Consumers, Producers
from pyromq.broker.subscription_conflicts import SubscriptionConflicts
from pyromq.codes import Language
from pyromq.config.settings import BrokerSettings, MetricsExporterType
from pyromq.errors import ListenFailed
from pyromq.net.address import join_address
from pyromq.store.store import MessageStore

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
#: Seconds that a page waits for a turn of the loop.
TURN_S_MAX = 10.0

#: Values by the values of the labels.
Values = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric: its name, what it is, what its values are told apart by, and how they are read."""

    name: str
    about: str
    labels: tuple[str, ...]
    read: Callable[[], Values]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the figures come from."""

    consumers: Consumers
    producers: Producers
    conflicts: SubscriptionConflicts
    arrivals: Arrivals
    store: MessageStore
    count_links: Callable[[], int]


def broker_figures(sources: Sources) -> list[Figure]:
    """Return all that there is to see."""
    store = sources.store
    return [
        Figure(
            "rocketmq_consumer_connections",
            "Members of consumer groups.",
            ("consumer_group", "language", "version"),
            lambda: _members(
                {name: group.members.values() for name, group in sources.consumers.groups.items()}
            ),
        ),
        Figure(
            "rocketmq_producer_connections",
            "Members of producer groups.",
            ("producer_group", "language", "version"),
            lambda: _members({name: group.values() for name, group in sources.producers.groups.items()}),
        ),
        Figure(
            "pyromq_subscription_conflict_members",
            "Members of a consumer group that subscribe differently from most of it.",
            ("consumer_group",),
            lambda: {(name,): conflict.member_count for name, conflict in sources.conflicts.lasting.items()},
        ),
        Figure("pyromq_connections", "Open connections.", (), lambda: {(): sources.count_links()}),
        Figure(
            "pyromq_held_pulls",
            "Pulls that wait for messages.",
            (),
            lambda: {(): sources.arrivals.held_count},
        ),
        Figure("pyromq_log_end_bytes", "Where the commit log ends.", (), lambda: {(): store.max_position}),
        Figure(
            "rocketmq_storage_flush_behind_bytes",
            "Bytes at the end of the commit log that the disk may not have yet.",
            (),
            lambda: {(): store.max_position - store.flushed_position},
        ),
    ]


class MetricsPage:
    """Serves figures over HTTP while it is started; a collector in the sense of prometheus-client."""

    def __init__(self, figures: list[Figure], labels: Mapping[str, str]) -> None:
        self._figures = figures
        self._labels = dict(labels)
        self._loop = asyncio.get_running_loop()
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that is listened on; known once it is started."""
        assert self._server is not None
        return self._server.server_port

    async def start(self, host: str, port: int) -> None:
        """Listen; raise ListenFailed if that cannot be."""
        try:
            await asyncio.to_thread(self._listen, host, port)
        except OSError as error:
            raise ListenFailed(
                f"metrics cannot be served on {join_address(host, port)}: {error.strerror or error}; "
                "choose another metricsPromExporterPort or metricsPromExporterHost"
            ) from error

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await asyncio.to_thread(self._stop, self._server)

    def collect(self) -> "Iterator[GaugeMetricFamily]":
        """Read all figures; called by the thread that writes a page."""
        from prometheus_client.core import GaugeMetricFamily

        read = asyncio.run_coroutine_threadsafe(self._read(), self._loop).result(TURN_S_MAX)
        for figure, values in zip(self._figures, read, strict=True):
            family = GaugeMetricFamily(figure.name, figure.about, labels=[*self._labels, *figure.labels])
            for label_values, value in values.items():
                family.add_metric([*self._labels.values(), *label_values], value)
            yield family

    async def _read(self) -> list[Values]:
        return [figure.read() for figure in self._figures]

    def _listen(self, host: str, port: int) -> None:
        # Only now: a broker without metrics need not load it.
        from prometheus_client import CollectorRegistry, start_http_server

        # Described by what it collects only when it is asked: here, the loop waits for this very thread.
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        self._server, self._thread = start_http_server(port, host, registry)

    def _stop(self, server: WSGIServer) -> None:
        server.shutdown()
        server.server_close()
        if self._thread is not None:
            self._thread.join()


async def start_metrics(
    settings: BrokerSettings, sources: Sources, more: Iterable[Figure] = ()
) -> MetricsPage | None:
    """Serve a broker's metrics, and `more` of them, if its settings want that."""
    kind = settings.metrics_exporter_type
    if kind == MetricsExporterType.DISABLE:
        return None
    if kind != MetricsExporterType.PROM:
        log.warning("metricsExporterType=%s has no effect here; PROM serves metrics to Prometheus", kind)
        return None
    page = MetricsPage(
        [*broker_figures(sources), *more],
        {
            "cluster": settings.broker_cluster_name,
            "node_type": "broker",
            "node_id": settings.broker_name,
        },
    )
    host = settings.metrics_prom_exporter_host or LOOPBACK
    await page.start(host, settings.metrics_prom_exporter_port)
    log.info("metrics at http://%s/metrics", join_address(host, page.port))
    return page


def _members(groups: Mapping[str, Iterable[Client]]) -> Values:
    counted: Counter[tuple[str, ...]] = Counter()
    for name, members in groups.items():
        counted.update((name, _language(member), str(member.version)) for member in members)
    return counted


def _language(client: Client) -> str:
    try:
        return Language(client.language).name.lower()
    except ValueError:
        return str(client.language)
