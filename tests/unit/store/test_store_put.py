"""Putting messages: where they go, what is on disk, what is refused."""

import struct
from pathlib import Path

import pytest

from pyromq.codes import SysFlag
from pyromq.errors import DiskFull, MessageTooLarge, StoreError, StoreLocked, SyncFailed
from pyromq.store.consumequeue import ENTRY_BYTES
from pyromq.store.consumequeues import HELD_BYTES_MAX
from pyromq.store.files import DiskUse
from pyromq.store.store import MessageStore
from pyromq.wire.java_hash import java_hash
from pyromq.wire.record import decode_record, encode_host, is_blank

ENTRY = struct.Struct(">qiq")


def test_a_message_gets_the_next_offset_of_its_queue(box, draft):
    store = box.open()

    placed = [store.put(draft(queue_id=queue_id)) for queue_id in (0, 1, 0, 0, 1)]

    assert [one.queue_offset for one in placed] == [0, 0, 1, 2, 1]


@pytest.mark.row("ST-07")
def test_each_record_begins_where_the_one_before_it_ends(box, draft):
    store = box.open()

    placed = [store.put(draft(body=b"x" * size)) for size in (0, 1, 100, 7)]

    assert [one.position for one in placed] == [0, *(one.end for one in placed[:-1])]
    assert store.max_position == placed[-1].end


@pytest.mark.row("ST-05", "ST-07")
def test_the_log_holds_the_record_as_it_was_given(box, draft):
    store = box.open()

    message = draft(topic="orders", queue_id=3, body=b"forty-two", properties="TAGS\x01paid")
    message.flag, message.reconsume_times, message.prepared_position = 9, 2, 77
    placed = store.put(message)

    data = (Path(box.root) / "commitlog" / "00000000000000000000").read_bytes()
    record = decode_record(data)
    assert (record.topic, record.queue_id, record.body, record.properties) == (
        "orders",
        3,
        b"forty-two",
        "TAGS\x01paid",
    )
    assert (record.flag, record.reconsume_times, record.prepared_position) == (9, 2, 77)
    assert (record.position, record.queue_offset, record.size) == (0, 0, placed.size)
    assert record.stored_at_ms == box.clock.now_ms() == placed.stored_at_ms


@pytest.mark.row("ST-10", "ST-11", "ST-12")
def test_a_queue_entry_is_position_size_and_the_hash_of_the_tags(box, draft):
    store = box.open()
    store.put(draft(queue_id=1))
    placed = store.put(draft(queue_id=2, properties="KEYS\x01a\x02TAGS\x01polygenelubricants"))
    store.sync_queues()

    data = (box.root / "consumequeue" / "orders" / "2" / "00000000000000000000").read_bytes()

    # The hash is Java's smallest number: eight bytes hold it with its sign.
    assert java_hash("polygenelubricants") == -(2**31)
    assert ENTRY.unpack_from(data) == (placed.position, placed.size, -(2**31))
    assert len(data) == 400
    assert not any(data[20:])


@pytest.mark.row("DE-06")
def test_a_delayed_message_has_its_delivery_time_in_the_queue(box, draft):
    store = box.open()

    store.put(draft(topic="SCHEDULE_TOPIC_XXXX", queue_id=2, properties="DELAY\x013\x02TAGS\x01a"))

    [entry] = store.entries("SCHEDULE_TOPIC_XXXX", 2, 0, 10)
    assert entry.tags_code == box.clock.now_ms() + 10_000


@pytest.mark.parametrize("level", ["0", "x", "-1"])
def test_a_delay_that_is_none_leaves_the_hash_of_the_tags(box, draft, level):
    store = box.open()

    store.put(draft(topic="SCHEDULE_TOPIC_XXXX", properties=f"DELAY\x01{level}\x02TAGS\x01a"))

    assert store.entries("SCHEDULE_TOPIC_XXXX", 0, 0, 1)[0].tags_code == java_hash("a")


def test_a_delay_level_over_the_last_counts_as_the_last(box, draft):
    store = box.open()

    store.put(draft(topic="SCHEDULE_TOPIC_XXXX", properties="DELAY\x0199"))

    [entry] = store.entries("SCHEDULE_TOPIC_XXXX", 0, 0, 1)
    assert entry.tags_code == box.clock.now_ms() + 7_200_000


@pytest.mark.parametrize("kind", [SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_ROLLBACK])
def test_a_prepared_or_rolled_back_message_is_in_the_log_but_in_no_queue(box, draft, kind):
    store = box.open()
    store.put(draft())

    placed = store.put(draft(sys_flag=int(kind)))

    assert placed.queue_offset == 0
    assert store.max_offset("orders", 0) == 1
    assert store.record_at(placed.position).sys_flag == kind


def test_a_committed_message_has_a_place_in_its_queue(box, draft):
    store = box.open()

    store.put(draft(sys_flag=int(SysFlag.TRANSACTION_COMMIT)))

    assert store.max_offset("orders", 0) == 1


def test_hosts_of_ip_version_six_are_kept(box, draft):
    store = box.open()
    message = draft()
    message.born_host = encode_host("::1", 4000)

    placed = store.put(message)

    record = store.record_at(placed.position)
    assert record.born_host == encode_host("::1", 4000)
    assert record.stored_at_ms == box.clock.now_ms()
    assert store.stored_time("orders", 0, 0) == box.clock.now_ms()


@pytest.mark.row("ST-06", "ST-08", "ST-09")
def test_a_full_file_ends_in_a_blank_and_the_next_is_named_by_its_first_position(box, draft):
    store = box.open(mapped_file_size_commit_log=4096)

    placed = [store.put(draft(body=b"x" * 900)) for _ in range(6)]

    names = sorted(path.name for path in (box.root / "commitlog").iterdir())
    assert names == ["00000000000000000000", "00000000000000004096"]
    assert [one.position for one in placed[4:]] == [4096, 4096 + placed[0].size]
    first = (box.root / "commitlog" / names[0]).read_bytes()
    blank_at = placed[3].end
    assert is_blank(first, blank_at)
    assert struct.unpack_from(">i", first, blank_at)[0] == 4096 - blank_at
    assert [record.queue_offset for record in map(store.record_at, (one.position for one in placed))] == [
        *range(6)
    ]


@pytest.mark.row("ST-09")
def test_a_record_that_would_leave_no_room_for_a_blank_goes_to_the_next_file(box, draft):
    store = box.open(mapped_file_size_commit_log=4096)
    size = store.put(draft(body=b"")).size

    exactly = store.put(draft(body=b"x" * (4096 - 8 - 2 * size)))
    after = store.put(draft(body=b""))

    assert (exactly.position, exactly.end) == (size, 4096 - 8)
    assert after.position == 4096


def test_a_batch_is_one_run_in_the_log_and_in_its_queues(box, draft):
    store = box.open()
    store.put(draft())

    placed = store.put_batch([draft(body=b"a"), draft(queue_id=1), draft(body=b"c")])

    assert [one.queue_offset for one in placed] == [1, 0, 2]
    assert [one.position for one in placed[1:]] == [one.end for one in placed[:-1]]
    assert [store.record_at(one.position).body for one in placed] == [b"a", b"hello", b"c"]


def test_a_batch_that_does_not_fit_goes_to_the_next_file_as_a_whole(box, draft):
    store = box.open(mapped_file_size_commit_log=4096)
    store.put(draft(body=b"x" * 2000))

    placed = store.put_batch([draft(body=b"x" * 900) for _ in range(3)])

    assert placed[0].position == 4096
    assert [record.queue_offset for record in map(store.record_at, (one.position for one in placed))] == [
        1,
        2,
        3,
    ]


def test_a_batch_of_nothing_is_nothing(box):
    store = box.open()

    assert store.put_batch([]) == []
    assert store.max_position == 0


def test_a_batch_larger_than_a_file_is_refused_and_nothing_of_it_is_stored(box, draft):
    store = box.open(mapped_file_size_commit_log=4096)

    with pytest.raises(MessageTooLarge, match="4096"):
        store.put_batch([draft(body=b"x" * 1500) for _ in range(3)])

    assert store.max_position == 0
    assert store.max_offset("orders", 0) == 0
    assert store.put(draft()).queue_offset == 0


@pytest.mark.row("SC-09")
@pytest.mark.parametrize(
    ("body_bytes", "topic", "properties_bytes"),
    [(101, "orders", 0), (1, "t" * 128, 0), (1, "ü" * 64, 0), (1, "orders", 32_768)],
)
def test_a_message_over_a_limit_is_refused(box, draft, body_bytes, topic, properties_bytes):
    store = box.open(max_message_size=100, mapped_file_size_commit_log=1 << 20)

    with pytest.raises(MessageTooLarge):
        store.put(draft(topic=topic, body=b"x" * body_bytes, properties="p" * properties_bytes))

    assert store.max_position == 0


@pytest.mark.row("SC-09")
def test_a_message_at_every_limit_is_taken(box, draft):
    store = box.open(max_message_size=100, mapped_file_size_commit_log=1 << 20)

    placed = store.put(draft(topic="t" * 127, body=b"x" * 100, properties="p" * 32_767))

    assert store.record_at(placed.position).properties == "p" * 32_767


@pytest.mark.parametrize("topic", ["..", ".", "", "a/b", "a\0b"])
def test_a_topic_that_names_another_folder_is_refused(box, draft, topic):
    store = box.open()

    with pytest.raises(StoreError, match="cannot be a folder"):
        store.put(draft(topic=topic))


def test_the_hook_is_told_when_the_message_can_be_read(box, draft):
    store = box.store()
    heard = []

    def listen(topic: str, queue_id: int, end: int, tags_code: int) -> None:
        heard.append(
            (topic, queue_id, end, tags_code, store.get(topic, queue_id, end - 1, count_max=1).count)
        )

    store.on_append = listen
    store.open()
    store.put(draft(properties="TAGS\x01a"))
    store.put_batch([draft(), draft(queue_id=2)])
    store.put(draft(sys_flag=int(SysFlag.TRANSACTION_ROLLBACK)))

    code = java_hash("a")
    assert heard == [("orders", 0, 1, code, 1), ("orders", 0, 2, 0, 1), ("orders", 2, 1, 0, 1)]


@pytest.mark.row("ST-11")
def test_queues_have_no_files_before_their_first_message(box, draft):
    store = box.open()
    for queue_id in range(1024):
        assert store.max_offset("BenchmarkTest", queue_id) == 0
        assert store.get("BenchmarkTest", queue_id, 0, count_max=1).count == 0

    store.put(draft(topic="BenchmarkTest", queue_id=1023))
    store.sync_queues()

    assert [path.name for path in (box.root / "consumequeue" / "BenchmarkTest").iterdir()] == ["1023"]


def test_files_are_sparse(tmp_path, box, draft):
    store = box.open(
        mapped_file_size_commit_log=1 << 30,
        mapped_file_size_consume_queue=6_000_000,
        max_hash_slot_num=5_000_000,
        max_index_num=20_000_000,
    )
    store.put(draft(properties="KEYS\x01a"))
    store.sync_queues()

    files = [path for path in box.root.rglob("*") if path.is_file()]
    lengths = {path.stat().st_size for path in files}
    assert {1 << 30, 6_000_000, 420_000_040, 4096} <= lengths
    assert sum(path.stat().st_blocks * 512 for path in files) < 1 << 20


@pytest.mark.row("ST-04")
def test_a_second_store_on_the_folder_is_refused(box):
    box.open()

    with pytest.raises(StoreLocked, match="another process"):
        box.store().open()

    assert (box.root / "lock").read_bytes() == b"lock"


def test_after_a_refused_second_store_the_first_still_holds_the_lock(box, draft):
    store = box.open()
    for _ in range(2):
        with pytest.raises(StoreLocked):
            box.store().open()

    assert store.put(draft()).queue_offset == 0


def test_a_store_that_is_not_open_takes_nothing(box, draft):
    with pytest.raises(SyncFailed, match="not open"):
        box.store().put(draft())


def test_a_closed_store_takes_nothing(box, draft):
    store = box.open()
    store.close()

    with pytest.raises(SyncFailed, match="closed"):
        store.put(draft())


@pytest.mark.row("SC-08", "CL-06")
def test_over_ninety_percent_messages_are_refused_with_cause_and_threshold(box, draft):
    store = box.open()
    box.disk.use = DiskUse(used_bytes=91, usable_bytes=9)
    store.sweep()

    with pytest.raises(DiskFull, match=r"91% full.*90 %.*diskSpaceWarningLevelRatio"):
        store.put(draft())
    assert not store.is_writable


@pytest.mark.row("CL-06")
def test_when_there_is_room_again_messages_are_taken_again(box, draft):
    box.disk.use = DiskUse(used_bytes=95, usable_bytes=5)
    store = box.open()
    box.disk.use = DiskUse(used_bytes=80, usable_bytes=20)

    store.sweep()

    assert store.put(draft()).queue_offset == 0


def test_a_write_without_room_is_refused_and_later_ones_are_taken(box, draft):
    store = box.open()
    store.put(draft(body=b"before"))
    box.disk.write_error = DiskFull("no room")
    for _ in range(2):
        with pytest.raises(DiskFull, match="no room"):
            store.put(draft(body=b"lost"))

    box.disk.write_error = None
    store.sweep()
    store.put(draft(body=b"after"))

    assert store.max_offset("orders", 0) == 2
    assert [store.record_at(entry.position).body for entry in store.entries("orders", 0, 0, 5)] == [
        b"before",
        b"after",
    ]


def test_a_queue_file_without_room_loses_nothing(box, draft, all_of):
    store = box.open()
    box.disk.write_error, box.disk.failing_folder = DiskFull("no room"), "consumequeue"
    placed = [store.put(draft()) for _ in range(HELD_BYTES_MAX // ENTRY_BYTES)]

    # The last of so many entries is the one that is written, and could not be.
    with pytest.raises(DiskFull):
        store.put(draft())
    assert len(all_of(store)) == len(placed)
    box.disk.write_error = None
    store.sweep()
    store.put(draft())
    store.sync_queues()

    assert [record.queue_offset for record in all_of(store)] == [*range(len(placed) + 1)]


def test_after_a_failed_write_nothing_is_taken_until_a_restart(box, draft):
    store = box.open()
    store.put(draft(body=b"before"))
    box.disk.write_error = StoreError("the disk is ill")
    with pytest.raises(StoreError, match="ill"):
        store.put(draft())
    box.disk.write_error = None

    with pytest.raises(SyncFailed, match=r"ill.*restart"):
        store.put(draft())
    assert store.get("orders", 0, 0, count_max=1).count == 1


@pytest.mark.row("FL-02")
def test_after_a_failed_sync_nothing_is_taken_or_promised_until_a_restart(box, draft):
    store = box.open()
    store.put(draft())
    box.disk.sync_error = SyncFailed("the disk is ill")
    with pytest.raises(SyncFailed):
        store.sync()
    box.disk.sync_error = None

    with pytest.raises(SyncFailed, match="ill"):
        store.put(draft())
    with pytest.raises(SyncFailed, match="ill"):
        store.sync()
    assert store.flushed_position == 0
    assert store.get("orders", 0, 0, count_max=1).count == 1

    store.close()
    reopened = box.open()
    assert reopened.put(draft()).queue_offset == 1


@pytest.mark.row("FL-01", "FL-03", "ST-15")
def test_a_message_is_readable_before_it_is_synced(box, draft):
    store = box.open()

    placed = store.put(draft())

    assert store.get("orders", 0, 0, count_max=1).count == 1
    assert store.flushed_position < placed.end


@pytest.mark.row("FL-02")
def test_a_sync_covers_everything_appended_before_it_over_files(box, draft):
    store = box.open(mapped_file_size_commit_log=4096)
    placed = [store.put(draft(body=b"x" * 900)) for _ in range(9)]
    box.disk.synced.clear()

    synced = store.sync()

    assert synced == store.flushed_position == placed[-1].end
    assert [path.name for path in box.disk.synced] == [f"{base:020d}" for base in (0, 4096, 8192)]


def test_a_sync_touches_only_files_with_new_bytes(box, draft):
    store = box.open(mapped_file_size_commit_log=4096)
    for _ in range(9):
        store.put(draft(body=b"x" * 900))
    store.sync()
    box.disk.synced.clear()

    store.put(draft())
    store.sync()

    assert [path.name for path in box.disk.synced] == [f"{8192:020d}"]


def test_a_queue_sync_is_due_when_time_has_passed_and_something_is_new(box, draft):
    store = box.open()
    assert store.queue_sync_if_due() is None
    store.put(draft())
    assert store.queue_sync_if_due() is None

    box.clock.advance(60_000)
    queue_sync = store.queue_sync_if_due()
    assert queue_sync is not None
    queue_sync.run()

    box.clock.advance(60_000)
    assert store.queue_sync_if_due() is None


def test_an_unknown_record_position_gives_none(box, draft):
    store = box.open()
    placed = store.put(draft())

    assert store.read_at(placed.position) is not None
    assert store.read_at(placed.position + 1) is None
    assert store.record_at(placed.end) is None
    assert store.record_at(-1) is None
    assert store.read_at(1 << 40) is None


def test_a_deleted_topic_is_gone_and_begins_anew(box, draft):
    store = box.open()
    for _ in range(30):
        store.put(draft(topic="old"))
    store.put(draft())
    store.sync_queues()

    assert store.delete_topic("old") == 1

    assert not (box.root / "consumequeue" / "old").exists()
    assert store.max_offset("old", 0) == 0
    assert store.put(draft(topic="old")).queue_offset == 0
    assert store.max_offset("orders", 0) == 1


def test_topics_that_nobody_knows_are_cleaned_but_system_topics_stay(box, draft):
    store = box.open()
    for topic in ("orders", "old", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_OP_HALF_TOPIC"):
        store.put(draft(topic=topic))

    assert store.clean_unused({"orders"}) == ["old"]

    assert isinstance(store, MessageStore)
    assert store.max_offset("orders", 0) == store.max_offset("SCHEDULE_TOPIC_XXXX", 0) == 1
    assert store.max_offset("old", 0) == 0


def test_files_of_a_queue_sync_that_was_never_run_are_in_the_next(box, draft):
    store = box.open()
    store.put(draft(queue_id=0))
    store.queue_sync()
    store.put(draft(queue_id=1))
    box.disk.synced.clear()

    store.queue_sync().run()

    assert {path.parent.name for path in box.disk.synced} >= {"0", "1"}
