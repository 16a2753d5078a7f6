"""The dashboard beside `pyromq up`: a process of its own, so that looking costs the broker's loop nothing.

This process opens its port, so it is known at once whether it is free, and a browser that comes early waits.
The other one serves there; it lives no longer than this one, for its standard input ends with it.
"""

import asyncio
import importlib.util
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass

from pyromq.cli import output
from pyromq.errors import ConfigError, ListenFailed

LOOPBACK = "127.0.0.1"
#: Where the page is unless told otherwise; RocketMQ's own dashboard has 8080, as have many others.
DEFAULT_PORT = 9870
#: Seconds that it has to stop before it is killed.
STOP_S_MAX = 10.0

_NEEDED = ("starlette", "uvicorn")


def is_installed() -> bool:
    """Return whether the extra `dashboard` is there."""
    return all(importlib.util.find_spec(name) is not None for name in _NEEDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Whether a dashboard is wanted, and where."""

    is_wanted: bool = True
    #: None: the usual port, if it is free.
    port: int | None = None

    @property
    def hint(self) -> str | None:
        """The advice how to get a dashboard that is wanted and was not started; None when none is wanted."""
        if not self.is_wanted:
            return None
        if not is_installed():
            return "on a web page, after: pip install 'pyromq[dashboard]'"
        return f"on a web page: port {DEFAULT_PORT} is taken, --dashboard-port chooses another"

    async def start(self, name_server: str, closing: AsyncExitStack) -> str | None:
        """Start one for the cluster of a name server and return its address; None where there is none."""
        if not self.is_wanted:
            return None
        if not is_installed():
            if self.port is not None:
                raise ConfigError("--dashboard-port needs an extra: pip install 'pyromq[dashboard]'")
            return None
        from pyromq.dashboard.listening_socket import listen

        try:
            listener = listen(LOOPBACK, DEFAULT_PORT if self.port is None else self.port)
        except ListenFailed:
            if self.port is not None:
                raise
            return None
        with listener:
            port = listener.getsockname()[1]
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "pyromq", "dashboard", "-n", name_server),
                *("--listener", str(listener.fileno()), "--until-stdin-ends", "--log-level", "warning"),
                # The health port of the settings is the servers'.
                *("--health-port", "0"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=[listener.fileno()],
                # Ctrl-C is for this process.
                start_new_session=True,
            )
        relaying = asyncio.create_task(_relay(process))
        closing.push_async_callback(_stop, process, relaying)
        return f"http://{LOOPBACK}:{port}"


NO_DASHBOARD = Beside(is_wanted=False)


async def _relay(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    while line := await process.stderr.readline():
        sys.stderr.write(f"dashboard: {line.decode('utf-8', 'replace')}")
        sys.stderr.flush()


async def _stop(process: asyncio.subprocess.Process, relaying: asyncio.Task[None]) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(STOP_S_MAX):
                await process.wait()
        except TimeoutError:
            output.warn(f"the dashboard does not stop within {STOP_S_MAX:.0f} s: it is killed")
            process.kill()
    await process.wait()
    await asyncio.wait({relaying})
