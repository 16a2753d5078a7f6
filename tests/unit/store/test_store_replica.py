"""A slave's store is the master's: the same log, cut anywhere on its way, and what follows it."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replica_stage import (
    copy_all,
    drafts_of_one_queue,
    fill,
    followers,
    log_files,
    log_of,
    open_on,
    record_ends,
    verified,
)
from store_story import SETTINGS

from pyromq.errors import CorruptRecord, DiskFull, StoreError, SyncFailed
from pyromq.store.store import MessageStore
from pyromq.testing.disk import SimulatedDisk
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.record import MAGIC_AT, POSITION_AT, QUEUE_ID_AT, iter_records

FILE_BYTES = 4096


def master_with(count: int = 60, seed: int = 1) -> MessageStore:
    master = open_on(SimulatedDisk())
    fill(master, seed, count)
    return master


def closed_files(store: MessageStore, disk: SimulatedDisk) -> tuple[object, object]:
    store.close()
    image = disk.image()
    return log_files(image), followers(image)


@pytest.mark.row("HA-01")
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(0, 40_000), max_size=60))
def test_a_log_that_is_copied_in_any_pieces_makes_the_same_files(seed, cuts):
    theirs, ours = SimulatedDisk(), SimulatedDisk()
    master, slave = open_on(theirs), open_on(ours)
    fill(master, seed, 90)

    copy_all(slave, log_of(master), cuts)

    assert slave.max_position == master.max_position
    assert closed_files(slave, ours) == closed_files(master, theirs)


@pytest.mark.parametrize("piece_bytes", [1, 7, 91, FILE_BYTES - 1, FILE_BYTES, FILE_BYTES + 1, 1 << 30])
def test_pieces_of_one_size_make_the_same_files(piece_bytes):
    theirs, ours = SimulatedDisk(), SimulatedDisk()
    master, slave = open_on(theirs), open_on(ours)
    fill(master, 3, 60)
    data = log_of(master)

    copy_all(slave, data, range(0, len(data), piece_bytes))

    assert closed_files(slave, ours) == closed_files(master, theirs)


def test_a_copied_store_has_nothing_to_verify(tmp_path):
    master, disk = master_with(120), SimulatedDisk()
    slave = open_on(disk)
    data = log_of(master)
    chance = random.Random(5)

    copy_all(slave, data, [chance.randrange(len(data)) for _ in range(70)])
    slave.close()

    report = verified(disk, tmp_path)
    assert report.faults == []
    assert report.records == len(record_ends(data))


def test_bytes_count_as_soon_as_they_are_here_and_a_message_when_it_is_whole():
    master = open_on(SimulatedDisk())
    placed = [master.put(draft) for draft in drafts_of_one_queue(2)]
    slave = open_on(SimulatedDisk())
    data = log_of(master)
    middle = placed[0].end + 50

    slave.append_copied(data[:middle])

    assert slave.max_position == middle
    assert slave.whole_position == placed[0].end
    assert slave.max_offset("orders", 0) == 1
    slave.append_copied(memoryview(data)[middle:])
    assert slave.max_offset("orders", 0) == 2
    assert slave.whole_position == slave.max_position == placed[1].end


def test_whoever_waits_for_messages_is_told_of_those_that_are_copied():
    master = open_on(SimulatedDisk())
    slave = open_on(SimulatedDisk())
    told: list[tuple[str, int, int, int]] = []
    heard: list[tuple[str, int, int, int]] = []
    master.on_append = lambda *message: told.append(message)
    slave.on_append = lambda *message: heard.append(message)
    fill(master, 8, 50)

    copy_all(slave, log_of(master), range(0, 40_000, 333))

    assert heard == told


def test_no_bytes_change_nothing():
    slave = open_on(SimulatedDisk())

    slave.append_copied(b"")

    assert slave.max_position == 0


def test_a_topic_that_was_deleted_and_made_again_begins_again():
    master, slave = open_on(SimulatedDisk()), open_on(SimulatedDisk())
    for number in range(8):
        if number == 5:
            master.delete_topic("orders")
        master.put(next(drafts_of_one_queue(1, body=b"%d" % number)))

    copy_all(slave, log_of(master), range(0, 4000, 100))

    got = slave.get("orders", 0, 0, count_max=32)
    assert [record.body for record in iter_records(got.body)] == [b"5", b"6", b"7"]


# A slave that stops in between


@pytest.mark.parametrize("stop", ["clean", "kill"])
@pytest.mark.parametrize("seed", range(4))
def test_a_slave_that_stopped_in_the_middle_of_a_record_goes_on_where_its_log_ends(stop, seed):
    theirs, disk = SimulatedDisk(), SimulatedDisk()
    master, slave = open_on(theirs), open_on(disk)
    fill(master, seed, 60)
    data = log_of(master)
    chance = random.Random(seed)
    while slave.max_position < len(data):
        at = slave.max_position
        slave.append_copied(data[at : at + chance.choice((1, 100, 1000, 5000))])
        if chance.random() < 0.3:
            slave.sync_queues()
        if chance.random() < 0.3:
            whole = slave.whole_position
            slave.close() if stop == "clean" else disk.kill_processes()
            slave = open_on(disk)
            # A blank that was just copied may go too: no message stood in it.
            assert slave.max_position in (whole, max(end for end in (0, *record_ends(data)) if end <= whole))

    assert closed_files(slave, disk) == closed_files(master, theirs)


def test_a_clean_stop_in_the_middle_of_a_record_leaves_nothing_to_recover(tmp_path):
    master, disk = master_with(), SimulatedDisk()
    slave = open_on(disk)
    slave.append_copied(log_of(master)[:5000])
    whole = slave.whole_position
    assert whole < 5000

    slave.close()

    report = verified(disk, tmp_path)
    assert (report.faults, report.notes) == ([], [])
    again = MessageStore(SETTINGS, clock=ManualClock(), files=disk)
    recovered = again.open()
    assert recovered.findings == []
    assert recovered.replayed == 0
    assert again.max_position == whole


def test_a_store_that_is_in_the_middle_of_a_record_takes_no_message_of_its_own():
    master, slave = master_with(), open_on(SimulatedDisk())
    data = log_of(master)
    slave.append_copied(data[:5000])

    with pytest.raises(StoreError, match="copied"):
        slave.put(next(drafts_of_one_queue(1)))
    assert slave.rooms()[1] < 0

    slave.append_copied(data[5000:])
    slave.put(next(drafts_of_one_queue(1)))


def test_the_beginning_of_a_record_can_be_forgotten():
    master, slave = master_with(), open_on(SimulatedDisk())
    data = log_of(master)
    slave.append_copied(data[:5000])
    assert slave.max_position > slave.whole_position

    slave.forget_arriving()

    assert slave.max_position == slave.whole_position
    slave.append_copied(data[slave.max_position :])
    assert slave.max_position == len(data)


# What is no log


def spoil_magic(data: bytearray, at: int) -> None:
    data[at + MAGIC_AT] ^= 0xFF


def spoil_size(data: bytearray, at: int) -> None:
    data[at : at + 4] = (50).to_bytes(4, "big")


def spoil_position(data: bytearray, at: int) -> None:
    data[at + POSITION_AT + 7] ^= 1


def spoil_queue(data: bytearray, at: int) -> None:
    data[at + QUEUE_ID_AT] |= 0x80


def spoil_body(data: bytearray, at: int) -> None:
    data[at + 90] ^= 1


@pytest.mark.row("HA-01")
@pytest.mark.parametrize("spoil", [spoil_magic, spoil_size, spoil_position, spoil_queue, spoil_body])
@pytest.mark.parametrize("piece_bytes", [13, 40, 100, 1 << 20])
def test_bytes_that_are_no_record_are_refused_and_can_be_sent_again(spoil, piece_bytes):
    theirs, ours = SimulatedDisk(), SimulatedDisk()
    master, slave = open_on(theirs), open_on(ours)
    placed = [master.put(draft) for draft in drafts_of_one_queue(6, body=b"x" * 100)]
    data = log_of(master)
    spoiled = bytearray(data)
    spoil(spoiled, placed[3].position)

    with pytest.raises(CorruptRecord):
        copy_all(slave, bytes(spoiled), range(0, len(data), piece_bytes))

    assert slave.max_position == slave.whole_position <= placed[2].end
    assert slave.max_offset("orders", 0) == sum(one.end <= slave.max_position for one in placed)
    copy_all(slave, data[slave.max_position :], range(0, len(data), piece_bytes))
    assert closed_files(slave, ours) == closed_files(master, theirs)


def test_a_log_of_files_of_another_size_is_refused_with_the_setting():
    master = open_on(SimulatedDisk(), mapped_file_size_commit_log=8192)
    fill(master, 1, 40)
    slave = open_on(SimulatedDisk())

    with pytest.raises(CorruptRecord, match="mappedFileSizeCommitLog"):
        copy_all(slave, log_of(master), range(0, 40_000, 1000))

    assert slave.max_position < FILE_BYTES


# A disk that does not take it


def test_a_full_disk_changes_nothing_and_the_slave_goes_on_when_there_is_room():
    theirs, disk = SimulatedDisk(), SimulatedDisk()
    master, slave = open_on(theirs), open_on(disk)
    fill(master, 2, 60)
    data = log_of(master)
    slave.append_copied(data[:3000])
    slave.sync_queues()
    offsets = slave.max_offset("orders", 0)
    disk.capacity_bytes = disk.used_bytes + 1500

    # It would need the rest of this file, and another.
    with pytest.raises(DiskFull):
        slave.append_copied(data[3000:9000])

    assert slave.max_position == 3000
    assert slave.max_offset("orders", 0) == offsets
    with pytest.raises(DiskFull):
        slave.append_copied(data[3000:3001])
    disk.capacity_bytes = 1 << 50
    slave.check_disk()
    slave.append_copied(data[3000:])
    assert closed_files(slave, disk) == closed_files(master, theirs)


def test_after_a_failed_write_nothing_is_copied_until_a_restart():
    theirs, disk = SimulatedDisk(), SimulatedDisk()
    master, slave = open_on(theirs), open_on(disk)
    fill(master, 2, 60)
    data = log_of(master)
    slave.append_copied(data[:3000])
    disk.fail_writes(under="commitlog")

    with pytest.raises(StoreError):
        slave.append_copied(data[3000:9000])
    with pytest.raises(SyncFailed):
        slave.append_copied(data[3000:9000])

    disk.mend()
    disk.kill_processes()
    again = open_on(disk)
    again.append_copied(data[again.max_position :])
    assert closed_files(again, disk) == closed_files(master, theirs)


# Beginning in the middle


def start_of_file_before_last(store: MessageStore) -> int:
    """Return where a file begins that has messages of all queues, and some are before it."""
    return store.max_position - store.max_position % FILE_BYTES - FILE_BYTES


def test_a_new_slave_begins_where_a_file_of_the_master_begins(tmp_path):
    master, disk = master_with(150), SimulatedDisk()
    start = start_of_file_before_last(master)
    slave = open_on(disk)

    slave.begin_at(start)
    copy_all(slave, log_of(master, start), range(0, 5000, 300))

    assert (slave.min_position, slave.max_position) == (start, master.max_position)
    for queue_id in range(2):
        first = slave.min_offset("orders", queue_id)
        assert 0 < first < slave.max_offset("orders", queue_id) == master.max_offset("orders", queue_id)
        ours, theirs = (one.get("orders", queue_id, first, count_max=32) for one in (slave, master))
        assert ours.body == theirs.body
        assert slave.get("orders", queue_id, 0, count_max=1).next_offset == first
    slave.close()
    assert verified(disk, tmp_path).faults == []


@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_a_slave_that_began_in_the_middle_is_there_again_after_a_restart(stop, tmp_path):
    master, disk = master_with(150), SimulatedDisk()
    start = start_of_file_before_last(master)
    slave = open_on(disk)
    slave.begin_at(start)
    for size in (0, 700, 1 << 20):
        slave.close() if stop == "clean" else disk.kill_processes()
        slave = open_on(disk)
        assert slave.max_position >= start
        slave.append_copied(log_of(master, slave.max_position)[:size])

    assert slave.max_position == master.max_position
    offsets = [slave.min_offset("orders", queue_id) for queue_id in range(2)]
    slave.close() if stop == "clean" else disk.kill_processes()
    again = open_on(disk)
    assert [again.min_offset("orders", queue_id) for queue_id in range(2)] == offsets
    assert again.max_offset("orders", 0) == master.max_offset("orders", 0)
    again.close()
    assert verified(disk, tmp_path).faults == []


def test_the_entries_before_a_queues_first_message_are_filled_as_rocketmq_fills_them():
    master, disk = open_on(SimulatedDisk()), SimulatedDisk()
    slave = open_on(disk)
    placed = [master.put(draft) for draft in drafts_of_one_queue(40, body=b"x" * 280)]
    start = placed[-1].position - placed[-1].position % FILE_BYTES
    first = next(one.queue_offset for one in placed if one.position >= start)

    slave.begin_at(start)
    copy_all(slave, log_of(master, start))
    slave.close()

    # ConsumeQueue.java, fillPreBlank: from the beginning of the file that the first entry falls into.
    per_file = slave.settings.mapped_file_size_consume_queue // 20
    base = first - first % per_file
    folder = Path("/store/consumequeue/orders/0")
    assert disk.names(folder)[0] == f"{base * 20:020d}"
    data = disk.image()[folder / f"{base * 20:020d}"]
    blank = (0).to_bytes(8, "big") + (0x7FFFFFFF).to_bytes(4, "big") + bytes(8)
    assert first > base
    assert data[: (first - base) * 20] == blank * (first - base)
    assert int.from_bytes(data[(first - base) * 20 :][:8], "big") == placed[first].position


def test_a_beginning_can_be_chosen_again_until_there_is_a_record():
    master, slave = master_with(150), open_on(SimulatedDisk())
    start = master.max_position - master.max_position % FILE_BYTES
    slave.begin_at(FILE_BYTES)
    slave.begin_at(FILE_BYTES)
    slave.begin_at(start)
    assert (slave.min_position, slave.max_position) == (start, start)
    slave.append_copied(log_of(master, start))

    with pytest.raises(StoreError, match="begin"):
        slave.begin_at(0)
    with pytest.raises(StoreError, match="mappedFileSizeCommitLog"):
        open_on(SimulatedDisk()).begin_at(FILE_BYTES + 1)


# The master's side, and retention


def test_the_bytes_of_a_log_are_read_up_to_the_end_of_a_file():
    master = master_with()

    assert len(master.log_bytes(0, 1000)) == 1000
    assert len(master.log_bytes(4000, 1000)) == 96
    assert len(master.log_bytes(4096, 1 << 20)) == 4096
    end = master.max_position
    assert master.log_bytes(end - 5, 1000) == log_of(master)[-5:]
    assert master.log_bytes(end, 1000) == master.log_bytes(end + 9000, 1) == b""


def test_the_bytes_of_files_that_are_gone_are_not_there():
    disk = SimulatedDisk()
    master = open_on(disk)
    fill(master, 1, 60)
    sweep(master, disk)

    assert master.min_position > 0
    assert master.log_bytes(0, 1000) == b""


def sweep(store: MessageStore, disk: SimulatedDisk) -> None:
    store.sync_queues()
    disk.capacity_bytes = disk.used_bytes * 100 // 87
    store.sweep().remove()
    disk.capacity_bytes = 1 << 50


def test_a_slave_lets_old_files_go_as_a_master_does(tmp_path):
    theirs, disk = SimulatedDisk(), SimulatedDisk()
    master, slave = open_on(theirs), open_on(disk)
    fill(master, 1, 100)
    data = log_of(master)
    middle = len(data) * 2 // 3
    slave.append_copied(data[:middle])

    sweep(slave, disk)
    slave.append_copied(data[middle:])
    sweep(master, theirs)

    assert slave.min_position > 0
    first = slave.min_offset("orders", 0)
    assert 0 < first < slave.max_offset("orders", 0) == master.max_offset("orders", 0)
    slave.close()
    assert verified(disk, tmp_path).faults == []
