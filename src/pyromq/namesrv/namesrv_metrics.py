"""Prometheus metrics of a name server. RocketMQ's has none, so these names are ours."""

import logging

from pyromq.clock import Clock
from pyromq.config.choices import MetricsExporterType
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.namesrv.route_table import RouteTable
from pyromq.net.latency import RequestTimes
from pyromq.net.metrics import Figure, MetricsPage, build_info
from pyromq.net.process_health import HealthChecks
from pyromq.net.server import Server
from pyromq.net.status_server import LOOPBACK

log = logging.getLogger(__name__)


def namesrv_figures(table: RouteTable, server: Server, clock: Clock) -> list[Figure]:
    """Return all that there is to see of a name server."""
    return [
        build_info(),
        Figure(
            "pyromq_namesrv_brokers",
            "Brokers that are registered, masters and slaves.",
            ("cluster",),
            lambda: {(cluster,): count for cluster, count in table.count_brokers().items()},
        ),
        Figure("pyromq_namesrv_topics", "Topics that have a route.", (), lambda: {(): table.topic_count}),
        Figure(
            "pyromq_namesrv_broker_silence_seconds",
            "Seconds since a broker spoke.",
            ("address",),
            lambda: {
                (address,): silence_s for address, silence_s in table.silences(clock.monotonic()).items()
            },
        ),
        Figure("pyromq_connections", "Open connections.", (), lambda: {(): len(server.links)}),
    ]


async def start_metrics(
    settings: NamesrvSettings,
    figures: list[Figure],
    times: RequestTimes,
    *,
    address: str,
    health: HealthChecks,
) -> MetricsPage | None:
    """Serve a name server's metrics, if its settings want that."""
    kind = settings.metrics_exporter_type
    if kind == MetricsExporterType.DISABLE:
        return None
    if kind != MetricsExporterType.PROM:
        log.warning("metricsExporterType=%s has no effect here; PROM serves metrics to Prometheus", kind)
        return None
    page = MetricsPage(
        figures,
        {"node_type": "namesrv", "node_id": address},
        histograms=(times.histogram,),
        health=health,
    )
    host = settings.metrics_prom_exporter_host or LOOPBACK
    await page.start(host, settings.metrics_prom_exporter_port)
    log.info("metrics at %s", page.url)
    return page
