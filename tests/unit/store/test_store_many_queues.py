from pathlib import Path

import pytest

from pyromq.config.settings import StoreSettings
from pyromq.errors import SyncFailed
from pyromq.store.consumequeue import ENTRY
from pyromq.store.consumequeues import (
    HELD_BYTES_MAX,
    HELD_BYTES_MIN,
    SYNC_BYTES_MAX,
    SYNC_BYTES_MIN,
    ConsumeQueues,
)
from pyromq.store.follower import LogEntry
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.disk import SimulatedDisk
from pyromq.testing.disk.journal import Sync, Write
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.record import encode_host

HOST = encode_host("127.0.0.1", 10911)
FOLDER = Path("/store/consumequeue")
#: More than are synced one by one.
MANY = 300


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folder(FOLDER)
    return disk


def queues_on(disk: SimulatedDisk, files_open_max: int = 1000) -> ConsumeQueues:
    return ConsumeQueues(disk, FOLDER, 400, files_open_max=files_open_max)


def add(queues: ConsumeQueues, topic: str, position: int, offset: int = 0) -> None:
    queues.apply(LogEntry(topic, 0, offset, position, 100, 7, 0, 0, None, None))


def fill(queues: ConsumeQueues, count: int) -> None:
    for number in range(count):
        add(queues, f"topic-{number}", number * 100)


def sync(queues: ConsumeQueues) -> None:
    for files in queues.settle():
        files.sync()


def safe_positions(disk: SimulatedDisk) -> list[int]:
    """Return the first position in each queue that is there when everything is lost that can be."""
    image = disk.platter.image()
    files = [data for path, data in image.items() if data is not None and FOLDER in path.parents]
    return sorted(ENTRY.unpack_from(data)[0] for data in files)


def paths_of(disk: SimulatedDisk, kind: type[Write] | type[Sync], since: int) -> list[str]:
    return [operation.node.path for operation in disk.journal[since:] if isinstance(operation, kind)]


def test_a_queue_that_got_nothing_is_neither_written_nor_synced(disk: SimulatedDisk) -> None:
    queues = queues_on(disk)
    fill(queues, 20)
    sync(queues)
    before = len(disk.journal)
    add(queues, "topic-7", 5000, 1)
    sync(queues)
    file = f"{FOLDER}/topic-7/0/{0:020d}"
    assert paths_of(disk, Write, before) == [file]
    assert paths_of(disk, Sync, before) == [file]


def test_nothing_new_is_nothing_to_sync(disk: SimulatedDisk) -> None:
    queues = queues_on(disk)
    fill(queues, 20)
    sync(queues)
    assert queues.settle() == []


@pytest.mark.parametrize("count", [3, MANY])
def test_a_sync_brings_entries_and_names_of_new_queues_to_the_disk(disk: SimulatedDisk, count: int) -> None:
    queues = queues_on(disk)
    fill(queues, count)
    sync(queues)
    assert safe_positions(disk) == [number * 100 for number in range(count)]


def test_many_files_are_synced_with_their_disk(disk: SimulatedDisk) -> None:
    queues = queues_on(disk)
    fill(queues, MANY)
    files = queues.settle()
    disk.fail_syncs(under="topic-250/0/")
    with pytest.raises(SyncFailed):
        files[0].sync()


@pytest.mark.parametrize("count", [10, MANY])
def test_more_queues_than_open_files_are_written_read_and_synced(disk: SimulatedDisk, count: int) -> None:
    queues = queues_on(disk, files_open_max=4)
    fill(queues, count)
    files = queues.settle()
    assert disk.open_count <= 4
    assert [queue.place(0) for queue in queues] == [(number * 100, 100) for number in range(count)]
    files[0].sync()
    assert safe_positions(disk) == [number * 100 for number in range(count)]


def test_a_file_that_was_closed_with_unsynced_bytes_makes_the_sync_fail_when_they_are_lost(
    disk: SimulatedDisk,
) -> None:
    queues = queues_on(disk, files_open_max=1)
    fill(queues, 3)
    files = queues.settle()
    disk.fail_syncs(under="topic-0/0/")
    with pytest.raises(SyncFailed):
        files[0].sync()


def test_the_reach_of_all_queues_counts_what_was_settled_added_and_removed(disk: SimulatedDisk) -> None:
    queues = queues_on(disk)
    fill(queues, 3)
    assert queues.reach == 300
    sync(queues)
    assert queues.reach == 300
    add(queues, "topic-1", 700, 1)
    assert queues.reach == 800
    sync(queues)
    queues.remove_topic("topic-1")
    assert queues.reach == 300


def test_a_topic_that_is_removed_while_queues_are_settled_leaves_nothing(disk: SimulatedDisk) -> None:
    queues = queues_on(disk)
    fill(queues, 40)
    queues.begin_settling()
    queues.settle_some()
    for number in range(40):
        queues.remove_topic(f"topic-{number}")
    while not queues.settle_some():
        pass
    for files in queues.take_unsynced():
        files.sync()
    assert disk.names(FOLDER) == []


def test_what_is_put_while_queues_are_settled_is_not_promised_and_not_lost(disk: SimulatedDisk) -> None:
    settings = StoreSettings(
        store_path_root_dir="/store",
        mapped_file_size_commit_log=65536,
        mapped_file_size_consume_queue=400,
        message_index_enable=False,
        flush_consume_queue_thorough_interval=0,
    )
    clock = ManualClock()
    store = MessageStore(settings, clock=clock, files=disk)
    store.open()

    def put(number: int) -> None:
        store.put(Draft(f"topic-{number}", 0, b"body", "", 0, 0, 0, HOST, HOST))

    for number in range(100):
        put(number)
    promised = store.max_position
    queue_sync = store.queue_sync_if_due()
    assert queue_sync is not None
    parts = 1
    while not queue_sync.settle_some():
        put(parts)
        put(99 - parts)
        parts += 1
    assert parts > 2
    queue_sync.run()
    assert queue_sync.position == promised

    after = SimulatedDisk(disk.platter.image())
    again = MessageStore(settings, clock=clock, files=after)
    assert again.open().findings == []
    ends = [again.max_offset(f"topic-{number}", 0) for number in range(100)]
    assert ends == [store.max_offset(f"topic-{number}", 0) for number in range(100)]
    again.close()
    store.close()


def test_more_of_the_log_is_new_between_syncs_of_very_many_queues(disk: SimulatedDisk) -> None:
    queues = queues_on(disk)
    fill(queues, 20)
    assert queues.bytes_between_syncs == SYNC_BYTES_MIN
    fill(queues, 40_000)
    assert SYNC_BYTES_MIN < queues.bytes_between_syncs < SYNC_BYTES_MAX
    queues.begin_settling()
    assert queues.bytes_between_syncs == SYNC_BYTES_MIN


def test_a_queue_holds_fewer_entries_when_there_are_many_queues(disk: SimulatedDisk) -> None:
    queues = queues_on(disk)
    fill(queues, 1)
    assert queues.held_bytes_max == HELD_BYTES_MAX
    fill(queues, 1000)
    assert HELD_BYTES_MIN < queues.held_bytes_max < HELD_BYTES_MAX
    fill(queues, 5000)
    assert queues.held_bytes_max == HELD_BYTES_MIN
    for offset in range(1, 99):
        add(queues, "topic-7", 5000_00 + offset * 100, offset)
    held = queues.get("topic-7", 0)
    assert held is not None
    assert len(held.held) == 99 * 20
    add(queues, "topic-7", 5100_00, 99)
    assert len(held.held) == 0
