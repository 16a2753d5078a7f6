"""The instruments of the torture do what they say: links, disks, clocks, schedules."""

import asyncio
import contextlib
import errno
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from group_torture import clock_library

from pyromq.testing.waiting import aeventually, eventually
from pyromq.torture.fault_schedule import draw
from pyromq.torture.faults import FAMILIES, PROXY_KINDS, FaultKind, kinds_of
from pyromq.torture.nemesis import HARMS
from pyromq.torture.servers.node_disk import Disk, LoopDisk, MemoryDisk, why_no_disks, why_no_full_disks
from pyromq.torture.servers.process_clock import ProcessClock, forget
from pyromq.torture.servers.proxy import Proxy, Wires
from pyromq.torture.servers.sockets import owner_of
from pyromq.torture.stage import Promises, Topology
from pyromq.torture.variation import WEIGHTS, draw_variation


@dataclass
class Echo:
    """A server that says everything again, seen through a proxy from place 1 to place 2."""

    wires: Wires
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    heard: bytearray
    port: int

    async def say(self, data: bytes) -> None:
        """Send."""
        self.writer.write(data)
        await self.writer.drain()

    async def is_silent(self) -> bool:
        """Whether nothing comes back, for a moment."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.reader.read(1), 0.1)
            return False
        return True


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    heard = bytearray()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1024):
                heard.extend(data)
                writer.write(data)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    wires = Wires()
    proxy = Proxy(wires, 2, server.sockets[0].getsockname(), lambda _near, _far: 1)
    port = await proxy.start("127.0.0.1")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    yield Echo(wires, reader, writer, heard, port)
    writer.transport.abort()
    await proxy.close()
    server.close()


async def test_a_healthy_link_passes_everything_on(echo: Echo) -> None:
    await echo.say(b"hello")

    assert await echo.reader.readexactly(5) == b"hello"


async def test_a_cut_link_holds_everything_back_and_delivers_it_when_it_is_healed(echo: Echo) -> None:
    echo.wires.cut(1, 2)
    await echo.say(b"hello")
    assert await echo.is_silent()
    assert not echo.heard

    echo.wires.heal(1, 2)

    assert await echo.reader.readexactly(5) == b"hello"


async def test_a_link_that_is_cut_one_way_lets_the_other_way_through(echo: Echo) -> None:
    echo.wires.cut_one_way(2, 1)
    await echo.say(b"hello")

    await aeventually(lambda: bytes(echo.heard) == b"hello")
    assert await echo.is_silent()
    echo.wires.heal_all()
    assert await echo.reader.readexactly(5) == b"hello"


async def test_a_connection_over_a_cut_link_is_not_heard_of(echo: Echo) -> None:
    echo.wires.cut(1, 2)
    _, writer = await asyncio.open_connection("127.0.0.1", echo.port)
    writer.write(b"late")
    assert await echo.is_silent()
    assert not echo.heard

    echo.wires.heal(1, 2)

    await aeventually(lambda: bytes(echo.heard) == b"late")
    writer.close()


@pytest.mark.parametrize("harm", ["chop", "delay"])
async def test_a_bad_link_changes_no_byte(echo: Echo, harm: str) -> None:
    if harm == "chop":
        echo.wires.chop(1, 2)
    else:
        echo.wires.delay(1, 2, 0.005)
    data = os.urandom(20_000)
    await echo.say(data)

    assert await echo.reader.readexactly(len(data)) == data


async def test_a_torn_connection_ends_for_both(echo: Echo) -> None:
    await echo.say(b"hello")
    await echo.reader.readexactly(5)

    echo.wires.tear(1, 2)

    with contextlib.suppress(ConnectionError):
        assert await echo.reader.read(1) == b""


async def test_a_refusing_link_ends_new_connections(echo: Echo) -> None:
    echo.wires.refuse(1, 2)
    reader, writer = await asyncio.open_connection("127.0.0.1", echo.port)

    with contextlib.suppress(ConnectionError):
        assert await reader.read(1) == b""
    writer.transport.abort()


async def test_the_owner_of_a_connection_is_known(echo: Echo) -> None:
    near, far = (echo.writer.get_extra_info(name) for name in ("sockname", "peername"))

    assert owner_of(near, far, [1, os.getpid()]) == os.getpid()
    assert owner_of(near, ("127.0.0.2", far[1]), [os.getpid()]) is None


@pytest.fixture(params=[LoopDisk, MemoryDisk])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Disk]:
    reason = why_no_disks() if request.param is LoopDisk else why_no_full_disks()
    if reason is not None:
        pytest.skip(reason)
    disk: Disk = request.param(tmp_path / "disk", size_bytes=16 << 20)
    disk.mount()
    yield disk
    disk.unmount()


@pytest.mark.timeout(60)
def test_a_frozen_disk_can_be_filled_and_emptied(disk: Disk) -> None:
    disk.freeze()

    disk.fill()
    disk.empty()
    disk.thaw()

    (disk.outside / "one").write_bytes(bytes(100))


def test_a_full_disk_takes_nothing_until_it_is_emptied(disk: Disk) -> None:
    disk.fill()

    with pytest.raises(OSError) as raised:
        (disk.outside / "more").write_bytes(bytes(1 << 20))
    assert raised.value.errno == errno.ENOSPC
    disk.empty()
    (disk.outside / "more").write_bytes(bytes(1 << 20))


def test_what_is_on_a_disk_is_kept_where_somebody_wants_it(disk: Disk, tmp_path: Path) -> None:
    (disk.outside / "kept").write_bytes(b"kept")

    disk.unmount(keep=tmp_path / "copy")

    assert (tmp_path / "copy" / "kept").read_bytes() == b"kept"


@pytest.mark.parametrize("disk", [LoopDisk], indirect=True)
def test_a_write_to_a_frozen_disk_waits(disk: Disk) -> None:
    disk.freeze()
    path = disk.folder / "late"
    writing = threading.Thread(target=path.write_bytes, args=(b"late",))
    writing.start()
    writing.join(0.2)
    assert writing.is_alive()

    disk.thaw()

    writing.join(20)
    assert path.read_bytes() == b"late"


def test_a_clock_of_one_s_own_jumps_while_its_process_runs_and_the_other_clock_does_not(
    tmp_path: Path,
) -> None:
    library = clock_library()
    if library is None:
        pytest.skip("there is no libfaketime, and it cannot be fetched")
    clock = ProcessClock(library, tmp_path / "clock")
    script = "import time\nwhile True:\n  input(); print(time.time(), time.monotonic(), flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, **clock.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:

        def now() -> tuple[float, float]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            day, steady = process.stdout.readline().split()
            return float(day), float(steady)

        before = now()
        clock.jump(3600)
        eventually(lambda: now()[0] - before[0] > 3000, what="the clock has jumped")
        assert now()[1] - before[1] < 3000
        process.kill()
    forget(process.pid)


def test_a_seed_is_always_the_same_schedule() -> None:
    weights = {FaultKind.KILL: 1.0, FaultKind.PAUSE: 0.5}

    assert list(draw(7, weights, 60, 3)) == list(draw(7, weights, 60, 3))
    assert list(draw(7, weights, 60, 3)) != list(draw(8, weights, 60, 3))
    assert draw_variation(7) == draw_variation(7)
    assert draw_variation(7) != draw_variation(8)


def test_a_schedule_ends_with_the_time_that_it_has() -> None:
    for seed in range(50):
        faults = list(draw(seed, {FaultKind.KILL: 1.0}, 30, 3))
        assert faults
        assert all(fault.at_s + fault.lasts_s <= 30.01 for fault in faults)
    assert not list(draw(7, {}, 30, 3))


def test_what_cannot_be_done_here_does_not_change_the_rest_of_a_variation() -> None:
    without = frozenset({FaultKind.CLOCK_JUMP, FaultKind.FULL_DISK})
    for seed in range(50):
        one, other = draw_variation(seed), draw_variation(seed, without=without)
        assert [fault.at_s for fault in one.faults] == [fault.at_s for fault in other.faults]
        assert not {fault.kind for fault in other.faults} & without


def test_a_hundred_variations_have_every_kind_of_fault_and_each_kind_can_be_done() -> None:
    drawn = {fault.kind for seed in range(100) for fault in draw_variation(seed).faults}

    assert drawn == set(WEIGHTS)
    assert set(HARMS) == set(FaultKind)
    assert {kind for family in FAMILIES.values() for kind in family.kinds} == set(FaultKind)


def test_kinds_that_mean_nothing_to_a_cluster_are_not_drawn() -> None:
    alone = kinds_of(["partition", "kill"], Promises())
    group = kinds_of(["partition", "kill"], Promises(Topology.FAILOVER, replicas=2), PROXY_KINDS)

    assert FaultKind.CUT_CLIENTS in alone
    assert not {FaultKind.CUT_PEER, FaultKind.CUT_ETCD, FaultKind.AMBUSH} & alone.keys()
    assert {FaultKind.CUT_PEER, FaultKind.CUT_ETCD, FaultKind.AMBUSH} <= group.keys()
    assert not PROXY_KINDS & group.keys()
    # Each family comes as often as any other.
    assert sum(alone.values()) == pytest.approx(2)
