"""The stage of a simulated run: a cluster that a schedule names, kept alive as an operator keeps it.

schedule ─► SimulatedStage ─► machines: namesrv · broker-a-0 … · etcd · one for each client
                ▲                 a server that ended is started again a while later
                └── faults
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, Final

from pyromq.broker.broker import Broker
from pyromq.broker.failover.supervisor import Supervisor
from pyromq.clock import SystemClock
from pyromq.config.load import load, read_assignments
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.settings import BrokerProcess, NetSettings
from pyromq.namesrv.namesrv import NameServer
from pyromq.testing.simulation.etcd_access import EtcdMember, EtcdTransport
from pyromq.testing.simulation.simulated_etcd import EtcdState
from pyromq.testing.simulation.simulated_machines import Machine, Process
from pyromq.testing.simulation.simulated_schedule import Schedule
from pyromq.testing.simulation.witness import Witness
from pyromq.testing.simulation.world import World
from pyromq.torture.history import History
from pyromq.torture.stage import Promises, Topology, WorkloadUser
from pyromq.torture.workload import ACCOUNTS, BROKER_SETTINGS, accounts_file
from pyromq.torture.workload.arrangement import OPERATOR

NAMESRV_PORT: Final = 9876
BROKER_PORT: Final = 10911
#: Seconds until a server that ended is started again.
_AGAIN_S: Final = 0.5


class SimulatedServer:
    """A server of the cluster on a machine of its own: what it runs, and what runs now."""

    def __init__(
        self, machine: Machine, main: Callable[["SimulatedServer"], Coroutine[Any, Any, None]]
    ) -> None:
        self.machine = machine
        self.main = main
        self.process: Process | None = None
        #: What `main` made; for faults that ask it for something.
        self.running: Any = None
        #: Set when it is to end in order.
        self.stop = asyncio.Event()
        #: Not to be started again before this is set.
        self.may_start = asyncio.Event()
        self.may_start.set()

    @property
    def is_up(self) -> bool:
        """Whether its process runs or stands still."""
        return self.process is not None and not self.process.is_dead


class SimulatedClient:
    """A client program; see `ClientProcess`."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()

    async def wait(self) -> None:
        """Return when it has ended."""
        await asyncio.shield(self.process.ended)


class SimulatedStage:
    """The simulated cluster that a workload runs on; see `Stage`."""

    def __init__(self, world: World, schedule: Schedule, history: History) -> None:
        self.world = world
        self.schedule = schedule
        self.history = history
        self.chance = world.chance("workload")
        self.servers: dict[str, SimulatedServer] = {}
        self.clients: dict[str, Machine] = {}
        self.etcd: EtcdMember | None = None
        self.is_over = False
        self._accounts = world.folder("accounts")
        self.witness = Witness(history, BROKER_PORT)
        self._keepers: list[asyncio.Task[None]] = []

    # What a workload asks

    @property
    def promises(self) -> Promises:
        """The promises of this run."""
        return self.schedule.promises

    @property
    def namesrv_address(self) -> str:
        """The address at which clients ask for routes."""
        return f"10.0.0.1:{NAMESRV_PORT}"

    def now_s(self) -> float:
        """Return the seconds since the run began."""
        return self.world.loop.time()

    def account(self, name: str) -> WorkloadUser | None:
        """Return an account."""
        return ACCOUNTS[name] if self.promises.has_access_control else None

    def start_client(self, name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> SimulatedClient:
        """Run a client program on a machine of its own."""
        machine = self.clients.get(name)
        if machine is None:
            machine = self.clients[name] = self.world.add_machine(name, f"10.1.0.{len(self.clients) + 1}")
        return SimulatedClient(self.world.start(machine, name, main()))

    # The cluster

    @property
    def brokers(self) -> list[SimulatedServer]:
        """All brokers, in one order."""
        return [server for name, server in self.servers.items() if name.startswith("broker-")]

    @property
    def masters(self) -> list[SimulatedServer]:
        """The brokers that are master now, as far as they know."""
        return [server for server in self.brokers if server.is_up and _is_master(server.running)]

    async def start(self) -> None:
        """Start all servers, and return when they should be there."""
        promises = self.promises
        if promises.has_access_control:
            (self._accounts / "plain_acl.yml").write_text(accounts_file(), encoding="utf-8")
        self._add("namesrv", "10.0.0.1", _run_name_server, has_disk=False)
        if promises.topology is Topology.FAILOVER:
            self._add_etcd()
        for group in range(promises.groups):
            for replica in range(promises.replicas):
                self._add(
                    f"broker-{'abc'[group]}-{replica}", f"10.0.{group + 1}.{replica + 1}", self._run_broker
                )
        for server in self.servers.values():
            self._keepers.append(asyncio.create_task(self._keep(server)))
            await asyncio.sleep(0.05)

    def _add(
        self,
        name: str,
        ip: str,
        main: Callable[[SimulatedServer], Coroutine[Any, Any, None]],
        *,
        has_disk: bool = True,
    ) -> SimulatedServer:
        machine = self.world.add_machine(name, ip, has_disk=has_disk)
        server = self.servers[name] = SimulatedServer(machine, main)
        return server

    def _add_etcd(self) -> None:
        self.world.network.on_write = self.witness.wrote
        state = EtcdState(self.world.loop, self.world.chance("etcd"))
        state.on_change = self._note_leader
        server = self._add("etcd", "10.0.9.1", self._run_etcd, has_disk=False)
        self.etcd = EtcdMember(self.world.network, server.machine, state)

    async def _run_etcd(self, _: SimulatedServer) -> None:
        assert self.etcd is not None
        await self.etcd.main()

    def _note_leader(self, key: str, value: bytes | None) -> None:
        if key.endswith("/leader"):
            self.witness.leader = json.loads(value)["address"] if value else None
            if value:
                self.history.note("leader", "etcd", address=self.witness.leader)
            else:
                self.history.note("leaderless", "etcd")

    async def _keep(self, server: SimulatedServer) -> None:
        """Start a server, again when it ended."""
        name = server.machine.name
        while not self.is_over:
            await server.may_start.wait()
            self.world.boot(server.machine)
            server.stop.clear()
            process = server.process = self.world.start(server.machine, name, server.main(server))
            self.history.note("started", name)
            await asyncio.wait({process.ended})
            if (error := process.ended.exception()) is not None:
                self.history.note("server_failed", name, error=f"{type(error).__name__}: {error}"[:300])
            server.running = None
            if self.etcd is not None and name == "etcd":
                self.etcd.ended()
            if server.machine.is_powered:
                self.world.renew_disk(server.machine)
            await asyncio.sleep(_AGAIN_S)

    async def _run_broker(self, server: SimulatedServer) -> None:
        disk = server.machine.disk
        assert disk is not None
        disk.on_end = lambda: self.crashed(server)
        settings = self._settings(server)
        running: Broker | Supervisor
        if self.promises.topology is Topology.FAILOVER:
            assert self.etcd is not None
            running = Supervisor(
                settings,
                files=disk,
                use_kernel=self.schedule.uses_kernel,
                etcd_transport=EtcdTransport(self.etcd),
            )
        else:
            running = Broker(settings, files=disk, use_kernel=self.schedule.uses_kernel)
        await running.start()
        server.running = running
        await server.stop.wait()
        await running.close()

    def crashed(self, server: SimulatedServer) -> None:
        """Note the end of a process in the middle of something."""
        self.world.kill(server.machine)

    def _settings(self, server: SimulatedServer) -> BrokerProcess:
        promises, schedule = self.promises, self.schedule
        _, group, replica = server.machine.name.split("-")
        is_slave = promises.topology is Topology.MASTER_SLAVE and replica != "0"
        role = "SLAVE" if is_slave else "SYNC_MASTER" if promises.is_sync_master else "ASYNC_MASTER"
        values = {
            **BROKER_SETTINGS,
            "brokerName": f"broker-{group}",
            "brokerRole": role,
            "brokerId": "0" if promises.topology is Topology.FAILOVER else replica,
            "namesrvAddr": self.namesrv_address,
            "bindAddress": server.machine.ip,
            "listenPort": str(BROKER_PORT),
            "storePathRootDir": "/data",
            "flushDiskType": "SYNC_FLUSH" if promises.is_sync_flush else "ASYNC_FLUSH",
            "mappedFileSizeCommitLog": str(schedule.log_file_bytes),
            "mappedFileSizeConsumeQueue": "6000",
            "maxHashSlotNum": "200",
            "maxIndexNum": "1000",
            "maxMessageSize": str(min(4 << 20, schedule.log_file_bytes // 2)),
            "registerNameServerPeriod": "10000",
            # A full disk must not be a reason to let acknowledged messages go.
            "cleanFileForciblyEnable": "false",
            "fileReservedTime": "720",
            **schedule.settings,
        }
        if promises.topology is Topology.FAILOVER:
            values["failover"] = "etcd://10.0.9.1:2379"
        if promises.has_access_control:
            operator = ACCOUNTS[OPERATOR]
            values |= {
                "aclEnable": "true",
                "aclFolder": str(self._accounts),
                "haAllowedAddresses": "10.0.*.*",
                "innerClientAuthenticationCredentials": json.dumps(
                    {"accessKey": operator.access_key, "secretKey": operator.secret_key}
                ),
            }
        return load(
            BrokerProcess, read_assignments(f"{name}={value}" for name, value in values.items())
        ).process


def _is_master(running: Any) -> bool:
    if isinstance(running, Supervisor):
        return running.is_master
    return isinstance(running, Broker)


async def _run_name_server(server: SimulatedServer) -> None:
    settings = NamesrvSettings(bind_address=server.machine.ip, listen_port=NAMESRV_PORT, kv_config_path="")
    name_server = NameServer(settings, NetSettings(), clock=SystemClock())
    await name_server.start()
    await server.stop.wait()
    await name_server.close()
