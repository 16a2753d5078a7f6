"""Master and slave by 4.9's protocol, on real sockets with real stores."""

import asyncio
import os
import random
import socket
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
    open_store,
    put,
    remoting,
    stop,
    whole_log,
)

from pyromq.broker.replication.ha_server import STRANGERS_MAX, TURN_BYTES, WRITE_BYTES_HIGH
from pyromq.config.settings import NetSettings
from pyromq.net.links import Links
from pyromq.store.store import MessageStore
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with Stage(tmp_path) as stage:
        yield stage


def frame(store: MessageStore, start: int, size: int) -> bytes:
    return struct.pack(">qi", start, size) + store.log_bytes(start, size)


class Raw:
    """A slave that is nothing but a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def say(self, position: int) -> None:
        self.writer.write(struct.pack(">q", position))

    async def hear(self, size: int) -> bytes:
        async with asyncio.timeout(10):
            return await self.reader.readexactly(size)

    async def hear_end(self) -> bytes:
        async with asyncio.timeout(10):
            return await self.reader.read()


@asynccontextmanager
async def raw_slave(master: Master) -> AsyncIterator[Raw]:
    host, port = master.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Raw(reader, writer)
    finally:
        writer.transport.abort()


def same_logs(master: Master, *slaves: Slave) -> bool:
    log = whole_log(master.store)
    return all(log.endswith(whole_log(slave.store)) for slave in slaves)


class TestTheBytes:
    async def test_a_slave_is_sent_what_follows_its_position_in_frames_of_the_batch_size(
        self, stage: Stage
    ) -> None:
        master = await stage.master(ha_transfer_batch_size=1024)
        end = master.write(6)
        start = 411
        async with raw_slave(master) as slave:
            slave.say(start)
            expected = frame(master.store, start, 1024) + frame(
                master.store, start + 1024, end - start - 1024
            )
            assert end - start < 2048
            assert await slave.hear(len(expected)) == expected
            more = master.write(1)
            expected = frame(master.store, end, more - end)
            assert await slave.hear(len(expected)) == expected

    async def test_no_frame_crosses_a_file(self, stage: Stage) -> None:
        master = await stage.master(ha_transfer_batch_size=32 << 10)
        end = master.write(200)
        assert end > LOG_FILE_BYTES
        async with raw_slave(master) as slave:
            slave.say(LOG_FILE_BYTES - 100)
            expected = frame(master.store, LOG_FILE_BYTES - 100, 100)
            assert await slave.hear(len(expected)) == expected
            assert struct.unpack(">q", await slave.hear(8)) == (LOG_FILE_BYTES,)

    async def test_a_slave_without_a_log_is_sent_the_last_file(self, stage: Stage) -> None:
        master = await stage.master()
        while master.store.max_position < 3 * LOG_FILE_BYTES:
            master.write(10)
        async with raw_slave(master) as slave:
            slave.say(0)
            size = master.store.max_position - 3 * LOG_FILE_BYTES
            assert await slave.hear(12) == struct.pack(">qi", 3 * LOG_FILE_BYTES, size)

    async def test_a_slave_says_hello_and_acknowledges_each_read(self, stage: Stage) -> None:
        heard = asyncio.Queue[int]()

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.put_nowait(struct.unpack(">q", await reader.readexactly(8))[0])
            writer.write(frame(source, 0, 200) + frame(source, 200, source.max_position - 200))
            heard.put_nowait(struct.unpack(">q", await reader.readexactly(8))[0])

        source = open_store(stage.folder / "source")
        put(source, b"x" * 400)
        async with listening(listen) as address:
            slave = await stage.slave(address)
            assert await heard.get() == 0
            assert await heard.get() == source.max_position
            await stop(slave)
        source.close()


async def written_through(cutter: Cutter, master: Master, slave: Slave, chance: random.Random) -> None:
    """Write some messages, and wait until some of it has come through, or the link was cut."""
    seen = cutter.cut_count, slave.store.max_position
    master.write(chance.randrange(1, 20), chance.randrange(2000))
    await aeventually(lambda: (cutter.cut_count, slave.store.max_position) != seen)


class TestCopying:
    @pytest.mark.row("HA-01")
    async def test_a_slave_has_what_its_master_has_and_its_acknowledgement_is_known(
        self, stage: Stage
    ) -> None:
        master = await stage.master()
        slave = await stage.slave(master.address)
        await aeventually(lambda: master.followers.connected_count == 1)
        end = master.write(50)
        await slave.has(end)
        await aeventually(lambda: master.followers.confirmed == end)
        assert whole_log(slave.store) == whole_log(master.store)
        assert slave.store.max_offset("orders", 0) == 50
        assert slave.client.is_connected
        assert slave.client.lag_bytes == 0
        assert slave.client.copied_bytes == end

    @pytest.mark.row("HA-03")
    async def test_several_slaves_copy_the_same_log(self, stage: Stage) -> None:
        master = await stage.master()
        slaves = [await stage.slave(master.address, name) for name in ("one", "two", "three")]
        await aeventually(lambda: master.followers.connected_count == 3)
        for _ in range(20):
            end = master.write(30)
            await asyncio.sleep(0)
        for slave in slaves:
            await slave.has(end)
        assert same_logs(master, *slaves)
        await aeventually(lambda: all(one.acked == end for one in master.followers.members))

    async def test_a_slave_that_was_away_goes_on_where_it_was(self, stage: Stage) -> None:
        master = await stage.master()
        first = await stage.slave(master.address)
        await first.has(master.write(40))
        await stop(first)
        await aeventually(lambda: master.followers.connected_count == 0)
        end = master.write(400)
        again = await stage.slave(master.address)
        await again.has(end)
        assert again.client.copied_bytes < end
        assert same_logs(master, again)

    @pytest.mark.parametrize("seed", range(3))
    async def test_a_link_that_is_cut_anywhere_and_often_leaves_the_same_log(
        self, stage: Stage, seed: int
    ) -> None:
        chance = random.Random(seed)
        master = await stage.master(ha_transfer_batch_size=1500)
        cuts = [chance.randrange(30_000) for _ in range(15)]
        async with Cutter(master.address, cuts) as cutter:
            slave = await stage.slave(cutter.address)
            await aeventually(lambda: slave.client.connects_count)
            while cutter.cut_count < 15:
                await written_through(cutter, master, slave, chance)
            await slave.has(master.write(1))
            assert same_logs(master, slave)
            assert slave.store.max_offset("orders", 0) == master.store.max_offset("orders", 0)
            await stop(slave)

    async def test_a_slave_waits_for_a_master_that_is_not_there_and_says_so_once(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        address: list[str | None] = [None]
        slave = await stage.slave(lambda: address[0])
        gone = await stage.master("gone")
        await gone.server.close()
        address[0] = gone.address
        await aeventually(lambda: slave.client.trouble)
        master = await stage.master()
        end = master.write(3)
        address[0] = master.address
        await slave.has(end)
        assert slave.client.trouble is None
        assert sum("is not copied" in line for line in caplog.messages) == 1

    async def test_a_slave_leaves_for_the_new_master_when_it_is_told_of_one(self, tmp_path: Path) -> None:
        clock = ManualClock()
        async with Stage(tmp_path, clock) as stage:
            old, new = await stage.master("old"), await stage.master("new")
            address = [old.address]
            slave = await stage.slave(lambda: address[0])
            await aeventually(lambda: old.followers.connected_count == 1)
            address[0] = new.address
            clock.advance(1)
            await aeventually(lambda: new.followers.connected_count == 1)
            await slave.has(new.write(2))

    async def test_nothing_is_left_of_a_slave_that_is_closed(self, stage: Stage) -> None:
        master = await stage.master()
        slave = await stage.slave(master.address)
        await aeventually(lambda: master.followers.connected_count == 1)
        await stop(slave)
        assert not slave.client.is_connected
        await aeventually(lambda: not master.server.links)

    async def test_a_slave_that_does_not_read_costs_the_master_no_memory(self, stage: Stage) -> None:
        master = await stage.master(mapped_file_size_commit_log=8 << 20, ha_transfer_batch_size=32 << 10)
        async with raw_slave(master) as slave:
            slave.reader._transport.pause_reading()  # type: ignore[attr-defined]
            slave.say(0)
            await aeventually(lambda: master.followers.connected_count == 1)
            waiting = []
            while master.store.max_position < 24 << 20:
                master.write(10, 20_000)
                await asyncio.sleep(0)
                (link,) = master.server.links
                waiting.append(link.waiting_bytes)
            assert WRITE_BYTES_HIGH < max(waiting) <= WRITE_BYTES_HIGH + 2 * TURN_BYTES
            slave.reader._transport.resume_reading()  # type: ignore[attr-defined]
            position = 0
            while position < master.store.max_position:
                start, size = struct.unpack(">qi", await slave.hear(12))
                assert start == position
                assert await slave.hear(size) == master.store.log_bytes(start, size)
                position += size

    async def test_a_part_of_a_turn_is_with_the_system_before_the_turn_ends(self, stage: Stage) -> None:
        master = await stage.master()
        async with raw_slave(master) as slave:
            slave.say(0)
            await aeventually(lambda: master.followers.connected_count == 1)
            put(master.store, b"x" * 1000)
            number = slave.writer.get_extra_info("socket").fileno()
            with socket.socket(fileno=os.dup(number)) as seen:
                with pytest.raises(BlockingIOError):
                    seen.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
                master.server.send_now()
                assert seen.recv(12, socket.MSG_PEEK | socket.MSG_DONTWAIT)[:8] == bytes(8)


class TestLogsThatDoNotFit:
    async def test_a_slave_whose_next_file_is_gone_at_the_master_says_what_to_do(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        master = await stage.master()
        first = await stage.slave(master.address)
        end = master.write(10)
        await first.has(end)
        await stop(first)
        while master.store.max_position < 2 * LOG_FILE_BYTES:
            master.write(10)
        for file in master.store.log.detach_first(1):
            file.close()
        again = await stage.slave(master.address)
        await aeventually(lambda: again.client.is_diverged)
        assert again.client.trouble is not None
        assert f"up to {end}, and the master's goes on at {LOG_FILE_BYTES}" in again.client.trouble
        assert "remove its store folder" in again.client.trouble
        assert again.store.max_position == end
        assert any(f"ours begins at {LOG_FILE_BYTES}" in line for line in caplog.messages)

    async def test_a_slave_that_is_there_when_its_next_file_goes_is_told(self, stage: Stage) -> None:
        master = await stage.master()
        while master.store.max_position < 2 * LOG_FILE_BYTES:
            master.write(10)
        async with raw_slave(master) as slave:
            await aeventually(lambda: master.server.links)
            for file in master.store.log.detach_first(2):
                file.close()
            slave.say(100)
            heard = await slave.hear_end()
            assert heard == struct.pack(">qi", 2 * LOG_FILE_BYTES, 0)

    async def test_a_slave_that_has_more_than_its_master_follows_no_more(self, stage: Stage) -> None:
        ahead = open_store(stage.folder / "slave")
        for _ in range(10):
            put(ahead, b"only here")
        end = ahead.max_position
        ahead.close()
        master = await stage.master()
        master.write(1)
        slave = await stage.slave(master.address)
        await aeventually(lambda: slave.client.is_diverged)
        master.write(100)
        assert slave.store.max_position == end
        assert slave.diverged == [None]
        assert master.followers.confirmed == 0

    async def test_a_slave_with_another_last_message_copies_nothing(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        other = open_store(stage.folder / "slave")
        put(other, b"A" * 300)
        end = other.max_position
        other.close()
        master = await stage.master()
        put(master.store, b"B" * 300)
        master.write(5)
        assert master.store.read_at(0) is not None
        async with remoting(master.store) as address:
            links = Links(NetSettings())
            slave = await stage.slave(master.address, links=links, master_address=address)
            await aeventually(lambda: slave.client.is_diverged)
            assert slave.store.max_position == end
            assert slave.diverged == [None]
            assert sum("has something else there" in line for line in caplog.messages) == 1
            await stop(slave)
            await links.close()

    async def test_a_slave_whose_last_message_the_master_never_had_copies_nothing(self, stage: Stage) -> None:
        other = open_store(stage.folder / "slave")
        put(other, b"A" * 300)
        put(other, b"A" * 300)
        other.close()
        master = await stage.master()
        async with remoting(master.store) as address:
            links = Links(NetSettings())
            slave = await stage.slave(master.address, links=links, master_address=address)
            await aeventually(lambda: slave.client.is_diverged)
            assert "has none there" in str(slave.client.trouble)
            await stop(slave)
            await links.close()

    async def test_a_slave_with_the_same_last_message_goes_on(self, stage: Stage) -> None:
        master = await stage.master()
        async with remoting(master.store) as address:
            links = Links(NetSettings())
            first = await stage.slave(master.address, links=links, master_address=address)
            await first.has(master.write(3))
            await stop(first)
            end = master.write(3)
            again = await stage.slave(master.address, links=links, master_address=address)
            await again.has(end)
            await stop(again)
            await links.close()

    async def test_a_slave_that_cannot_ask_its_master_waits(self, stage: Stage) -> None:
        other = open_store(stage.folder / "slave")
        put(other, b"A" * 300)
        end = other.max_position
        other.close()
        master = await stage.master()
        put(master.store, b"B" * 300)
        master.write(3)
        links = Links(NetSettings())
        gone = await stage.master("gone")
        await gone.server.close()
        slave = await stage.slave(master.address, links=links, master_address=gone.address)
        await aeventually(lambda: slave.client.trouble)
        assert slave.store.max_position == end
        assert not slave.diverged
        await stop(slave)
        await links.close()


class TestPeersThatMisbehave:
    @pytest.mark.parametrize(
        ("hello", "why"),
        [
            (b"GET / HTTP/1.1\r\n\r\n", "its log ends at|ours ends at"),
            (b"\xff" * 8, "its log ends at -1"),
            (struct.pack(">q", 1 << 60), "ours ends at"),
        ],
    )
    async def test_a_stranger_is_sent_away_with_a_line_that_says_why(
        self, stage: Stage, caplog: pytest.LogCaptureFixture, hello: bytes, why: str
    ) -> None:
        master = await stage.master()
        async with raw_slave(master) as slave:
            slave.writer.write(hello)
            await slave.hear_end()
        assert caplog.messages
        caplog.clear()
        async with raw_slave(master) as slave:
            slave.say(0)
            await aeventually(lambda: master.followers.connected_count == 1)

    async def test_a_slave_that_acknowledges_what_does_not_exist_is_sent_away(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        master = await stage.master()
        end = master.write(2)
        async with raw_slave(master) as slave:
            slave.say(end)
            await aeventually(lambda: master.followers.confirmed == end)
            slave.say(end + 1)
            await slave.hear_end()
        assert master.followers.confirmed == end
        assert any(f"acknowledges {end + 1}" in line for line in caplog.messages)

    async def test_strangers_that_say_nothing_are_few(self, stage: Stage) -> None:
        master = await stage.master()
        host, port = master.address.split(":")
        strangers = [await asyncio.open_connection(host, int(port)) for _ in range(STRANGERS_MAX + 5)]
        await aeventually(lambda: master.server.refused_count == 5)
        assert len(master.server.links) <= STRANGERS_MAX
        for _, writer in strangers:
            writer.transport.abort()
        await aeventually(lambda: not master.server.links)
        slave = await stage.slave(master.address)
        await slave.has(master.write(1))

    @pytest.mark.parametrize(
        "reply",
        [
            struct.pack(">qi", 0, 0x7FFFFFFF),
            struct.pack(">qi", 0, -1),
            struct.pack(">qi", -5, 0),
            struct.pack(">qi", 0, 100) + b"?" * 100,
            struct.pack(">qi", 0, 100) + b"?" * 50,
            struct.pack(">qi", 777, 4) + b"1234",
            b"",
        ],
        ids=["absurd", "negative", "nowhere", "no record", "torn", "mid-file", "closed"],
    )
    async def test_a_master_that_sends_nonsense_is_left_and_tried_again(
        self, stage: Stage, caplog: pytest.LogCaptureFixture, reply: bytes
    ) -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(8)
            writer.write(reply)
            writer.close()

        async with listening(answer) as address:
            slave = await stage.slave(address)
            await aeventually(lambda: slave.client.connects_count >= 3)
            assert slave.store.max_position == 0
            await stop(slave)
        assert sum("is not copied" in line for line in caplog.messages) == 1


class TestSilence:
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    async def stage(self, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Stage]:
        async with Stage(tmp_path, clock) as stage:
            yield stage

    async def test_a_master_breaks_its_silence_after_the_interval(
        self, stage: Stage, clock: ManualClock
    ) -> None:
        master = await stage.master()
        end = master.write(1)
        async with raw_slave(master) as slave:
            slave.say(end)
            await aeventually(lambda: master.followers.confirmed == end)
            clock.advance(5_001)
            assert await slave.hear(12) == struct.pack(">qi", end, 0)

    async def test_a_slave_that_is_silent_too_long_is_gone(
        self, stage: Stage, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        master = await stage.master()
        async with raw_slave(master) as slave:
            slave.say(0)
            await aeventually(lambda: master.followers.connected_count == 1)
            clock.advance(20_001)
            await slave.hear_end()
        assert master.followers.connected_count == 0
        assert any("silent for more than 20 s" in line for line in caplog.messages)

    async def test_a_stranger_that_never_says_hello_is_sent_away(
        self, stage: Stage, clock: ManualClock
    ) -> None:
        master = await stage.master()
        async with raw_slave(master) as slave:
            await aeventually(lambda: master.server.links)
            clock.advance(20_001)
            assert await slave.hear_end() == b""

    async def test_a_slave_tells_its_position_again_after_the_interval(
        self, stage: Stage, clock: ManualClock
    ) -> None:
        heard: list[int] = []

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                heard.append(struct.unpack(">q", await reader.readexactly(8))[0])

        async with listening(listen) as address:
            slave = await stage.slave(address)
            await aeventually(lambda: len(heard) == 1)
            clock.advance(5_001)
            await aeventually(lambda: len(heard) == 2)
            clock.advance(20_001)
            await aeventually(lambda: "silent" in str(slave.client.trouble))
            await stop(slave)

    async def test_a_link_with_heartbeats_stays(self, stage: Stage, clock: ManualClock) -> None:
        master = await stage.master()
        slave = await stage.slave(master.address)
        await aeventually(lambda: master.followers.connected_count == 1)
        spoken = master.server.heartbeat_count
        for count in range(1, 10):
            clock.advance(5_001)
            await aeventually(lambda count=count: master.server.heartbeat_count >= spoken + count)  # type: ignore[misc]
        await slave.has(master.write(1))
        assert slave.client.connects_count == 1


async def test_each_append_of_a_slave_is_told(stage: Stage) -> None:
    told: list[int] = []
    master = await stage.master()
    slave = await stage.slave(master.address, on_copied=lambda: told.append(1))
    await slave.has(master.write(3))
    assert told
