"""The numbers of a broker: counts of its traffic, and the page of metrics for Prometheus where it is wanted.

`BrokerMetrics` is the one door of this package. Other packages describe their metrics as figures; the broker
hands them to `serve`.
"""

import logging
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from pyromq.broker.background import Background
from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.metrics.stats import SAMPLE_S, BrokerStats
from pyromq.clock import Clock
from pyromq.config.choices import MetricsExporterType
from pyromq.config.settings import BrokerSettings
from pyromq.net.routes import RequestTable
from pyromq.store.store import MessageStore

if TYPE_CHECKING:
    from pyromq.broker.metrics.exposition import Observed
    from pyromq.broker.metrics.metrics_lag import Lags
    from pyromq.net.latency import RequestTimes
    from pyromq.net.metrics import Figure, MetricsPage
    from pyromq.net.process_health import HealthChecks

log = logging.getLogger(__name__)


class BrokerMetrics:
    """The counts of one broker, and its histograms and its page if the settings want them."""

    def __init__(self, store: MessageStore, settings: BrokerSettings, clock: Clock) -> None:
        self._settings = settings
        self.stats = BrokerStats(store, clock, cluster=settings.broker_cluster_name)
        #: The histograms; None where no metrics are served.
        self._observed = _new_observed() if _are_wanted(settings) else None
        #: The page, while it is served.
        self.page: MetricsPage | None = None

    @property
    def is_served(self) -> bool:
        """Whether the settings want the page of metrics."""
        return self._observed is not None

    @property
    def request_times(self) -> "RequestTimes | None":
        """The histogram of request durations; None where no metrics are served."""
        return None if self._observed is None else self._observed.requests

    def watch(self, durability: Durability, table: RequestTable) -> None:
        """Observe syncs, waits, message sizes and the requests of a table, if metrics are served."""
        if self._observed is not None:
            self._observed.watch(durability, self.stats)
            self._observed.requests.time_routes(table)

    def run_jobs(self, background: Background) -> None:
        """Count messages from now on."""
        background.every("count messages", SAMPLE_S, self.stats.sample)

    async def serve(
        self, figures: "Iterable[Figure]", lags: "Lags", health: "HealthChecks", closing: AsyncExitStack
    ) -> None:
        """Serve the page of metrics, which the settings want, until `closing` is; beside it the health."""
        from pyromq.net.metrics import MetricsPage, build_info
        from pyromq.net.status_server import LOOPBACK

        assert self._observed is not None
        settings = self._settings
        page = MetricsPage(
            [build_info(), *figures, *lags.figures()],
            {
                "cluster": settings.broker_cluster_name,
                "node_type": "broker",
                "node_id": settings.broker_name,
            },
            histograms=self._observed.histograms,
            prepare=(lags.look,),
            series_max=settings.metrics_otel_cardinality_limit,
            health=health,
        )
        host = settings.metrics_prom_exporter_host or LOOPBACK
        await page.start(host, settings.metrics_prom_exporter_port)
        self.page = page
        closing.push_async_callback(page.close)
        log.info("metrics at %s", page.url)


def _are_wanted(settings: BrokerSettings) -> bool:
    """Whether a broker's metrics are to be served; an exporter that PyroMQ does not have is logged."""
    kind = settings.metrics_exporter_type
    if kind not in (MetricsExporterType.PROM, MetricsExporterType.DISABLE):
        log.warning("metricsExporterType=%s has no effect here; PROM serves metrics to Prometheus", kind)
    return kind == MetricsExporterType.PROM


def _new_observed() -> "Observed":
    # Only now: a broker that serves no metrics does without their modules.
    from pyromq.broker.metrics.exposition import Observed

    return Observed()
