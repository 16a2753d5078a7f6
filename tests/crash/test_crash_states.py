"""The store after a power cut at every moment, with every kind of loss; see `tests/support/store_story.py`.

Each of the named tests below the first two is a case that these found.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import store_story
from effort import times
from store_story import HOST, ROOT, SETTINGS, read_all

from pyromq.errors import CorruptRecord, SyncFailed
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.disk import SimulatedDisk, cuts_of
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.record import iter_records

EVER_MS = 1 << 60


def open_on(disk: SimulatedDisk) -> MessageStore:
    store = MessageStore(SETTINGS, clock=ManualClock(), files=disk)
    store.open()
    return store


def draft(body: bytes = b"x", *, topic: str = "orders", properties: str = "") -> Draft:
    return Draft(topic, 0, body, properties, 0, 0, 0, HOST, HOST)


def bodies(store: MessageStore, topic: str = "orders") -> list[bytes]:
    return [record.body for record in read_all(store, topic, 0)]


def disks_after(disk: SimulatedDisk, first: int) -> Iterator[SimulatedDisk]:
    """Yield the disks that power cuts behind an operation leave, in every systematic way."""
    platter = disk.base.copy()
    for operation in disk.journal[:first]:
        platter.apply(operation)
    for cut in cuts_of(disk.journal[first:], random.Random(1), base=platter, random_cuts=2):
        yield SimulatedDisk(cut.image)


def offsets_with_key(store: MessageStore, key: str) -> list[int]:
    found = store.query("orders", key, count_max=64, begin_ms=0, end_ms=EVER_MS)
    return [record.queue_offset for data in found.records for record in iter_records(data)]


def files_in(disk: SimulatedDisk, folder: str) -> list[Path]:
    return [ROOT / folder / name for name in disk.names(ROOT / folder)]


@pytest.mark.row("ST-02", "FL-02")
@pytest.mark.parametrize("seed", range(3, 3 + times(2)))
def test_whenever_the_power_fails_what_was_acknowledged_is_there_and_what_is_there_is_whole(seed):
    tried = store_story.try_all_cuts(seed, steps=45, each_max=2, random_cuts=1)

    assert tried.states > 300


@pytest.mark.row("ST-02", "FL-02")
@pytest.mark.parametrize("seed", range(times(2)))
def test_a_life_of_power_cuts_loses_nothing_that_was_acknowledged(seed):
    tried = store_story.live_through_cuts(seed, lives=10, steps=25)

    assert tried.states == 10


@pytest.mark.row("CL-01")
def test_the_broker_starts_after_a_power_cut_in_the_middle_of_retention():
    disk = SimulatedDisk()
    store = open_on(disk)
    for _ in range(12):
        store.put(draft(b"x" * 1500))
    store.sync_queues()
    disk.capacity_bytes = disk.used_bytes * 100 // 87
    swept = store.sweep()
    disk.capacity_bytes = 1 << 50
    before = len(disk.journal)

    assert swept.remove() > 2

    for left in disks_after(disk, before):
        assert open_on(left).max_offset("orders", 0) == 12


def test_the_broker_starts_after_a_power_cut_with_several_new_files():
    disk = SimulatedDisk()
    store = open_on(disk)
    before = len(disk.journal)
    for _ in range(8):
        store.put(draft(b"x" * 1500))

    stores = [open_on(left) for left in disks_after(disk, before)]

    assert len(stores) > 8
    for again in stores:
        assert again.put(draft()).queue_offset == len(bodies(again)) - 1


@pytest.mark.row("CL-05")
def test_an_offset_is_not_given_out_again_when_retention_was_faster_than_the_checkpoint():
    disk = SimulatedDisk()
    store = open_on(disk)
    store.put(draft(topic="quiet"))
    for _ in range(12):
        store.put(draft(b"x" * 1500))
    store.sync()
    disk.capacity_bytes = disk.used_bytes * 100 // 87
    store.sweep().remove()
    disk.sync_folder(ROOT / "commitlog")

    again = open_on(SimulatedDisk(disk.platter.image()))

    assert again.max_offset("quiet", 0) == 1
    assert again.max_offset("orders", 0) == 12


def test_messages_that_survived_a_kill_survive_a_power_cut_after_the_restart():
    disk = SimulatedDisk()
    store = open_on(disk)
    sent = [b"%04d" % number * 100 for number in range(30)]
    for body in sent:
        store.put(draft(body))
    # The process is killed; the machine, and with it what was written but not synced, lives on.
    disk.kill_processes()
    restarted = open_on(disk)
    assert bodies(restarted) == sent

    again = open_on(SimulatedDisk(disk.platter.image()))

    assert again.max_position == restarted.flushed_position
    assert bodies(again) == sent


@pytest.mark.parametrize("lost_bytes", [1, 20, 300])
def test_a_message_is_not_served_without_the_end_of_its_properties(lost_bytes):
    disk = SimulatedDisk()
    store = open_on(disk)
    store.put(draft(b"whole"))
    torn = store.put(draft(b"torn", properties="KEYS\x01k\x02fill\x01" + "f" * 500))
    image = disk.image()
    log = files_in(disk, "commitlog")[0]
    image[log] = image[log][: torn.end - lost_bytes].ljust(4096, b"\0")

    again = open_on(SimulatedDisk(image))

    assert bodies(again) == [b"whole"]
    assert again.put(draft()).position == torn.position


def test_properties_that_end_in_a_zero_are_stored_and_survive_a_crash():
    disk = SimulatedDisk()
    store = open_on(disk)
    store.put(draft(b"zero", properties="a\x01b\0"))
    store.put(draft(b"next", properties="a\x01b\0\x02c\x01d"))

    again = open_on(disk.after_kill())

    assert bodies(again) == [b"zero", b"next"]
    assert [record.properties for record in read_all(again, "orders", 0)] == [
        "a\x01b\0\x02",
        "a\x01b\0\x02c\x01d",
    ]
    with pytest.raises(CorruptRecord, match="zeros"):
        again.put(draft(properties="a\x01" + "\0" * 600 + "b"))


def test_no_message_is_hidden_by_half_a_queue_entry():
    disk = SimulatedDisk()
    store = open_on(disk)
    for _ in range(8):
        store.put(draft(b"x" * 1500))
    store.sync_queues()
    disk.capacity_bytes = disk.used_bytes * 100 // 87
    store.sweep().remove()
    disk.capacity_bytes = 1 << 50
    for _ in range(4):
        store.put(draft())
    store.sync()
    store.queue_sync()
    queue = ROOT / "consumequeue" / "orders" / "0" / f"{0:020d}"
    # From entry 8 on nothing was synced, and a sector may end anywhere in it.
    for end in range(161, 240):
        image = disk.image()
        image[queue] = image[queue][:160] + bytes(end - 160) + image[queue][end:]

        again = open_on(SimulatedDisk(image))

        assert [record.queue_offset for record in read_all(again, "orders", 0)] == [6, 7, 8, 9, 10, 11]


@pytest.mark.row("ST-23")
def test_no_key_is_lost_behind_half_an_index_entry():
    disk = SimulatedDisk()
    store = open_on(disk)
    for number in range(10):
        store.put(draft(properties=f"KEYS\x01k{number} all"))
        if number == 4:
            store.sync_queues()
    store.sync()
    store.queue_sync()
    index = files_in(disk, "index")[0]
    unsynced_at = 40 + 20 * 4 + 11 * 20
    # From entry 11 on nothing was synced, and a sector may end anywhere in it.
    for end in range(unsynced_at + 1, unsynced_at + 200):
        image = disk.image()
        image[index] = image[index][:unsynced_at] + bytes(end - unsynced_at) + image[index][end:]

        again = open_on(SimulatedDisk(image))

        assert offsets_with_key(again, "all") == list(range(10))
        assert [offsets_with_key(again, f"k{number}") for number in range(10)] == [[n] for n in range(10)]


@pytest.mark.row("ST-03")
def test_the_first_checkpoint_is_there_before_the_first_message():
    disk = SimulatedDisk()
    store = open_on(disk)
    assert ROOT / "checkpoint" in disk.platter.image()
    before = len(disk.journal)
    store.put(draft())
    store.sync_queues()

    checkpoints = {left.read_all(ROOT / "checkpoint") for left in disks_after(disk, before)}

    # The old one or the new one, and never a mixture.
    assert len(checkpoints) == 2


def test_the_broker_starts_after_a_crash_behind_a_topic_that_was_deleted_and_made_again():
    disk = SimulatedDisk()
    store = open_on(disk)
    store.put(draft(topic="other"))
    for number in range(30):
        if number == 20:
            store.sync_queues()
        store.put(draft(b"old"))
    store.delete_topic("orders")
    store.put(draft(b"new"))

    again = open_on(disk.after_kill())

    assert bodies(again) == [b"new"]
    assert again.put(draft(b"newer")).queue_offset == 1


@pytest.mark.row("FL-02")
def test_a_restart_after_a_failed_sync_promises_only_what_the_disk_has():
    disk = SimulatedDisk()
    store = open_on(disk)
    store.put(draft(b"unlucky"))
    disk.fail_syncs(under="commitlog")
    with pytest.raises(SyncFailed):
        store.sync()
    # The system takes the bytes for written now, and shows them to the next process.
    disk.kill_processes()
    restarted = open_on(disk)
    assert bodies(restarted) == [b"unlucky"]
    restarted.put(draft(b"lucky"))
    restarted.sync()

    again = open_on(SimulatedDisk(disk.platter.image()))

    assert bodies(again) == [b"unlucky", b"lucky"]


@pytest.mark.row("FL-02")
def test_a_restart_after_a_failed_sync_that_makes_all_queues_again_promises_only_what_the_disk_has():
    disk = SimulatedDisk()
    store = open_on(disk)
    store.put(draft(b"safe"))
    store.sync_queues()
    store.put(draft(b"unlucky"))
    # Without a queue that is there, the next start begins with the log, and not where the checkpoint says.
    store.delete_topic("orders")
    disk.fail_syncs(under="commitlog")
    with pytest.raises(SyncFailed):
        store.sync()
    disk.kill_processes()
    restarted = open_on(disk)
    restarted.put(draft(b"lucky"))
    restarted.sync()

    again = open_on(SimulatedDisk(disk.platter.image()))

    assert bodies(again) == [b"safe", b"unlucky", b"lucky"]


@pytest.mark.row("ST-02")
def test_a_queue_whose_folder_was_just_made_when_the_process_died_survives_a_later_power_cut():
    disk = SimulatedDisk()
    store = open_on(disk)
    store.put(draft(b"first"))
    store.sync_queues()
    store.put(draft(b"unlucky", topic="payments"))
    store.put(draft(b"second"))
    disk.fail_syncs(under="/store/consumequeue")
    with pytest.raises(SyncFailed):
        store.sync_queues()
    # The folder is there for the next process, and nobody made its name safe.
    disk.kill_processes()
    open_on(disk).close()

    again = open_on(SimulatedDisk(disk.platter.image()))

    assert bodies(again, "payments") == [b"unlucky"]
