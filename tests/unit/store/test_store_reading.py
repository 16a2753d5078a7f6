"""Reading a queue: statuses, limits, filters and searches, as 4.9.8 answers them."""

import pytest
from key_collision import key_with_hash

from pyromq.store.index.index import key_hash
from pyromq.store.store import GetStatus, MessageStore
from pyromq.wire.java_hash import java_hash
from pyromq.wire.record import decode_record, iter_records

HUGE = 1 << 60


def bodies(got):
    return [record.body for record in iter_records(got.body)]


@pytest.fixture
def store(box):
    return box.open(mapped_file_size_commit_log=1 << 20)


@pytest.mark.row("ST-28")
def test_messages_come_back_in_the_order_of_their_queue(store, draft):
    for number in range(10):
        store.put(draft(queue_id=number % 2, body=b"%d" % number))

    got = store.get("orders", 1, 1, count_max=3)

    assert (got.status, got.count, got.next_offset) == (GetStatus.FOUND, 3, 4)
    assert (got.min_offset, got.max_offset) == (0, 5)
    assert bodies(got) == [b"3", b"5", b"7"]


def test_neighbours_in_the_log_come_back_as_one_run(store, draft):
    for number in range(5):
        store.put(draft(body=b"%d" % number))

    got = store.get("orders", 0, 0, count_max=32)

    assert bodies(got) == [b"0", b"1", b"2", b"3", b"4"]
    assert got.count == 5


@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (3, GetStatus.OFFSET_OVERFLOW_ONE, 3),
        (4, GetStatus.OFFSET_OVERFLOW_BADLY, 3),
        (-1, GetStatus.OFFSET_TOO_SMALL, 0),
        (2, GetStatus.FOUND, 3),
    ],
)
def test_an_offset_outside_the_queue_says_where_to_go_on(store, draft, offset, status, next_offset):
    for _ in range(3):
        store.put(draft())

    got = store.get("orders", 0, offset, count_max=32)

    assert (got.status, got.next_offset, got.min_offset, got.max_offset) == (status, next_offset, 0, 3)


@pytest.mark.parametrize("offset", [0, 7])
def test_a_queue_without_messages_begins_at_zero(store, offset):
    got = store.get("orders", 0, offset, count_max=32)

    assert (got.status, got.next_offset, got.max_offset) == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0)


def test_at_most_the_settings_count_of_young_messages_is_returned(store, draft):
    for _ in range(40):
        store.put(draft())

    assert store.get("orders", 0, 0, count_max=100).count == 32


def test_at_most_the_settings_bytes_are_returned_but_always_one_message(box, draft):
    store = box.open(mapped_file_size_commit_log=1 << 20, max_transfer_bytes_on_message_in_memory=1000)
    store.put(draft(body=b"x" * 2000))
    for _ in range(5):
        store.put(draft(body=b"x" * 250))

    assert store.get("orders", 0, 0, count_max=32).count == 1
    got = store.get("orders", 0, 1, count_max=32)
    assert (got.count, got.next_offset) == (2, 3)


def test_messages_far_behind_the_end_come_in_smaller_portions_and_from_a_slave(box, draft):
    store = MessageStore(box.settings, clock=box.clock, files=box.disk, memory_bytes=1000)
    store.open()
    for _ in range(40):
        store.put(draft(queue_id=0))

    got = store.get("orders", 0, 0, count_max=32)
    young = store.get("orders", 0, 38, count_max=32)
    store.close()

    assert (got.count, got.suggest_slave) == (8, True)
    assert (young.count, young.suggest_slave) == (2, False)


def test_is_in_memory_is_the_rule_of_the_young_queue(box, draft):
    store = MessageStore(box.settings, clock=box.clock, files=box.disk, memory_bytes=1000)
    store.open()
    for _ in range(40):
        store.put(draft())

    old, young, missing = (store.is_in_memory("orders", 0, offset) for offset in (0, 39, 99))
    store.close()

    assert (old, young, missing) == (False, True, True)


def test_only_wanted_tags_are_returned_and_the_others_passed(store, draft):
    for tag in "abacaa":
        store.put(draft(properties=f"TAGS\x01{tag}", body=tag.encode()))

    got = store.get("orders", 0, 0, count_max=3, wants=lambda code: code == java_hash("a"))

    assert bodies(got) == [b"a", b"a", b"a"]
    assert got.next_offset == 5


def test_when_no_tag_is_wanted_the_scan_is_passed(store, draft):
    for _ in range(19):
        store.put(draft(properties="TAGS\x01b"))

    got = store.get("orders", 0, 0, count_max=3, wants=lambda _: False)

    assert (got.status, got.count, got.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 0, 19)


def test_a_filter_looks_at_eight_hundred_entries_at_most(box, draft):
    store = box.open(mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=40_000)
    store.put_batch([draft() for _ in range(1000)])

    assert store.get("orders", 0, 0, count_max=32, wants=lambda _: False).next_offset == 800


def test_a_matcher_sees_the_record(store, draft):
    for number in range(6):
        store.put(draft(body=b"%d" % number))

    got = store.get(
        "orders", 0, 0, count_max=32, matches=lambda record: decode_record(record).body in (b"1", b"4")
    )

    assert bodies(got) == [b"1", b"4"]
    assert got.next_offset == 6


def test_a_read_stops_at_the_end_of_a_queue_file_and_goes_on_behind_it(box, draft, all_of):
    store = box.open(mapped_file_size_commit_log=1 << 20)
    for _ in range(50):
        store.put(draft())
    store.sync_queues()

    assert store.get("orders", 0, 15, count_max=32).next_offset == 20
    assert [record.queue_offset for record in all_of(store)] == [*range(50)]


def test_entries_in_memory_and_in_the_file_read_as_one(box, draft):
    store = box.open(mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=4000)
    for _ in range(5):
        store.put(draft())
    store.sync_queues()
    for _ in range(5):
        store.put(draft())

    assert store.get("orders", 0, 2, count_max=6).next_offset == 8
    assert [entry.position for entry in store.entries("orders", 0, 0, 99)] == sorted(
        entry.position for entry in store.entries("orders", 0, 0, 99)
    )
    assert len(store.entries("orders", 0, 3, 99)) == 7


def test_messages_in_two_files_of_the_log_are_joined(box, draft):
    store = box.open(mapped_file_size_commit_log=4096)
    for number in range(6):
        store.put(draft(body=b"%d" % number * 900))

    got = store.get("orders", 0, 0, count_max=32)

    assert [body[:1] for body in bodies(got)] == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_entries_before_the_first_or_behind_the_last_are_none(store, draft):
    store.put(draft())

    assert store.entries("orders", 0, 1, 5) == store.entries("orders", 0, -1, 5) == []
    assert store.entries("nowhere", 0, 0, 5) == []


@pytest.mark.parametrize(
    ("at_ms", "offset"),
    # Messages are stored at 0, 10, 20, 30, 40 ms. Nearest wins, a tie goes to the earlier.
    [(0, 0), (20, 2), (24, 2), (25, 2), (26, 3), (-50, 0), (40, 4), (999, 4)],
)
def test_the_offset_nearest_to_a_time_is_found(box, store, draft, at_ms, offset):
    start = box.clock.now_ms()
    for _ in range(5):
        store.put(draft())
        box.clock.advance(10)

    assert store.offset_by_time("orders", 0, start + at_ms) == offset


def test_the_offset_by_time_is_found_in_the_right_queue_file(box, store, draft):
    start = box.clock.now_ms()
    for _ in range(50):
        store.put(draft())
        box.clock.advance(10)

    assert [store.offset_by_time("orders", 0, start + offset * 10) for offset in (3, 19, 20, 45, 49)] == [
        3,
        19,
        20,
        45,
        49,
    ]


def test_the_offset_by_time_of_an_empty_queue_is_zero(store):
    assert store.offset_by_time("orders", 0, 5) == 0


def test_stored_times_are_told_by_offset(box, store, draft):
    assert store.earliest_time("orders", 0) == -1
    store.put(draft())
    box.clock.advance(70)
    store.put(draft())

    now = box.clock.now_ms()
    assert [store.stored_time("orders", 0, offset) for offset in (0, 1, 2)] == [now - 70, now, -1]
    assert store.earliest_time("orders", 0) == now - 70


def test_a_key_finds_its_messages_oldest_first(box, store, draft):
    for number in range(3):
        store.put(draft(body=b"%d" % number, properties="KEYS\x01k1 k2"))
    store.put(draft(topic="other", properties="KEYS\x01k1"))

    found = store.query("orders", "k2", count_max=32, begin_ms=0, end_ms=HUGE)

    assert [decode_record(record).body for record in found.records] == [b"0", b"1", b"2"]
    assert found.index_updated_at_ms == box.clock.now_ms()
    assert found.index_position == store.entries("other", 0, 0, 1)[0].position


@pytest.mark.row("ST-23")
def test_a_unique_id_finds_its_message_even_without_keys(store, draft):
    store.put(draft(body=b"other", properties="UNIQ_KEY\x017F0000011B3C18B4AAC21C2F9F8D0000"))
    store.put(draft(body=b"mine", properties="TAGS\x01a\x02UNIQ_KEY\x017F0000011B3C18B4AAC21C2F9F8D0001"))

    found = store.query("orders", "7F0000011B3C18B4AAC21C2F9F8D0001", count_max=32, begin_ms=0, end_ms=HUGE)

    assert [decode_record(record).body for record in found.records] == [b"mine"]


@pytest.mark.row("ST-24")
def test_a_query_returns_the_newest_sixty_four_at_most(store, draft):
    for number in range(70):
        store.put(draft(body=b"%d" % number, properties="KEYS\x01k"))

    found = store.query("orders", "k", count_max=1000, begin_ms=0, end_ms=HUGE)

    assert [decode_record(record).body for record in found.records] == [b"%d" % n for n in range(6, 70)]


@pytest.mark.row("ST-24")
def test_a_query_is_bound_by_time_to_the_second(box, store, draft):
    start = box.clock.now_ms()
    for number in range(5):
        store.put(draft(body=b"%d" % number, properties="KEYS\x01k"))
        box.clock.advance(1000)

    found = store.query("orders", "k", count_max=32, begin_ms=start + 1000, end_ms=start + 3000)

    assert [decode_record(record).body for record in found.records] == [b"1", b"2", b"3"]


def test_without_an_index_nothing_is_found_and_no_file_made(box, draft):
    store = box.open(message_index_enable=False)
    store.put(draft(properties="KEYS\x01k"))
    store.sync_queues()

    assert store.query("orders", "k", count_max=32, begin_ms=0, end_ms=HUGE).records == []
    assert not (box.root / "index").exists()


# Keys whose hash another key has ------------------------------------------------------------------------


def test_a_key_with_the_hash_of_another_topics_key_finds_nothing_of_that_topic(store, draft):
    store.put(draft(topic="secrets", body=b"theirs", properties="KEYS\x01k1\x02UNIQ_KEY\x01id-0001"))

    for theirs in ("k1", "id-0001"):
        crafted = key_with_hash("orders", java_hash(f"secrets#{theirs}"))

        assert key_hash("orders", crafted) == key_hash("secrets", theirs)
        assert store.query("orders", crafted, count_max=32, begin_ms=0, end_ms=HUGE).records == []


def test_messages_whose_keys_only_have_the_same_hash_leave_room_for_those_that_have_the_key(store, draft):
    store.put(draft(body=b"mine", properties="KEYS\x01other wanted"))
    crafted = key_with_hash("orders", java_hash("orders#wanted"))
    for _ in range(100):
        store.put(draft(body=b"flood", properties=f"KEYS\x01{crafted}"))

    found = store.query("orders", "wanted", count_max=1, begin_ms=0, end_ms=HUGE)

    assert [decode_record(record).body for record in found.records] == [b"mine"]


def test_a_query_looks_at_so_many_messages_and_no_more(store, draft, monkeypatch):
    monkeypatch.setattr("pyromq.store.index.index.LOOKED_AT_MAX", 5)
    store.put(draft(body=b"mine", properties="KEYS\x01wanted"))
    crafted = key_with_hash("orders", java_hash("orders#wanted"))
    for _ in range(5):
        store.put(draft(body=b"flood", properties=f"KEYS\x01{crafted}"))

    assert store.query("orders", "wanted", count_max=1, begin_ms=0, end_ms=HUGE).records == []
