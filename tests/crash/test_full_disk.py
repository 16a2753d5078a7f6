"""A disk that is too small: refusals that say why, retention that makes room, and nothing acknowledged lost.

Most of it runs on the simulated disk, where every byte is counted and the power can be cut as well. The store
is also run on a real file system of a few megabytes, where the machine lets us mount one.
"""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import store_full
from effort import times
from kinds_stage import ManualStage, Peer, running_stage
from store_story import HOST, ROOT, SETTINGS, read_all

from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import StoreSettings
from pyromq.errors import DiskFull
from pyromq.store.files import Files, SystemFiles
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.disk import SimulatedDisk
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire.record import iter_records

MEGABYTE = 1 << 20


def open_on(files: Files, settings: StoreSettings = SETTINGS) -> MessageStore:
    store = MessageStore(settings, clock=ManualClock(), files=files)
    store.open()
    return store


def draft(number: int = 0, size: int = 1000) -> Draft:
    return Draft("orders", 0, b"%06d" % number + bytes(size), f"KEYS\x01k{number}", 0, 0, 0, HOST, HOST)


def fill(store: MessageStore, size: int = 1000) -> tuple[int, DiskFull]:
    """Put messages until one is refused; return how many were taken, and the refusal."""
    first = number = store.max_offset("orders", 0)
    while True:
        try:
            store.put(draft(number, size))
        except DiskFull as error:
            return number - first, error
        number += 1


def numbers(store: MessageStore) -> list[int]:
    return [int(record.body[:6]) for record in read_all(store, "orders", 0)]


@pytest.mark.row("CL-05", "CL-06", "SC-08")
@pytest.mark.parametrize("seed", [4, 28][: times(1)])  # `make torture-store` goes on with others
def test_a_life_on_a_small_disk_loses_nothing_and_goes_on(seed):
    tried, story = store_full.try_all_cuts(seed, steps=200, each_max=1, random_cuts=1)

    assert tried.states > 100
    assert story.refusals.total()
    assert story.taken_after_refusal


@pytest.mark.row("CL-06")
def test_a_write_that_does_not_fit_is_refused_with_the_file_and_the_cause():
    disk = SimulatedDisk(capacity_bytes=100 * 4096)
    store = open_on(disk)

    taken, refusal = fill(store)

    assert "/store/" in str(refusal)
    assert "No space left on device" in str(refusal)
    assert numbers(store) == list(range(taken))
    with pytest.raises(DiskFull, match="No space left"):
        store.put(draft())


@pytest.mark.row("SC-08", "CL-06")
def test_over_the_limit_a_message_is_refused_with_how_full_the_disk_is_and_the_limit():
    disk = SimulatedDisk(capacity_bytes=100 * 4096)
    store = open_on(disk)
    fill(store)

    store.check_disk()

    with pytest.raises(DiskFull, match=r"/store is \d+% full, and over 90 % \(diskSpaceWarningLevelRatio\)"):
        store.put(draft())


@pytest.mark.row("CL-05", "CL-06")
def test_retention_makes_room_and_messages_are_taken_again_without_a_restart():
    disk = SimulatedDisk(capacity_bytes=400 * 4096)
    store = open_on(disk)
    for number in range(200):
        store.put(draft(number))
    store.sync_queues()
    fill(store)
    store.sync()

    while store.disk_ratio > 0.85:
        assert store.sweep().remove()
    store.check_disk()

    first = store.min_offset("orders", 0)
    assert 0 < first < 200
    assert store.put(draft(store.max_offset("orders", 0))).queue_offset == store.max_offset("orders", 0) - 1
    assert numbers(store) == list(range(first, store.max_offset("orders", 0)))
    store.sync_queues()


def test_a_broker_killed_on_a_full_disk_starts_there_serves_and_goes_on_when_there_is_room():
    disk = SimulatedDisk(capacity_bytes=100 * 4096)
    store = open_on(disk)
    taken, _ = fill(store)
    assert disk.disk_use(ROOT).usable_bytes == 0
    store.sync()
    disk.kill_processes()

    again = open_on(disk)

    assert numbers(again) == list(range(taken))
    found = again.query("orders", f"k{taken - 1}", count_max=9, begin_ms=0, end_ms=1 << 60)
    assert [record.queue_offset for data in found.records for record in iter_records(data)] == [taken - 1]
    with pytest.raises(DiskFull):
        again.put(draft())
    disk.capacity_bytes *= 2
    again.check_disk()
    assert again.put(draft(taken)).queue_offset == taken
    again.sync_queues()
    assert numbers(open_on(SimulatedDisk(disk.platter.image()))) == list(range(taken + 1))


def test_the_keys_of_the_last_message_before_the_disk_was_full_are_found_after_it():
    for pages in range(20, 60):
        disk = SimulatedDisk(capacity_bytes=pages * 4096)
        store = open_on(disk)
        taken, _ = fill(store, 300)
        disk.capacity_bytes *= 2
        store.check_disk()
        store.sync_queues()

        for number in range(taken):
            found = store.query("orders", f"k{number}", count_max=9, begin_ms=0, end_ms=1 << 60)
            assert len(found.records) == 1, (pages, number)


def test_queue_files_written_before_the_disk_was_full_are_synced_by_the_next_checkpoint():
    for pages in range(20, 60):
        disk = SimulatedDisk(capacity_bytes=pages * 4096)
        store = open_on(disk)
        taken, _ = fill(store, 300)
        with suppress(DiskFull):
            store.sync_queues()
        disk.capacity_bytes *= 2
        store.check_disk()
        store.sync_queues()

        assert numbers(open_on(SimulatedDisk(disk.platter.image()))) == list(range(taken)), pages


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[tuple[Files, Path]]:
    """A file system of four megabytes: a real one, or a simulated one where mounting is not allowed."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "pyromq-test", str(tmp_path)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        yield SimulatedDisk(capacity_bytes=4 * MEGABYTE), Path("/store")
        return
    try:
        yield SystemFiles(), tmp_path / "store"
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.row("CL-05", "CL-06", "SC-08")
def test_a_small_file_system_fills_up_is_made_room_on_and_goes_on(small_disk):
    files, root = small_disk
    settings = StoreSettings(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=256 * 1024,
        mapped_file_size_consume_queue=20_000,
        max_hash_slot_num=1000,
        max_index_num=4000,
    )
    store = open_on(files, settings)
    for number in range(1000):
        store.put(draft(number))
    store.sync_queues()

    taken, refusal = fill(store)
    store.sync()

    assert taken > 1000
    assert "No space left on device" in str(refusal)
    assert numbers(store) == list(range(1000 + taken))
    store.check_disk()
    with pytest.raises(DiskFull, match=r"100% full, and over 90 %"):
        store.put(draft())
    assert store.sweep().remove() > 0
    store.check_disk()
    first = store.min_offset("orders", 0)
    end = store.max_offset("orders", 0)
    assert store.put(draft(end)).queue_offset == end
    store.close()
    again = open_on(files, settings)
    assert numbers(again) == list(range(first, end + 1))
    again.close()


@pytest.mark.row("CL-06", "SC-08")
async def test_a_broker_on_a_full_disk_answers_why_keeps_its_tables_and_takes_messages_again():
    disk = SimulatedDisk(capacity_bytes=500 * 4096)
    async with running_stage(
        Path("/broker"),
        files=disk,
        mapped_file_size_commit_log=65536,
        max_index_num=2000,
        max_hash_slot_num=50,
    ) as stage:
        client = stage.connect()
        sent = 0
        while (answer := await client.send("orders", b"%06d" % sent + bytes(4000))).code == 0:
            sent += 1
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "No space left on device" in (answer.remark or "")
        assert await end_of(client) == sent

        await makes_room(stage, disk)

        assert (await client.send("orders", b"again")).code == ResponseCode.SUCCESS
        assert await end_of(client) == sent + 1


async def end_of(client: Peer) -> int:
    answer = await client.request(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})
    return int(answer.ext["offset"])


async def makes_room(stage: ManualStage, disk: SimulatedDisk) -> None:
    """Let the broker find by itself that there is room again."""
    disk.capacity_bytes *= 2
    client = stage.connect()

    async def is_taken() -> bool:
        stage.clock.advance(10_000)
        return (await client.send("other", b"x")).code == ResponseCode.SUCCESS

    await aeventually(is_taken)
