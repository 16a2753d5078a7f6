"""A log that is cut: what stood behind the place goes everywhere, as if it had never been."""

import pytest
from replica_stage import fill, followers, log_files, log_of, open_on, record_ends, some_drafts, verified
from store_story import ROOT

from pyromq.errors import StoreError
from pyromq.store.store import MessageStore
from pyromq.testing.disk import Image, SimulatedDisk

FILE_BYTES = 4096


def stored(disk: SimulatedDisk, seed: int, count: int) -> list[int]:
    """Store messages one by one, and return where they begin and where the last ends."""
    store = open_on(disk)
    placed = [store.put(draft) for draft in some_drafts(seed, count)]
    store.close()
    return [*(one.position for one in placed), placed[-1].end]


def files_of(image: Image) -> tuple[object, object]:
    return log_files(image), followers(image)


@pytest.mark.row("HA-09")
@pytest.mark.parametrize("seed", range(2))
def test_a_store_that_was_cut_is_the_one_that_never_had_more(seed):
    disk = SimulatedDisk()
    positions = stored(disk, seed, 45)
    image = disk.image()

    for count in range(1, 46):
        never, cut = SimulatedDisk(), SimulatedDisk(image)
        stored(never, seed, count)
        store = open_on(cut, cut_at=positions[count])
        assert store.max_position == positions[count]
        store.close()

        if positions[count] % FILE_BYTES:
            assert files_of(cut.image()) == files_of(never.image()), count
        else:
            # The file before ends in a blank that the cut does not reach.
            assert followers(cut.image()) == followers(never.image()), count


def test_a_store_that_was_cut_at_its_beginning_is_empty():
    disk = SimulatedDisk()
    stored(disk, 1, 40)

    store = open_on(disk, cut_at=0)
    store.close()

    again = open_on(disk)
    assert (again.min_position, again.max_position) == (0, 0)
    assert again.max_offset("orders", 0) == 0
    assert disk.names(ROOT / "consumequeue") == []


def test_what_is_put_behind_the_cut_takes_the_places_of_what_went(tmp_path):
    disk = SimulatedDisk()
    positions = stored(disk, 1, 45)
    other = SimulatedDisk()
    stored(other, 1, 20)

    ours, theirs = open_on(disk, cut_at=positions[20]), open_on(other)
    for store in (ours, theirs):
        fill(store, 77, 40)

    assert log_of(ours) == log_of(theirs)
    ours.close()
    theirs.close()
    assert files_of(disk.image()) == files_of(other.image())
    assert verified(disk, tmp_path).faults == []


def test_a_cut_at_the_end_or_behind_it_changes_nothing():
    disk = SimulatedDisk()
    positions = stored(disk, 1, 20)
    image = disk.image()

    for cut_at in (positions[-1], positions[-1] + 1, positions[-1] + 100_000):
        store = open_on(disk, cut_at=cut_at)
        assert store.max_position == positions[-1]
        store.close()
        assert files_of(disk.image()) == files_of(image)


@pytest.mark.parametrize("shift", [-1, 1, 4, 60])
def test_a_cut_in_the_middle_of_a_record_is_refused_and_changes_nothing(shift):
    disk = SimulatedDisk()
    positions = stored(disk, 1, 30)
    image = disk.image()

    with pytest.raises(StoreError, match="no record begins"):
        open_on(disk, cut_at=positions[10] + shift)

    assert files_of(disk.image()) == files_of(image)
    assert open_on(disk).max_position == positions[-1]


def test_a_cut_before_the_oldest_file_is_refused():
    disk = SimulatedDisk()
    store = open_on(disk)
    fill(store, 1, 80)
    store.sync_queues()
    disk.capacity_bytes = disk.used_bytes * 100 // 87
    store.sweep().remove()
    disk.capacity_bytes = 1 << 50
    begin, end = store.min_position, store.max_position
    store.close()
    assert begin > 0

    with pytest.raises(StoreError, match=f"begins at {begin}"):
        open_on(disk, cut_at=0)

    assert open_on(disk).max_position == end


def test_a_store_is_recovered_first_when_it_was_killed():
    disk = SimulatedDisk()
    store = open_on(disk)
    fill(store, 4, 20)
    store.sync_queues()
    fill(store, 5, 30)
    ends = record_ends(log_of(store))
    never = open_on(other := SimulatedDisk())
    never.append_copied(log_of(store)[: ends[-3]])
    disk.kill_processes()

    open_on(disk, cut_at=ends[-3]).close()

    never.close()
    assert files_of(disk.image()) == files_of(other.image())


def test_a_cut_is_told_of():
    disk = SimulatedDisk()
    positions = stored(disk, 1, 20)
    store = MessageStore(open_on(SimulatedDisk()).settings, clock=open_on(SimulatedDisk())._clock, files=disk)

    recovered = store.open(cut_at=positions[5])

    assert recovered.findings == [
        f"the log was cut at {positions[5]}; {positions[-1] - positions[5]} bytes went"
    ]
    assert recovered.end == positions[5]


def test_a_queue_that_began_in_the_middle_keeps_its_next_offset():
    master, disk = open_on(SimulatedDisk()), SimulatedDisk()
    fill(master, 1, 150)
    start = master.max_position - master.max_position % FILE_BYTES - FILE_BYTES
    slave = open_on(disk)
    slave.begin_at(start)
    slave.append_copied(log_of(master, start))
    offsets = [slave.min_offset("orders", queue_id) for queue_id in range(2)]
    slave.close()

    again = open_on(disk, cut_at=start)

    # Nobody may give these offsets to other messages: older ones had those before them.
    assert [again.max_offset("orders", queue_id) for queue_id in range(2)] == offsets
    again.append_copied(log_of(master, start))
    assert again.max_offset("orders", 0) == master.max_offset("orders", 0)
