"""`pyromq up --brokers N --replicas N`: a whole cluster on this machine.

The name server is in this process; each broker is a process of its own, `pyromq broker`, with a folder and a
port of its own, so that one can be killed or stopped like a machine that fails.

    this process: name server ──┬── broker-a    id 0   10911   DATA/broker-a
                                ├── broker-a    id 1   10921   DATA/broker-a-1
                                └── broker-b    id 0   10931   DATA/broker-b     …

A broker lives no longer than this process: its standard input ends with it.
"""

import dataclasses
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyromq.cli import output
from pyromq.cli.servers import greeting
from pyromq.cli.servers.child import Child, start_all
from pyromq.cli.servers.data_folder import prepare
from pyromq.cli.servers.serve import Vitals, serve
from pyromq.cli.servers.servers import LOOPBACK_OF, Start, shown_page, start_namesrv, with_key_values
from pyromq.config.choices import BrokerRole, MetricsExporterType
from pyromq.config.field import PORT_MAX
from pyromq.config.settings import BrokerSettings, UpProcess
from pyromq.errors import ConfigError
from pyromq.net.address import join_address, split_address
from pyromq.net.loop import run as run_loop
from pyromq.net.process_health import HealthCheck
from pyromq.net.server import listening_socket

#: A broker for each core: each has one loop, which uses one core.
AUTO = "auto"
#: New topics are created on all masters, and a broker that is new takes over those that there are.
EVERYWHERE = ("autoCreateOnAll=true", "copyTopicsOnJoin=true")
#: They are told apart by letters.
BROKERS_MAX = 26
#: The distance of two brokers' ports: below each is its VIP port, above it the one for slaves.
PORT_STEP = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The size of the cluster, and the way its replicas agree."""

    brokers: int = 1
    #: Copies of each broker's messages, the master's with them.
    replicas: int = 1
    is_sync: bool = False
    #: Where it is decided who is master; None: the first replica is.
    failover: str | None = None
    #: Whether each topic is on all brokers, so that clients use all of them.
    shares_topics: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """Options of `pyromq up` that each broker gets as they are."""

    config: Path | None = None
    assignments: tuple[str, ...] = ()
    log_level: str = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A broker to start."""

    broker_name: str
    number: int
    #: Its role, as a setting; with failover what it is while it is master.
    role: str
    is_elected: bool
    port: int
    folder: Path
    #: Where it serves its metrics, if it does; 0: wherever there is room.
    metrics_port: int = 0
    #: Where RocketMQ 5's SDKs connect; 0: nowhere.
    grpc_port: int = 0

    @property
    def shown_role(self) -> str:
        """Its role as it is shown; with failover it may change at any time."""
        return "ELECTED" if self.is_elected else self.role

    @property
    def title(self) -> str:
        """The replica's name in this process's output: the name of its folder."""
        return self.folder.name


def broker_count(text: str) -> int:
    """Return how many brokers `--brokers` asks for; raise ConfigError when that is no such number."""
    if text == AUTO:
        return min(_core_count(), BROKERS_MAX)
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= BROKERS_MAX):
        raise ConfigError(f"--brokers {text}: say a number from 1 to {BROKERS_MAX}, or {AUTO} for one a core")
    return int(text)


def _core_count() -> int:
    """Return the number of cores that this process may use."""
    # macOS and Windows have no sets of cores.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_shape(shape: Shape, settings: BrokerSettings) -> None:
    """Raise ConfigError when no such cluster can be."""
    if shape.is_sync and shape.replicas < 2 and shape.failover is None:
        raise ConfigError("--sync waits for a second replica: say --replicas 2 or more")
    if shape.brokers > 1 and settings.broker_id:
        raise ConfigError("brokerId: `pyromq up` with --brokers numbers its brokers by itself")


def plan_replicas(shape: Shape, process: UpProcess, folder: Path) -> list[Replica]:
    """Return the brokers to start: for each name its replicas, the master first."""
    settings = process.broker
    is_sync = shape.is_sync or settings.broker_role == BrokerRole.SYNC_MASTER
    master = BrokerRole.SYNC_MASTER if is_sync else BrokerRole.ASYNC_MASTER
    titles = [
        (name, number, name if number == 0 else f"{name}-{number}")
        for name in _names(shape, settings.broker_name)
        for number in range(shape.replicas)
    ]
    # Each broker finds a free port by itself where none is said.
    ports = [settings.listen_port and settings.listen_port + PORT_STEP * at for at in range(len(titles))]
    if max(ports) > PORT_MAX:
        raise ConfigError(f"--broker-port {ports[0]}: {len(ports)} brokers need ports up to {max(ports)}")
    return [
        Replica(
            broker_name=name,
            number=number,
            role=master if number == 0 or shape.failover is not None else BrokerRole.SLAVE,
            is_elected=shape.failover is not None,
            port=port,
            folder=folder / title,
            metrics_port=settings.metrics_prom_exporter_port and settings.metrics_prom_exporter_port + at,
            grpc_port=process.grpc.grpc_server_port and process.grpc.grpc_server_port + at,
        )
        for at, ((name, number, title), port) in enumerate(zip(titles, ports, strict=True))
    ]


def run_cluster(process: UpProcess, shape: Shape, start: Start, inherited: Inherited) -> None:
    """Serve a name server in this process, and brokers in processes of their own."""
    check_shape(shape, process.broker)
    namesrv = with_key_values(process.namesrv, start)
    folder = prepare(start.data_folder)
    replicas = plan_replicas(shape, process, folder)
    vitals = Vitals(port=process.broker.health_port, host=process.broker.health_host)
    if not start.is_grpc_asked:
        replicas = [_with_free_grpc_port(one, process.broker.bind_address) for one in replicas]

    async def begin(closing: AsyncExitStack) -> Mapping[str, Any]:
        name_server = await start_namesrv(namesrv, process.net, closing, option="--namesrv-port")
        near = join_address(LOOPBACK_OF.get(namesrv.bind_address, namesrv.bind_address), name_server.port)
        children = [
            BrokerChild(
                replica, broker_arguments(replica, process.broker, shape, inherited, name_server=near)
            )
            for replica in replicas
        ]
        # Masters first, for slaves look for them; stopped in the reverse order.
        for is_first in (True, False):
            await start_all([one for one in children if (one.replica.number == 0) == is_first], closing)
        vitals.watch(name_server.health)
        vitals.watch(lambda: [child.finding for child in children])
        host = process.broker.broker_ip1 or near.rpartition(":")[0]
        shown = join_address(host, name_server.port)
        brokers = [child.record for child in children]
        page = await start.dashboard.start(near, closing)
        hello = start.hello(
            namesrv=shown,
            broker=brokers[0]["broker"],
            data=str(folder),
            brokers=brokers,
            **shown_page(page),
        )
        if not start.is_json:
            greeting.greet_cluster(
                brokers,
                version=start.version,
                name_server=shown,
                data=str(folder),
                dashboard=page or start.dashboard.hint,
            )
        return hello

    run_loop(serve(begin, start.ready_file, vitals=vitals))


def _with_free_grpc_port(replica: Replica, host: str) -> Replica:
    """Return a replica without a port for gRPC where that is taken, or what it needs is not installed."""
    if not replica.grpc_port:
        return replica
    try:
        is_there = find_spec("google.protobuf") is not None
        listening_socket(host, replica.grpc_port, backlog=1).close()
    except (ModuleNotFoundError, OSError):
        is_there = False
    return replica if is_there else dataclasses.replace(replica, grpc_port=0)


def broker_arguments(
    replica: Replica, settings: BrokerSettings, shape: Shape, inherited: Inherited, *, name_server: str
) -> list[str]:
    """Return what `pyromq` is told to become a replica."""
    arguments = ["broker", "-n", name_server, "--port", str(replica.port), "--listen", settings.bind_address]
    if settings.broker_ip1:
        arguments += ["--advertise", settings.broker_ip1]
    if inherited.config is not None:
        arguments += ["-c", str(inherited.config.absolute())]
    own = [
        f"brokerClusterName={settings.broker_cluster_name}",
        f"brokerName={replica.broker_name}",
        f"brokerRole={replica.role}",
        f"storePathRootDir={replica.folder}",
        "haListenPort=0",
        f"grpcServerPort={replica.grpc_port}",
        # The process that starts them serves the pages.
        "healthPort=0",
    ]
    if settings.metrics_exporter_type == MetricsExporterType.PROM:
        own.append(f"metricsPromExporterPort={replica.metrics_port}")
    if shape.failover is None:
        own.append(f"brokerId={replica.number}")
    else:
        own.append(f"failover={shape.failover}")
    # What the user says holds over what only fits the shape.
    for assignment in (*(EVERYWHERE if shape.shares_topics else ()), *inherited.assignments, *own):
        arguments += ["--set", assignment]
    return [*arguments, "--log-level", inherited.log_level]


class BrokerChild(Child):
    """A broker's process."""

    def __init__(self, replica: Replica, arguments: Sequence[str]) -> None:
        super().__init__(replica.title, arguments)
        self.replica = replica

    @property
    def record(self) -> dict[str, Any]:
        """The broker's facts for programs; known once it is ready."""
        return {
            "name": self.replica.broker_name,
            "number": self.replica.number,
            "role": self.replica.shown_role,
            "broker": self.hello["broker"],
            "data": str(self.replica.folder),
            "pid": self.hello["pid"],
            **{name: self.hello[name] for name in ("grpc",) if name in self.hello},
        }

    @property
    def finding(self) -> HealthCheck:
        """Whether it runs; it has health pages of its own beside its metrics."""
        return HealthCheck(self.title, None if self.status is None else "its process has ended")

    def ended(self, how: str) -> None:
        """Say that it ended, and how to start it again."""
        output.warn(f"{how}; the others go on. To start it again: {self._command()}")

    def _command(self) -> str:
        """Return what starts it again, on the port that it had."""
        arguments = list(self.arguments)
        arguments[arguments.index("--port") + 1] = str(split_address(self.hello["broker"])[1])
        return shlex.join(["pyromq", *arguments])


def _names(shape: Shape, name: str) -> Iterable[str]:
    """Return the brokers' names: one keeps the one it has, several are told apart by letters."""
    if shape.brokers == 1:
        return [name]
    stem = "broker" if name == BrokerSettings().broker_name else name
    return [f"{stem}-{chr(ord('a') + at)}" for at in range(shape.brokers)]
