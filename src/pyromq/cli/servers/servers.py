"""The name server's command, and the parts of a start that all servers share."""

import dataclasses
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyromq.cli import output
from pyromq.cli.servers.dashboard_child import NO_DASHBOARD, Beside
from pyromq.cli.servers.data_folder import default_folder, prepare
from pyromq.cli.servers.serve import Vitals, serve
from pyromq.clock import SystemClock
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.settings import NamesrvProcess, NetSettings
from pyromq.errors import ListenFailed
from pyromq.kernel import describe
from pyromq.net.address import join_address, split_address
from pyromq.net.loop import run as run_loop

if TYPE_CHECKING:
    from pyromq.broker.broker import Broker
    from pyromq.broker.failover.supervisor import Supervisor
    from pyromq.namesrv.namesrv import NameServer

#: An address that means every address of the machine → the one by which the machine reaches itself.
LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The start of a server's command: its data folder, and the way it reports that it is ready."""

    version: str
    folder: Path | None
    ready_file: Path | None
    is_json: bool
    #: Stop when standard input ends, as with the process that holds the other end.
    until_stdin_ends: bool = False
    dashboard: Beside = NO_DASHBOARD
    #: Whether the port for gRPC was asked for, or is RocketMQ's for want of another.
    is_grpc_asked: bool = False

    @property
    def data_folder(self) -> Path:
        """The folder for all data: the one given, or the user's own."""
        return self.folder or default_folder(os.environ)

    def with_dashboard(self, port: int | None, *, is_refused: bool) -> "Start":
        """Return a start with a dashboard; a program, which reads JSON, gets one when it asks for it."""
        is_for_people = not self.is_json and self.ready_file is None
        is_wanted = not is_refused and (port is not None or is_for_people)
        return dataclasses.replace(self, dashboard=Beside(is_wanted=is_wanted, port=port))

    def hello(self, **fields: object) -> dict[str, Any]:
        """Return what a program wants to know once the servers are ready; printed if it asked for it."""
        record = {
            "event": "ready",
            "version": self.version,
            "speed": describe(),
            "pid": os.getpid(),
            **fields,
        }
        if self.is_json:
            output.say_json(record)
        return record


def shown_page(url: str | None) -> dict[str, str]:
    """Return what a program is told of the dashboard, where there is one."""
    return {} if url is None else {"dashboard": url}


def metrics_of(server: "Broker | Supervisor | NameServer") -> str | None:
    """Return where a server's metrics are, if they are served."""
    return None if server.metrics is None else server.metrics.url


def shown_metrics(url: str | None) -> dict[str, str]:
    """Return what a program is told of the metrics, where they are served."""
    return {} if url is None else {"metrics": url}


def shown_grpc(server: "Broker | Supervisor") -> dict[str, str]:
    """Return what a program is told of the port for RocketMQ 5's SDKs, where there is one."""
    return {} if server.grpc.address is None else {"grpc": server.grpc.address}


def run_namesrv(process: NamesrvProcess, start: Start) -> None:
    """Serve a name server."""
    settings = with_key_values(process.namesrv, start)
    vitals = Vitals(port=settings.health_port, host=settings.health_host)

    async def begin(closing: AsyncExitStack) -> Mapping[str, Any]:
        name_server = await start_namesrv(settings, process.net, closing, option="-p")
        vitals.watch(name_server.health)
        address = join_address(settings.bind_address, name_server.port)
        metrics = metrics_of(name_server)
        if not start.is_json:
            observed = "" if metrics is None else f", metrics at {metrics}"
            output.say(
                f"name server ready at {address}, {describe()}{observed}; "
                f"next: pyromq broker -n {_near(address)}"
            )
        return start.hello(
            namesrv=address, data=str(Path(settings.kv_config_path).parent), **shown_metrics(metrics)
        )

    run_loop(serve(begin, start.ready_file, vitals=vitals))


async def start_namesrv(
    settings: NamesrvSettings, net: NetSettings, closing: AsyncExitStack, *, option: str
) -> "NameServer":
    """Start a name server; `option` is what its port is chosen with."""
    from pyromq.namesrv.namesrv import NameServer

    name_server = NameServer(settings, net, clock=SystemClock())
    try:
        await name_server.start()
    except ListenFailed as error:
        address = join_address(settings.bind_address, settings.listen_port)
        raise ListenFailed(port_taken("the name server", address, error, option)) from error
    closing.push_async_callback(name_server.close)
    return name_server


def port_taken(who: str, address: str, error: ListenFailed, option: str) -> str:
    """Return what to say when a server cannot listen; `option` chooses another port."""
    cause = error.__cause__
    reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(error)
    return (
        f"{who} cannot listen on {address}: {reason}; another server may be running there:"
        f" choose another port with {option} (0 takes a free one)"
    )


def with_key_values(settings: NamesrvSettings, start: Start) -> NamesrvSettings:
    """Return a name server's settings with a file for its key values, in the data folder if none is said."""
    if settings.kv_config_path:
        return settings
    path = prepare(start.data_folder / "namesrv") / "kvConfig.json"
    return dataclasses.replace(settings, kv_config_path=str(path))


def _near(address: str) -> str:
    host, port = split_address(address)
    return join_address(LOOPBACK_OF.get(host, host), port)
