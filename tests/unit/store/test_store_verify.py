"""Stores that are whole have no findings; each kind of damage is found, with its file and its place."""

import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyromq.codes import SysFlag
from pyromq.store.delay_levels import parse_delay_levels
from pyromq.store.inspect.findings import StoreReport
from pyromq.store.inspect.store_survey import Layout, store_root
from pyromq.store.inspect.store_verification import Verification
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.bodies.offset_bodies import encode_group_offsets
from pyromq.wire.record import encode_host

Q_ENTRY = struct.Struct(">qiq")
KEY_ENTRY = struct.Struct(">iqii")
LOG_FILE_BYTES = 8192
QUEUE_FILE_BYTES = 400
SLOTS = 50
ENTRIES_AT = 40 + 4 * SLOTS


def layout_of(root: Path) -> Layout:
    delays = parse_delay_levels("1s 5s 10s")
    return Layout(root, root / "commitlog", slots=SLOTS, entries_max=200, delays_ms=delays)


def verify(root: Path, piece_bytes: int = 3000) -> StoreReport:
    """Verify with pieces so small that records cross from one to the next."""
    return Verification(layout_of(root), piece_bytes=piece_bytes).run()


def places(report: StoreReport, root: Path) -> list[tuple[str, int]]:
    return [(str(Path(one.file).relative_to(root)), one.position) for one in report.faults]


@dataclass
class Stored:
    """A store that was closed, and where the messages of queue 0 of «orders» are: position, size, tags."""

    root: Path
    orders: list[Any]

    def log(self, position: int, change: Callable[[bytearray], None]) -> tuple[str, int]:
        """Change the bytes of the log from a position on, and return the place."""
        base = position - position % LOG_FILE_BYTES
        return self.change(f"commitlog/{base:020d}", position - base, change)

    def queue(self, offset: int, change: Callable[[bytearray], None]) -> tuple[str, int]:
        """Change an entry of queue 0 of «orders»."""
        base = offset * 20 - offset * 20 % QUEUE_FILE_BYTES
        return self.change(f"consumequeue/orders/0/{base:020d}", offset * 20 - base, change)

    def index(self, at: int, change: Callable[[bytearray], None], file: int = 0) -> tuple[str, int]:
        """Change the bytes of an index file."""
        name = sorted(path.name for path in (self.root / "index").iterdir())[file]
        return self.change(f"index/{name}", at, change)

    def change(self, name: str, at: int, change: Callable[[bytearray], None]) -> tuple[str, int]:
        data = bytearray((self.root / name).read_bytes())
        part = data[at:]
        change(part)
        (self.root / name).write_bytes(data[:at] + part)
        return name, at


def flip(at: int, bit: int = 0x10) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at] ^= bit

    return change


def put(at: int, new: bytes) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at : at + len(new)] = new

    return change


def fill(store: MessageStore, draft: Callable[..., Draft], clock: Any, count: int = 60) -> None:
    """Store messages of every kind, over several files of log, queues and index."""
    for number in range(count):
        properties = (
            f"KEYS\x01order-{number} k{number % 3}\x02UNIQ_KEY\x01{number:032X}\x02TAGS\x01t{number % 2}"
        )
        store.put(draft(queue_id=0, body=b"%d:" % number + b"x" * (number * 37 % 900), properties=properties))
        store.put(
            draft(topic="SCHEDULE_TOPIC_XXXX", queue_id=2, properties="DELAY\x013\x02REAL_TOPIC\x01orders")
        )
        if number % 5 == 0:
            store.put_batch(
                [draft(queue_id=1, body=b"batch", properties="KEYS\x01schlüssel") for _ in range(3)]
            )
            store.put(
                draft(topic="RMQ_SYS_TRANS_HALF_TOPIC", properties="TRAN_MSG\x01true\x02UNIQ_KEY\x01half")
            )
            store.put(draft(sys_flag=SysFlag.TRANSACTION_COMMIT, queue_id=1, body=b"committed"))
            store.put(draft(sys_flag=SysFlag.TRANSACTION_PREPARED, queue_id=1, properties="KEYS\x01prepared"))
            store.put(draft(sys_flag=SysFlag.TRANSACTION_ROLLBACK, queue_id=1, properties="KEYS\x01rolled"))
            store.put(draft(topic="empty", body=b""))
            far = draft(topic="ünïcode", queue_id=7, properties="TAGS\x01größe\x02KEYS\x01a  b")
            far.born_host = far.store_host = encode_host("2001:db8::1", 10911)
            store.put(far)
        clock.advance(700)


@pytest.fixture
def stored(box: Any, draft: Callable[..., Draft]) -> Stored:
    store = box.open()
    fill(store, draft, box.clock)
    orders = (
        store.entries("orders", 0, 0, 20)
        + store.entries("orders", 0, 20, 20)
        + store.entries("orders", 0, 40, 20)
    )
    store.close()
    config = box.root / "config"
    config.mkdir()
    table = encode_group_offsets({"orders@g": {0: 5, 1: 3}}, pretty=True)
    (config / "consumerOffset.json").write_bytes(table)
    (config / "consumerOffset.json.bak").write_bytes(table)
    return Stored(box.root, orders)


# Whole stores


def test_a_store_with_messages_of_every_kind_has_no_findings(stored: Stored) -> None:
    report = verify(stored.root)

    assert report.listed == []
    assert report.is_whole
    assert report.log_files > 3
    assert report.records == 60 * 2 + 12 * 9
    assert report.index_files > 1
    assert report.tables == 2
    assert report.state == "stopped in order"


@pytest.mark.parametrize("piece_bytes", [91, 500, 8192, 1 << 20])
def test_it_does_not_matter_how_the_log_is_cut_into_pieces(stored: Stored, piece_bytes: int) -> None:
    report = verify(stored.root, piece_bytes)

    assert report.listed == []
    assert report.records == 60 * 2 + 12 * 9


def test_a_body_that_holds_a_record_is_not_taken_for_one(box: Any, draft: Callable[..., Draft]) -> None:
    store = box.open()
    first = store.put(draft(body=b"x" * 300))
    inner = store.read_at(first.position)
    assert inner is not None
    for _ in range(4):
        # The record inside says the very position that it stands at.
        at = store.max_position + 88
        store.put(draft(body=inner[:28] + at.to_bytes(8, "big") + inner[36:]))
    store.close()

    assert verify(box.root, 200).listed == []
    assert verify(box.root, 200).records == 5


def test_a_store_whose_oldest_files_were_removed_has_no_findings(
    box: Any, draft: Callable[..., Draft]
) -> None:
    store = box.open()
    fill(store, draft, box.clock)
    store.sync_queues()
    box.clock.advance(100 * 3_600_000)
    store.put(draft())
    box.disk.use = type(box.disk.use)(used_bytes=80, usable_bytes=20)
    assert store.sweep().remove() > 0
    store.close()

    assert store.min_position > 0
    assert verify(box.root).listed == []


def test_a_topic_that_was_removed_and_made_again_is_a_note(box: Any, draft: Callable[..., Draft]) -> None:
    store = box.open()
    for _ in range(30):
        store.put(draft())
        store.put(draft(topic="gone"))
    store.delete_topic("orders")
    store.delete_topic("gone")
    for _ in range(5):
        store.put(draft())
    store.close()

    report = verify(box.root)

    assert report.is_whole
    assert [("begin again" in note.what, "no files" in note.what) for note in report.notes] == [
        (True, False),
        (False, True),
    ]


def test_an_open_store_has_no_findings_although_entries_are_held_in_memory(
    box: Any, draft: Callable[..., Draft]
) -> None:
    store = box.open()
    fill(store, draft, box.clock, count=30)
    store.sync_queues()
    fill(store, draft, box.clock, count=10)

    report = verify(box.root)

    assert report.listed == []
    assert report.state == "a broker has it open"


def test_a_killed_store_has_no_findings(box: Any, draft: Callable[..., Draft]) -> None:
    store = box.open()
    fill(store, draft, box.clock)
    killed = box.after_kill()

    report = verify(killed.root)

    assert report.listed == []
    assert report.state == "not stopped in order"


def test_a_torn_end_after_a_kill_is_a_note(box: Any, draft: Callable[..., Draft]) -> None:
    store = box.open()
    fill(store, draft, box.clock, count=5)
    store.sync_queues()
    position = store.put(draft(body=b"y" * 200)).position
    killed = box.after_kill()
    log = Stored(killed.root, [])
    log.log(position, put(150, bytes(100)))

    report = verify(killed.root)

    assert report.is_whole
    assert [note.position for note in report.notes] == [position % LOG_FILE_BYTES]
    assert "the log ends before this" in report.notes[0].what


def test_files_that_apache_prepares_in_advance_are_no_fault(stored: Stored) -> None:
    files = sorted((stored.root / "commitlog").iterdir())
    for ahead in (1, 2):
        (stored.root / "commitlog" / f"{int(files[-1].name) + ahead * LOG_FILE_BYTES:020d}").write_bytes(
            bytes(LOG_FILE_BYTES)
        )

    assert verify(stored.root).listed == []


def test_an_empty_store_has_no_findings(box: Any) -> None:
    box.open().close()

    assert verify(box.root).listed == []


def test_nothing_is_changed_or_made(stored: Stored) -> None:
    def everything() -> dict[str, tuple[int, bytes]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.read_bytes())
            for path in stored.root.rglob("*")
            if path.is_file()
        }

    before = everything()
    verify(stored.root)

    assert everything() == before


def test_a_store_is_found_in_the_folder_that_holds_it(stored: Stored, tmp_path: Path) -> None:
    shutil.copytree(stored.root, tmp_path / "data" / "broker-a")

    assert store_root(tmp_path / "data") == tmp_path / "data" / "broker-a"
    assert store_root(tmp_path / "data" / "broker-a") == tmp_path / "data" / "broker-a"
    with pytest.raises(FileNotFoundError, match="no store"):
        store_root(tmp_path / "elsewhere")
    shutil.copytree(stored.root, tmp_path / "data" / "broker-b")
    with pytest.raises(FileNotFoundError, match="several"):
        store_root(tmp_path / "data")


# Damage to the log


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(flip(90), "checksum", id="a bit of the body"),
        pytest.param(flip(8), "checksum", id="the checksum"),
        pytest.param(flip(2), "bytes", id="the size"),
        pytest.param(flip(0, 0x80), "bytes", id="a negative size"),
        pytest.param(flip(5), "magic", id="the magic"),
        pytest.param(flip(33), "position", id="the position"),
        pytest.param(flip(27), "points at it", id="the queue offset"),
        pytest.param(flip(15, 0x01), "points at it", id="the queue id"),
        pytest.param(flip(12, 0x80), "no queue can have that", id="a negative queue id"),
        pytest.param(flip(87), "do not add up", id="the length of the body"),
        pytest.param(put(0, bytes(91)), "zeros", id="zeros"),
    ],
)
@pytest.mark.parametrize("piece_bytes", [300, 1 << 20])
def test_a_damaged_record_is_named_once(
    stored: Stored, change: Callable[[bytearray], None], said: str, piece_bytes: int
) -> None:
    place = stored.log(stored.orders[21].position, change)

    report = verify(stored.root, piece_bytes)

    assert places(report, stored.root) == [place]
    assert said in report.faults[0].what
    assert report.faults[0].remedy


def test_a_record_whose_end_was_never_written_is_named_once(stored: Stored) -> None:
    position, size, _ = stored.orders[21]
    place = stored.log(position, put(size - 4, bytes(4)))

    report = verify(stored.root)

    assert places(report, stored.root) == [place]
    assert "never written" in report.faults[0].what


def test_a_topic_that_is_another_s_is_found_by_the_queue_that_points_there(stored: Stored) -> None:
    position, size, _ = stored.orders[21]
    record = (stored.root / f"commitlog/{position - position % LOG_FILE_BYTES:020d}").read_bytes()[
        position % LOG_FILE_BYTES :
    ][:size]
    place = stored.log(position, flip(record.index(b"orders") + 3, 0x20))

    report = verify(stored.root)

    assert places(report, stored.root) == [place]
    assert "'ordErs'" in report.faults[0].what


def test_the_last_record_damaged_after_a_clean_stop_is_a_fault(stored: Stored) -> None:
    place = stored.log(_last_record(stored), flip(6))

    assert place in places(verify(stored.root), stored.root)


def _last_record(stored: Stored) -> int:
    entries = [
        Q_ENTRY.unpack_from(data, at)
        for path in (stored.root / "consumequeue").rglob("0000*")
        for data in [path.read_bytes()]
        for at in range(0, len(data), 20)
    ]
    return max(position for position, size, _ in entries if size)


def test_a_log_file_that_was_cut_is_named_with_the_place_of_the_cut(stored: Stored) -> None:
    name = "commitlog/00000000000000008192"
    data = (stored.root / name).read_bytes()
    (stored.root / name).write_bytes(data[:4000])

    report = verify(stored.root)

    assert (name, 4000) in places(report, stored.root)
    assert {file for file, _ in places(report, stored.root)} == {name}


def test_the_newest_log_file_cut_after_a_clean_stop_is_a_fault(stored: Stored) -> None:
    last = _last_record(stored)
    base = last - last % LOG_FILE_BYTES
    path = stored.root / f"commitlog/{base:020d}"
    path.write_bytes(path.read_bytes()[: last - base + 50])

    found = places(verify(stored.root), stored.root)

    assert (f"commitlog/{base:020d}", last - base) in found


def test_a_missing_log_file_is_named_and_its_queue_entries_are_not_told_again(stored: Stored) -> None:
    (stored.root / "commitlog/00000000000000008192").unlink()

    assert places(verify(stored.root), stored.root) == [("commitlog/00000000000000008192", 0)]


def test_the_newest_log_file_missing_is_noticed_by_what_points_there(stored: Stored) -> None:
    sorted((stored.root / "commitlog").iterdir())[-1].unlink()

    report = verify(stored.root)

    assert any("behind the end of the log" in fault.what for fault in report.faults)
    assert any(fault.file.endswith("checkpoint") for fault in report.faults)


def test_a_blank_that_does_not_fill_its_file_is_found(stored: Stored) -> None:
    data = (stored.root / "commitlog/00000000000000000000").read_bytes()
    at = data.rindex(b"\xcb\xd4\x31\x94") - 4
    place = stored.log(at, flip(3))

    report = verify(stored.root)

    assert places(report, stored.root) == [place]
    assert "blank" in report.faults[0].what


def test_a_file_whose_blank_is_gone_is_found(stored: Stored) -> None:
    data = (stored.root / "commitlog/00000000000000000000").read_bytes()
    at = data.rindex(b"\xcb\xd4\x31\x94") - 4
    place = stored.log(at, put(0, bytes(8)))

    assert places(verify(stored.root), stored.root) == [place]


# Damage to the queues


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(flip(7, 0x02), "no record begins", id="a wrong position"),
        pytest.param(flip(0, 0x01), "behind the end", id="a position behind the end"),
        pytest.param(flip(10), "bytes, but it has", id="a wrong size"),
        pytest.param(flip(19), "tags code", id="a wrong tags code"),
        pytest.param(flip(12, 0x01), "tags code", id="a tags code that is none"),
        pytest.param(put(0, bytes(20)), "never written", id="a gap"),
        pytest.param(put(0, Q_ENTRY.pack(0, 0x7FFFFFFF, 0)), "never written", id="a blank in the middle"),
    ],
)
def test_a_damaged_queue_entry_is_named_once(
    stored: Stored, change: Callable[[bytearray], None], said: str
) -> None:
    place = stored.queue(33, change)

    report = verify(stored.root)

    assert places(report, stored.root) == [place]
    assert said in report.faults[0].what
    assert "consumequeue" in report.faults[0].remedy


def test_an_entry_that_points_at_another_message_is_named(stored: Stored) -> None:
    place = stored.queue(33, put(0, Q_ENTRY.pack(*stored.orders[34])))

    report = verify(stored.root)

    assert places(report, stored.root) == [place]
    assert f"the message is at {stored.orders[33].position}" in report.faults[0].what


def test_a_wrong_delivery_time_of_a_delayed_message_is_named(stored: Stored) -> None:
    place = stored.change("consumequeue/SCHEDULE_TOPIC_XXXX/2/00000000000000000000", 60, flip(18))

    report = verify(stored.root)

    assert places(report, stored.root) == [place]
    assert "delivery time" in report.faults[0].what


def test_a_delivery_time_that_apache_lost_in_a_recovery_is_a_note(stored: Stored) -> None:
    stored.change("consumequeue/SCHEDULE_TOPIC_XXXX/2/00000000000000000000", 60, put(12, bytes(8)))

    report = verify(stored.root)

    assert report.is_whole
    assert ["no delivery time" in note.what for note in report.notes] == [True]


def test_entries_missing_at_the_end_of_a_queue_after_a_clean_stop_are_a_fault(stored: Stored) -> None:
    place = stored.queue(57, put(0, bytes(60)))

    report = verify(stored.root)

    assert places(report, stored.root) == [place]
    assert "3 messages" in report.faults[0].what


def test_an_entry_behind_the_last_message_is_named(stored: Stored) -> None:
    name = "consumequeue/orders/0/00000000000000001200"
    (stored.root / name).write_bytes(Q_ENTRY.pack(*stored.orders[5]) + bytes(QUEUE_FILE_BYTES - 20))

    report = verify(stored.root)

    assert places(report, stored.root) == [(name, 0)]
    assert "which is message 5" in report.faults[0].what


def test_a_missing_queue_file_is_named(stored: Stored) -> None:
    (stored.root / "consumequeue/orders/0/00000000000000000400").unlink()

    found = places(verify(stored.root), stored.root)

    assert found[0] == ("consumequeue/orders/0/00000000000000000400", 0)
    assert all(file.startswith("consumequeue/orders/0/") for file, _ in found)


def test_a_missing_queue_of_a_topic_that_has_others_is_named(stored: Stored) -> None:
    shutil.rmtree(stored.root / "consumequeue/orders/1")

    assert places(verify(stored.root), stored.root) == [("consumequeue/orders/1", 0)]


# Damage to the index


@pytest.mark.parametrize(
    ("at", "change", "said"),
    [
        pytest.param(0, flip(2), "no such key", id="a wrong hash"),
        pytest.param(4, flip(7, 0x02), "no record begins", id="a wrong position"),
        pytest.param(4, flip(1), "no record begins", id="a position behind all others"),
        pytest.param(12, flip(2), "s after the first", id="a wrong time"),
        pytest.param(16, flip(3), "the one before it in its slot", id="a broken chain"),
    ],
)
def test_a_damaged_index_entry_is_named_once(
    stored: Stored, at: int, change: Callable[[bytearray], None], said: str
) -> None:
    place = stored.index(ENTRIES_AT + 20 * 30 + at, change)

    report = verify(stored.root)

    assert places(report, stored.root) == [place]
    assert said in report.faults[0].what
    assert "index" in report.faults[0].remedy


def test_a_slot_that_forgot_its_chain_is_named(stored: Stored) -> None:
    place = stored.index(40 + 4 * 7, put(0, bytes(4)))

    report = verify(stored.root)

    assert places(report, stored.root) == [place]
    assert "slot 7" in report.faults[0].what


@pytest.mark.parametrize(
    ("at", "said"),
    [(35, "used slots"), (23, "first message"), (31, "last message")],
    ids=["slots", "first position", "last position"],
)
def test_a_wrong_header_of_the_index_is_named(stored: Stored, at: int, said: str) -> None:
    name, _ = stored.index(at, flip(0, 0x01))

    report = verify(stored.root)

    assert places(report, stored.root) == [(name, at - at % 8 if at < 32 else 32)]
    assert said in report.faults[0].what


def test_a_count_of_entries_that_is_too_small_is_named(stored: Stored) -> None:
    name, _ = stored.index(36, put(0, (120).to_bytes(4, "big")))

    found = verify(stored.root)

    assert {file for file, _ in places(found, stored.root)} == {name}


def test_an_index_file_of_another_size_is_named_with_the_settings_to_say(stored: Stored) -> None:
    name = sorted((stored.root / "index").iterdir())[0]
    name.write_bytes(name.read_bytes()[:-20])

    report = verify(stored.root)

    assert places(report, stored.root) == [("index/" + name.name, 0)]
    assert "maxHashSlotNum" in report.faults[0].what


# Damage to the rest


@pytest.mark.parametrize("twin", ["", ".bak"])
def test_a_torn_table_is_named(stored: Stored, twin: str) -> None:
    path = stored.root / f"config/consumerOffset.json{twin}"
    path.write_bytes(path.read_bytes()[:20])

    report = verify(stored.root)

    assert places(report, stored.root) == [(f"config/consumerOffset.json{twin}", 20)]
    assert "does not read" in report.faults[0].what


def test_a_table_that_was_set_aside_is_a_note(stored: Stored) -> None:
    (stored.root / "config/topics.json.damaged").write_bytes(b"{")

    report = verify(stored.root)

    assert report.is_whole
    assert [Path(note.file).name for note in report.notes] == ["topics.json.damaged"]


def test_a_torn_checkpoint_is_named(stored: Stored) -> None:
    (stored.root / "checkpoint").write_bytes((stored.root / "checkpoint").read_bytes()[:100])

    assert places(verify(stored.root), stored.root) == [("checkpoint", 0)]


def test_a_checkpoint_that_knows_more_than_the_log_is_named(stored: Stored) -> None:
    data = bytearray((stored.root / "checkpoint").read_bytes())
    data[0:16] = struct.pack(">qq", 1 << 60, 1 << 60)
    (stored.root / "checkpoint").write_bytes(data)

    found = verify(stored.root)

    assert {file for file, _ in places(found, stored.root)} == {"checkpoint"}


def test_a_clock_that_went_back_by_a_day_is_no_fault(box: Any, draft: Callable[..., Draft]) -> None:
    now_ms = box.clock.now_ms()
    box.clock.advance(24 * 3_600_000)
    store = box.open()
    store.put(draft())
    store.close()
    box.clock = ManualClock(now_ms)
    box.open().put(draft())

    assert verify(box.after_kill().root).faults == []


def test_many_faults_are_counted_and_not_all_listed(stored: Stored) -> None:
    for path in sorted((stored.root / "consumequeue/SCHEDULE_TOPIC_XXXX/2").iterdir()):
        data = bytearray(path.read_bytes())
        data[18::20] = bytes(len(data[18::20]))
        path.write_bytes(data)

    report = verify(stored.root)

    assert report.fault_count >= 59
    assert all("delivery time" in fault.what for fault in report.faults)
