"""The servers' commands: build them from their settings, start them, say hello."""

import dataclasses
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyromq.broker.addresses import settle_addresses
from pyromq.broker.broker import Broker
from pyromq.cli import greeting, output
from pyromq.cli.dashboard_child import NO_DASHBOARD, Beside
from pyromq.cli.data_folder import default_folder, prepare
from pyromq.cli.serve import serve
from pyromq.clock import SystemClock
from pyromq.config.settings import (
    BrokerProcess,
    BrokerSettings,
    NamesrvProcess,
    NamesrvSettings,
    NetSettings,
    UpProcess,
)
from pyromq.errors import ListenFailed
from pyromq.kernel import describe
from pyromq.net.address import join_address, split_address
from pyromq.net.discovery import domain_url
from pyromq.net.loop import run as run_loop

if TYPE_CHECKING:
    from pyromq.broker.failover.supervisor import Supervisor
    from pyromq.namesrv.namesrv import NameServer

#: An address that means every address of the machine → the one by which the machine reaches itself.
LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a server's command starts: on which data, and how it says that it is ready."""

    version: str
    folder: Path | None
    ready_file: Path | None
    is_json: bool
    #: Stop when standard input ends, as with the process that holds the other end.
    until_stdin_ends: bool = False
    dashboard: Beside = NO_DASHBOARD

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


def with_name_server_at(process: UpProcess, port: int | None) -> UpProcess:
    """Return the settings with the name server beside the broker: same address, a port of its own.

    Raises ConfigError when the broker would tell clients an address on which it does not listen.
    """
    process = dataclasses.replace(process, broker=settle_addresses(process.broker))
    namesrv = dataclasses.replace(process.namesrv, bind_address=process.broker.bind_address)
    if port is not None:
        namesrv = dataclasses.replace(namesrv, listen_port=port)
    return dataclasses.replace(process, namesrv=namesrv)


def run_up(process: UpProcess, start: Start) -> None:
    """Serve a name server and a broker in this process."""
    namesrv = with_key_values(process.namesrv, start)
    broker = _with_store(
        BrokerProcess(broker=process.broker, pressure=process.pressure, store=process.store, net=process.net),
        start,
    )

    async def begin(closing: AsyncExitStack) -> Mapping[str, Any]:
        name_server = await start_namesrv(namesrv, process.net, closing, option="--namesrv-port")
        host = LOOPBACK_OF.get(namesrv.bind_address, namesrv.bind_address)
        near = dataclasses.replace(broker.broker, namesrv_addr=join_address(host, name_server.port))
        server = await _start_broker(
            dataclasses.replace(broker, broker=near), closing, option="--broker-port"
        )
        shown = join_address(split_address(server.address)[0], name_server.port)
        page = await start.dashboard.start(near.namesrv_addr, closing)
        root = broker.store.store_path_root_dir
        metrics = metrics_of(server)
        hello = start.hello(
            namesrv=shown, broker=server.address, data=root, **shown_page(page), **shown_metrics(metrics)
        )
        if not start.is_json:
            greeting.greet_up(
                broker,
                version=start.version,
                name_server=shown,
                broker=server.address,
                dashboard=page or start.dashboard.hint,
                metrics=metrics,
            )
        return hello

    run_loop(serve(begin, start.ready_file))


def shown_page(url: str | None) -> dict[str, str]:
    """Return what a program is told of the dashboard, where there is one."""
    return {} if url is None else {"dashboard": url}


def metrics_of(server: "Broker | Supervisor | NameServer") -> str | None:
    """Return where a server's metrics are, if they are served."""
    return None if server.metrics is None else server.metrics.url


def shown_metrics(url: str | None) -> dict[str, str]:
    """Return what a program is told of the metrics, where they are served."""
    return {} if url is None else {"metrics": url}


def run_namesrv(process: NamesrvProcess, start: Start) -> None:
    """Serve a name server."""
    settings = with_key_values(process.namesrv, start)

    async def begin(closing: AsyncExitStack) -> Mapping[str, Any]:
        name_server = await start_namesrv(settings, process.net, closing, option="-p")
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

    run_loop(serve(begin, start.ready_file))


def run_broker(process: BrokerProcess, start: Start) -> None:
    """Serve a broker."""
    process = dataclasses.replace(process, broker=settle_addresses(process.broker))
    ready = _with_store(process, start)

    async def begin(closing: AsyncExitStack) -> Mapping[str, Any]:
        broker = await _start_broker(ready, closing, option="--port")
        settings = ready.broker
        name_servers = ";".join(broker.registers_with)
        metrics = metrics_of(broker)
        if not start.is_json:
            observed = "" if metrics is None else f", metrics at {metrics}"
            output.say(
                f"{settings.broker_name} of {settings.broker_cluster_name} ready at {broker.address},"
                f" data in {ready.store.store_path_root_dir}, {describe()}{observed},"
                f" registers with {name_servers or _none_yet(settings)}"
            )
        return start.hello(
            namesrv=name_servers,
            broker=broker.address,
            data=ready.store.store_path_root_dir,
            **shown_metrics(metrics),
        )

    run_loop(serve(begin, start.ready_file, until_stdin_ends=start.until_stdin_ends))


def _none_yet(settings: BrokerSettings) -> str:
    """Return what to say of a broker that knows no name server."""
    if settings.namesrv_addr:
        return settings.namesrv_addr
    if settings.fetch_namesrv_addr_by_address_server:
        url = domain_url(settings.rmq_address_server_domain, settings.rmq_address_server_sub_group)
        return f"the name servers that {url} will tell: it did not answer, and is asked again"
    return "no name server (-n HOST:PORT): clients cannot find it"


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
        raise ListenFailed(_port_taken("the name server", address, error, option)) from error
    closing.push_async_callback(name_server.close)
    return name_server


async def _start_broker(
    process: BrokerProcess, closing: AsyncExitStack, *, option: str
) -> "Broker | Supervisor":
    broker = _make_broker(process)
    try:
        await broker.start()
    except ListenFailed as error:
        address = join_address(process.broker.bind_address, process.broker.listen_port)
        raise ListenFailed(_port_taken("the broker", address, error, option)) from error
    closing.push_async_callback(broker.close)
    return broker


def _make_broker(process: BrokerProcess) -> "Broker | Supervisor":
    if not process.broker.failover:
        return Broker(process, clock=SystemClock())
    from pyromq.broker.failover.supervisor import Supervisor

    return Supervisor(process, clock=SystemClock())


def _port_taken(who: str, address: str, error: ListenFailed, option: str) -> str:
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


def _with_store(process: BrokerProcess, start: Start) -> BrokerProcess:
    root = process.store.store_path_root_dir or str(start.data_folder / process.broker.broker_name)
    store = dataclasses.replace(process.store, store_path_root_dir=str(prepare(Path(root))))
    return dataclasses.replace(process, store=store)


def _near(address: str) -> str:
    host, port = split_address(address)
    return join_address(LOOPBACK_OF.get(host, host), port)
