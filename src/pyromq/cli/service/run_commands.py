"""The command that runs an application: `pyromq run`."""

from pathlib import Path
from typing import Annotated

import typer

from pyromq.cli import options
from pyromq.cli.plain_options import LogLevel
from pyromq.config.field import PORT_MAX

WORKERS_MAX = 256
METRICS = "Metrics"


Target = Annotated[
    str,
    typer.Argument(metavar="MODULE:APP", help="The module and the name of its pyromq.App, `app` by default."),
]
Workers = Annotated[
    int, typer.Option("-w", "--workers", metavar="N", min=1, max=WORKERS_MAX, help="Processes.")
]
Reload = Annotated[bool, typer.Option("--reload", help="Start the workers anew when a Python file changes.")]
ReloadFolders = Annotated[
    list[Path] | None,
    typer.Option(
        "--reload-dir", metavar="DIR", help="Where files are watched; may be repeated. [default: here]"
    ),
]
NameServer = Annotated[
    str | None,
    typer.Option("-n", "--namesrv", metavar="HOST:PORT", help="Name servers, for an App that names none."),
]
Grace = Annotated[
    float, typer.Option("--grace", metavar="S", min=0.0, help="Seconds that handlers have to end at a stop.")
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="N",
        min=0,
        max=PORT_MAX,
        help="Serve metrics for Prometheus; each further worker takes the next port. 0: free ones.",
        rich_help_panel=METRICS,
    ),
]
MetricsHost = Annotated[
    str,
    typer.Option(
        "--metrics-host", metavar="ADDRESS", help="Address of the metrics.", rich_help_panel=METRICS
    ),
]


def run(
    *,
    target: Target,
    workers: Workers = 1,
    reload: Reload = False,
    reload_folders: ReloadFolders = None,
    name_server: NameServer = None,
    grace: Grace = 30.0,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    as_json: options.Json = False,
    ready_file: options.ReadyFile = None,
    log_level: options.Logging = LogLevel.INFO,
    until_stdin_ends: Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)] = False,
) -> None:
    """Run the handlers of an application: consume, publish, restart what ends, stop in order.

    MODULE is imported from the folder that you are in, or from the path. At SIGTERM or Ctrl-C no further
    message is taken, handlers that run end, and what is done is committed.
    """
    import os

    from pyromq.cli.servers import serve
    from pyromq.cli.service.app_worker import RunOptions, run_worker

    serve.log_to_standard_error(log_level)
    if name_server is not None:
        # For this process and its workers.
        os.environ["NAMESRV_ADDR"] = name_server
    service = RunOptions(
        target=target,
        workers=workers,
        is_reloading=reload,
        reload_folders=tuple(reload_folders or ()),
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        grace_s=grace,
        is_json=as_json,
        ready_file=ready_file,
        log_level=log_level.value,
        until_stdin_ends=until_stdin_ends,
    )
    if workers == 1 and not reload:
        run_worker(service)
        return
    from pyromq.cli.service.worker_fleet import run_workers

    run_workers(service)
