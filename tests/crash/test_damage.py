"""Bit flips and truncations in every kind of file: told, with the file, and kept to what they hit.

A store is filled, stopped or killed, and damaged in one place, chosen by a seed. It is opened again, and

- it opens, or says which table cannot be read;
- every message but those whose own bytes were hit is served, whole and at its offset;
- what was hit is served as it was or not at all;
- it takes new messages, with new offsets;
- the damage was told by the start, by the log, or by `pyromq store verify`, unless nothing can know of it.
"""

from pathlib import Path

import pytest
import store_damage
from effort import times
from store_damage import KINDS, Damage
from store_story import HOST, ROOT, SETTINGS

from pyromq.store.atomic_file import read_with_backup, replace_file
from pyromq.store.store import Draft, MessageStore, Placed
from pyromq.testing.disk import SimulatedDisk
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.bodies.offset_bodies import decode_group_offsets, encode_group_offsets

SEEDS = times(7)


@pytest.mark.row("ST-02", "ST-28")
@pytest.mark.parametrize("how", ["flip", "cut"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", ["stopped", "killed"])
def test_damage_is_found_and_kept_to_what_it_hit(kind, how, stop, tmp_path):
    for seed in range(SEEDS):
        store_damage.examine(Damage(seed, kind, how, was_clean=stop == "stopped"), tmp_path / "damaged")


# Cases that this found, as a user would have seen them.


def filled(count: int = 40) -> tuple[SimulatedDisk, list[Placed]]:
    """Return a disk with a store of one queue that was stopped, and where its messages are."""
    disk = SimulatedDisk()
    store = open_on(disk)
    placed = [
        store.put(Draft("orders", 0, b"%d" % number, "TAGS\x01t", 0, 0, 0, HOST, HOST))
        for number in range(count)
    ]
    store.close()
    return disk, placed


def open_on(disk: SimulatedDisk) -> MessageStore:
    store = MessageStore(SETTINGS, clock=ManualClock(), files=disk)
    store.open()
    return store


def offsets(store: MessageStore) -> list[int]:
    return [record.queue_offset for record in store_damage.read_tolerant(store, "orders", 0)]


def change(disk: SimulatedDisk, path: Path, at: int, data: bytes) -> None:
    """Overwrite bytes of a file, as a bad disk does."""
    before = disk.read_all(path)
    assert before is not None
    for number, (old, new) in enumerate(zip(before[at:], data, strict=False)):
        for bit in range(8):
            if (old ^ new) >> bit & 1:
                disk.flip_bit(path, (at + number) * 8 + bit)


def log_of(placed: Placed) -> tuple[Path, int]:
    base = placed.position - placed.position % 4096
    return ROOT / "commitlog" / f"{base:020d}", placed.position - base


def test_one_bad_queue_entry_does_not_hide_what_stands_behind_it():
    for entry in range(24, 36):
        disk, _ = filled()
        queue = ROOT / "consumequeue" / "orders" / "0" / f"{480:020d}"
        # The size becomes negative, as if no entry had been written.
        disk.flip_bit(queue, ((entry - 24) * 20 + 8) * 8 + 7)

        store = open_on(disk)

        assert offsets(store) == list(range(40))
        assert store.put(Draft("orders", 0, b"", "", 0, 0, 0, HOST, HOST)).queue_offset == 40


@pytest.mark.parametrize("at", [0, 3, 4, 8, 28, 84, 88, 92])
def test_a_damaged_message_does_not_take_its_neighbours_from_a_pull(at):
    disk, placed = filled()
    path, begin = log_of(placed[12])
    disk.flip_bit(path, (begin + at) * 8 + 1)

    assert offsets(open_on(disk)) == [offset for offset in range(40) if offset != 12]


def test_making_the_queues_again_passes_over_a_damaged_message_and_keeps_all_behind_it():
    disk, placed = filled()
    path, begin = log_of(placed[12])
    disk.flip_bit(path, (begin + 4) * 8)
    for name in disk.names(ROOT / "consumequeue" / "orders" / "0"):
        disk.remove(ROOT / "consumequeue" / "orders" / "0" / name)
    disk.remove_folder(ROOT / "consumequeue" / "orders" / "0")
    disk.remove_folder(ROOT / "consumequeue" / "orders")

    store = MessageStore(SETTINGS, clock=ManualClock(), files=disk)
    report = store.open()

    assert [f"{path} at byte {begin}" in finding for finding in report.findings] == [True]
    assert offsets(store) == [offset for offset in range(40) if offset != 12]
    assert store.min_offset("orders", 0) == 0
    assert (report.end, store.max_offset("orders", 0)) == (placed[-1].end, 40)


@pytest.mark.parametrize("offset", [1 << 40, (1 << 62) + 1, -1])
def test_a_message_that_claims_a_senseless_offset_does_not_stop_the_start(offset):
    disk, placed = filled()
    path, begin = log_of(placed[12])
    change(disk, path, begin + 20, offset.to_bytes(8, "big", signed=True))
    disk.remove(ROOT / "consumequeue" / "orders" / "0" / f"{240:020d}")

    store = open_on(disk)

    assert offsets(store) == [number for number in range(40) if number != 12]


@pytest.mark.row("ST-03")
@pytest.mark.parametrize("stop", ["stopped", "killed"])
def test_a_damaged_checkpoint_is_told_and_nothing_is_lost(stop):
    disk, _ = filled()
    if stop == "killed":
        disk.open(ROOT / "abort", 0).close()
    disk.flip_bit(ROOT / "checkpoint", 4060 * 8)

    store = MessageStore(SETTINGS, clock=ManualClock(), files=disk)
    report = store.open()

    assert "/store/checkpoint is damaged" in report.findings[0]
    assert offsets(store) == list(range(40))


def test_a_torn_end_before_a_file_that_rocketmq_made_in_advance_is_an_end():
    disk = SimulatedDisk()
    store = open_on(disk)
    placed = [store.put(Draft("orders", 0, b"x" * 300, "", 0, 0, 0, HOST, HOST)) for _ in range(4)]
    store.queue_sync()
    image = disk.image()
    log, checkpoint = log_of(placed[0])[0], ROOT / "checkpoint"
    image[log] = (image[log] or b"")[: placed[3].position + 50].ljust(4096, b"\0")
    image[ROOT / "commitlog" / f"{4096:020d}"] = bytes(4096)
    image[checkpoint] = (image[checkpoint] or b"")[:24].ljust(4096, b"\0")

    again = open_on(SimulatedDisk(image))

    assert again.max_position == placed[3].position
    assert offsets(again) == [0, 1, 2]


@pytest.mark.row("ST-25")
@pytest.mark.parametrize("size", [0, 1, 20])
def test_a_table_that_lost_its_end_is_set_aside_and_its_twin_is_read(size):
    disk = SimulatedDisk()
    path = ROOT / "config" / "consumerOffset.json"
    for offset in (7, 8):
        replace_file(path, encode_group_offsets({"orders@group": {0: offset}}, pretty=True), files=disk)
    disk.cut_file(path, size)

    assert read_with_backup(path, decode_group_offsets, files=disk) == {"orders@group": {0: 7}}

    assert disk.size(path.with_name("consumerOffset.json.damaged")) == size


@pytest.mark.parametrize("size", [0, 1, 11, 100])
def test_a_queue_file_that_lost_its_first_entries_is_made_again_though_no_message_came_since(size):
    disk, _ = filled()
    disk.open(ROOT / "abort", 0).close()
    disk.cut_file(ROOT / "consumequeue" / "orders" / "0" / f"{720:020d}", size)

    store = open_on(disk)

    assert offsets(store) == list(range(40))
    assert store.put(Draft("orders", 0, b"", "", 0, 0, 0, HOST, HOST)).queue_offset == 40


def test_an_empty_queue_file_that_a_killed_process_was_about_to_make_is_no_damage():
    disk = SimulatedDisk()
    store = open_on(disk)
    for _ in range(12):
        store.put(Draft("orders", 0, b"", "", 0, 0, 0, HOST, HOST))
    store.sync_queues()
    disk.open(ROOT / "consumequeue" / "orders" / "0" / f"{240:020d}", 0).close()
    disk.kill_processes()

    again = MessageStore(SETTINGS, clock=ManualClock(), files=disk)
    report = again.open()

    assert not report.findings
    assert offsets(again) == list(range(12))
