"""Run servers until a signal comes; a service manager and the health pages are told how they are meanwhile.

A first SIGTERM or SIGINT stops everything in order, and the program ends with status 0. A second one is for
those who cannot wait: it ends the process as it would any other.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyromq.cli import output
from pyromq.cli.servers.service_manager import SystemdNotices
from pyromq.net.process_health import READY, HealthCheck, HealthChecks, ProcessHealth
from pyromq.net.status_server import LOOPBACK, StatusServer

#: Starts servers, leaves their `close` on the stack, says hello, and returns what the ready file holds.
Start = Callable[[AsyncExitStack], Awaitable[Mapping[str, Any]]]

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_STDIN_BYTES = 4096


@dataclass(slots=True, kw_only=True)
class Vitals:
    """The health of the servers of this process, and where it is served, if it is."""

    #: 0: nowhere.
    port: int = 0
    host: str = LOOPBACK
    #: What chooses another port.
    settings: str = "healthPort or healthHost"
    parts: list[HealthChecks] = field(default_factory=list)
    is_started: bool = False

    def watch(self, part: HealthChecks) -> None:
        """Count on a server's findings, too."""
        self.parts.append(part)

    def look(self) -> list[HealthCheck]:
        """Find out how all servers are."""
        if not self.is_started:
            return [HealthCheck("serving", "the process starts, or stops")]
        return [finding for part in self.parts for finding in part()] or [HealthCheck("serving")]


def log_to_standard_error(level: str) -> None:
    """Set the program's logging up."""
    logging.basicConfig(
        stream=sys.stderr,
        level=level.upper(),
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
    )


async def serve(
    start: Start,
    ready_file: Path | None,
    *,
    until_stdin_ends: bool = False,
    vitals: Vitals | None = None,
) -> None:
    """Start, wait for a signal, and close what was started, the last first.

    The end of standard input may count as one: it comes when the process at its other end is gone. `vitals`
    is what `start` has watched.
    """
    vitals = vitals or Vitals()
    output.outlive_reader()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if until_stdin_ends:
        loop.add_reader(sys.stdin.fileno(), _on_stdin, loop, stop)
    for number in _SIGNALS:
        loop.add_signal_handler(number, _on_signal, loop, stop)
    manager = SystemdNotices(os.environ)
    async with AsyncExitStack() as closing:
        health = ProcessHealth(vitals.look)
        manager.watch(health.look, closing)
        await _serve_health(vitals, health, closing)
        hello = await start(closing)
        # Modules and tables stay: a collection that walks over all of them takes tens of milliseconds.
        gc.freeze()
        closing.callback(gc.unfreeze)
        vitals.is_started = True
        manager.is_ready("ready")
        if ready_file is not None:
            closing.callback(ready_file.unlink, missing_ok=True)
            _write_whole(ready_file, hello)
        await stop.wait()
        vitals.is_started = False
        manager.stops()


async def _serve_health(vitals: Vitals, health: ProcessHealth, closing: AsyncExitStack) -> None:
    """Serve the health pages while the servers start, run and stop, if a port was said."""
    if not vitals.port:
        return
    server = StatusServer(health.pages())
    await server.start(vitals.host, vitals.port, what="health", settings=vitals.settings)
    closing.push_async_callback(server.close)
    log.info("health at %s%s", server.url, READY)


def _on_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), _STDIN_BYTES):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()


def _on_signal(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    stop.set()
    for number in _SIGNALS:
        loop.remove_signal_handler(number)


def _write_whole(path: Path, record: Mapping[str, Any]) -> None:
    """Write a file so that whoever sees it sees all of it."""
    # Only now: few ask for such a file.
    import json

    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(record) + "\n")
    beside.replace(path)
