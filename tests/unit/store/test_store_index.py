"""The key index on disk: RocketMQ's header, slots and entries."""

import struct
import time
from pathlib import Path

import pytest
from key_collision import key_with_hash

from pyromq.codes import SysFlag
from pyromq.errors import DiskFull
from pyromq.store.files import SystemFile, SystemFiles
from pyromq.store.follower import LogEntry
from pyromq.store.index import indexfile
from pyromq.store.index.index import KeyIndex, key_hash
from pyromq.wire.java_hash import java_hash

HEADER = struct.Struct(">qqqqii")
ENTRY = struct.Struct(">iqii")
SLOTS, ENTRIES = 10, 20
NOW_MS = 1_700_049_600_123
HUGE = 1 << 60


@pytest.fixture
def index(tmp_path):
    index = open_index(tmp_path)
    yield index
    index.close()


def open_index(folder: Path) -> KeyIndex:
    index = KeyIndex(SystemFiles(), folder / "index", slots=SLOTS, entries_max=ENTRIES, now_ms=lambda: NOW_MS)
    index.load()
    return index


def entry(position, unique_id=None, keys=None, stored_at_ms=NOW_MS, sys_flag=0):
    return LogEntry("orders", 0, 0, position, 100, 0, stored_at_ms, sys_flag, unique_id, keys)


def find(index, key, begin_ms=0, end_ms=HUGE):
    return index.query("orders", key, count_max=32, begin_ms=begin_ms, end_ms=end_ms).positions


def the_file(tmp_path):
    [path] = (tmp_path / "index").iterdir()
    return path


def test_the_hash_of_a_key_is_javas_made_positive():
    for topic, key in [
        ("t", "k"),
        ("orders", "7F0000011B3C18B4AAC21C2F9F8D0001"),
        ("ü", "ö" * 9),
        ("t", "x" * 999),
    ]:
        assert key_hash(topic, key) == abs(java_hash(f"{topic}#{key}"))


def test_the_smallest_number_of_java_becomes_zero():
    key = key_with_hash("orders", -(2**31))

    assert java_hash(f"orders#{key}") == -(2**31)
    assert key_hash("orders", key) == 0


def test_slots_that_are_written_part_by_part_are_those_that_are_written_at_once(tmp_path, monkeypatch):
    keys = [f"key {number * 7919}" for number in range(600)]
    files = []
    for held_max, entries_bytes in ((40, 100), (100_000, 1 << 30)):
        monkeypatch.setattr(indexfile, "HELD_SLOTS_MAX", held_max)
        monkeypatch.setattr(indexfile, "HELD_ENTRIES_BYTES", entries_bytes)
        folder = tmp_path / str(held_max)
        index = KeyIndex(SystemFiles(), folder, slots=90_000, entries_max=1_000, now_ms=lambda: NOW_MS)
        held = []
        for number, key in enumerate(keys):
            index.apply(entry(number * 100, unique_id=key))
            assert find(index, keys[number // 2]) == [number // 2 * 100]
            held.append(index.newest().held_slots_count())
        assert max(held) < (200 if held_max == 40 else 601), "many parts were written meanwhile"
        index.settle()
        index.close()
        [path] = folder.iterdir()
        files.append(path.read_bytes())

    assert files[0] == files[1]


def test_a_copy_that_is_made_while_slots_are_written_has_the_slot_of_each_entry_that_it_counts(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(indexfile, "HELD_SLOTS_MAX", 40)
    slots, counts = 90_000, set()
    index = KeyIndex(SystemFiles(), tmp_path / "index", slots=slots, entries_max=1_000, now_ms=lambda: NOW_MS)
    for number in range(600):
        index.apply(entry(number * 100, unique_id=f"key {number * 7919}"))
        # As a backup, or another broker behind a kill, would find it.
        data = the_file(tmp_path).read_bytes()
        count, end_position = HEADER.unpack_from(data)[5], HEADER.unpack_from(data)[3]
        for one in range(max(count - 10, 1), count):
            hashed, position, _, _ = ENTRY.unpack_from(data, 40 + slots * 4 + one * 20)
            (newest,) = struct.unpack_from(">i", data, 40 + hashed % slots * 4)
            assert newest >= one
        assert count < 2 or position == end_position
        counts.add(count)
    index.close()

    assert len(counts) > 5


def test_slots_are_held_on_when_a_part_of_them_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(indexfile, "HELD_SLOTS_MAX", 50)
    index = KeyIndex(
        SystemFiles(), tmp_path / "index", slots=90_000, entries_max=1_000, now_ms=lambda: NOW_MS
    )
    parts, write_each = [], SystemFile.write_each

    def write_some(file, parts_now):
        parts.append(len(parts_now))
        if len(parts) == 3:
            raise DiskFull("no room")
        write_each(file, parts_now)

    monkeypatch.setattr(SystemFile, "write_each", write_some)
    refused = 0
    for number in range(120):
        try:
            index.apply(entry(number * 100, unique_id=f"key {number * 7919}"))
        except DiskFull:
            refused += 1
    index.settle()
    index.close()

    again = KeyIndex(
        SystemFiles(), tmp_path / "index", slots=90_000, entries_max=1_000, now_ms=lambda: NOW_MS
    )
    again.load()
    assert refused == 1
    assert [find(again, f"key {number * 7919}") for number in range(120)] == [
        [number * 100] for number in range(120)
    ]
    again.close()


@pytest.mark.row("ST-17")
def test_a_file_is_named_by_the_local_time_and_has_its_full_length(tmp_path, index):
    index.apply(entry(0, unique_id="a"))
    index.settle()

    path = the_file(tmp_path)
    assert path.name == time.strftime("%Y%m%d%H%M%S", time.localtime(NOW_MS // 1000)) + "123"
    assert path.stat().st_size == 40 + SLOTS * 4 + ENTRIES * 20


@pytest.mark.row("ST-18", "ST-19", "ST-20", "ST-21")
def test_header_slots_and_entries_are_as_rocketmq_writes_them(tmp_path, index):
    index.apply(entry(1000, unique_id="id-1", keys="a b", stored_at_ms=NOW_MS))
    index.apply(entry(2000, unique_id="id-2", keys="a", stored_at_ms=NOW_MS + 2999))
    index.settle()

    data = the_file(tmp_path).read_bytes()
    hashes = [key_hash("orders", key) for key in ("id-1", "a", "b", "id-2", "a")]
    newest: dict[int, int] = {}
    entries = []
    for number, hashed in enumerate(hashes, start=1):
        position, seconds = (1000, 0) if number <= 3 else (2000, 2)
        entries.append((hashed, position, seconds, newest.get(hashed % SLOTS, 0)))
        newest[hashed % SLOTS] = number
    assert HEADER.unpack_from(data) == (NOW_MS, NOW_MS + 2999, 1000, 2000, len(newest), 6)
    assert struct.unpack_from(f">{SLOTS}i", data, 40) == tuple(newest.get(slot, 0) for slot in range(SLOTS))
    first = 40 + SLOTS * 4
    assert data[first : first + 20] == bytes(20)
    assert [ENTRY.unpack_from(data, first + number * 20) for number in range(1, 6)] == entries


def test_what_is_held_in_memory_is_found_like_what_is_written(index):
    index.apply(entry(1000, keys="a"))
    index.settle()
    index.apply(entry(2000, keys="a"))

    assert find(index, "a") == [2000, 1000]


def test_a_message_that_was_rolled_back_is_not_found(index):
    index.apply(entry(1000, keys="a", sys_flag=int(SysFlag.TRANSACTION_ROLLBACK)))
    index.apply(entry(2000, keys="a", sys_flag=int(SysFlag.TRANSACTION_PREPARED)))

    assert find(index, "a") == [2000]


@pytest.mark.row("ST-23")
def test_a_message_without_keys_and_id_makes_no_file(tmp_path, index):
    index.apply(entry(1000))

    assert not (tmp_path / "index").exists()


def test_spaces_between_keys_do_not_count(index):
    index.apply(entry(1000, keys="a  b "))

    assert find(index, "a") == find(index, "b") == [1000]
    assert find(index, "") == []


def test_the_same_message_twice_is_entered_once(index):
    for _ in range(2):
        index.apply(entry(1000, unique_id="id", keys="a"))

    assert find(index, "a") == [1000]


@pytest.mark.row("ST-22")
def test_a_full_file_is_followed_by_another(tmp_path, index):
    for number in range(45):
        index.apply(entry(1000 + number, keys=f"k{number}", stored_at_ms=NOW_MS + number))
    index.settle()

    files = sorted((tmp_path / "index").iterdir())
    # Entry 0 is never used, so a file of twenty takes nineteen.
    assert [HEADER.unpack_from(path.read_bytes())[5] for path in files] == [20, 20, 8]
    assert [HEADER.unpack_from(path.read_bytes())[2] for path in files] == [1000, 1019, 1038]
    assert [find(index, f"k{number}") for number in (0, 18, 19, 44)] == [[1000], [1018], [1019], [1044]]


def test_files_whose_messages_are_gone_are_given_up_but_the_last_stays(index):
    for number in range(45):
        index.apply(entry(1000 + number, keys=f"k{number}"))
    index.settle()

    gone = index.expire(1030)
    assert len(gone) == 1
    assert len(index.expire(1 << 40)) == 1
    assert find(index, "k44") == [1044]


def test_a_loaded_index_finds_and_goes_on(tmp_path, index):
    index.apply(entry(1000, keys="a"))
    index.settle()
    index.close()

    loaded = open_index(tmp_path)
    loaded.apply(entry(2000, keys="a"))

    assert find(loaded, "a") == [2000, 1000]
    loaded.close()


def test_an_index_cut_back_forgets_later_messages_and_keeps_the_others(tmp_path, index):
    for number in range(9):
        index.apply(entry(1000 + number * 10, keys=f"k{number} all", stored_at_ms=NOW_MS + number * 1000))
    index.settle()
    index.close()

    cut = open_index(tmp_path)
    cut.load_before(1050)

    assert find(cut, "all") == [1040, 1030, 1020, 1010, 1000]
    assert [find(cut, f"k{number}") for number in range(9)] == [
        [1000 + number * 10] if number < 5 else [] for number in range(9)
    ]
    cut.apply(entry(1050, keys="new all", stored_at_ms=NOW_MS + 5000))
    assert find(cut, "all")[:2] == [1050, 1040]
    header = HEADER.unpack(cut.settle()[0].path.read_bytes()[:40])
    assert header[:4] == (NOW_MS, NOW_MS + 5000, 1000, 1050)
    cut.close()


def test_slots_that_point_at_lost_entries_are_mended(tmp_path, index):
    for number in range(8):
        index.apply(entry(1000 + number, keys=f"k{number}"))
    index.settle()
    index.close()
    path = the_file(tmp_path)
    data = bytearray(path.read_bytes())
    # A crash kept the slots, but not the page with entries 5 to 8.
    first = 40 + SLOTS * 4
    data[first + 5 * 20 : first + 9 * 20] = bytes(80)
    path.write_bytes(data)

    cut = open_index(tmp_path)
    cut.load_before(1004)

    assert [find(cut, f"k{number}") for number in range(8)] == [
        [1000],
        [1001],
        [1002],
        [1003],
        [],
        [],
        [],
        [],
    ]
    data = path.read_bytes()
    slots = struct.unpack_from(f">{SLOTS}i", data, 40)
    assert all(0 <= number < 5 for number in slots)
    assert HEADER.unpack_from(data)[4] == sum(1 for number in slots if number)
    cut.close()


@pytest.mark.parametrize("kept", [1, 2, 7, 12, 17])
@pytest.mark.parametrize(
    ("lost", "is_whole"),
    [(False, True), (False, False), (True, False), (True, True)],
    ids=["after a kill", "after a kill, untold", "after a power cut", "after a power cut, told wrong"],
)
def test_a_cut_index_is_the_one_that_never_knew_the_rest(tmp_path, kept, lost, is_whole):
    def filled(folder: str, count: int) -> Path:
        made = open_index(tmp_path / folder)
        for number in range(count):
            made.apply(entry(1000 + number, keys=f"key-{number * number}"))
        made.settle()
        made.close()
        return the_file(tmp_path / folder)

    whole, never_knew = filled("whole", 18), filled("short", kept)
    if lost:
        data = bytearray(whole.read_bytes())
        data[40 + SLOTS * 4 + (kept + 1) * 20 :] = bytes((ENTRIES - kept - 1) * 20)
        whole.write_bytes(data)

    cut = open_index(tmp_path / "whole")
    cut.load_before(1000 + kept, is_whole=is_whole)
    cut.close()

    assert whole.read_bytes() == never_knew.read_bytes()


@pytest.mark.parametrize("number", [5, 8, ENTRIES - 1, ENTRIES, 1 << 24, -1, -(1 << 31)])
def test_a_slot_with_a_number_that_no_entry_has_is_mended(tmp_path, index, number):
    for key in range(8):
        index.apply(entry(1000 + key, keys=f"k{key}"))
    index.settle()
    index.close()
    path = the_file(tmp_path)
    data = bytearray(path.read_bytes())
    for slot in range(SLOTS):
        struct.pack_into(">i", data, 40 + slot * 4, number)
    path.write_bytes(data)

    cut = open_index(tmp_path)
    cut.load_before(1004, is_whole=True)

    assert [find(cut, f"k{key}") for key in range(5)] == [[1000], [1001], [1002], [1003], []]
    cut.close()


class ReadCountingFile(SystemFile):
    def __init__(self, files: "ReadCountingFiles", path: Path, size: int) -> None:
        super().__init__(path, size)
        self._files = files

    def read(self, size: int, at: int) -> bytes:
        data = super().read(size, at)
        self._files.read_bytes += len(data)
        return data


class ReadCountingFiles(SystemFiles):
    """Counts what is read through files; a map is not counted, and read by the entry."""

    read_bytes = 0

    def open(self, path: Path, size: int) -> ReadCountingFile:
        return ReadCountingFile(self, path, size)


def read_bytes_to_cut(folder: Path, entries: int, *, is_whole: bool) -> int:
    files = ReadCountingFiles()
    made = KeyIndex(files, folder, slots=SLOTS, entries_max=8000, now_ms=lambda: NOW_MS)
    for number in range(entries):
        made.apply(entry(1000 + number, keys=f"k{number}"))
    made.settle()
    files.read_bytes = 0
    made.load_before(1000 + entries - 20, is_whole=is_whole)
    made.close()
    return files.read_bytes


def test_after_a_kill_the_old_entries_are_not_looked_through(tmp_path):
    few, many, all_of_them = (
        read_bytes_to_cut(tmp_path / "few", 100, is_whole=True),
        read_bytes_to_cut(tmp_path / "many", 7000, is_whole=True),
        read_bytes_to_cut(tmp_path / "all", 7000, is_whole=False),
    )

    # The end is found by bisection, which may need a look more.
    assert many <= few + 5 * 20
    assert all_of_them > 7000 * 19


def test_index_files_that_begin_behind_the_cut_are_removed(tmp_path, index):
    for number in range(45):
        index.apply(entry(1000 + number, keys=f"k{number}"))
    index.settle()
    index.close()

    cut = open_index(tmp_path)
    cut.load_before(1015)

    assert len(list((tmp_path / "index").iterdir())) == 1
    assert find(cut, "k14") == [1014]
    assert find(cut, "k15") == []
    cut.close()


def test_a_damaged_chain_ends_instead_of_looping(tmp_path, index):
    index.apply(entry(1000, keys="a"))
    index.settle()
    path = the_file(tmp_path)
    data = bytearray(path.read_bytes())
    ENTRY.pack_into(data, 40 + SLOTS * 4 + 20, key_hash("orders", "a"), 1000, 0, 1)
    path.write_bytes(data)

    assert find(index, "a") == [1000]


def test_foreign_names_in_the_folder_are_left_alone(tmp_path, index):
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "notes.txt").write_text("mine")
    index.load()

    index.apply(entry(1000, keys="a"))

    assert find(index, "a") == [1000]
    assert (tmp_path / "index" / "notes.txt").read_text() == "mine"
