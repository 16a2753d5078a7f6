"""What goes, and when."""

import time

import pytest

from pyromq.store.files import DiskUse
from pyromq.store.reading import GetStatus

HOUR_MS = 3_600_000
TIGHT = DiskUse(used_bytes=76, usable_bytes=24)
FORCED = DiskUse(used_bytes=86, usable_bytes=14)


def hour_of(clock):
    return time.localtime(clock.now_ms() // 1000).tm_hour


@pytest.fixture
def full(box, draft):
    """Return a function that fills a number of log files, an hour apart, and opens the store so."""

    def fill(file_count, **changes):
        never = f"{(hour_of(box.clock) + 12) % 24:02d}"
        store = box.open(mapped_file_size_commit_log=4096, **{"delete_when": never, **changes})
        for number in range(file_count * 4 - 3):
            store.put(draft(body=b"x" * 900, properties=f"KEYS\x01k{number}"))
            if number % 4 == 3:
                box.clock.advance(HOUR_MS)
        store.sync_queues()
        return store

    return fill


def log_names(box):
    return [int(path.name) // 4096 for path in sorted((box.root / "commitlog").iterdir())]


@pytest.mark.row("CL-02")
def test_young_files_stay(box, full):
    store = full(5, delete_when=f"{hour_of(box.clock) + 4}")

    assert store.sweep().files == []


@pytest.mark.row("CL-01", "CL-02", "CL-03")
def test_in_the_hour_to_delete_expired_files_go(box, full):
    store = full(5, file_reserved_time=2)
    box.clock.advance(HOUR_MS)
    store.settings = type(store.settings)(
        store_path_root_dir=str(box.root), file_reserved_time=2, delete_when=f"05;{hour_of(box.clock):02d}"
    )

    removed = store.sweep().remove()

    # Five files, finished 4, 3, 2 and 1 hours ago; those of 2 hours and more have expired.
    assert log_names(box) == [3, 4]
    assert removed >= 3
    assert store.min_position == 3 * 4096


@pytest.mark.row("CL-03")
def test_at_other_hours_expired_files_stay(box, full):
    store = full(5, file_reserved_time=1)

    assert store.sweep().files == []


@pytest.mark.row("CL-04")
def test_over_seventy_five_percent_expired_files_go_at_any_hour(box, full):
    store = full(5, file_reserved_time=2)
    box.disk.use = TIGHT

    store.sweep().remove()

    assert log_names(box) == [2, 3, 4]


@pytest.mark.row("CL-05")
def test_over_eighty_five_percent_files_go_before_their_time(box, full):
    store = full(5)
    box.disk.use = FORCED

    store.sweep().remove()

    assert log_names(box) == [4]
    assert store.is_writable


@pytest.mark.row("CL-05")
def test_files_are_not_forced_out_when_the_settings_forbid_it(box, full):
    store = full(5, clean_file_forcibly_enable=False)
    box.disk.use = FORCED

    assert store.sweep().files == []


@pytest.mark.row("CL-08")
def test_at_most_ten_files_go_in_a_round(box, full):
    store = full(14)
    box.disk.use = FORCED

    store.sweep().remove()
    assert log_names(box) == [10, 11, 12, 13]
    store.sweep().remove()
    assert log_names(box) == [13]


@pytest.mark.row("CL-01")
def test_offsets_and_reads_move_to_what_is_left(box, full, all_of):
    store = full(5)
    box.disk.use = FORCED
    assert store.max_offset("orders", 0) == 17

    store.sweep().remove()

    assert (store.min_offset("orders", 0), store.max_offset("orders", 0)) == (16, 17)
    got = store.get("orders", 0, 3, count_max=32)
    assert (got.status, got.next_offset) == (GetStatus.OFFSET_TOO_SMALL, 16)
    assert [record.queue_offset for record in all_of(store)] == [16]
    assert store.earliest_time("orders", 0) == box.clock.now_ms()
    assert store.offset_by_time("orders", 0, 0) == 16


def test_queue_and_index_files_that_nothing_needs_go_too(box, draft):
    store = box.open(mapped_file_size_commit_log=4096, max_index_num=10)
    for number in range(60):
        store.put(draft(body=b"x" * 300, properties=f"KEYS\x01k{number}"))
    store.sync_queues()
    queue = box.root / "consumequeue" / "orders" / "0"
    assert (len(list(queue.iterdir())), len(list((box.root / "index").iterdir()))) == (3, 7)
    box.disk.use = FORCED

    store.sweep().remove()

    assert [int(path.name) for path in sorted(queue.iterdir())] == [800]
    assert len(list((box.root / "index").iterdir())) < 3
    found = store.query("orders", "k1", count_max=9, begin_ms=0, end_ms=1 << 60)
    assert found.records == []


def test_a_queue_whose_messages_are_all_gone_keeps_its_end(box, draft, full):
    store = full(1)
    store.put(draft(topic="quiet"))
    for _ in range(20):
        store.put(draft(body=b"x" * 900))
    store.sync_queues()
    box.disk.use = FORCED

    store.sweep().remove()

    assert (store.min_offset("quiet", 0), store.max_offset("quiet", 0)) == (1, 1)
    assert store.get("quiet", 0, 0, count_max=9).next_offset == 1
    assert store.put(draft(topic="quiet")).queue_offset == 1


def test_after_a_sweep_a_start_goes_on_with_what_is_left(box, draft, full, all_of):
    store = full(5)
    box.disk.use = FORCED
    store.sweep().remove()
    killed = box.after_kill()
    store.close()

    for reopened in (
        box.store(mapped_file_size_commit_log=4096),
        killed.store(mapped_file_size_commit_log=4096),
    ):
        reopened.open()
        assert (reopened.min_offset("orders", 0), reopened.max_offset("orders", 0)) == (16, 17)
        assert reopened.put(draft(body=b"new")).queue_offset == 17
        assert [record.body for record in all_of(reopened)][-1] == b"new"


def test_files_that_were_not_removed_before_the_end_are_found_again(box, full):
    store = full(5)
    box.disk.use = FORCED
    store.sweep()
    store.close()

    box.disk.use = DiskUse(used_bytes=1, usable_bytes=99)
    reopened = box.open(mapped_file_size_commit_log=4096)

    assert reopened.min_position == 0


def test_files_that_are_not_synced_yet_stay(box, full, draft):
    store = full(3)
    for _ in range(8):
        store.put(draft(body=b"x" * 900))
    box.disk.use = FORCED

    store.sweep().remove()

    # Files 0 and 1 were synced; from 2 on there are bytes that were not.
    assert log_names(box)[0] == 2


def test_files_whose_queue_entries_are_only_in_memory_stay(box, full, draft):
    store = full(3)
    for _ in range(8):
        store.put(draft(body=b"x" * 900))
    store.sync()
    box.disk.use = FORCED

    store.sweep().remove()

    # All of the log is synced, but from 2 on a crash would forget which offsets were given out.
    assert log_names(box)[0] == 2


def test_a_message_that_is_being_removed_says_so(box, full):
    """A queue entry whose record is gone: the log was cut by hand, or by a crash in the middle of a sweep."""
    store = full(5)
    store._log.detach_first(2)

    got = store.get("orders", 0, 0, count_max=32)

    # RocketMQ passes over all entries of the missing file and goes on behind it.
    assert (got.status, got.count) == (GetStatus.FOUND, 9)
    assert store.get("orders", 0, 0, count_max=32, wants=lambda _: True).count == 9
    store._log.detach_first(2)
    short = store.get("orders", 0, 0, count_max=8)
    assert (short.status, short.count, short.next_offset) == (GetStatus.MESSAGE_WAS_REMOVING, 0, 8)


@pytest.mark.row("CL-07")
def test_dead_letters_live_as_long_as_other_messages(box, draft, full):
    store = full(1, file_reserved_time=72)
    store.put(draft(topic="%DLQ%group", body=b"x" * 900))
    for _ in range(8):
        store.put(draft(body=b"x" * 900))
    store.sync_queues()
    box.disk.use = TIGHT

    box.clock.advance(71 * HOUR_MS)
    assert store.sweep().files == []
    box.clock.advance(HOUR_MS)
    store.sweep().remove()

    assert store.get("%DLQ%group", 0, 0, count_max=9).status == GetStatus.OFFSET_TOO_SMALL
