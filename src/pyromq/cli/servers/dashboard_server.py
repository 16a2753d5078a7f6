"""`pyromq dashboard`: checks who may look, listens, says where it is, and serves until a signal comes."""

import dataclasses
import logging
import os
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from pyromq.cli import output
from pyromq.cli.credentials import client_settings
from pyromq.cli.servers.dashboard_child import is_installed
from pyromq.cli.servers.dashboard_commands import PASSWORD_VARIABLE
from pyromq.cli.servers.serve import Vitals, serve
from pyromq.errors import ConfigError
from pyromq.net.address import join_address
from pyromq.net.loop import run as run_loop


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The options of a dashboard's server: the cluster, the address, and who may use it."""

    name_server: str
    listen: str
    port: int
    is_read_only: bool
    password_file: Path | None
    host_names: frozenset[str]
    is_json: bool
    ready_file: Path | None
    #: The number of a socket that the parent has opened; it listens already.
    listener: int | None
    until_stdin_ends: bool
    #: Where the health pages are besides, on a thread; 0: nowhere.
    health_port: int
    health_host: str


def run_dashboard(serving: Serving) -> None:
    """Serve the page; raise ConfigError when it may not be served so."""
    if not is_installed():
        raise ConfigError("the dashboard needs an extra: pip install 'pyromq[dashboard]'")
    from pyromq.dashboard.app import Access
    from pyromq.dashboard.listening_socket import listen
    from pyromq.dashboard.security import is_loopback
    from pyromq.dashboard.web_server import DashboardServer

    # It tells of every connection of every page otherwise.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    password = _password(serving.password_file)
    if password is None and not is_loopback(serving.listen):
        raise ConfigError(
            f"--listen {serving.listen} opens the dashboard to other machines: give it a password, in "
            f"{PASSWORD_VARIABLE} or --password-file"
        )
    access = Access(
        password=password,
        host_names=frozenset({"localhost", *(name.casefold() for name in serving.host_names)}),
        is_read_only=serving.is_read_only,
    )
    settings = client_settings()
    vitals = Vitals(
        port=serving.health_port, host=serving.health_host, settings="--health-port or --health-host"
    )

    async def begin(closing: AsyncExitStack) -> Mapping[str, Any]:
        listener = (
            listen(serving.listen, serving.port)
            if serving.listener is None
            else socket.socket(fileno=serving.listener)
        )
        server = DashboardServer(serving.name_server, access, settings=settings)
        closing.push_async_callback(server.close)
        await server.start(listener)
        vitals.watch(server.health)
        url = f"http://{join_address(*listener.getsockname()[:2])}"
        hello = {"event": "ready", "url": url, "namesrv": serving.name_server, "pid": os.getpid()}
        if serving.is_json:
            output.say_json(hello)
        elif serving.listener is None:
            output.say(_greeting(url, serving, has_password=password is not None))
        return hello

    run_loop(serve(begin, serving.ready_file, until_stdin_ends=serving.until_stdin_ends, vitals=vitals))


def _greeting(url: str, serving: Serving, *, has_password: bool) -> str:
    who = "with the password" if has_password else "for everybody on this machine (no password is set)"
    what = "read only" if serving.is_read_only else "can change topics, groups and offsets"
    return f"dashboard ready at {url} for the cluster of {serving.name_server}, {who}, {what}"


def _password(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(PASSWORD_VARIABLE) or None
    lines = file.read_text(encoding="utf-8").splitlines()
    if not lines or not lines[0]:
        raise ConfigError(f"--password-file {file}: its first line is empty; write the password there")
    return lines[0]
