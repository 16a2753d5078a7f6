"""The command that serves the web page: `pyromq dashboard`."""

from pathlib import Path
from typing import Annotated

import typer

from pyromq.cli import options
from pyromq.cli.plain_options import LogLevel
from pyromq.cli.servers.dashboard_child import DEFAULT_PORT
from pyromq.config.field import PORT_MAX

#: The password, if there is one. Not an option: other users of the machine would see it.
PASSWORD_VARIABLE = "PYROMQ_DASHBOARD_PASSWORD"
ACCESS = "Who may look and change"

PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help=f"A file with the password in its first line; or set {PASSWORD_VARIABLE}.",
        rich_help_panel=ACCESS,
    ),
]
HealthPort = Annotated[
    int,
    typer.Option(
        "--health-port",
        metavar="N",
        min=0,
        max=PORT_MAX,
        envvar="PYROMQ_HEALTH_PORT",
        help="A port for the health pages alone, which are beside the others anyway; 0: none.",
    ),
]
HealthHost = Annotated[
    str,
    typer.Option(
        "--health-host", metavar="ADDRESS", envvar="PYROMQ_HEALTH_HOST", help="Address of that port."
    ),
]


def dashboard(
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    port: Annotated[
        int, typer.Option("-p", "--port", metavar="N", min=0, max=PORT_MAX, help="Port; 0: a free one.")
    ] = DEFAULT_PORT,
    listen: Annotated[
        str,
        typer.Option("--listen", metavar="ADDRESS", help="Address to listen on; others need a password."),
    ] = "127.0.0.1",
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Look only: nothing can be changed.", rich_help_panel=ACCESS)
    ] = False,
    password_file: PasswordFile = None,
    host_names: Annotated[
        list[str] | None,
        typer.Option(
            "--host-name",
            metavar="NAME",
            help="A name that browsers call it by, besides addresses; may be repeated.",
            rich_help_panel=ACCESS,
        ),
    ] = None,
    health_port: HealthPort = 0,
    health_host: HealthHost = "127.0.0.1",
    as_json: options.Json = False,
    ready_file: options.ReadyFile = None,
    log_level: options.Logging = LogLevel.INFO,
    listener: Annotated[int | None, typer.Option("--listener", hidden=True)] = None,
    until_stdin_ends: Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)] = False,
) -> None:
    """Serve a live web page for a cluster, ours or Apache's: look, find messages, replay, change.

    Needs the extra: pip install 'pyromq\\[dashboard]'. On this machine only, unless you say --listen, which
    needs a password. For brokers with accounts or TLS set PYROMQ_ACCESS_KEY, PYROMQ_SECRET_KEY and
    PYROMQ_USE_TLS, or PYROMQ_CREDENTIALS to a file with the keys.
    """
    from pyromq.cli.servers import dashboard_server, serve

    serve.log_to_standard_error(log_level)
    dashboard_server.run_dashboard(
        dashboard_server.Serving(
            name_server=name_server,
            listen=listen,
            port=port,
            is_read_only=read_only,
            password_file=password_file,
            host_names=frozenset(host_names or ()),
            is_json=as_json,
            ready_file=ready_file,
            listener=listener,
            until_stdin_ends=until_stdin_ends,
            health_port=health_port,
            health_host=health_host,
        )
    )
