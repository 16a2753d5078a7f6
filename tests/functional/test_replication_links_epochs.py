"""Master and slave by the protocol of failover, on real sockets with real stores."""

import asyncio
import random
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from replication_stage import (
    LOG_FILE_BYTES,
    Cutter,
    Master,
    Slave,
    Stage,
    listening,
    open_epochs,
    open_store,
    put,
    remoting,
    stop,
    store_settings,
    whole_log,
)

from pyromq.broker.replication.ha_server import TURN_BYTES, WRITE_BYTES_HIGH
from pyromq.clock import SystemClock
from pyromq.config.settings import NetSettings
from pyromq.net.links import Links
from pyromq.store.store import MessageStore
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage(tmp_path) as stage:
        yield stage


@asynccontextmanager
async def raw_connection(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def hear(reader: asyncio.StreamReader, size: int) -> bytes:
    async with asyncio.timeout(10):
        return await reader.readexactly(size)


def hello(id_: int) -> bytes:
    return struct.pack(">ihhq", 1, 0, 0, id_)


def report(position: int) -> bytes:
    return struct.pack(">iq", 2, position)


def head(start: int, size: int, epoch: int, epoch_start: int, confirmed: int) -> bytes:
    return struct.pack(">iiqiqq", 2, size, start, epoch, epoch_start, confirmed)


def reopen_cut(folder: Path, position: int) -> None:
    """Do what a broker does that is started to cut off what its log has too much."""
    store = MessageStore(store_settings(folder), clock=SystemClock())
    store.open(cut_at=position)
    epochs = open_epochs(folder)
    epochs.cut(position)
    store.close()


async def close_master(master: Master) -> None:
    await master.server.close()
    master.store.close()


async def caught_up(master: Master, *slaves: Slave) -> None:
    for slave in slaves:
        await slave.has(master.store.max_position)
        assert whole_log(slave.store) == whole_log(master.store)


class TestTheBytes:
    async def test_a_master_tells_its_epochs_and_then_where_the_slave_stands(self, stage: Stage) -> None:
        master = await stage.master(epoch=3)
        end = master.write(1)
        async with raw_connection(master.address) as (reader, writer):
            writer.write(hello(7))
            assert await hear(reader, 32) == struct.pack(">iiqi", 1, 12, end, 3) + struct.pack(">iq", 3, 0)
            writer.write(report(end))
            assert await hear(reader, 36) == head(end, 0, 3, 0, end)
            more = master.write(1)
            expected = head(end, more - end, 3, 0, more) + master.store.log_bytes(end, more)
            assert await hear(reader, len(expected)) == expected

    async def test_each_piece_is_of_one_epoch(self, stage: Stage) -> None:
        first = await stage.master(epoch=1)
        middle = first.write(2)
        await close_master(first)
        master = await stage.master(epoch=4)
        end = master.write(2)
        async with raw_connection(master.address) as (reader, writer):
            writer.write(hello(7))
            assert struct.unpack(">iiqi", await hear(reader, 20)) == (1, 24, end, 4)
            assert await hear(reader, 24) == struct.pack(">iqiq", 1, 0, 4, middle)
            writer.write(report(100))
            assert await hear(reader, 36) == head(100, 0, 1, 0, end)
            log = master.store.log_bytes
            expected = head(100, middle - 100, 1, 0, end) + log(100, middle - 100)
            expected += head(middle, end - middle, 4, middle, end) + log(middle, end - middle)
            assert await hear(reader, len(expected)) == expected

    async def test_a_slave_says_its_id_and_then_its_position(self, stage: Stage) -> None:
        told = asyncio.Queue[bytes]()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            told.put_nowait(await reader.readexactly(16))
            writer.write(struct.pack(">iiqi", 1, 12, 0, 2) + struct.pack(">iq", 2, 0))
            told.put_nowait(await reader.readexactly(12))

        async with listening(listen) as address:
            slave = await stage.slave(address, id_=9)
            assert await told.get() == hello(9)
            assert await told.get() == report(0)
            await stop(slave)


class TestConfirming:
    async def test_a_slave_without_a_log_gets_all_of_it(self, stage: Stage) -> None:
        master = await stage.master(epoch=1)
        while master.store.max_position < 3 * LOG_FILE_BYTES:
            master.write(10)
        slave = await stage.slave(master.address, id_=2)
        await caught_up(master, slave)
        assert open_epochs(stage.folder / "slave").entries == ((1, 0),)

    async def test_it_begins_with_the_oldest_file_that_the_master_has(self, stage: Stage) -> None:
        master = await stage.master(epoch=1)
        while master.store.max_position < 3 * LOG_FILE_BYTES:
            master.write(10)
        for file in master.store.log.detach_first(1):
            file.close()
        slave = await stage.slave(master.address, id_=2)
        await caught_up(master, slave)
        assert slave.store.min_position == LOG_FILE_BYTES

    async def test_what_all_members_have_is_confirmed_and_readable_at_each(self, stage: Stage) -> None:
        master = await stage.master(epoch=1, in_sync=frozenset({2, 3}))
        master.followers.on_confirmed = lambda position: setattr(master.store, "readable_position", position)
        master.store.readable_position = 0
        one = await stage.slave(master.address, "one", id_=2)
        end = master.write(5)
        await one.has(end)
        await aeventually(lambda: [one.acked for one in master.followers.members] == [end])
        assert master.followers.confirmed == 0
        assert one.store.readable_end("orders", 0) == 0
        two = await stage.slave(master.address, "two", id_=3)
        await aeventually(lambda: master.followers.confirmed == end)
        for slave in (one, two):
            await aeventually(lambda slave=slave: slave.store.readable_end("orders", 0) == 5)  # type: ignore[misc]

    async def test_a_member_that_is_killed_holds_up_what_follows(self, stage: Stage) -> None:
        master = await stage.master(epoch=1, in_sync=frozenset({2, 3}))
        one = await stage.slave(master.address, "one", id_=2)
        two = await stage.slave(master.address, "two", id_=3)
        end = master.write(5)
        await aeventually(lambda: master.followers.confirmed == end)
        await stop(two)
        more = master.write(5)
        await one.has(more)
        await aeventually(lambda: [f.acked for f in master.followers.members if f.id == 2] == [more])
        assert master.followers.confirmed == end
        master.followers.in_sync = frozenset({2})
        assert master.followers.confirmed == more

    async def test_a_broker_that_connects_again_replaces_its_first_connection(self, stage: Stage) -> None:
        master = await stage.master(epoch=1)
        async with raw_connection(master.address) as (first, writer):
            writer.write(hello(7) + report(0))
            await aeventually(lambda: master.followers.connected_count == 1)
            async with raw_connection(master.address) as (_, second):
                second.write(hello(7) + report(0))
                async with asyncio.timeout(10):
                    await first.read()
                await aeventually(lambda: len(master.server.links) == 1)
                assert [one.id for one in master.followers.members] == [7]

    async def test_a_slave_that_does_not_read_does_not_hold_up_the_others(self, stage: Stage) -> None:
        master = await stage.master(epoch=1, mapped_file_size_commit_log=8 << 20)
        fast = await stage.slave(master.address, id_=2, mapped_file_size_commit_log=8 << 20)
        async with raw_connection(master.address) as (reader, writer):
            writer.write(hello(7) + report(0))
            await aeventually(lambda: master.followers.connected_count == 2)
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            while master.store.max_position < 20 << 20:
                master.write(10, 20_000)
                await asyncio.sleep(0)
            await fast.has(master.store.max_position)
            most = max(link.waiting_bytes for link in master.server.links)
            assert most <= WRITE_BYTES_HIGH + 2 * TURN_BYTES

    @pytest.mark.parametrize("seed", range(2))
    async def test_a_link_that_is_cut_anywhere_leaves_the_same_log(self, stage: Stage, seed: int) -> None:
        chance = random.Random(seed)
        master = await stage.master(epoch=1, ha_transfer_batch_size=1500)
        async with Cutter(master.address, [chance.randrange(30_000) for _ in range(10)]) as cutter:
            slave = await stage.slave(cutter.address, id_=2)
            while cutter.cut_count < 10:
                seen = cutter.cut_count, slave.store.max_position
                master.write(chance.randrange(1, 20), chance.randrange(2000))
                await aeventually(lambda seen=seen: (cutter.cut_count, slave.store.max_position) != seen)  # type: ignore[misc]
            master.write(1)
            await caught_up(master, slave)
            await stop(slave)


class TestDivergence:
    async def test_a_master_that_was_replaced_cuts_off_what_nobody_has_and_follows(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        a = await stage.master("a", epoch=1)
        b = await stage.slave(a.address, "b", id_=2)
        await caught_up(a, b)
        common = a.write(20)
        await b.has(common)
        await stop(b)
        a.write(7)
        await close_master(a)

        master = await stage.master("b", epoch=2)
        master.write(30)
        slave = await stage.slave(master.address, "a", id_=1)
        await aeventually(lambda: slave.diverged)
        assert slave.diverged[0] == common
        assert f"the same as the master's up to {common} only" in str(slave.client.trouble)
        await stop(slave)

        reopen_cut(stage.folder / "a", common)
        again = await stage.slave(master.address, "a", id_=1)
        await caught_up(master, again)
        assert open_epochs(stage.folder / "a").entries == ((1, 0), (2, common))
        assert again.store.max_offset("orders", 0) == master.store.max_offset("orders", 0)

    async def test_a_replica_that_slept_through_several_masters_finds_the_common_part(
        self, stage: Stage
    ) -> None:
        a = await stage.master("a", epoch=1)
        b = await stage.slave(a.address, "b", id_=2)
        common = a.write(5)
        await b.has(common)
        await stop(b)
        a.write(3)
        await close_master(a)
        for epoch in (2, 3, 5):
            master = await stage.master("b", epoch=epoch)
            master.write(4)
            await close_master(master)
        master = await stage.master("b", epoch=6)
        slave = await stage.slave(master.address, "a", id_=1)
        await aeventually(lambda: slave.diverged)
        assert slave.diverged[0] == common
        await stop(slave)
        reopen_cut(stage.folder / "a", common)
        again = await stage.slave(master.address, "a", id_=1)
        await caught_up(master, again)
        assert master.epochs is not None
        await aeventually(lambda: open_epochs(stage.folder / "a").entries == master.epochs.entries)

    async def test_a_log_of_another_group_is_refused_and_not_touched(self, stage: Stage) -> None:
        other = open_store(stage.folder / "slave")
        put(other, b"of another group")
        end = other.max_position
        other.close()
        master = await stage.master(epoch=1)
        master.write(10)
        slave = await stage.slave(master.address, id_=2)
        await aeventually(lambda: slave.diverged)
        assert slave.diverged == [None]
        assert "no epoch in common" in str(slave.client.trouble)
        assert slave.store.max_position == end

    async def test_a_slave_from_before_there_were_epochs_goes_on_when_its_last_message_is_the_master_s(
        self, stage: Stage
    ) -> None:
        static = await stage.master()
        copy = await stage.slave(static.address)
        end = static.write(20)
        await copy.has(end)
        await stop(copy)
        await close_master(static)
        master = await stage.master(epoch=1)
        master.write(5)
        async with remoting(master.store) as address:
            links = Links(NetSettings())
            slave = await stage.slave(master.address, id_=2, links=links, master_address=address)
            await caught_up(master, slave)
            assert open_epochs(stage.folder / "slave").entries == ((1, 0),)
            await stop(slave)
            await links.close()

    async def test_a_slave_from_before_there_were_epochs_with_another_last_message_is_refused(
        self, stage: Stage
    ) -> None:
        other = open_store(stage.folder / "slave")
        put(other, b"A" * 300)
        end = other.max_position
        other.close()
        master = await stage.master(epoch=1)
        master.write(5)
        async with remoting(master.store) as address:
            links = Links(NetSettings())
            slave = await stage.slave(master.address, id_=2, links=links, master_address=address)
            await aeventually(lambda: slave.diverged)
            assert slave.diverged == [None]
            assert slave.store.max_position == end
            await stop(slave)
            await links.close()

    async def test_a_master_of_an_older_epoch_is_not_followed(self, stage: Stage) -> None:
        master = await stage.master(epoch=1)
        master.write(3)
        slave = await stage.slave(master.address, id_=2, epoch=2)
        await aeventually(lambda: "epoch 2 has begun" in str(slave.client.trouble))
        assert slave.store.max_position == 0
        assert not slave.diverged

    async def test_a_slave_too_far_behind_for_the_master_says_what_to_do(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        master = await stage.master(epoch=1)
        first = await stage.slave(master.address, id_=2)
        await first.has(master.write(5))
        end = first.store.max_position
        await stop(first)
        while master.store.max_position < 2 * LOG_FILE_BYTES:
            master.write(10)
        for file in master.store.log.detach_first(1):
            file.close()
        caplog.set_level("INFO")
        again = await stage.slave(master.address, id_=2)
        await aeventually(lambda: "remove its store folder" in str(again.client.trouble))
        assert again.store.max_position == end
        assert not any("this slave follows" in line for line in caplog.messages)


class TestPeersThatMisbehave:
    @pytest.mark.parametrize(
        "said",
        [report(0), hello(-1), b"\0" * 16, hello(1) * 2, b"GET / HTTP/1.1\r\n", hello(1) + report(1 << 50)],
        ids=["no hello", "no id", "zeros", "twice", "http", "more than there is"],
    )
    async def test_a_stranger_is_sent_away_with_a_line_that_says_why(
        self, stage: Stage, caplog: pytest.LogCaptureFixture, said: bytes
    ) -> None:
        master = await stage.master(epoch=1)
        async with raw_connection(master.address) as (reader, writer):
            writer.write(said)
            async with asyncio.timeout(10):
                await reader.read()
        assert any("is closed: " in line for line in caplog.messages)
        assert master.followers.confirmed == 0

    async def test_a_master_without_an_epoch_has_no_slaves(self, stage: Stage) -> None:
        master = await stage.master(epoch=1)
        assert master.epochs is not None
        master.epochs.cut(0)
        slave = await stage.slave(master.address, id_=2)
        await aeventually(lambda: slave.client.trouble)
        assert master.followers.members == ()

    @pytest.mark.parametrize(
        "reply",
        [
            struct.pack(">iiqi", 1, 1 << 30, 0, 1),
            struct.pack(">iiqi", 1, -12, 0, 1),
            struct.pack(">iiqi", 2, 0, 0, 1) + bytes(16),
            struct.pack(">iiqi", 1, 24, 100, 2) + struct.pack(">iqiq", 2, 0, 1, 5),
            struct.pack(">iiqi", 1, 12, 100, 1) + struct.pack(">iq", 1, 0) + head(0, 1 << 30, 1, 0, 0),
            struct.pack(">iiqi", 1, 12, 100, 1) + struct.pack(">iq", 1, 0) + hello(3) + bytes(20),
        ],
        ids=["absurd", "negative", "no handshake", "no order", "absurd piece", "second handshake"],
    )
    async def test_a_master_that_sends_nonsense_is_left_and_tried_again(
        self, stage: Stage, reply: bytes
    ) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(16)
            writer.write(reply)

        async with listening(answer) as address:
            slave = await stage.slave(address, id_=2)
            await aeventually(lambda: slave.client.connects_count >= 3)
            assert slave.store.max_position == 0
            await stop(slave)


async def test_a_slave_that_starts_shows_nothing_before_its_master_has_confirmed_it(tmp_path: Path) -> None:
    store = open_store(tmp_path / "slave")
    put(store, b"of who knows when")
    store.close()
    async with Stage(tmp_path, ManualClock()) as stage:
        slave = await stage.slave(lambda: None, id_=2)
        assert slave.store.max_offset("orders", 0) == 1
        assert slave.store.readable_end("orders", 0) == 0
