"""The port for RocketMQ 5's SDKs: open from the start, served from its first connection on.

    start              the port listens, and what would keep it from being served is looked for
    first connection   waits at the socket; a thread imports protobuf, HTTP/2 and all handlers, and makes a
                       certificate where there is none. Then `GrpcDoor` is made, and accepts what waits
    it does not load   one log line, and connections are closed; the next one has it tried again

To import all of it takes a quarter of a start and 9 MiB, which a broker without SDKs does not need.
Connections that wait are bounded by `serverSocketBacklog`.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyromq.broker.background import Background
from pyromq.broker.grpc.grpc_addresses import MASTER_ID, GrpcAddressBook
from pyromq.broker.grpc.grpc_rooms import GrpcRooms
from pyromq.config.settings import NetSettings
from pyromq.episodes import Episode
from pyromq.errors import ConfigError, PyroError
from pyromq.net.address import join_address
from pyromq.net.http2.own_certificate import check_certificate, with_certificate
from pyromq.net.http2.which_session import check_session
from pyromq.net.server import bound_socket

if TYPE_CHECKING:
    from pyromq.broker.grpc.grpc_door import GrpcDoor

#: Seconds between two times that the name servers are told where SDKs connect.
TELL_S: Final = 30.0
#: Seconds until what did not load is tried again, if somebody connects.
TRY_AGAIN_S: Final = 5.0

log = logging.getLogger(__name__)


class GrpcPort:
    """The port of one broker. Raises ConfigError or ListenFailed when it cannot be opened."""

    def __init__(self, rooms: GrpcRooms, host: str, port: int) -> None:
        settings, addresses = rooms.settings, rooms.write.addresses
        check_needs(settings.net, rooms.folder)
        name = f"{settings.broker.broker_name} (gRPC)"
        self._rooms = rooms
        self._listening = bound_socket(settings.net, host, port, name=name)
        #: The port that is listened on.
        self.port: int = self._listening.getsockname()[1]
        self._book = GrpcAddressBook(
            rooms.surroundings.links,
            own_name=settings.broker.broker_name,
            own_address=addresses.advertised,
            own_port=self.port,
            advertised=settings.grpc.grpc_advertise or join_address(addresses.ip, self.port),
            is_master=settings.broker.broker_id == MASTER_ID,
        )
        #: What serves gRPC, once somebody connected.
        self.door: GrpcDoor | None = None
        self._failed = Episode(rooms.clock, name, "connections", level=logging.ERROR)
        #: Told when `why_not` changes.
        self.on_news: Callable[[], None] = _nothing
        self._when_loaded: list[Callable[[GrpcDoor], None]] = []
        self._is_loading = self._is_closing = False
        self._first: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """The address that SDKs are told."""
        return self._book.advertised

    @property
    def why_not(self) -> str | None:
        """The reason why connections are closed although the port is open; None while they are not."""
        return self._failed.cause

    def when_loaded(self, tell: Callable[["GrpcDoor"], None]) -> None:
        """Have `tell` called with the door as soon as there is one."""
        if self.door is not None:
            tell(self.door)
        else:
            self._when_loaded.append(tell)

    def run(self, background: Background) -> None:
        """Wait for the first connection, and tell name servers where this is."""
        self._first = asyncio.get_running_loop().create_task(self._serve_first(background))
        background.every("tell where gRPC is", TELL_S, self._tell_where, first_s=0.0)

    async def close(self) -> None:
        """Serve no more.

        What is being loaded is waited for: a thread cannot be stopped, and this one may write a file.
        """
        self._is_closing = True
        if self._first is not None:
            if not self._is_loading:
                self._first.cancel()
            await asyncio.wait({self._first})
        if self.door is not None:
            await self.door.close()
        self._listening.close()

    async def _serve_first(self, background: Background) -> None:
        """Wait for the first connection, and have the door serve it."""
        while self.door is None and not self._is_closing:
            await _connected(self._listening)
            self._is_loading = True
            try:
                await self._load()
            except Exception as error:  # noqa: BLE001  whatever it is, somebody has connected and waits
                self._turn_away(error)
            finally:
                self._is_loading = False
            if self.door is None and not self._is_closing:
                await asyncio.sleep(TRY_AGAIN_S)
        if self.door is not None and not self._is_closing:
            self.door.run_jobs(background)

    async def _load(self) -> None:
        rooms = self._rooms
        make = await asyncio.to_thread(_import_door, rooms.settings.net, rooms.folder)
        if self._is_closing:
            return
        door = make(rooms, self._book)
        await door.serve(self._listening)
        self.door = door
        for tell in self._when_loaded:
            tell(door)
        self._failed.end()
        self.on_news()

    def _turn_away(self, error: Exception) -> None:
        """Log why nobody is served, unless it was, and close the connections that wait."""
        if not isinstance(error, ImportError | OSError | PyroError) and self._failed.cause is None:
            log.error("what serves gRPC could not be made", exc_info=error)
        self._failed.begin(
            f"what serves RocketMQ 5's SDKs does not load ({type(error).__name__}: {error}); "
            "it is tried again when somebody connects"
        )
        self.on_news()
        for _ in range(self._rooms.settings.net.server_socket_backlog):
            try:
                connection, _peer = self._listening.accept()
            except OSError:
                # Nobody waits any more.
                return
            connection.close()

    async def _tell_where(self) -> None:
        await self._book.tell(self._rooms.surroundings.name_servers.addresses)


def check_needs(net: NetSettings, folder: Path) -> None:
    """Raise ConfigError if something is missing that serves gRPC. Nothing of it is imported for that."""
    if find_spec("google") is None or find_spec("google.protobuf") is None:
        raise ConfigError(
            "RocketMQ 5's SDKs cannot connect: gRPC needs the package protobuf, which is not installed: "
            "pip install 'pyromq[grpc]', or set grpcServerPort=0"
        )
    check_session()
    check_certificate(net, folder)


def _import_door(net: NetSettings, folder: Path) -> type["GrpcDoor"]:
    """Import what serves gRPC, and make a certificate where one is needed; this takes a tenth of a second."""
    from pyromq.broker.grpc.grpc_door import GrpcDoor, import_rest

    import_rest()
    with_certificate(net, folder)
    return GrpcDoor


async def _connected(listening: socket.socket) -> None:
    """Return when a connection waits to be accepted."""
    loop = asyncio.get_running_loop()
    waits: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not waits.done():
            waits.set_result(None)

    loop.add_reader(listening, wake)
    try:
        await waits
    finally:
        loop.remove_reader(listening)


def _nothing() -> None:
    pass
