"""TCP links that can be cut, one way or both, delayed, chopped or torn, without any right over the machine.

A `Wires` knows the state of each link between two places (a node's number, or a name such as "etcd"); a
`Proxy` listens for one of them and passes bytes on as the wires allow it. What is held back while a link is
cut is not lost: it arrives when the link is healed, as TCP would deliver it, unless the connection is torn.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from pyromq.torture.servers.sockets import Address

#: A node's number, or what else there is.
Place = int | str

_CHUNK_BYTES = 64 * 1024
#: Chopped small, and at odd places, so that frames come in pieces.
_CHOPPED_BYTES = 701


@dataclass(slots=True)
class Wires:
    """The state of all links; a link has two directions."""

    chance: Random = field(default_factory=Random)
    #: How long everything takes between two nodes, as on a real network; a loopback has no distance.
    distance_s: float = 0.0
    _cut: set[tuple[Place, Place]] = field(default_factory=set)
    _delay_s: dict[tuple[Place, Place], float] = field(default_factory=dict)
    _chopped: set[tuple[Place, Place]] = field(default_factory=set)
    _refusing: set[tuple[Place, Place]] = field(default_factory=set)
    _connections: dict[tuple[Place, Place], set["_Connection"]] = field(
        default_factory=lambda: defaultdict(set)
    )
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def cut_one_way(self, source: Place, target: Place) -> None:
        """Let nothing through from one to the other; what comes back passes."""
        self._cut.add((source, target))

    def cut(self, one: Place, other: Place) -> None:
        """Let nothing through."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def delay(self, one: Place, other: Place, seconds: float) -> None:
        """Let everything take longer, both ways, by up to twice this time."""
        self._delay_s[one, other] = self._delay_s[other, one] = seconds

    def chop(self, one: Place, other: Place) -> None:
        """Let everything through in small pieces."""
        self._chopped |= {(one, other), (other, one)}

    def refuse(self, one: Place, other: Place) -> None:
        """Tear what is connected, and end new connections at once."""
        self._refusing |= {(one, other), (other, one)}
        self.tear(one, other)

    def tear(self, one: Place, other: Place) -> None:
        """End the connections between two places, without a farewell."""
        for connection in self._connections[one, other] | self._connections[other, one]:
            connection.abort()

    def heal(self, one: Place, other: Place) -> None:
        """Let everything through again."""
        for way in ((one, other), (other, one)):
            self._cut.discard(way)
            self._delay_s.pop(way, None)
            self._chopped.discard(way)
            self._refusing.discard(way)
        self._wake()

    def heal_all(self) -> None:
        """Let everything through everywhere, at once."""
        self.distance_s = 0.0
        for state in (self._cut, self._delay_s, self._chopped, self._refusing):
            state.clear()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def is_refusing(self, source: Place, target: Place) -> bool:
        """Whether new connections are ended at once."""
        return (source, target) in self._refusing

    async def passage(self, source: Place, target: Place) -> int:
        """Wait until bytes may go that way, and return how many at a time."""
        while (source, target) in self._cut:
            await self._changed.wait()
        delay_s = self._delay_s.get((source, target), self._distance(source, target))
        if delay_s:
            changed = asyncio.ensure_future(self._changed.wait())
            await asyncio.wait([changed], timeout=self.chance.uniform(0, 2 * delay_s))
            changed.cancel()
        return _CHOPPED_BYTES if (source, target) in self._chopped else _CHUNK_BYTES

    def _distance(self, source: Place, target: Place) -> float:
        return self.distance_s if isinstance(source, int) and isinstance(target, int) else 0.0

    def add(self, connection: "_Connection") -> None:
        """Know a connection, so that it can be torn."""
        self._connections[connection.source, connection.target].add(connection)

    def remove(self, connection: "_Connection") -> None:
        """Forget a connection that has ended."""
        self._connections[connection.source, connection.target].discard(connection)


class Proxy:
    """Listens in place of a server; `source` says who connects, from which address to which."""

    def __init__(
        self, wires: Wires, target: Place, address: Address, source: Callable[[Address, Address], Place]
    ) -> None:
        self._wires = wires
        self._target = target
        self._address = address
        self._source = source
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int = 0) -> int:
        """Listen, and return the port."""
        self._server = await asyncio.start_server(self._take, host, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop listening, and end all connections."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._pass_on(reader, writer)
        writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        source = self._source(writer.get_extra_info("peername"), writer.get_extra_info("sockname"))
        if self._wires.is_refusing(source, self._target):
            return
        # Whoever connects over a cut link must not be heard of.
        await self._wires.passage(source, self._target)
        far_reader, far_writer = await asyncio.open_connection(*self._address)
        connection = _Connection(source, self._target, (writer, far_writer))
        self._wires.add(connection)
        try:
            await connection.run(self._wires, reader, far_reader)
        finally:
            self._wires.remove(connection)
            connection.abort()


@dataclass(eq=False, slots=True)
class _Connection:
    """Two sockets, and the two pumps between them."""

    source: Place
    target: Place
    writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]

    async def run(
        self, wires: Wires, near_reader: asyncio.StreamReader, far_reader: asyncio.StreamReader
    ) -> None:
        """Pass bytes on until either side has ended."""
        near, far = self.writers
        pumps = [
            asyncio.ensure_future(_pump(wires, near_reader, far, self.source, self.target)),
            asyncio.ensure_future(_pump(wires, far_reader, near, self.target, self.source)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    def abort(self) -> None:
        """End both sockets at once."""
        for writer in self.writers:
            writer.transport.abort()


async def _pump(
    wires: Wires, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, source: Place, target: Place
) -> None:
    with contextlib.suppress(OSError):
        while True:
            size = await wires.passage(source, target)
            data = await reader.read(size)
            # It may have been cut while nothing came.
            await wires.passage(source, target)
            if not data:
                return
            writer.write(data)
            await writer.drain()
