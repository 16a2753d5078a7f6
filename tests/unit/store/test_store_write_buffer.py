"""A store with a write buffer: messages wait in memory, and are committed to the log's file together."""

import pytest

from pyromq.errors import DiskFull
from pyromq.store.commitlog import BUFFER_BYTES_MAX
from pyromq.store.consumequeue import ENTRY_BYTES
from pyromq.store.consumequeues import HELD_BYTES_MAX
from pyromq.store.store import GetStatus, MessageStore


@pytest.fixture
def buffered(box):
    """An open store with a write buffer, in the box's folder."""

    def opened(**changes):
        store = box.store(**changes)
        store.is_buffered = True
        store.open()
        return store

    return opened


def committed_bodies(store: MessageStore, all_of) -> list[bytes]:
    store.commit()
    return [record.body for record in all_of(store)]


@pytest.mark.row("FL-04", "ST-15")
def test_wrote_committed_and_flushed_positions_move_one_after_the_other(buffered, draft):
    store = buffered()
    placed = store.put(draft())

    assert (store.max_position, store.committed_position, store.flushed_position) == (placed.end, 0, 0)
    assert store.sync() == 0
    store.commit()
    assert (store.committed_position, store.flushed_position) == (placed.end, 0)
    assert store.sync() == placed.end == store.flushed_position


@pytest.mark.row("FL-04", "ST-15")
def test_a_queue_ends_for_readers_where_the_committed_messages_do(buffered, draft):
    store = buffered()
    store.put(draft(body=b"one"))
    store.commit()
    store.put(draft(body=b"two"))

    got = store.get("orders", 0, 0, count_max=32)
    assert (got.count, got.max_offset) == (1, 1)
    assert store.get("orders", 0, 1, count_max=32).status is GetStatus.OFFSET_OVERFLOW_ONE
    assert store.readable_end("orders", 0) == 1

    store.commit()
    assert store.get("orders", 0, 0, count_max=32).count == 2


def test_slaves_are_sent_committed_bytes_only(buffered, draft):
    store = buffered()
    first = store.put(draft())
    store.commit()
    store.put(draft())

    assert len(store.log_bytes(0, 10_000)) == first.end
    assert store.log_bytes(first.end, 10_000) == b""


def test_a_look_at_one_message_of_the_buffer_commits_it(buffered, draft):
    store = buffered()
    placed = store.put(draft(body=b"half"))

    record = store.record_at(placed.position)

    assert record is not None
    assert record.body == b"half"
    assert store.committed_position == store.readable_position == placed.end


def test_a_look_at_a_time_commits_nothing(buffered, box, draft):
    store = buffered()
    store.put(draft())

    assert store.stored_time("orders", 0, 0) == box.clock.now_ms()
    assert store.offset_by_time("orders", 0, box.clock.now_ms()) == 0
    assert store.committed_position == 0


@pytest.mark.row("FL-04")
def test_a_full_file_is_committed_before_the_next_begins(buffered, draft, all_of):
    store = buffered(mapped_file_size_commit_log=4096)
    bodies = [bytes([65 + at]) * 900 for at in range(9)]

    for body in bodies:
        store.put(draft(body=body))

    assert 8192 <= store.committed_position < store.max_position
    assert committed_bodies(store, all_of) == bodies


def test_a_batch_in_the_buffer_is_one_write(buffered, draft, all_of):
    store = buffered()
    store.put_batch([draft(body=b"one"), draft(body=b"two")])

    assert committed_bodies(store, all_of) == [b"one", b"two"]


def test_the_buffer_is_committed_before_it_is_longer_than_it_may_be(buffered, draft):
    store = buffered(mapped_file_size_commit_log=8 * BUFFER_BYTES_MAX)
    body = b"x" * (4 << 20)

    for _ in range(9):
        store.put(draft(body=body))

    assert 0 < store.max_position - store.committed_position <= BUFFER_BYTES_MAX


@pytest.mark.row("FL-04", "ST-15")
def test_a_kill_leaves_what_was_committed_and_queues_that_fit(buffered, box, draft, all_of):
    """The queues write their entries when they have many, committed or not."""
    store = buffered()
    store.put(draft(body=b"committed"))
    store.commit()
    for _ in range(HELD_BYTES_MAX // ENTRY_BYTES + 50):
        store.put(draft(body=b"lost"))
    assert (box.root / "consumequeue" / "orders" / "0").exists()

    survivor = box.after_kill().open()

    assert [record.body for record in all_of(survivor)][:1] == [b"committed"]
    assert survivor.max_offset("orders", 0) == 1 + committed_count(store)
    assert survivor.put(draft()).queue_offset == 1 + committed_count(store)


def committed_count(store: MessageStore) -> int:
    """Return how many of the lost were committed all the same, since their file was full."""
    return store.readable_end("orders", 0) - 1


@pytest.mark.row("FL-04")
def test_a_checkpoint_and_a_close_commit(buffered, box, draft, all_of):
    store = buffered()
    placed = store.put(draft(body=b"one"))
    store.sync_queues()
    assert store.committed_position == store.flushed_position == placed.end
    store.put(draft(body=b"two"))
    store.close()

    assert [record.body for record in all_of(box.open())] == [b"one", b"two"]


def test_a_commit_without_room_keeps_the_buffer_and_refuses_more(buffered, box, draft, all_of):
    store = buffered()
    store.put(draft(body=b"kept"))
    box.disk.write_error = DiskFull("no room")
    with pytest.raises(DiskFull):
        store.commit()
    with pytest.raises(DiskFull):
        store.put(draft(body=b"refused"))

    box.disk.write_error = None
    store.check_disk()
    store.put(draft(body=b"next"))

    assert committed_bodies(store, all_of) == [b"kept", b"next"]


@pytest.mark.row("ST-14")
def test_the_row_of_files_knows_its_folder_its_files_their_size_and_how_far_they_are_written(
    buffered, box, draft
):
    """RocketMQ: storePath, mappedFiles, mappedFileSize, committedWhere and flushedWhere."""
    store = buffered(mapped_file_size_commit_log=4096)
    for _ in range(6):
        store.put(draft(body=b"x" * 900))
    store.sync()
    log = store.log

    assert log.folder == box.root / "commitlog"
    assert log.segment_bytes == 4096
    assert [(file.base, file.end) for file in log.segments] == [(0, 4096), (4096, 8192)]
    assert log.synced == log.committed == 4096 < log.end
    store.commit()
    assert log.synced < log.committed == log.end
