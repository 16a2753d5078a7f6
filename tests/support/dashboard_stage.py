"""A cluster with a dashboard, on threads, for tests that look at it through a browser or by HTTP."""

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen

from pyromq.config.settings import ClientSettings
from pyromq.dashboard.app import Access
from pyromq.dashboard.server import DashboardServer, listen
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
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="dashboard", daemon=True)
    thread.start()

    def carry_out(step: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(step, loop).result(30)

    listener = listen("127.0.0.1", port)
    port = listener.getsockname()[1]

    async def make() -> DashboardServer:
        server = DashboardServer(
            name_server, access or Access(), settings=settings, round_s=round_s, watch_s=WATCH_S
        )
        await server.start(listener)
        return server

    server = carry_out(make())
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: _rounds(url) >= 1, 30, what="the dashboard has looked at the cluster")
        yield url
    finally:
        carry_out(server.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def _rounds(url: str) -> int:
    with urlopen(f"{url}/healthz", timeout=10) as answer:
        return int(json.loads(answer.read())["rounds"])
