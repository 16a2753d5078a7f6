"""The network between machines: who listens where, how long bytes take, and what is cut.

A cut loses nothing that TCP would not lose: bytes are sent again until they arrive, so a connection that
lives through a cut brings them late, in order. Streams overtake each other freely.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from random import Random
from typing import Any, Final

from pyromq.testing.simulation.simulated_loop import SimulatedLoop
from pyromq.testing.simulation.simulated_machines import CURRENT, Machine, Process
from pyromq.testing.simulation.transport import SEGMENT_BYTES, Endpoint

BYTES_PER_S: Final = 100e6
#: Seconds after which the system sends again what nobody confirmed.
_AGAIN_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_FIRST_PORT: Final = 30_000
_ANY: Final = ("0.0.0.0", "", "::")

Trace = Callable[..., None]


class Listener:
    """A port that is listened on, with the face of `asyncio.Server`."""

    def __init__(self, network: Network, process: Process, factory: Any, address: tuple[str, int]) -> None:
        self.process = process
        self.factory = factory
        self.address = address
        self._network = network

    @property
    def sockets(self) -> tuple[Listener, ...]:
        """Itself, as the one socket it has."""
        return (self,)

    def getsockname(self) -> tuple[str, int]:
        """Return the address."""
        return self.address

    def is_serving(self) -> bool:
        """Return whether it listens."""
        return self._network.listeners.get(self.address) is self

    def close(self) -> None:
        """Listen no more."""
        if self.is_serving():
            del self._network.listeners[self.address]

    async def wait_closed(self) -> None:
        """Do nothing: it is closed at once."""


class Network:
    """All machines, and what lies between them."""

    def __init__(self, loop: SimulatedLoop, chance: Random) -> None:
        self.loop = loop
        self.chance = chance
        self.machines: dict[str, Machine] = {}
        self.listeners: dict[tuple[str, int], Listener] = {}
        #: Told what moves; None when nobody wants to know.
        self.trace: Trace | None = None
        #: Told what processes write, before it is on its way.
        self.on_write: Callable[[Endpoint, bytes], None] | None = None
        #: Ways that are cut, from an address to another.
        self._cut: set[tuple[str, str]] = set()
        self._holding: list[Endpoint] = []
        self._holding_resets: list[Endpoint] = []
        self._late: list[tuple[Process, Callable[[], object]]] = []
        self._silent: list[Endpoint] = []
        self._ports = _FIRST_PORT
        self._connections = 0
        #: Seconds that bytes take at least, and at most.
        self.delay_s = (0.0001, 0.001)
        #: Machines whose bytes take longer, by address: how much at most.
        self.slow_s: dict[str, float] = {}
        #: The smallest piece that a write may be cut into; 0: writes arrive whole.
        self.chops_from = 0
        #: How often an answer is lost together with its connection.
        self.lost_answers = 0.0

    # What faults ask for

    def cut(self, one: Machine, other: Machine, *, both_ways: bool = True) -> None:
        """Let nothing pass from a machine to another."""
        self._cut.add((one.ip, other.ip))
        if both_ways:
            self._cut.add((other.ip, one.ip))

    def heal(self) -> None:
        """Let everything pass, what was held back too."""
        self._cut.clear()
        holding, self._holding = self._holding, []
        resets, self._holding_resets = self._holding_resets, []
        for endpoint in holding:
            self.loop.call_later(
                self.chance.uniform(0.0, 1.5), endpoint.release, context=endpoint.process.context
            )
        late, self._late = self._late, []
        for process, arrive in late:
            self.loop.call_later(self.chance.uniform(0.0, 1.5), arrive, context=process.context)
        for endpoint in resets:
            self.loop.call_later(
                self.chance.uniform(0.0, 1.5), endpoint.reset, context=endpoint.process.context
            )

    def forget(self) -> None:
        """Let go of everything: the simulation is over."""
        for known in (
            self.machines,
            self.listeners,
            self._holding,
            self._holding_resets,
            self._late,
            self._silent,
        ):
            known.clear()

    def is_cut(self, source: Machine, target: Machine) -> bool:
        """Return whether nothing passes from a machine to another."""
        return bool(self._cut) and (source.ip, target.ip) in self._cut

    def hold(self, endpoint: Endpoint) -> None:
        """Remember who has bytes on the way that do not arrive."""
        self._holding.append(endpoint)

    def hold_reset(self, endpoint: Endpoint) -> None:
        """Remember who does not hear of the end of its connection."""
        self._holding_resets.append(endpoint)

    def reset(self, endpoint: Endpoint) -> None:
        """End a connection on both sides."""
        for side in (endpoint, endpoint.peer):
            self.loop.call_soon(side.reset, context=side.process.context)

    def reset_some(self, machine: Machine) -> int:
        """End the connections of a machine; return how many there were."""
        endpoints = [one for process in machine.processes for one in process.endpoints]
        for endpoint in endpoints:
            self.reset(endpoint)
        return len(endpoints)

    # What transports ask for

    def latency_s(self, source: Machine, target: Endpoint, size: int) -> float:
        """Draw how long bytes take."""
        low, high = self.delay_s
        slow = self.slow_s
        if slow:
            high += slow.get(source.ip, 0.0) + slow.get(target.local[0], 0.0)
        return low + (high - low) * self.chance.random() + size / BYTES_PER_S

    def segment_bytes(self) -> int:
        """Draw how many bytes go in one piece."""
        if self.chops_from and self.chance.random() < 0.3:
            return self.chance.randint(self.chops_from, self.chops_from * 200)
        return SEGMENT_BYTES

    def delivered(self, endpoint: Endpoint) -> None:
        """Note that bytes were received; now and then what answers them is lost."""
        if self.lost_answers and self.chance.random() < self.lost_answers:
            endpoint.loses_next = True

    def carry(self, source: Machine, target: Process, deliver: Callable[[], object]) -> None:
        """Bring a message to a process; one that meets a cut comes after it, or never."""
        low, high = self.delay_s
        high += self.slow_s.get(source.ip, 0.0) + self.slow_s.get(target.machine.ip, 0.0)

        def arrive() -> None:
            if not self.is_cut(source, target.machine):
                deliver()
            elif self.chance.random() < 0.5:
                self._late.append((target, arrive))

        self.loop.call_later(self.chance.uniform(low, high), arrive, context=target.context)

    def process_ended(self, process: Process) -> None:
        """Close what a process had open, as its machine does."""
        self._stop_listening(process)
        for endpoint in tuple(process.endpoints):
            endpoint.die(is_orderly=self.chance.random() < 0.5)
        process.endpoints.clear()

    def machine_lost(self, process: Process) -> None:
        """Let a process be gone without a word."""
        self._stop_listening(process)
        for endpoint in process.endpoints:
            endpoint.is_silent = endpoint.is_lost = True
            self._silent.append(endpoint)
        process.endpoints.clear()

    def booted(self, machine: Machine) -> None:
        """Refuse what others still send to the machine that was."""
        back = [endpoint for endpoint in self._silent if endpoint.process.machine is machine]
        self._silent = [endpoint for endpoint in self._silent if endpoint.process.machine is not machine]
        for endpoint in back:
            endpoint.is_silent = False
            peer = endpoint.peer
            if not peer.is_lost and peer._outstanding:
                self.loop.call_later(self.chance.uniform(0.1, 2.0), peer.reset, context=peer.process.context)

    def _stop_listening(self, process: Process) -> None:
        for address, listener in tuple(self.listeners.items()):
            if listener.process is process:
                del self.listeners[address]

    # What the loop asks for

    def new_port(self) -> int:
        """Return a port that nobody has."""
        self._ports += 1
        return self._ports

    def bind(self, address: tuple[str, int]) -> tuple[str, int]:
        """Return the address that a process of this machine may listen on."""
        process = CURRENT.get()
        assert process is not None
        host, port = address
        if host in _ANY:
            host = process.machine.ip
        if host != process.machine.ip:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        if (host, port) in self.listeners:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        return host, port or self.new_port()

    def listen(self, factory: Any, host: str | None, port: int | None, *, sock: Any, ssl: Any) -> Listener:
        """Listen on an address, or where a simulated socket is bound."""
        process = CURRENT.get()
        assert process is not None
        assert ssl is None, "TLS is not simulated"
        address = sock.getsockname() if sock is not None else self.bind((host or "", port or 0))
        listener = self.listeners[address] = Listener(self, process, factory, address)
        return listener

    async def connect(self, factory: Any, host: str, port: int, *, ssl: Any) -> tuple[Endpoint, Any]:
        """Connect to an address, as the system does: a machine that does not answer is asked again."""
        process = CURRENT.get()
        assert process is not None, "only a process connects"
        assert ssl is None, "TLS is not simulated"
        here = process.machine
        for again_s in _AGAIN_S:
            await asyncio.sleep(self.chance.uniform(*self.delay_s))
            there = self.machines.get(host)
            if there is not None and there.is_powered and not self._is_cut_between(here, there):
                break
            await asyncio.sleep(again_s)
        else:
            raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")
        listener = self.listeners.get((host, port))
        if listener is None:
            await asyncio.sleep(self.chance.uniform(*self.delay_s))
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ({host!r}, {port})")
        near = self._join(process, listener)
        await asyncio.sleep(self.chance.uniform(*self.delay_s))
        if near.is_lost:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        protocol = factory()
        near.begin(protocol)
        return near, protocol

    def _is_cut_between(self, one: Machine, other: Machine) -> bool:
        return self.is_cut(one, other) or self.is_cut(other, one)

    def _join(self, process: Process, listener: Listener) -> Endpoint:
        mine = (process.machine.ip, self.new_port())
        near = Endpoint(self, process, mine, listener.address)
        far = Endpoint(self, listener.process, listener.address, mine)
        near.peer, far.peer = far, near
        self._connections += 1
        near.number = far.number = self._connections
        self.loop.call_soon(_accept, listener, far, context=listener.process.context)
        return near


def _accept(listener: Listener, endpoint: Endpoint) -> None:
    if not endpoint.is_lost:
        endpoint.begin(listener.factory())
