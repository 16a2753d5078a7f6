"""What not all have is not read: a queue ends for readers before the first message that is not confirmed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replica_stage import drafts_of_one_queue, fill, open_on

from pyromq.store.store import GetStatus, MessageStore, QueueEntry
from pyromq.testing.disk import SimulatedDisk
from pyromq.wire.record import iter_records


@pytest.fixture(scope="module")
def many() -> MessageStore:
    """A store with 120 messages in one queue, and others between them."""
    store = open_on(SimulatedDisk())
    for draft in drafts_of_one_queue(120):
        store.put(draft)
        fill(store, 3, 1)
    return store


@settings(max_examples=100, deadline=None)
@given(position=st.integers(0, 50_000))
def test_only_messages_that_end_before_the_position_are_read(many, position):
    many.readable_position = position

    expected = [entry.position for entry in all_entries(many) if entry.position + entry.size <= position]
    assert many.readable_end("orders", 0) == len(expected)
    got = many.get("orders", 0, 0, count_max=32)
    assert got.max_offset == len(expected)
    assert [record.position for record in iter_records(got.body)] == expected[: got.count]
    assert (got.count > 0) == (len(expected) > 0)


def all_entries(store: MessageStore) -> list[QueueEntry]:
    entries: list[QueueEntry] = []
    while more := store.entries("orders", 0, len(entries), 1000):
        entries += more
    return entries


def test_without_a_position_everything_is_read():
    store = open_on(SimulatedDisk())
    for draft in drafts_of_one_queue(5):
        store.put(draft)

    assert store.readable_position is None
    assert store.readable_end("orders", 0) == 5
    assert store.readable_end("orders", 1) == store.readable_end("nothing", 0) == 0


def test_who_has_read_what_is_not_readable_here_waits_and_is_not_sent_back():
    store = open_on(SimulatedDisk())
    placed = [store.put(draft) for draft in drafts_of_one_queue(5)]
    store.readable_position = placed[3].position

    at_end, hidden, behind = (store.get("orders", 0, offset, count_max=32) for offset in (3, 5, 6))

    assert (at_end.status, at_end.next_offset, at_end.max_offset) == (GetStatus.OFFSET_OVERFLOW_ONE, 3, 3)
    # A consumer may come from the last master, where it has read this; a new one knows not yet who has it.
    assert (hidden.status, hidden.next_offset, hidden.max_offset) == (GetStatus.OFFSET_OVERFLOW_ONE, 5, 3)
    assert (behind.status, behind.next_offset, behind.max_offset) == (GetStatus.OFFSET_OVERFLOW_BADLY, 3, 3)
    assert store.max_offset("orders", 0) == 5
    store.readable_position = 0
    none = store.get("orders", 0, 4, count_max=32)
    assert (none.status, none.next_offset, none.max_offset) == (GetStatus.OFFSET_OVERFLOW_ONE, 4, 0)


@pytest.mark.parametrize("asked", ["wants", "matches", "plain"])
def test_a_filter_does_not_look_behind_the_position(asked):
    store = open_on(SimulatedDisk())
    placed = [store.put(draft) for draft in drafts_of_one_queue(50)]
    store.readable_position = placed[20].end
    looks: list[object] = []
    filters = {
        "wants": {"wants": lambda code: looks.append(code) is None},
        "matches": {"matches": lambda record: looks.append(bytes(record)) is None},
        "plain": {},
    }

    got = store.get("orders", 0, 10, count_max=32, **filters[asked])

    assert (got.count, got.next_offset, got.max_offset) == (11, 21, 21)
    assert len(looks) in (0, 11)


def test_a_message_is_read_when_the_position_moves_behind_it():
    store = open_on(SimulatedDisk())
    placed = [store.put(draft) for draft in drafts_of_one_queue(3)]
    read = []
    for position in range(placed[-1].end + 1):
        store.readable_position = position
        read.append(store.readable_end("orders", 0))

    assert [read.index(count) for count in (1, 2, 3)] == [one.end for one in placed]
    assert read == sorted(read)


def test_a_queue_that_begins_in_the_middle_has_no_end_before_its_beginning():
    master, slave = open_on(SimulatedDisk()), open_on(SimulatedDisk())
    placed = [master.put(draft) for draft in drafts_of_one_queue(60)]
    start = master.max_position - master.max_position % 4096
    slave.begin_at(start)
    slave.append_copied(master.log_bytes(start, 4096))
    first = slave.min_offset("orders", 0)
    assert first > 0

    slave.readable_position = start
    assert slave.readable_end("orders", 0) == first
    slave.readable_position = placed[first].end
    assert slave.readable_end("orders", 0) == first + 1
