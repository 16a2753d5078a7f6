"""Files go while they are read: offsets move, followers follow, and nobody is handed a torn answer."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from retention_stage import LOG_FILE_BYTES, MESSAGES_PER_FILE, RetentionStage, retention_stage

from pyromq.clock import SystemClock
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import StoreSettings
from pyromq.net.address import split_address
from pyromq.store.files import DiskUse, SystemFiles
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.requests import pull_fields
from pyromq.testing.waiting import aeventually
from pyromq.wire.command import Command, CommandReader, encode
from pyromq.wire.record import encode_host, iter_records


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[RetentionStage]:
    async with retention_stage(tmp_path) as stage:
        yield stage


async def let_all_go(stage: RetentionStage) -> int:
    """Let all files go but the last; return the first offset that is left."""
    stage.files.percent_used = 86
    low = await stage.look()
    stage.files.percent_used = 10
    await aeventually(lambda: len(stage.log_files()) == 1)
    return low


@pytest.mark.row("CL-01")
async def test_a_pull_of_what_is_gone_is_told_where_to_go_on(stage: RetentionStage) -> None:
    await stage.fill(4)
    low = await let_all_go(stage)

    answer = await stage.client.pull("orders", offset=3)

    assert answer.code == ResponseCode.PULL_OFFSET_MOVED
    assert answer.ext is not None
    assert answer.ext["nextBeginOffset"] == answer.ext["minOffset"] == str(3 * MESSAGES_PER_FILE) == str(low)
    assert answer.ext["maxOffset"] == str(await stage.max_offset())
    # And that is where there are messages.
    assert (await stage.client.stored("orders", offset=low))[0].queue_offset == low


@pytest.mark.row("CL-01")
async def test_a_queue_whose_messages_are_all_gone_goes_on_counting(stage: RetentionStage) -> None:
    await stage.client.send("quiet")
    await stage.fill(3)
    await let_all_go(stage)

    assert await stage.min_offset("quiet") == await stage.max_offset("quiet") == 1
    moved = await stage.client.pull("quiet", offset=0)
    assert (moved.code, (moved.ext or {})["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "1")
    answer = await stage.client.send("quiet")
    assert (answer.ext or {})["queueOffset"] == "1"


@pytest.mark.row("CL-01", "ST-11")
async def test_queue_files_and_index_files_go_with_the_log(stage: RetentionStage) -> None:
    await stage.fill(6)
    index = stage.stage.folder / "index"
    assert stage.numbers("consumequeue/orders/0", 200) == [0, 1, 2, 3]
    index_files = sorted(path.name for path in index.iterdir())

    await let_all_go(stage)

    # Messages 30 and up are left; ten entries are in a file.
    await aeventually(lambda: stage.numbers("consumequeue/orders/0", 200) == [3])
    await aeventually(lambda: [path.name for path in index.iterdir()] == index_files[-1:])


@pytest.mark.row("ST-24", "CL-01")
async def test_keys_find_what_is_left_and_nothing_else(stage: RetentionStage) -> None:
    await stage.fill(3)
    low = await let_all_go(stage)

    fields = {"topic": "orders", "key": "key", "maxNum": 64, "beginTimestamp": 0, "endTimestamp": 1 << 60}
    answer = await stage.client.request(RequestCode.QUERY_MESSAGE, fields)

    found = [record.queue_offset for record in iter_records(answer.body)]
    assert found == list(range(low, await stage.max_offset()))


@pytest.mark.row("CL-08")
async def test_an_answer_that_is_not_read_yet_stays_whole(tmp_path: Path) -> None:
    """A pull copies; the file may go while the answer still waits for a slow client."""
    sizes = {"mapped_file_size_commit_log": 4 << 20, "max_transfer_bytes_on_message_in_memory": 64 << 20}
    async with retention_stage(tmp_path, **sizes) as stage:
        body = bytes(range(256)) * 1024
        for _ in range(20):
            await stage.client.send("orders", body)
        await stage.restart()
        reader, writer = await asyncio.open_connection(*split_address(stage.stage.address), limit=1024)
        fields = {name: str(value) for name, value in pull_fields("orders").items()}
        writer.write(encode(Command(RequestCode.PULL_MESSAGE, ext=fields)))
        # The answer is on its way, and nobody reads more of it.
        begin = await reader.readexactly(4)
        stage.files.percent_used = 86
        assert await stage.look() > 0
        await aeventually(lambda: stage.numbers("commitlog", sizes["mapped_file_size_commit_log"]) == [1])

        commands = CommandReader()
        commands.feed(begin)
        while (answer := commands.next_command()) is None:
            commands.feed(await reader.read(1 << 20))

        records = list(iter_records(answer.body))
        assert [record.queue_offset for record in records] == list(range(10))
        assert all(record.body == body for record in records)
        writer.close()


@pytest.mark.row("CL-08")
async def test_a_held_pull_outlives_the_files_behind_it(stage: RetentionStage) -> None:
    await stage.fill(3)
    end = await stage.max_offset()
    held = await stage.stage.hold(stage.client.pull("orders", offset=end, hold_ms=60_000_000))

    await let_all_go(stage)
    await stage.client.send("orders", b"at last")

    answer = await held
    assert [record.body for record in iter_records(answer.body)] == [b"at last"]


@pytest.mark.row("CL-08")
async def test_a_removal_that_takes_long_holds_nobody_up(stage: RetentionStage) -> None:
    """Removing a large file can take seconds on some file systems, which is why RocketMQ asks for ext4."""
    await stage.fill(4)
    stage.files.percent_used = 86
    with stage.files.held_removals():
        low = await stage.look()
        stage.files.percent_used = 10
        assert low == 3 * MESSAGES_PER_FILE
        assert stage.log_files() == [0, 1, 2, 3]
        assert (await stage.client.send("orders")).code == ResponseCode.SUCCESS
        assert (await stage.client.stored("orders", offset=low))[0].queue_offset == low

    await aeventually(lambda: stage.log_files() == [3])


@pytest.mark.row("CL-08")
async def test_a_stop_while_files_go_is_in_order(stage: RetentionStage) -> None:
    await stage.fill(4)
    low = await let_all_go(stage)
    end = await stage.max_offset()

    await stage.restart()

    assert (await stage.min_offset(), await stage.max_offset()) == (low, end)
    assert (await stage.client.send("orders")).code == ResponseCode.SUCCESS


class FullDisk(SystemFiles):
    """A disk from which files are forced out."""

    def disk_use(self, path: Path) -> DiskUse:
        """Return 86 %."""
        return DiskUse(used_bytes=86, usable_bytes=14)


@pytest.mark.row("CL-08", "ST-16")
def test_whoever_still_looks_into_a_map_of_a_file_that_goes_sees_it_to_the_end(tmp_path: Path) -> None:
    """A view of a map used to make the whole sweep fail: «cannot close exported pointers exist»."""
    settings = StoreSettings(
        store_path_root_dir=str(tmp_path),
        mapped_file_size_commit_log=LOG_FILE_BYTES,
        mapped_file_size_consume_queue=200,
        max_hash_slot_num=10,
        max_index_num=20,
    )
    host = encode_host("127.0.0.1", 10911)
    store = MessageStore(settings, clock=SystemClock(), files=FullDisk())
    store.open()
    for number in range(20):
        store.put(Draft("orders", 0, b"%04d" % number * 250, "", 0, 0, 0, host, host))
    store.sync_queues()
    view = memoryview(store._log.segments[0].map)

    store.sweep().remove()

    assert store.min_offset("orders", 0) == 14
    assert not (tmp_path / "commitlog" / "00000000000000000000").exists()
    first = next(iter_records(view[: LOG_FILE_BYTES // 4]))
    assert first.body == b"0000" * 250
    view.release()
    store.close()
