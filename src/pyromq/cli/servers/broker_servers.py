"""The servers with a broker in them, `pyromq broker` and `pyromq up`: build them, start them, say hello."""

import dataclasses
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyromq.broker.addresses import settle_addresses
from pyromq.broker.broker import Broker
from pyromq.cli import output
from pyromq.cli.servers import greeting
from pyromq.cli.servers.data_folder import prepare
from pyromq.cli.servers.serve import Vitals, serve
from pyromq.cli.servers.servers import (
    LOOPBACK_OF,
    Start,
    metrics_of,
    port_taken,
    shown_grpc,
    shown_metrics,
    shown_page,
    start_namesrv,
    with_key_values,
)
from pyromq.clock import SystemClock
from pyromq.config.grpc_settings import GrpcOpening
from pyromq.config.settings import BrokerProcess, BrokerSettings, UpProcess
from pyromq.errors import ListenFailed
from pyromq.kernel import describe
from pyromq.net.address import join_address, split_address
from pyromq.net.discovery import domain_url
from pyromq.net.loop import run as run_loop
from pyromq.net.process_health import HealthCheck

if TYPE_CHECKING:
    from pyromq.broker.failover.supervisor import Supervisor


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
        BrokerProcess(
            **{part.name: getattr(process, part.name) for part in dataclasses.fields(BrokerProcess)}
        ),
        start,
    )
    vitals = Vitals(port=broker.broker.health_port, host=broker.broker.health_host)

    async def begin(closing: AsyncExitStack) -> Mapping[str, Any]:
        name_server = await start_namesrv(namesrv, process.net, closing, option="--namesrv-port")
        host = LOOPBACK_OF.get(namesrv.bind_address, namesrv.bind_address)
        near = dataclasses.replace(broker.broker, namesrv_addr=join_address(host, name_server.port))
        server = await _start_broker(
            dataclasses.replace(broker, broker=near), start, closing, option="--broker-port"
        )
        vitals.watch(name_server.health)
        vitals.watch(partial(_checks, server))
        shown = join_address(split_address(server.address)[0], name_server.port)
        page = await start.dashboard.start(near.namesrv_addr, closing)
        root = broker.store.store_path_root_dir
        metrics = metrics_of(server)
        hello = start.hello(
            namesrv=shown,
            broker=server.address,
            data=root,
            **shown_grpc(server),
            **shown_page(page),
            **shown_metrics(metrics),
        )
        if not start.is_json:
            greeting.greet_up(
                broker,
                version=start.version,
                name_server=shown,
                broker=server.address,
                sdks=_sdks(server),
                dashboard=page or start.dashboard.hint,
                metrics=metrics,
            )
        return hello

    run_loop(serve(begin, start.ready_file, vitals=vitals))


def run_broker(process: BrokerProcess, start: Start) -> None:
    """Serve a broker."""
    process = dataclasses.replace(process, broker=settle_addresses(process.broker))
    ready = _with_store(process, start)
    vitals = Vitals(port=process.broker.health_port, host=process.broker.health_host)

    async def begin(closing: AsyncExitStack) -> Mapping[str, Any]:
        broker = await _start_broker(ready, start, closing, option="--port")
        vitals.watch(partial(_checks, broker))
        settings = ready.broker
        name_servers = ";".join(broker.registers_with)
        metrics = metrics_of(broker)
        if not start.is_json:
            observed = "" if metrics is None else f", metrics at {metrics}"
            if (sdks := _sdks(broker)) is not None:
                observed = f", RocketMQ 5's SDKs: {sdks}{observed}"
            output.say(
                f"{settings.broker_name} of {settings.broker_cluster_name} ready at {broker.address},"
                f" data in {ready.store.store_path_root_dir}, {describe()}{observed},"
                f" registers with {name_servers or _none_yet(settings)}"
            )
        return start.hello(
            namesrv=name_servers,
            broker=broker.address,
            data=ready.store.store_path_root_dir,
            **shown_grpc(broker),
            **shown_metrics(metrics),
        )

    run_loop(serve(begin, start.ready_file, until_stdin_ends=start.until_stdin_ends, vitals=vitals))


def _none_yet(settings: BrokerSettings) -> str:
    """Return what to say of a broker that knows no name server."""
    if settings.namesrv_addr:
        return settings.namesrv_addr
    if settings.fetch_namesrv_addr_by_address_server:
        url = domain_url(settings.rmq_address_server_domain, settings.rmq_address_server_sub_group)
        return f"the name servers that {url} will tell: it did not answer, and is asked again"
    return "no name server (-n HOST:PORT): clients cannot find it"


def _checks(server: "Broker | Supervisor") -> list[HealthCheck]:
    """Find out how a broker is, or a replica, which may have none between two roles."""
    broker = server if isinstance(server, Broker) else server.broker
    if broker is not None:
        return broker.health()
    why = "no broker runs here just now: its role changes, nobody is master, or etcd does not answer"
    return [HealthCheck("serving", why)]


def _sdks(broker: "Broker | Supervisor") -> str | None:
    """Return what to say to who uses RocketMQ 5's SDKs: where they connect, or why they cannot."""
    return broker.grpc.address or broker.grpc.why_not


async def _start_broker(
    process: BrokerProcess, start: Start, closing: AsyncExitStack, *, option: str
) -> "Broker | Supervisor":
    broker = _make_broker(process, GrpcOpening.AS_SET if start.is_grpc_asked else GrpcOpening.IF_FREE)
    try:
        await broker.start()
    except ListenFailed as error:
        if isinstance(error.__cause__, ListenFailed):
            # Not its own port: the text says which.
            raise
        address = join_address(process.broker.bind_address, process.broker.listen_port)
        raise ListenFailed(port_taken("the broker", address, error, option)) from error
    closing.push_async_callback(broker.close)
    return broker


def _make_broker(process: BrokerProcess, opening: GrpcOpening) -> "Broker | Supervisor":
    if not process.broker.failover:
        return Broker(process, clock=SystemClock(), opening=opening)
    from pyromq.broker.failover.supervisor import Supervisor

    return Supervisor(process, clock=SystemClock(), opening=opening)


def _with_store(process: BrokerProcess, start: Start) -> BrokerProcess:
    root = process.store.store_path_root_dir or str(start.data_folder / process.broker.broker_name)
    store = dataclasses.replace(process.store, store_path_root_dir=str(prepare(Path(root))))
    return dataclasses.replace(process, store=store)
