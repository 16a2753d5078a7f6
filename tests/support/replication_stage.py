"""Masters and slaves that are a store and a link each, on real sockets of this machine."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyromq.broker.replication.client import CopyEvents, FailoverSlave, MasterSource, ReplicationClient
from pyromq.broker.replication.followers import Followers
from pyromq.broker.replication.ha_server import ReplicationServer
from pyromq.broker.requests.handlers.query_handlers import QueryHandlers
from pyromq.clock import Clock, SystemClock
from pyromq.codes import RequestCode
from pyromq.config.settings import NetSettings, StoreSettings
from pyromq.net.links import Links
from pyromq.net.routes import RequestTable, Route
from pyromq.net.server import Server
from pyromq.store.epochs import FILE_NAME, Epochs
from pyromq.store.files import SystemFiles
from pyromq.store.store import Draft, MessageStore, Placed
from pyromq.testing.waiting import aeventually
from pyromq.wire.headers.query_headers import ViewMessage
from pyromq.wire.record import encode_host

HOST = encode_host("127.0.0.1", 10911)
LOG_FILE_BYTES = 64 << 10
RETRY_S = 0.02


def store_settings(folder: Path, **changes: object) -> StoreSettings:
    """Return the settings of a store with small files."""
    settings: dict[str, object] = {
        "store_path_root_dir": str(folder),
        "mapped_file_size_commit_log": LOG_FILE_BYTES,
        "mapped_file_size_consume_queue": 2_000,
        "max_hash_slot_num": 50,
        "max_index_num": 200,
        "ha_transfer_batch_size": 4_096,
        **changes,
    }
    return StoreSettings(**settings)  # type: ignore[arg-type]  # the tests' own keywords


def open_store(folder: Path, clock: Clock | None = None, **changes: object) -> MessageStore:
    """Open a store with small files."""
    store = MessageStore(store_settings(folder, **changes), clock=clock or SystemClock())
    store.open()
    return store


def open_epochs(folder: Path) -> Epochs:
    """Return the epochs of a store's folder."""
    epochs = Epochs(SystemFiles(), folder / FILE_NAME)
    epochs.load()
    return epochs


def put(store: MessageStore, body: bytes, queue_id: int = 0, sys_flag: int = 0) -> Placed:
    """Store a message."""
    return store.put(
        Draft(
            topic="orders",
            queue_id=queue_id,
            body=body,
            properties="",
            flag=0,
            sys_flag=sys_flag,
            born_at_ms=1,
            born_host=HOST,
            store_host=HOST,
        )
    )


def whole_log(store: MessageStore) -> bytes:
    """Return all bytes of a store's log."""
    log, position = [], store.min_position
    while data := store.log_bytes(position, LOG_FILE_BYTES):
        log.append(data)
        position += len(data)
    return b"".join(log)


@dataclass
class Master:
    """A store that is followed."""

    store: MessageStore
    followers: Followers
    server: ReplicationServer
    epochs: Epochs | None
    address: str = ""
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def write(self, count: int, size: int = 300) -> int:
        """Store messages, tell the slaves, and return where the log ends."""
        for _ in range(count):
            put(self.store, b"%d " % next(self.numbers) + b"x" * size)
            self.server.appended()
        return self.store.max_position


@dataclass
class Slave:
    """A store that follows."""

    store: MessageStore
    client: ReplicationClient
    epochs: Epochs | None
    diverged: "list[int | None]"

    async def has(self, end: int) -> None:
        """Wait until the log goes up to a position."""
        await aeventually(lambda: self.store.max_position == end, what=f"the slave has {end}")


class Stage(AsyncExitStack):
    """Opens masters and slaves in a folder, and closes what it has opened."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        super().__init__()
        self.folder = folder
        self.clock = clock or SystemClock()

    async def master(
        self,
        name: str = "master",
        *,
        epoch: int | None = None,
        in_sync: frozenset[int] | None = None,
        **changes: object,
    ) -> Master:
        """Open a store and let it be followed; with an `epoch` by the protocol of failover."""
        store = open_store(self.folder / name, self.clock, **changes)
        self.callback(store.close)
        epochs = None
        if epoch is not None:
            epochs = open_epochs(self.folder / name)
            epochs.append(epoch, store.max_position if epochs.entries else 0)
            in_sync = in_sync or frozenset()
        followers = Followers(store, store.settings, self.clock, in_sync=in_sync)
        server = ReplicationServer(store, followers, settings=store.settings, clock=self.clock, epochs=epochs)
        host, port = await server.start("127.0.0.1", 0)
        self.push_async_callback(server.close)
        return Master(store, followers, server, epochs, f"{host}:{port}")

    async def slave(
        self,
        address: str | Callable[[], str | None],
        name: str = "slave",
        *,
        id_: int | None = None,
        epoch: int = 0,
        links: Links | None = None,
        master_address: str | None = None,
        on_copied: Callable[[], None] = lambda: None,
        on_disk: Callable[[int], "asyncio.Future[None]"] | None = None,
        **changes: object,
    ) -> Slave:
        """Open a store and let it follow; with an id by the protocol of failover."""
        store = open_store(self.folder / name, self.clock, **changes)
        epochs = None if id_ is None else open_epochs(self.folder / name)
        diverged: list[int | None] = []
        client = ReplicationClient(
            store,
            self.clock,
            MasterSource(
                ha_address=address if callable(address) else lambda: address,
                address=lambda: master_address,
                links=links,
            ),
            events=CopyEvents(
                on_diverged=lambda error: diverged.append(error.common_end),
                on_copied=on_copied,
                on_disk=on_disk,
            ),
            failover=None
            if epochs is None
            else FailoverSlave(epochs=epochs, epoch=epoch, broker_id=id_ or 0),
            retry_s=RETRY_S,
        )
        slave = Slave(store, client, epochs, diverged)
        self.push_async_callback(stop, slave)
        client.start()
        return slave


async def stop(slave: Slave) -> None:
    """Let a slave follow no more, and close its store; a second time it does nothing."""
    await slave.client.close()
    if slave.store.is_writable:
        slave.store.close()


Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(answer: Answer) -> AsyncIterator[str]:
    """Listen, let `answer` talk to each peer until that ends the connection, and yield the address."""
    writers: set[asyncio.StreamWriter] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await answer(reader, writer)
            await reader.read()
        writer.transport.abort()
        writers.discard(writer)

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    try:
        yield f"{host}:{port}"
    finally:
        server.close()
        await server.wait_closed()
        for writer in tuple(writers):
            writer.transport.abort()
        await aeventually(lambda: not writers)


@asynccontextmanager
async def remoting(store: MessageStore) -> AsyncIterator[str]:
    """The port of a broker that answers which message is at a position."""
    query = QueryHandlers(store, unique_count_max=32)
    table = RequestTable([Route(RequestCode.VIEW_MESSAGE_BY_ID, query.by_position, ViewMessage)])
    server = Server(table, NetSettings(), clock=SystemClock(), name="master")
    host, port = await server.start("127.0.0.1", 0)
    try:
        yield f"{host}:{port}"
    finally:
        await server.close()


class Cutter:
    """A proxy that ends each connection after some bytes, as long as it is told to."""

    def __init__(self, target: str, cuts: "list[int]") -> None:
        self._target = target
        self._cuts = cuts
        self._tasks: set[asyncio.Task[None]] = set()
        self.cut_count = 0
        self.address = ""

    async def __aenter__(self) -> "Cutter":
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        host, port = self._target.split(":")
        try:
            there, to = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        left = self._cuts.pop() if self._cuts else None
        forward = asyncio.create_task(self._pump(reader, to, None))
        try:
            await self._pump(there, writer, left)
        finally:
            forward.cancel()
            for one in (to, writer):
                one.transport.abort()
            await asyncio.wait({forward})

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None
    ) -> None:
        try:
            while data := await reader.read(1 << 16 if left is None else max(1, min(left, 1 << 16))):
                writer.write(data)
                await writer.drain()
                if left is not None:
                    left -= len(data)
                    if left <= 0:
                        self.cut_count += 1
                        return
        except ConnectionError:
            return
