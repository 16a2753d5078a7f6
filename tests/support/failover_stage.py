"""A group of replicas in this process, each with a way of its own to one real etcd that can be cut."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from etcd import EtcdServer, running_etcd
from harness.ports import free_broker_port

from pyromq.broker.failover.supervisor import Supervisor
from pyromq.clock import SystemClock
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.load import build
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.settings import MIB, BrokerProcess, NetSettings
from pyromq.config.values import Value
from pyromq.namesrv.namesrv import NameServer
from pyromq.testing.cluster import PATIENT
from pyromq.testing.requests import send_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.command import Command

TOPIC = "orders"
#: Seconds that anything may take here; machines are busy.
LONG_S = 60.0
#: The lease in groups that lose no master: one that stands still on a busy machine stays master.
UNHURRIED_MS = 20_000


class Way:
    """One replica's way to etcd. While it is cut, connections stay and nothing passes."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut(self) -> None:
        self._open.clear()

    def heal(self) -> None:
        self._open.set()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers |= {writer, far_writer}
            await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))
        writer.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                await self._open.wait()
                writer.write(data)
        writer.transport.abort()
        self._writers.discard(writer)


class Stage:
    """The group. Replicas are numbered as they were started."""

    def __init__(self, folder: Path, etcd: EtcdServer, name_server: NameServer, role: str) -> None:
        self.etcd = etcd
        self.replicas: list[Supervisor] = []
        self.ways: list[Way] = []
        self.name_server = f"127.0.0.1:{name_server.port}"
        self._folder = folder
        self._role = role
        self._processes: list[BrokerProcess] = []

    async def add(self, **settings: Value) -> Supervisor:
        """Start one more replica, with an empty folder of its own."""
        number = len(self.replicas)
        way = Way(self.etcd.port)
        values: dict[str, Value] = {
            **PATIENT,
            "namesrv_addr": self.name_server,
            "broker_role": self._role,
            "failover": f"etcd://127.0.0.1:{await way.start()}",
            "listen_port": free_broker_port(),
            "store_path_root_dir": str(self.folder_of(number)),
            # Whoever is lost is waited for no more after inSyncTimeout; whoever is only slow is waited for.
            "slave_timeout": 15_000,
            "mapped_file_size_commit_log": 16 * MIB,
            "mapped_file_size_consume_queue": 20_000,
            "max_hash_slot_num": 5_000,
            "max_index_num": 20_000,
        }
        self.ways.append(way)
        self._processes.append(build(BrokerProcess, values | settings))
        replica = Supervisor(self._processes[number])
        self.replicas.append(replica)
        await replica.start()
        return replica

    def folder_of(self, number: int) -> Path:
        return self._folder / f"replica-{number}"

    def keep_port(self, number: int) -> None:
        """Let a replica have its port again although its folder, where that is kept, is lost."""
        process = self._processes[number]
        broker = dataclasses.replace(process.broker, listen_port=self.replicas[number].port)
        self._processes[number] = dataclasses.replace(process, broker=broker)

    async def restart(self, number: int) -> Supervisor:
        """Start a replica again that was closed, on its folder."""
        replica = self.replicas[number] = Supervisor(self._processes[number])
        await replica.start()
        return replica

    async def master(self, *, but: Supervisor | None = None) -> Supervisor:
        """Return the master, once there is one."""

        def find() -> Supervisor | None:
            return next((one for one in self.replicas if one.is_master and one is not but), None)

        return await aeventually(find, LONG_S, what="there is a master")

    async def in_sync(self, count: int) -> None:
        """Return once so many replicas are in sync, and the master waits for the others."""

        def are_in_sync() -> bool:
            for one in self.replicas:
                if one.is_master and one.followers is not None and one.followers.in_sync is not None:
                    return len(one.followers.in_sync) == count - 1 == len(in_sync_of(one)) - 1
            return False

        await aeventually(are_in_sync, LONG_S, what=f"{count} are in sync")

    def others(self, replica: Supervisor) -> list[Supervisor]:
        return [one for one in self.replicas if one is not replica]

    def way_of(self, replica: Supervisor) -> Way:
        return self.ways[self.replicas.index(replica)]


async def crash(replica: Supervisor) -> None:
    """End a replica as a kill does, as far as a part of a process can: nobody is told, no lease returned."""
    for task in replica._tasks:
        task.cancel()
    await asyncio.wait(replica._tasks)
    await replica._session.abandon()
    replica._session.id = 0
    await replica._stop_broker(unregister=False)
    await replica._etcd.close()


def in_sync_of(replica: Supervisor) -> tuple[str, ...]:
    """Return who is in sync as a replica saw it last."""
    return replica.view.group.in_sync if replica.view is not None else ()


async def send(address: str, body: bytes) -> Command:
    """Send to one broker, whatever it is, and return its answer."""
    async with WireClient(address) as client:
        return await client.ask(RequestCode.SEND_MESSAGE, send_fields(TOPIC), body)


async def is_acknowledged(address: str, body: bytes) -> bool:
    """Return whether a broker takes a message; one that does not answer does not."""
    try:
        return (await send(address, body)).code == ResponseCode.SUCCESS
    except (OSError, TimeoutError, asyncio.CancelledError, AssertionError):
        return False


@asynccontextmanager
async def stage_of(
    folder: Path, replicas: int = 2, *, role: str = "SYNC_MASTER", **settings: Value
) -> AsyncIterator[Stage]:
    """Run a group for the block; all of its replicas are in sync when it begins."""
    with running_etcd(folder / "etcd") as etcd:
        name_server = NameServer(
            NamesrvSettings(listen_port=0, kv_config_path=str(folder / "kv.json")),
            NetSettings(),
            clock=SystemClock(),
        )
        await name_server.start()
        stage = Stage(folder, etcd, name_server, role)
        try:
            for _ in range(replicas):
                await stage.add(**settings)
            await stage.in_sync(replicas)
            yield stage
        finally:
            for way in stage.ways:
                way.heal()
            for replica in stage.replicas:
                await replica.close()
            for way in stage.ways:
                way.close()
            await name_server.close()
