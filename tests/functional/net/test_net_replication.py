"""What a synchronous master exchanges with its slave while a turn of the loop goes on, on both loops."""

import itertools
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from list_transport import ListTransport
from replication_stage import Master, Stage, put

from pyromq.broker.durability.acknowledgement import PART_BYTES, Durability, Lease, lasting_lease
from pyromq.broker.durability.replica_wait import Replicated
from pyromq.broker.end_of_turn import BrokerTurn
from pyromq.config.choices import FlushDiskType
from pyromq.config.settings import NetSettings, StoreSettings
from pyromq.errors import NotMaster
from pyromq.net.address import split_address
from pyromq.net.link import Link
from pyromq.testing.waiting import aeventually
from pyromq.wire.replication import Hello, encode_hello, encode_report

LOG_FILE_BYTES = 8 << 20


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage(tmp_path) as stage:
        yield stage


def position(of: int) -> bytes:
    return struct.pack(">q", of)


@contextmanager
def connected(master: Master) -> Iterator[socket.socket]:
    """Have a slave that is nothing but a socket, and says and hears something only when it is told to."""
    with socket.create_connection(split_address(master.address)) as slave:
        yield slave


async def follows(master: Master, slave: socket.socket) -> None:
    slave.send(position(0))
    await aeventually(lambda: any(not link.is_stranger for link in master.server.links))


async def test_a_part_of_a_turn_is_with_the_system_before_the_turn_ends(stage: Stage) -> None:
    master = await stage.master()
    with connected(master) as slave:
        await follows(master, slave)
        put(master.store, b"x" * 1000)
        with pytest.raises(BlockingIOError):
            slave.recv(1, socket.MSG_DONTWAIT)
        master.server.send_now()
        assert slave.recv(8, socket.MSG_DONTWAIT) == position(0)


async def test_a_report_is_heard_before_the_turn_ends(stage: Stage) -> None:
    master = await stage.master()
    with connected(master) as slave:
        await follows(master, slave)
        put(master.store, b"x" * 1000)
        report = position(master.store.max_position)
        assert not master.server.hear_now()
        slave.send(report[:5])
        assert master.server.hear_now()
        assert master.followers.confirmed == 0
        slave.send(report[5:])
        assert master.server.hear_now()
        assert master.followers.confirmed == master.store.max_position
        assert not master.server.hear_now()
    # The end of the connection is left for the loop to find.
    assert not master.server.hear_now()
    await aeventually(lambda: not master.server.links)


async def test_with_failover_a_member_s_report_is_heard_before_the_turn_ends(stage: Stage) -> None:
    master = await stage.master(epoch=1, in_sync=frozenset({2}))
    with connected(master) as slave:
        slave.send(encode_hello(Hello(2)) + encode_report(0))
        await aeventually(lambda: any(not link.is_stranger for link in master.server.links))
        put(master.store, b"x" * 1000)
        slave.send(encode_report(master.store.max_position))
        assert master.server.hear_now()
        assert master.followers.confirmed == master.store.max_position


class Writing:
    """A synchronous master with a sender's connection, whose messages are answered when they are safe."""

    numbers = itertools.count()

    def __init__(self, stage: Stage, master: Master, lease: Lease, flush: FlushDiskType) -> None:
        settings = StoreSettings(flush_disk_type=flush)
        self._store = master.store
        self._turn = BrokerTurn(stage.clock.monotonic)
        self.transport = ListTransport()
        self.replicated = Replicated(master.followers, settings, stage.clock)
        master.followers.on_confirmed = self.replicated.raise_to
        self.durability = Durability(
            master.store,
            settings,
            stage.clock,
            self.replicated,
            lease,
            slaves=master.server,
            step=self._turn.sync,
        )
        self.told: list[Exception | None] = []
        self._link = Link(
            NetSettings(),
            turn=self._turn,
            clock=stage.clock,
            on_request=lambda *_: None,
            on_end=lambda _link: None,
        )
        self._link.connection_made(self.transport)

    def write_a_part(self) -> int:
        """Write as much as does not wait for the end of the turn; return where the log ends."""
        before = self._store.max_position
        while self._store.max_position < before + PART_BYTES:
            put(self._store, b"x" * 4000)
        self.durability.with_this_turn(self._store.max_position, self._settle)
        return self._store.max_position

    def _settle(self, error: Exception | None) -> None:
        self.told.append(error)
        self._link.send_frames(b"answer")

    def close(self) -> None:
        self.replicated.close()
        self.durability.close()


@pytest.fixture
async def writing(stage: Stage, request: pytest.FixtureRequest) -> AsyncIterator[tuple[Writing, Master]]:
    lease, flush = getattr(request, "param", (lasting_lease(), FlushDiskType.ASYNC_FLUSH))
    master = await stage.master(mapped_file_size_commit_log=LOG_FILE_BYTES)
    writing = Writing(stage, master, lease, flush)
    yield writing, master
    writing.close()


async def two_parts(writing: Writing, master: Master) -> None:
    """Write two parts in one turn; the slave has the first before the second is there."""
    with connected(master) as slave:
        await follows(master, slave)
        slave.send(position(writing.write_a_part()))
        writing.write_a_part()
        # Nothing was awaited since the slave followed: this is one turn.


HELD = Lease(lambda: 0.0, 1.0)
OVER = Lease(lambda: 0.0, 0.0)


@pytest.mark.row("HA-05")
@pytest.mark.parametrize("writing", [(HELD, FlushDiskType.ASYNC_FLUSH)], indirect=True)
async def test_who_waited_for_a_part_is_answered_while_the_turn_goes_on(
    writing: tuple[Writing, Master],
) -> None:
    await two_parts(*writing)
    assert writing[0].told == [None]
    assert writing[0].transport.writes == [b"answer"]


@pytest.mark.parametrize("writing", [(OVER, FlushDiskType.ASYNC_FLUSH)], indirect=True)
async def test_nobody_is_answered_early_when_the_lease_is_over(writing: tuple[Writing, Master]) -> None:
    await two_parts(*writing)
    assert [type(error) for error in writing[0].told] == [NotMaster]
    assert writing[0].transport.writes == []


@pytest.mark.parametrize("writing", [(HELD, FlushDiskType.SYNC_FLUSH)], indirect=True)
async def test_with_synchronous_flush_nobody_is_answered_before_the_own_disk_has_it(
    writing: tuple[Writing, Master],
) -> None:
    await two_parts(*writing)
    assert writing[0].told == []
    assert writing[0].transport.writes == []
