"""One queue's entries in memory and on disk."""

import struct
from pathlib import Path

import pytest

from pyromq.errors import StoreError
from pyromq.store.consumequeue import ConsumeQueue
from pyromq.store.consumequeues import HELD_BYTES_MIN, ConsumeQueues, QueueGap
from pyromq.store.files import SystemFiles
from pyromq.store.follower import LogEntry

ENTRY = struct.Struct(">qiq")
PER_FILE = 10


@pytest.fixture
def queue(tmp_path):
    queue = make_queue(tmp_path)
    yield queue
    queue.close()


def make_queue(folder: Path) -> ConsumeQueue:
    return ConsumeQueue(SystemFiles(), folder, topic="orders", queue_id=3, file_bytes=PER_FILE * 20)


def append(queue: ConsumeQueue, position: int, size: int, tags_code: int) -> None:
    """Add an entry and write what is held when it is much, as all queues together do."""
    queue.add(position, size, tags_code)
    if len(queue.held) >= HELD_BYTES_MIN:
        queue.settle()


def fill(queue: ConsumeQueue, count: int) -> None:
    for _ in range(count):
        append(queue, 1000 + queue.end * 100, 100, queue.end)


def file_bytes(tmp_path: Path, number: int) -> bytes:
    return (tmp_path / "orders" / "3" / f"{number * PER_FILE * 20:020d}").read_bytes()


def positions(queue: ConsumeQueue, offset: int, count: int) -> list[int]:
    return [position for position, _, _ in ENTRY.iter_unpack(queue.read(offset, count))]


@pytest.mark.row("ST-12")
def test_entry_n_stands_at_byte_twenty_times_n(tmp_path, queue):
    fill(queue, 25)
    queue.settle()

    assert ENTRY.unpack_from(file_bytes(tmp_path, 0), 7 * 20) == (1700, 100, 7)
    assert ENTRY.unpack_from(file_bytes(tmp_path, 2), 4 * 20) == (3400, 100, 24)
    assert not any(file_bytes(tmp_path, 2)[100:])


def test_a_queue_loads_where_it_ended(tmp_path, queue):
    fill(queue, 25)
    queue.settle()

    loaded = make_queue(tmp_path)
    loaded.load(0)

    assert (loaded.end, loaded.min_offset, loaded.reach) == (25, 0, 3500)
    fill(loaded, 1)
    assert positions(loaded, 24, 5) == [3400, 3500]
    loaded.close()


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 20, 25])
@pytest.mark.parametrize("cut", [0, 1, 5, 10, 19, 25])
def test_entries_behind_a_position_are_cut_and_read_as_zeros(tmp_path, queue, count, cut):
    fill(queue, count)
    queue.settle()

    loaded = make_queue(tmp_path)
    loaded.load_before(1000 + cut * 100, 0)

    kept = min(count, cut)
    assert loaded.end == kept
    assert positions(loaded, 0, 5) == [1000 + offset * 100 for offset in range(min(kept, 5))]
    rest = b"".join(path.read_bytes() for path in sorted((tmp_path / "orders" / "3").glob("*")))
    assert not any(rest[kept * 20 :])
    loaded.close()


def test_what_stands_behind_a_hole_is_cut_too(tmp_path, queue):
    fill(queue, 9)
    queue.settle()
    path = tmp_path / "orders" / "3" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    # A crash kept the entries 7 and 8, but not 5 and 6, which were not synced either.
    data[5 * 20 : 7 * 20] = bytes(40)
    path.write_bytes(data)

    loaded = make_queue(tmp_path)
    loaded.load_before(1500, 0)

    assert loaded.end == 5
    assert not any(path.read_bytes()[5 * 20 :])
    loaded.close()


def test_a_queue_that_begins_late_is_filled_with_blanks_before(tmp_path, queue):
    queue.begin_at(23)
    fill(queue, 2)
    queue.settle()

    # The files before the first one that is needed do not exist.
    assert [path.name for path in (tmp_path / "orders" / "3").iterdir()] == [f"{400:020d}"]
    entries = [*ENTRY.iter_unpack(file_bytes(tmp_path, 2))]
    assert entries[:3] == [(0, 0x7FFFFFFF, 0)] * 3
    assert entries[3:5] == [(3300, 100, 23), (3400, 100, 24)]
    assert (queue.min_offset, queue.end) == (23, 25)


def test_blanks_are_no_messages_after_a_restart_either(tmp_path, queue):
    queue.begin_at(23)
    fill(queue, 2)
    queue.settle()

    loaded = make_queue(tmp_path)
    loaded.load(0)

    assert (loaded.min_offset, loaded.end, loaded.reach) == (23, 25, 3500)
    loaded.close()


def test_a_queue_of_blanks_only_reaches_nowhere(tmp_path, queue):
    queue.begin_at(3)
    queue.settle()

    loaded = make_queue(tmp_path)
    loaded.load(0)

    assert (loaded.min_offset, loaded.end, loaded.reach) == (3, 3, 0)
    loaded.close()


def test_an_offset_that_comes_again_replaces_what_was_there(queue):
    fill(queue, 25)

    queue.begin_at(4)
    append(queue, 9000, 100, 0)

    assert queue.end == 5
    assert positions(queue, 0, 9) == [1000, 1100, 1200, 1300, 9000]


@pytest.mark.row("CL-01")
def test_files_whose_messages_the_log_lost_are_given_up_and_the_beginning_moves(tmp_path, queue):
    fill(queue, 25)
    queue.settle()

    gone = queue.expire(1000 + 14 * 100)

    assert [path.path.name for path in gone] == [f"{0:020d}"]
    assert (queue.min_offset, queue.end) == (14, 25)
    assert queue.read(3, 1) == b""


def test_when_all_messages_are_lost_the_queue_is_empty_at_its_end(queue):
    fill(queue, 25)
    queue.settle()

    gone = queue.expire(1 << 40)

    assert len(gone) == 2
    assert queue.min_offset == queue.end == 25
    fill(queue, 1)
    assert queue.place(25) == (3500, 100)


def test_held_entries_expire_too(queue):
    fill(queue, 5)

    assert queue.expire(1300) == []
    assert queue.min_offset == 3


def test_an_emptied_first_file_keeps_the_offsets(tmp_path, queue):
    fill(queue, 25)
    queue.settle()
    for segment in queue.expire(1000 + 20 * 100):
        segment.path.unlink()

    loaded = make_queue(tmp_path)
    loaded.load_before(1000, 1000)

    # Everything was cut, but the next message must not get an offset that consumers have passed.
    assert loaded.end == 20
    loaded.close()


def test_the_next_file_of_an_offset_is_where_a_reader_goes_on(queue):
    assert [queue.next_file(offset) for offset in (0, 9, 10, 25)] == [10, 10, 20, 30]


# All queues together


def entry(offset: int, position: int, topic: str = "orders", sys_flag: int = 0) -> LogEntry:
    return LogEntry(topic, 0, offset, position, 100, 0, 0, sys_flag, None, None)


@pytest.fixture
def queues(tmp_path):
    queues = ConsumeQueues(SystemFiles(), tmp_path, PER_FILE * 20)
    yield queues
    queues.close()


def test_a_record_applied_twice_is_in_the_queue_once(queues):
    for offset, position in ((0, 0), (1, 100), (0, 0), (1, 100), (2, 200)):
        queues.apply(entry(offset, position))

    assert positions(queues.get("orders", 0), 0, 9) == [0, 100, 200]
    assert queues.reach == 300


def test_a_gap_is_raised_when_gaps_are_not_filled(queues):
    queues.apply(entry(0, 0))
    queues.gaps_are_filled = False

    with pytest.raises(QueueGap, match=r"ends at 1.*goes on with 5"):
        queues.apply(entry(5, 500))


def test_a_new_queue_may_begin_late_even_so(queues):
    queues.gaps_are_filled = False

    queues.apply(entry(5, 500))

    assert queues.get("orders", 0).min_offset == 5


def test_a_gap_is_filled_with_blanks_otherwise(queues):
    queues.apply(entry(0, 0))
    queues.apply(entry(3, 300))

    assert queues.get("orders", 0).end == 4
    assert queues.get("orders", 0).place(3) == (300, 100)


def test_a_gap_behind_entries_that_are_not_written_yet_leaves_them_where_they_are(tmp_path, queue):
    queue.begin_at(6)
    fill(queue, 9)
    queue.begin_at(17, 2700)
    fill(queue, 2)
    queue.settle()

    assert positions(queue, 6, 4) == [1600, 1700, 1800, 1900]
    assert positions(queue, 10, 9) == [2000, 2100, 2200, 2300, 2400, 2700, 2700, 2700, 2800]
    assert (queue.min_offset, queue.end) == (6, 19)


def test_queues_are_found_by_their_folders_and_nothing_else(tmp_path, queues):
    queues.apply(entry(0, 0))
    queues.settle()
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "orders" / "007").mkdir()
    (tmp_path / "orders" / "x").mkdir()

    found = ConsumeQueues(SystemFiles(), tmp_path, PER_FILE * 20)
    found.find_all()

    assert [(queue.topic, queue.queue_id) for queue in found] == [("orders", 0)]


def test_a_negative_queue_is_none(queues):
    with pytest.raises(StoreError, match="cannot be a folder"):
        queues.get_or_make("orders", -1)
