"""A cluster with a dashboard, on threads, for tests that look at it through a browser or by HTTP."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.error import HTTPError
from urllib.request import urlopen

from loop_thread import loop_thread

from pyromq.config.settings import ClientSettings
from pyromq.dashboard.app import Access
from pyromq.dashboard.listening_socket import listen
from pyromq.dashboard.web_server import DashboardServer
from pyromq.testing.waiting import eventually

#: Seconds between looks at the cluster: tests do not wait for two.
ROUND_S = 0.2
#: Seconds that an examination looks at what moves.
WATCH_S = 0.5


@contextmanager
def dashboard(
    name_server: str,
    access: Access | None = None,
    *,
    settings: ClientSettings | None = None,
    round_s: float = ROUND_S,
    port: int = 0,
) -> Iterator[str]:
    """Serve a dashboard on a thread for the block; its address, when it has looked once."""
    listener = listen("127.0.0.1", port)
    url = "http://{}:{}".format(*listener.getsockname()[:2])

    @asynccontextmanager
    async def served() -> AsyncIterator[None]:
        server = DashboardServer(
            name_server, access or Access(), settings=settings, round_s=round_s, watch_s=WATCH_S
        )
        await server.start(listener)
        yield
        await server.close()

    with loop_thread() as thread:
        thread.enter(served())
        eventually(lambda: _is_ready(url), 60, what="the dashboard has looked at the cluster")
        yield url


def _is_ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/health/ready", timeout=60):
            return True
    except HTTPError as error:
        with error:
            if error.code != 503:
                raise
            return False
