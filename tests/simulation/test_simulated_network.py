"""The simulated loop, processes and network do what a system does."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyromq.testing.simulation.simulated_loop import NothingLeft
from pyromq.testing.simulation.simulated_machines import Process
from pyromq.testing.simulation.transport import PIPE_BYTES
from pyromq.testing.simulation.world import World

PORT = 1000
#: A wait that nobody waits for: it is simulated time that passes.
pass_by = asyncio.sleep
Main = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture
def world() -> Iterator[World]:
    with World("a test") as world:
        yield world


class Pair:
    """A server and a client on two machines, and what each of them noted."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.here = world.add_machine("here", "10.0.0.1")
        self.there = world.add_machine("there", "10.0.0.2")
        self.notes: list[str] = []
        self.server: Process | None = None
        self.client: Process | None = None

    def serve(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        """Listen on the one machine."""

        async def main() -> None:
            await asyncio.get_running_loop().create_server(protocol, "10.0.0.1", PORT)
            await asyncio.Event().wait()

        self.server = self.world.start(self.here, "server", main())

    def call(self, main: Main) -> None:
        """Run something on the other."""
        self.client = self.world.start(self.there, "client", main())

    def connect(self, protocol: asyncio.Protocol | None = None) -> Coroutine[Any, Any, Any]:
        """Connect, as the client."""
        loop = asyncio.get_running_loop()
        return loop.create_connection(lambda: protocol or Noting(self.notes, "client"), "10.0.0.1", PORT)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.world.run(pass_by(seconds))


class Noting(asyncio.Protocol):
    """Writes down what it is told."""

    def __init__(self, notes: list[str], name: str) -> None:
        self.notes = notes
        self.name = name
        self.received = bytearray()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.notes.append(f"{self.name} got {len(self.received)}")

    def eof_received(self) -> None:
        self.notes.append(f"{self.name} got the end")

    def connection_lost(self, error: Exception | None) -> None:
        self.notes.append(f"{self.name} lost it: {type(error).__name__}")

    def pause_writing(self) -> None:
        self.notes.append(f"{self.name} pauses")

    def resume_writing(self) -> None:
        self.notes.append(f"{self.name} goes on")


@pytest.fixture
def pair(world: World) -> Pair:
    return Pair(world)


def test_time_passes_only_in_the_simulation(world: World) -> None:
    began = time.monotonic()
    world.run(pass_by(3600))
    assert 3600 <= world.loop.time() < 3601
    assert time.monotonic() - began == pytest.approx(3600, abs=1)


def test_everybody_waiting_for_nobody_is_told(world: World) -> None:
    with pytest.raises(NothingLeft):
        world.run(asyncio.Event().wait())


@pytest.mark.parametrize(
    "forbidden", [lambda: threading.Thread(target=print).start(), lambda: ThreadPoolExecutor(1).submit(print)]
)
def test_what_the_seed_does_not_decide_is_refused(world: World, forbidden: Callable[[], None]) -> None:
    with pytest.raises(AssertionError, match="a simulated process"):
        forbidden()


def test_one_worker_keeps_its_order(world: World) -> None:
    done: list[int] = []
    pool = ThreadPoolExecutor(1)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(pool, done.append, number) for number in range(50)))

    world.run(main())
    assert done == list(range(50))


def test_a_shutdown_waits_for_what_is_under_way(world: World) -> None:
    done: list[int] = []
    pool = ThreadPoolExecutor(1)

    async def main() -> None:
        asyncio.get_running_loop().run_in_executor(pool, done.append, 1)
        pool.shutdown()
        assert done == [1]

    world.run(main())


def test_bytes_arrive_in_order_and_whole(pair: Pair) -> None:
    pair.world.network.chops_from = 3
    server = Noting([], "server")
    pair.serve(lambda: server)
    sent = bytes(range(256)) * 400

    async def main() -> None:
        await pass_by(1)
        transport, _ = await pair.connect()
        for at in range(0, len(sent), 1000):
            transport.write(sent[at : at + 1000])
        await asyncio.Event().wait()

    pair.call(main)
    pair.run(5)
    assert bytes(server.received) == sent


def test_a_peer_that_does_not_read_stops_the_writer(pair: Pair) -> None:
    server = Noting([], "server")
    pair.serve(lambda: server)

    async def main() -> None:
        await pass_by(1)
        transport, _ = await pair.connect()
        await pass_by(1)
        server.transport.pause_reading()
        transport.write(bytes(PIPE_BYTES * 3))
        await pass_by(5)
        assert pair.notes == ["client pauses"]
        assert len(server.received) == 0
        server.transport.resume_reading()
        await asyncio.Event().wait()

    pair.call(main)
    pair.run(10)
    assert pair.notes == ["client pauses", "client goes on"]
    assert len(server.received) == PIPE_BYTES * 3


def test_nobody_listening_is_a_refusal(pair: Pair) -> None:
    async def main() -> None:
        with pytest.raises(ConnectionRefusedError):
            await pair.connect()
        pair.notes.append("refused")

    pair.call(main)
    pair.run(1)
    assert pair.notes == ["refused"]


def test_a_machine_without_power_does_not_answer(pair: Pair) -> None:
    pair.world.cut_power(pair.here)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(20):
                await pair.connect()
        pair.notes.append("no answer")

    pair.call(main)
    pair.run(21)
    assert pair.notes == ["no answer"]


def test_a_cut_holds_bytes_back_until_it_is_healed(pair: Pair) -> None:
    server = Noting(pair.notes, "server")
    pair.serve(lambda: server)

    async def main() -> None:
        await pass_by(1)
        transport, _ = await pair.connect()
        await pass_by(1)
        transport.write(b"12345")
        await pass_by(10)
        transport.write(b"67890")
        await asyncio.Event().wait()

    pair.call(main)
    pair.run(1.9)
    pair.world.network.cut(pair.there, pair.here, both_ways=False)
    pair.run(8)
    assert pair.notes == []
    pair.world.network.heal()
    pair.run(10)
    assert bytes(server.received) == b"1234567890"


def _exchange(pair: Pair) -> None:
    pair.serve(lambda: Noting(pair.notes, "server"))

    async def main() -> None:
        await pass_by(1)
        transport, _ = await pair.connect()
        await pass_by(1)
        transport.write(b"hello")
        await pass_by(10)
        transport.write(b"again")
        await asyncio.Event().wait()

    pair.call(main)
    pair.run(5)
    assert pair.notes == ["server got 5"]


def test_a_killed_process_ends_its_connections(pair: Pair) -> None:
    _exchange(pair)
    assert pair.server is not None
    pair.server.kill()
    pair.run(1)
    assert "client lost it" in pair.notes[-1]


def test_a_machine_that_lost_power_tells_nobody_until_it_is_back(pair: Pair) -> None:
    _exchange(pair)
    pair.world.cut_power(pair.here)
    pair.run(3)
    assert pair.notes == ["server got 5"]
    pair.world.boot(pair.here)
    pair.run(10)
    assert pair.notes[-1] == "client lost it: ConnectionResetError"


def test_a_stopped_process_finds_everything_when_it_goes_on(pair: Pair) -> None:
    _exchange(pair)
    assert pair.server is not None
    pair.server.pause()
    pair.run(10)
    assert pair.notes == ["server got 5"]
    pair.server.resume()
    pair.run(0.1)
    assert pair.notes == ["server got 5", "server got 10"]
