"""One worker: this process starts the application, and closes it when a signal comes."""

import json
import logging
import os
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pyromq.app.application import App
from pyromq.cli import output
from pyromq.cli.servers.serve import Vitals, serve
from pyromq.cli.service.target import load_app
from pyromq.net.loop import run as run_loop
from pyromq.net.metrics import MetricsPage, build_info
from pyromq.release import VERSION

log = logging.getLogger("pyromq.app")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `pyromq run`."""

    target: str
    workers: int = 1
    is_reloading: bool = False
    reload_folders: tuple[Path, ...] = ()
    metrics_host: str = "127.0.0.1"
    #: None: no metrics are served; 0: on a free port. Each further worker has the next port.
    metrics_port: int | None = None
    #: Seconds that handlers have to end when the service stops.
    grace_s: float = 30.0
    is_json: bool = False
    ready_file: Path | None = None
    log_level: str = "info"
    until_stdin_ends: bool = False


def run_worker(service: RunOptions) -> None:
    """Run the application in this process until a signal comes."""
    hello_to = _own_standard_output() if service.until_stdin_ends else None
    app = load_app(service.target)
    app.grace_s = service.grace_s
    vitals = Vitals()

    async def begin(closing: AsyncExitStack) -> Mapping[str, Any]:
        await closing.enter_async_context(app)
        url = await _serve_metrics(app, service, vitals, closing)
        handlers = [
            {"handler": each.name, "topic": each.terms.topic, "group": each.terms.group}
            for each in app.handlers
        ]
        hello = {"application": app.name, "pid": os.getpid(), "handlers": handlers, "metrics": url}
        if hello_to is not None:
            hello_to.write(json.dumps(hello) + "\n")
            hello_to.flush()
        elif service.is_json:
            output.say_json(hello)
        else:
            greet(hello, workers=1)
        return hello

    run_loop(serve(begin, service.ready_file, until_stdin_ends=service.until_stdin_ends, vitals=vitals))


def _own_standard_output() -> IO[str]:
    """Return standard output, for the hello alone; what handlers print goes to standard error from now on.

    Whoever watches the workers reads one line there, and shows the other with the worker's name.
    """
    hello_to = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return hello_to


def greet(hello: Mapping[str, Any], *, workers: int) -> None:
    """Print what runs."""
    output.say("")
    output.say(
        f"  {output.paint(hello['application'], 'bold')} runs   PyroMQ {VERSION}, {_worker_count(workers)}"
    )
    output.say("")
    for each in hello["handlers"]:
        output.say(f"  {each['handler']}   {each['topic']} → group {each['group']}")
    if hello.get("metrics"):
        output.say(f"  metrics   {hello['metrics']}")
    output.say("")
    output.say(output.paint("  Ctrl-C stops it, after the handlers that run.", "dim"))
    output.say("")


def _worker_count(workers: int) -> str:
    return "1 worker" if workers == 1 else f"{workers} workers"


async def _serve_metrics(
    app: App, service: RunOptions, vitals: Vitals, closing: AsyncExitStack
) -> str | None:
    if service.metrics_port is None:
        return None
    page = MetricsPage(
        [build_info(), *app.metrics.figures()],
        {"node_type": "application", "node_id": app.name},
        histograms=[app.metrics.seconds],
        health=vitals.look,
    )
    await page.start(service.metrics_host, service.metrics_port)
    closing.push_async_callback(page.close)
    return page.url
