"""Serves a dashboard on the running loop, until it is closed."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from pyromq.client.aio.asking import Asker
from pyromq.config.settings import ClientSettings
from pyromq.dashboard.app import Access, Dashboard
from pyromq.dashboard.health import Examiner
from pyromq.dashboard.sampler import ROUND_S, Sampler
from pyromq.doctor.survey import WATCH_S
from pyromq.net.process_health import HealthCheck

#: Seconds that answers in flight have when the server stops.
_STOP_S = 2


class _Uvicorn(uvicorn.Server):
    """Uvicorn that leaves signals to the program it is part of."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class DashboardServer:
    """A dashboard for one cluster at one address."""

    def __init__(
        self,
        name_server: str,
        access: Access,
        *,
        settings: ClientSettings | None = None,
        round_s: float = ROUND_S,
        watch_s: float = WATCH_S,
    ) -> None:
        self._asker = Asker(name_server, settings)
        self._sampler = Sampler(self._asker, round_s=round_s)
        self._examiner = Examiner(self._asker, self._sampler.picture, watch_s=watch_s)
        self._dashboard = Dashboard(self._asker, self._sampler, self._examiner, access)
        self._uvicorn: _Uvicorn | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self, listener: socket.socket) -> None:
        """Serve on a socket that listens already; `close` closes it."""
        await self._asker.start()
        await self._sampler.start()
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                self._dashboard.app(),
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_STOP_S,
            )
        )
        self._serving = asyncio.create_task(self._uvicorn.serve(sockets=[listener]), name="pyromq-dashboard")

    def health(self) -> list[HealthCheck]:
        """Find out how the dashboard is, on the loop."""
        if self._serving is None or self._serving.done():
            return [HealthCheck("serving", "its web server has ended", needs_restart=True)]
        return self._dashboard.checks()

    async def close(self) -> None:
        """Stop: first the streams, then answers in flight, then the questions to the cluster."""
        self._dashboard.stop_streams()
        if self._uvicorn is not None and self._serving is not None:
            self._uvicorn.should_exit = True
            await asyncio.wait({self._serving})
        await self._examiner.close()
        await self._sampler.close()
        await self._asker.close()
