"""Starting again after every way to stop."""

import logging
import shutil
import struct
from pathlib import Path

import pytest

from pyromq.errors import StoreError, SyncFailed
from pyromq.store.abort import Stop
from pyromq.store.checkpoint import Checkpoint
from pyromq.store.files import SystemFiles
from pyromq.wire.record import decode_record, encode_record, iter_records

HUGE = 1 << 60


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL, logger="pyromq.store")


def put_some(store, draft, count=30, *, first=0):
    """Put messages over two queues, two topics and both kinds of keys."""
    placed = []
    for number in range(first, first + count):
        topic = "orders" if number % 3 else "other"
        properties = f"UNIQ_KEY\x01id-{number:04d}\x02KEYS\x01k{number % 5}\x02TAGS\x01t"
        body = b"%d " % number * (number % 40)
        placed.append(store.put(draft(topic=topic, queue_id=number % 2, body=body, properties=properties)))
    return placed


def contents(store):
    """Return all that can be read and found, as plain values."""
    queues = {}
    for topic in ("orders", "other"):
        for queue_id in (0, 1):
            entries = []
            offset = store.min_offset(topic, queue_id)
            while offset < store.max_offset(topic, queue_id):
                got = store.get(topic, queue_id, offset, count_max=32)
                entries.append((got.body, got.count))
                offset = got.next_offset
            queues[topic, queue_id] = (
                store.min_offset(topic, queue_id),
                store.max_offset(topic, queue_id),
                b"".join(body for body, _ in entries),
            )
    keys = {
        (topic, key): store.query(topic, key, count_max=64, begin_ms=0, end_ms=HUGE).records
        for topic in ("orders", "other")
        for key in ("k0", "k3", "id-0004", "id-0029", "id-0040")
    }
    return store.max_position, queues, keys


def files_of(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in ("lock", "abort", "checkpoint")
    }


def opened_after(box, boot_id):
    """Open a copy of a store's files, in some boot of the machine."""
    copy = box.root.with_name(f"copy {boot_id}")
    shutil.copytree(box.root, copy)
    killed = type(box)(copy)
    killed.disk.boot = boot_id
    store = killed.store()
    try:
        return store.open()
    finally:
        store.close()


def newest(folder: Path) -> Path:
    return sorted(folder.iterdir())[-1]


def forget_checkpoint_position(root: Path) -> None:
    """Leave the checkpoint as RocketMQ would write it: times, and no position."""
    path = root / "checkpoint"
    data = bytearray(path.read_bytes())
    data[24:] = bytes(4072)
    path.write_bytes(data)


@pytest.mark.row("ST-02")
def test_abort_is_there_while_the_store_is_open_and_gone_after_a_clean_stop(box, draft):
    store = box.open()
    assert (box.root / "abort").exists()

    store.close()
    assert not (box.root / "abort").exists()


def test_the_same_boot_of_the_machine_tells_a_kill_from_a_crash(box):
    box.disk.boot = "first boot"
    box.open()
    assert (box.root / "abort").read_bytes() == b"first boot"

    assert opened_after(box, "first boot").stop is Stop.KILLED
    assert opened_after(box, "second boot").stop is Stop.CRASHED


@pytest.mark.parametrize(
    ("found", "boot_id"),
    [(b"", "boot"), (b"", ""), (b"boo", "boot"), (b"boot of Apache", "boot"), (b"\0\0\0\0", "boot")],
)
def test_whatever_else_the_abort_file_holds_counts_as_a_crash(box, found, boot_id):
    box.open()
    (box.root / "abort").write_bytes(found)

    assert opened_after(box, boot_id).stop is Stop.CRASHED


def test_the_abort_file_is_written_anew_whatever_it_held(box):
    box.root.mkdir()
    (box.root / "abort").write_bytes(b"a long text that somebody else wrote")
    box.disk.boot = "boot"

    box.open()

    assert (box.root / "abort").read_bytes() == b"boot"


def test_after_a_failed_sync_a_kill_counts_as_a_crash(box, draft):
    store = box.open()
    store.put(draft())
    box.disk.sync_error = SyncFailed("syncing failed")
    with pytest.raises(SyncFailed):
        store.sync()

    assert (box.root / "abort").read_bytes() == b""


def test_a_machine_has_one_boot_id_or_none():
    assert SystemFiles().boot_id() == SystemFiles().boot_id()
    assert "\n" not in SystemFiles().boot_id()


@pytest.mark.row("ST-01")
def test_the_folder_holds_what_rocketmqs_holds(box, draft):
    store = box.open()
    put_some(store, draft)
    store.sync_queues()

    assert {path.name for path in box.root.iterdir()} == {
        "abort",
        "checkpoint",
        "commitlog",
        "consumequeue",
        "index",
        "lock",
    }


def test_after_a_clean_stop_everything_is_as_before_and_nothing_is_replayed(box, draft):
    store = box.open()
    put_some(store, draft)
    before = contents(store)
    store.close()

    reopened = box.store()
    report = reopened.open()

    assert contents(reopened) == before
    assert (report.was_clean, report.replayed, report.findings) == (True, 0, [])


def test_an_empty_store_opens_again(box):
    box.open().close()

    report = box.store().open()

    assert (report.end, report.findings) == (0, [])


@pytest.mark.row("ST-02")
def test_after_a_kill_everything_is_as_before(box, draft):
    store = box.open()
    put_some(store, draft)
    killed = box.after_kill()

    reopened = killed.store()
    report = reopened.open()

    assert contents(reopened) == contents(store)
    assert (report.was_clean, report.replayed, report.findings) == (False, 30, [])


def test_after_a_kill_only_what_follows_the_checkpoint_is_replayed(box, draft):
    store = box.open()
    put_some(store, draft)
    store.sync_queues()
    put_some(store, draft, 12, first=30)
    killed = box.after_kill()

    reopened = killed.store()
    report = reopened.open()

    assert contents(reopened) == contents(store)
    assert report.replayed == 12


def test_after_recovery_the_files_are_those_of_a_clean_stop(box, draft):
    store = box.open()
    put_some(store, draft)
    killed = box.after_kill()
    store.close()

    killed.open().close()

    assert files_of(killed.root) == files_of(box.root)


def test_messages_go_on_behind_a_recovery(box, draft):
    store = box.open()
    placed = put_some(store, draft)
    killed = box.after_kill()

    reopened = killed.open()
    new = put_some(reopened, draft, first=30)

    assert new[0].position == placed[-1].end
    again = killed.after_kill().open()
    assert contents(again) == contents(reopened)


def test_a_store_may_be_killed_again_right_after_recovery(box, draft):
    store = box.open()
    put_some(store, draft)
    expected = contents(store)
    for _ in range(3):
        box = box.after_kill()
        assert contents(box.open()) == expected


@pytest.mark.parametrize("cut", [4, 8, 50, 90, 91, 150])
def test_a_torn_record_is_cut_off_and_the_ones_before_it_stay(box, draft, cut):
    store = box.open()
    placed = put_some(store, draft, 20)
    killed = box.after_kill()
    log = newest(killed.root / "commitlog")
    with log.open("r+b") as file:
        file.seek(placed[-1].position % 8192 + min(cut, placed[-1].size - 1))
        file.write(bytes(8192 - file.tell()))

    reopened = killed.store()
    report = reopened.open()

    assert report.end == placed[-1].position
    assert len(report.findings) == 1
    assert "00000000000000000000" in report.findings[0]
    assert put_some(reopened, draft, 1, first=19)[0].queue_offset == placed[-1].queue_offset
    assert contents(reopened)[1] == contents(store)[1]


def test_a_flipped_bit_in_the_last_record_is_found_and_cut_off(box, draft):
    store = box.open()
    placed = put_some(store, draft, 20)
    killed = box.after_kill()
    log = newest(killed.root / "commitlog")
    data = bytearray(log.read_bytes())
    data[placed[-1].position + 90] ^= 4
    log.write_bytes(data)

    report = killed.store().open()

    assert report.end == placed[-1].position
    assert "checksum" in report.findings[0]


def test_a_truncated_file_is_extended_and_the_log_ends_at_the_last_whole_record(box, draft):
    store = box.open()
    placed = put_some(store, draft, 20)
    killed = box.after_kill()
    log = newest(killed.root / "commitlog")
    log.write_bytes(log.read_bytes()[: placed[-1].position + 30])

    reopened = killed.store()
    report = reopened.open()

    assert report.end == placed[-1].position
    assert log.stat().st_size == 8192
    assert reopened.put(draft()).position == placed[-1].position


def test_a_file_truncated_after_a_clean_stop_is_noticed(box, draft):
    store = box.open()
    placed = put_some(store, draft, 20)
    store.close()
    log = newest(box.root / "commitlog")
    log.write_bytes(log.read_bytes()[: placed[-3].position + 30])

    reopened = box.store()
    report = reopened.open()

    assert report.end == placed[-3].position
    assert reopened.record_at(placed[-4].position) is not None
    assert sum(reopened.max_offset(topic, queue) for topic in ("orders", "other") for queue in (0, 1)) == 17


def test_a_shortened_file_in_the_middle_is_reported_and_the_rest_is_served(box, draft):
    store = box.open(mapped_file_size_commit_log=4096)
    placed = put_some(store, draft, 60)
    store.close()
    first = min((box.root / "commitlog").iterdir())
    first.write_bytes(first.read_bytes()[:1000])

    reopened = box.store(mapped_file_size_commit_log=4096)
    report = reopened.open()

    assert f"{first} lost everything from byte 1000 on" in report.findings[0]
    left = {place.position for place in placed if not 1000 < place.end <= 4096}
    served = set()
    for topic in ("orders", "other"):
        for queue_id in (0, 1):
            offset = 0
            while offset < reopened.max_offset(topic, queue_id):
                got = reopened.get(topic, queue_id, offset, count_max=32)
                served |= {record.position for record in iter_records(got.body)}
                offset = got.next_offset
    assert served == left


def test_old_records_behind_a_torn_one_never_come_back(box, draft):
    store = box.open()
    placed = [store.put(draft(body=b"x" * 50)) for _ in range(6)]
    killed = box.after_kill()
    log = newest(killed.root / "commitlog")
    data = bytearray(log.read_bytes())
    # The page with record 2 was lost; 3, 4 and 5 are whole, and exactly where new ones will end.
    data[placed[2].position : placed[2].end] = bytes(placed[2].size)
    log.write_bytes(data)

    reopened = killed.open()
    assert reopened.max_position == placed[2].position
    reopened.put(draft(body=b"y" * 50))
    again = killed.after_kill().store()
    report = again.open()

    assert report.end == placed[2].end
    assert again.max_offset("orders", 0) == 3


def test_a_whole_record_from_elsewhere_is_not_taken_for_one(box, draft):
    store = box.open()
    placed = [store.put(draft()) for _ in range(3)]
    killed = box.after_kill()
    log = newest(killed.root / "commitlog")
    data = bytearray(log.read_bytes())
    # A disk that mixes up its sectors: record 0 once more, behind the last.
    data[placed[2].end : placed[2].end + placed[0].size] = data[: placed[0].size]
    log.write_bytes(data)

    report = killed.store().open()

    assert report.end == placed[2].end
    assert "says that its position is 0" in report.findings[0]


def test_a_start_walks_over_blanks_into_the_next_files(box, draft):
    store = box.open(mapped_file_size_commit_log=4096)
    put_some(store, draft, 60)
    killed = box.after_kill()

    reopened = killed.open(mapped_file_size_commit_log=4096)

    assert len(list((killed.root / "commitlog").iterdir())) > 2
    assert contents(reopened) == contents(store)


def test_a_blank_without_a_next_file_is_an_end_like_any(box, draft):
    store = box.open(mapped_file_size_commit_log=4096)
    placed = [store.put(draft(body=b"x" * 900)) for _ in range(5)]
    killed = box.after_kill()
    newest(killed.root / "commitlog").unlink()

    reopened = killed.open(mapped_file_size_commit_log=4096)

    assert reopened.max_offset("orders", 0) == 4
    assert reopened.put(draft(body=b"x" * 900)).position == placed[4].position
    assert killed.after_kill().open(mapped_file_size_commit_log=4096).max_offset("orders", 0) == 5


@pytest.mark.parametrize("length", [0, 100, 8192])
def test_a_new_file_that_nothing_was_written_to_is_fine(box, draft, length):
    store = box.open()
    put_some(store, draft, 20)
    killed = box.after_kill()
    (killed.root / "commitlog" / f"{8192:020d}").write_bytes(bytes(length))

    reopened = killed.open()

    assert contents(reopened) == contents(store)
    for _ in range(100):
        reopened.put(draft(body=b"x" * 90))
    assert reopened.put(draft()).position > 8192


def test_queues_behind_the_log_catch_up(box, draft):
    store = box.open()
    put_some(store, draft)
    store.sync_queues()
    earlier = box.after_kill()
    put_some(store, draft, 20, first=30)
    store.close()
    shutil.rmtree(box.root / "consumequeue")
    shutil.copytree(earlier.root / "consumequeue", box.root / "consumequeue")

    reopened = box.store()
    report = reopened.open()

    assert report.was_clean
    assert report.replayed > 0
    assert [reopened.max_offset("orders", queue) for queue in (0, 1)] == [16, 17]
    assert [reopened.max_offset("other", queue) for queue in (0, 1)] == [9, 8]


def test_a_queue_with_lost_entries_is_made_again_from_the_log(box, draft):
    store = box.open()
    put_some(store, draft)
    store.sync_queues()
    put_some(store, draft, 10, first=30)
    expected = contents(store)
    killed = box.after_kill()
    queue = killed.root / "consumequeue" / "orders" / "0" / f"{0:020d}"
    data = bytearray(queue.read_bytes())
    data[60:] = bytes(340)
    queue.write_bytes(data)

    reopened = killed.store()
    report = reopened.open()

    assert "making all consume queues again" in report.findings[0]
    assert contents(reopened) == expected


def test_removed_queues_are_made_again_from_the_log(box, draft):
    store = box.open(mapped_file_size_commit_log=4096)
    put_some(store, draft, 60)
    before = contents(store)
    store.close()
    shutil.rmtree(box.root / "consumequeue")

    reopened = box.open(mapped_file_size_commit_log=4096)

    assert contents(reopened) == before


def test_queues_ahead_of_the_log_are_cut_back(box, draft):
    store = box.open()
    placed = put_some(store, draft)
    store.sync_queues()
    killed = box.after_kill()
    log = newest(killed.root / "commitlog")
    data = log.read_bytes()
    log.write_bytes(data[: placed[19].end] + bytes(8192 - placed[19].end))
    forget_checkpoint_position(killed.root)

    reopened = killed.store()
    report = reopened.open()

    assert report.end == placed[19].end
    assert sum(reopened.max_offset(topic, queue) for topic in ("orders", "other") for queue in (0, 1)) == 20
    assert reopened.query("orders", "id-0028", count_max=9, begin_ms=0, end_ms=HUGE).records == []
    fresh = put_some(reopened, draft, 10, first=20)
    assert [one.queue_offset for one in fresh] == [one.queue_offset for one in placed[20:]]


def test_without_a_log_queues_and_index_go_too(box, draft):
    store = box.open()
    put_some(store, draft)
    store.close()
    shutil.rmtree(box.root / "commitlog")

    reopened = box.store()
    report = reopened.open()

    assert "has no files" in report.findings[0]
    assert reopened.max_offset("orders", 0) == 0
    assert reopened.query("orders", "k1", count_max=9, begin_ms=0, end_ms=HUGE).records == []
    assert reopened.put(draft()).queue_offset == 0


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("checkpoint", ["missing", "empty", "short", "of RocketMQ"])
def test_without_our_checkpoint_everything_is_still_there(box, draft, clean, checkpoint):
    store = box.open(mapped_file_size_commit_log=4096)
    put_some(store, draft, 40)
    store.sync_queues()
    put_some(store, draft, 40, first=40)
    before = contents(store)
    if clean:
        store.close()
    else:
        box = box.after_kill()
    path = box.root / "checkpoint"
    if checkpoint == "missing":
        path.unlink(missing_ok=True)
    elif checkpoint == "of RocketMQ":
        forget_checkpoint_position(box.root)
    else:
        path.write_bytes(b"" if checkpoint == "empty" else b"short")

    reopened = box.open(mapped_file_size_commit_log=4096)

    assert contents(reopened) == before


def test_after_a_clean_stop_of_rocketmq_only_the_newest_message_is_looked_at(box, draft):
    store = box.open()
    put_some(store, draft, 40)
    store.close()
    forget_checkpoint_position(box.root)

    report = box.store().open()

    assert (report.was_clean, report.replayed) == (True, 1)


def test_after_a_crash_of_rocketmq_the_times_say_where_to_begin(box, draft):
    store = box.open(mapped_file_size_commit_log=4096)
    for _ in range(80):
        put_some(store, draft, 1)
        box.clock.advance(1000)
    store.sync_queues()
    put_some(store, draft, 5)
    killed = box.after_kill()
    forget_checkpoint_position(killed.root)

    reopened = killed.store(mapped_file_size_commit_log=4096)
    report = reopened.open()

    assert contents(reopened) == contents(store)
    assert report.start % 4096 == 0
    assert report.start > 0


def test_a_clock_that_goes_back_does_not_hide_messages_from_recovery(box, draft):
    store = box.open()
    put_some(store, draft, 10)
    store.sync_queues()
    box.clock._now_ms -= 3_600_000  # An hour back, as when a machine's clock is set.
    put_some(store, draft, 10, first=10)
    killed = box.after_kill()

    reopened = killed.store()
    report = reopened.open()

    assert report.replayed == 10
    assert contents(reopened) == contents(store)


def test_a_damaged_last_message_after_a_clean_stop_is_reported_and_nothing_is_cut(box, draft):
    store = box.open()
    placed = put_some(store, draft, 20)
    store.close()
    log = newest(box.root / "commitlog")
    data = bytearray(log.read_bytes())
    data[placed[-1].position + 90] ^= 4
    log.write_bytes(data)

    reopened = box.store()
    report = reopened.open()

    assert report.end == placed[-1].end
    assert report.findings
    assert report.findings[0].startswith("damaged: ")
    assert f"at byte {placed[-1].position}" in report.findings[0]


def test_a_torn_index_is_cut_back_and_made_again(box, draft):
    store = box.open()
    put_some(store, draft, 10)
    store.sync_queues()
    put_some(store, draft, 20, first=10)
    for_index = store.queue_sync()
    assert for_index.files
    expected = contents(store)
    killed = box.after_kill()
    index = newest(killed.root / "index")
    data = bytearray(index.read_bytes())
    entries_at = 40 + 50 * 4
    # Slots and header were kept, the new entries were not.
    data[entries_at + 25 * 20 : entries_at + 45 * 20] = bytes(20 * 20)
    index.write_bytes(data)

    reopened = killed.open()

    assert contents(reopened) == expected


def test_a_missing_index_leaves_the_messages(box, draft):
    store = box.open()
    put_some(store, draft)
    before = contents(store)
    store.close()
    shutil.rmtree(box.root / "index")

    reopened = box.open()

    assert contents(reopened)[:2] == before[:2]


def test_a_topic_that_was_deleted_and_made_again_has_only_its_new_messages(box, draft, all_of):
    store = box.open()
    for number in range(5):
        store.put(draft(topic="orders", body=b"old %d" % number))
    store.delete_topic("orders")
    store.put(draft(topic="orders", body=b"new"))
    killed = box.after_kill()

    reopened = killed.open()

    assert [record.body for record in all_of(reopened)] == [b"new"]


def test_transactions_that_never_reached_a_queue_are_walked_over(box, draft, all_of):
    store = box.open()
    store.put(draft(body=b"a"))
    store.put(draft(body=b"prepared", sys_flag=4))
    store.put(draft(body=b"b"))
    killed = box.after_kill()

    reopened = killed.open()

    assert [record.body for record in all_of(reopened)] == [b"a", b"b"]


def test_a_record_of_a_topic_that_is_no_folder_ends_the_log(box, draft):
    store = box.open()
    placed = [store.put(draft(topic="orders")) for _ in range(3)]
    killed = box.after_kill()
    log = newest(killed.root / "commitlog")
    data = bytearray(log.read_bytes())
    record = decode_record(data, placed[2].position)
    record.topic = "../../"
    data[placed[2].position : placed[2].end] = encode_record(record)
    log.write_bytes(data)

    report = killed.store().open()

    assert report.end == placed[2].position
    assert not (killed.root / "consumequeue" / "..").samefile("/")


def test_a_start_without_checks_of_bodies_takes_a_damaged_one(box, draft):
    store = box.open()
    placed = put_some(store, draft, 20)
    killed = box.after_kill()
    log = newest(killed.root / "commitlog")
    data = bytearray(log.read_bytes())
    data[placed[-1].position + 90] ^= 4
    log.write_bytes(data)

    report = killed.store(check_crc_on_recover=False).open()

    assert report.end == placed[-1].end


def test_the_checkpoint_of_a_clean_stop_names_the_end(box, draft):
    store = box.open()
    placed = put_some(store, draft)
    store.close()

    checkpoint = Checkpoint(SystemFiles(), box.root / "checkpoint")
    checkpoint.load()

    assert checkpoint.safe_position == placed[-1].end
    times = struct.unpack_from(">qqq", (box.root / "checkpoint").read_bytes())
    assert times == (box.clock.now_ms(),) * 3


def test_a_store_that_cannot_be_synced_at_its_end_is_recovered_at_the_next_start(box, draft):
    store = box.open()
    put_some(store, draft)
    expected = contents(store)
    box.disk.sync_error = StoreError("the disk is ill")
    store.close()
    box.disk.sync_error = None

    assert (box.root / "abort").exists()
    assert contents(box.open()) == expected


def test_a_failed_start_gives_the_lock_back(box, draft):
    store = box.open()
    put_some(store, draft)
    store.close()
    with pytest.raises(StoreError, match="settings say"):
        box.store(mapped_file_size_commit_log=4096).open()

    assert box.open().max_offset("orders", 0) == 10
