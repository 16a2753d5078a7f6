"""Builds a name server, runs it, ends it.

    net/server.py ──► namesrv_routes.py ──► handlers.py ──► route_table.py   who serves which topic
                                                    key_values.py    what outlives a restart

A broker is gone when its connection ends, or when it was silent for `brokerChannelExpiredTime`; a look every
`scanNotActiveBrokerInterval` finds the latter. Nothing is told to clients: they ask.
"""

import asyncio
import logging
from pathlib import Path

from pyromq.clock import Clock
from pyromq.config.choices import MetricsExporterType
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.settings import NamesrvProcess, NetSettings
from pyromq.errors import ListenFailed
from pyromq.namesrv.handlers import BrokerHandlers, KeyValueHandlers, RouteHandlers, SettingsHandlers
from pyromq.namesrv.key_values import KeyValues
from pyromq.namesrv.namesrv_live_settings import NamesrvLiveSettings
from pyromq.namesrv.namesrv_metrics import namesrv_figures, start_metrics
from pyromq.namesrv.namesrv_routes import namesrv_routes, unanswered
from pyromq.namesrv.route_table import RouteTable
from pyromq.net import routes as net_routes
from pyromq.net.address import join_address
from pyromq.net.latency import RequestTimes
from pyromq.net.link import Link
from pyromq.net.metrics import MetricsPage
from pyromq.net.process_health import HealthCheck
from pyromq.net.server import Server

_log = logging.getLogger("pyromq.namesrv")


class NameServer:
    """One name server. `address` and `port` are known once it is started."""

    def __init__(self, settings: NamesrvSettings, net: NetSettings, *, clock: Clock) -> None:
        self.address = ""
        self.port = 0
        self._clock = clock
        self._settings = NamesrvLiveSettings(NamesrvProcess(namesrv=settings, net=net))
        self._key_values = KeyValues(Path(settings.kv_config_path) if settings.kv_config_path else None)
        self._table = RouteTable()
        self._scan: asyncio.TimerHandle | None = None
        routes = namesrv_routes(
            brokers=BrokerHandlers(self._table, self._key_values, clock),
            routes=RouteHandlers(self._table, self._key_values, self._settings),
            key_values=KeyValueHandlers(self._key_values),
            settings=SettingsHandlers(self._settings),
        )
        served = net_routes.RequestTable(routes, unknown=unanswered)
        #: Where metrics are served, if they are.
        self.metrics: MetricsPage | None = None
        self._times = RequestTimes()
        if settings.metrics_exporter_type == MetricsExporterType.PROM:
            self._times.time_routes(served)
        self._server = Server(
            served,
            net,
            clock=clock,
            name="name server",
            on_link_closed=self._drop_link,
        )

    def health(self) -> list[HealthCheck]:
        """Find out whether it is ready for brokers and clients."""
        return [
            HealthCheck("name_server", None if self._scan is not None else "the name server starts, or stops")
        ]

    async def start(self) -> None:
        """Read what was kept, and listen; raise ConfigError, CorruptRecord or ListenFailed."""
        self._settings.load()
        self._key_values.load()
        settings = self._settings.now.namesrv
        host, self.port = await self._server.start(settings.bind_address, settings.listen_port)
        self.address = join_address(host, self.port)
        try:
            self.metrics = await start_metrics(
                settings,
                namesrv_figures(self._table, self._server, self._clock),
                self._times,
                address=self.address,
                health=self.health,
            )
        except ListenFailed:
            await self._server.close()
            raise
        self._plan_scan()
        _log.info("name server listens on %s", self.address)

    async def close(self) -> None:
        """End all connections and stop listening."""
        if self._scan is not None:
            self._scan.cancel()
            self._scan = None
        if self.metrics is not None:
            await self.metrics.close()
        await self._server.close()

    def drop_silent(self) -> None:
        """Forget the brokers that fell silent, and end their connections."""
        silence_s = self._settings.now.namesrv.broker_channel_expired_time / 1000
        gone = self._table.drop_silent(now_s=self._clock.monotonic(), silence_s=silence_s)
        for address, link in gone.items():
            _log.warning("broker at %s was silent for %.0f s; dropped", address, silence_s)
            assert isinstance(link, Link)
            link.close()

    def _drop_link(self, link: Link) -> None:
        for address in self._table.drop_link(link):
            _log.info("the connection of the broker at %s ended; dropped", address)

    def _plan_scan(self) -> None:
        interval_s = self._settings.now.namesrv.scan_not_active_broker_interval / 1000
        self._scan = asyncio.get_running_loop().call_later(interval_s, self._scan_now)

    def _scan_now(self) -> None:
        self._plan_scan()
        self.drop_silent()
