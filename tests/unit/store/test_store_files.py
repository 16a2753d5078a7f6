"""The door to the file system, and rows of files."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from pyromq.errors import ConfigError, DiskFull, StoreError, StoreLocked, SyncFailed
from pyromq.store.checkpoint import CHECKPOINT_BYTES, Checkpoint
from pyromq.store.delay_levels import parse_delay_levels
from pyromq.store.files import DiskUse, SystemFile, SystemFiles
from pyromq.store.segments import Segments


@pytest.fixture
def files():
    return SystemFiles()


def test_a_new_file_has_its_length_and_takes_no_room(tmp_path, files):
    file = files.open(tmp_path / "new", 1 << 30)

    assert (tmp_path / "new").stat().st_size == 1 << 30
    assert (tmp_path / "new").stat().st_blocks == 0
    file.close()


@pytest.mark.row("ST-16")
def test_a_map_shows_what_is_written_later(tmp_path, files):
    file = files.open(tmp_path / "f", 100)
    view = file.map()

    file.write(b"abc", 10)
    file.write_each([(b"x", 0), (b"yz", 98)])

    assert view[10:13] == file.read(3, 10) == b"abc"
    assert (view[0:1], view[98:100]) == (b"x", b"yz")
    view.close()
    file.close()


def test_a_wiped_file_keeps_its_length_and_its_holes(tmp_path, files):
    file = files.open(tmp_path / "f", 1 << 30)
    for at in (0, 5000, 1 << 20, 1 << 29):
        file.write(b"x" * 3000, at)
    blocks = (tmp_path / "f").stat().st_blocks

    file.wipe(6000)

    assert file.read(8000, 0) == b"x" * 3000 + bytes(2000) + b"x" * 1000 + bytes(2000)
    assert not any(file.read(3000, 1 << 20) + file.read(3000, 1 << 29))
    assert (tmp_path / "f").stat().st_size == 1 << 30
    assert (tmp_path / "f").stat().st_blocks == blocks
    file.close()
    with pytest.raises(StoreError, match="wiping"):
        file.wipe(0)


def test_a_longer_file_keeps_its_length(tmp_path, files):
    (tmp_path / "f").write_bytes(b"x" * 50)

    files.open(tmp_path / "f", 10).close()

    assert (tmp_path / "f").stat().st_size == 50


def test_a_full_disk_is_its_own_error():
    file = SystemFile(Path("/dev/full"), 0)

    with pytest.raises(DiskFull, match="/dev/full"):
        file.write(b"x", 0)
    with pytest.raises(DiskFull, match="/dev/full"):
        file.write_each([(b"x", 0)])
    file.close()


def test_other_failures_are_store_errors_that_name_the_file(tmp_path, files):
    file = files.open(tmp_path / "f", 10)
    file.close()
    file.close()

    for action in (lambda: file.write(b"x", 0), lambda: file.read(1, 0), lambda: file.resize(1), file.map):
        with pytest.raises(StoreError, match=r"f failed: "):
            action()
    with pytest.raises(SyncFailed, match="f failed: "):
        file.sync()
    with pytest.raises(StoreError, match="opening"):
        files.open(tmp_path / "no" / "folder", 1)
    with pytest.raises(SyncFailed):
        files.sync_folder(tmp_path / "no")
    with pytest.raises(StoreError):
        files.size(tmp_path / "no")
    with pytest.raises(StoreError):
        files.disk_use(tmp_path / "no")
    with pytest.raises(StoreError):
        files.lock(tmp_path / "no" / "lock")


def test_folders_are_listed_in_order_and_a_missing_one_is_empty(tmp_path, files):
    for name in "cab":
        (tmp_path / name).touch()

    assert files.names(tmp_path) == ["a", "b", "c"]
    assert files.names(tmp_path / "missing") == files.names(tmp_path / "a") == []


def test_folders_are_made_with_their_parents_and_removed_when_empty(tmp_path, files):
    files.make_folder(tmp_path / "a" / "b" / "c")
    files.make_folder(tmp_path / "a" / "b" / "c")
    files.remove_folder(tmp_path / "a")
    assert files.exists(tmp_path / "a" / "b" / "c")

    files.remove_folder(tmp_path / "a" / "b" / "c")
    files.remove_folder(tmp_path / "a" / "b" / "c")
    assert not files.exists(tmp_path / "a" / "b" / "c")


def test_removing_what_is_not_there_is_fine(tmp_path, files):
    files.remove(tmp_path / "missing")

    assert files.read_all(tmp_path / "missing") is None


def test_more_files_are_opened_than_a_shell_allows_at_first(tmp_path):
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from pyromq.store.files import SystemFiles\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 120))\n"
        "files = [SystemFiles().open(Path(sys.argv[1]) / str(n), 1) for n in range(100)]\n"
        "try:\n"
        "    files += [SystemFiles().open(Path(sys.argv[1]) / str(n), 1) for n in range(100)]\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )

    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True, text=True
    )

    assert run.stdout.startswith("DiskFull opening")
    assert "Too many open files" in run.stdout


@pytest.mark.parametrize(
    ("used", "usable", "ratio"), [(0, 100, 0.0), (1, 999, 0.01), (90, 10, 0.9), (901, 99, 0.91), (0, 0, 1.0)]
)
def test_how_full_a_disk_is_rounds_up_as_rocketmq_rounds(used, usable, ratio):
    assert DiskUse(used, usable).ratio == ratio


def test_the_disk_of_a_folder_is_partly_used(tmp_path, files):
    assert 0 < files.disk_use(tmp_path).ratio <= 1


@pytest.mark.row("ST-04")
def test_a_lock_is_seen_by_another_process_that_locks_as_java_does(tmp_path, files):
    lock = files.lock(tmp_path / "lock")
    code = "import fcntl, sys\nfcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)\n"

    def other() -> int:
        return subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "lock")], check=False, capture_output=True
        ).returncode

    assert other() != 0
    lock.release()
    lock.release()
    assert other() == 0


def test_a_lock_of_another_is_respected(tmp_path, files):
    code = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'w+b')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"locked\n"

        with pytest.raises(StoreLocked, match="another process"):
            files.lock(tmp_path / "lock")


def test_without_locks_of_open_files_the_process_has_the_lock(tmp_path, files, monkeypatch):
    monkeypatch.delattr(fcntl, "F_OFD_SETLK")

    files.lock(tmp_path / "lock").release()

    assert (tmp_path / "lock").read_bytes() == b"lock"


# Rows of files


@pytest.fixture
def row(tmp_path, files):
    row = Segments(files, tmp_path / "row", 100)
    yield row
    row.close()


def names(row):
    return [int(segment.path.name) for segment in row.row]


@pytest.mark.row("ST-08", "ST-14")
def test_a_position_is_found_in_its_file(row):
    assert row.find(0) is None
    for _ in range(3):
        row.add(250)

    assert names(row) == [200, 300, 400]
    assert [
        row.find(position) and row.find(position).base for position in (199, 200, 299, 300, 499, 500)
    ] == [
        None,
        200,
        200,
        300,
        400,
        None,
    ]


def test_a_row_is_loaded_in_order_and_other_names_are_left_alone(tmp_path, row):
    for _ in range(3):
        row.add(0)
    (tmp_path / "row" / "notes").touch()

    row.load()

    assert names(row) == [0, 100, 200]


def test_a_missing_file_in_the_middle_is_named(tmp_path, row):
    for _ in range(3):
        row.add(0)
    row.row[1].path.unlink()

    with pytest.raises(StoreError, match="a file is missing"):
        row.load()


@pytest.mark.parametrize("size", [50, 150])
def test_another_file_size_in_the_settings_is_named(tmp_path, files, row, size):
    row.add(0)
    row.add(0)

    with pytest.raises(StoreError, match="set the file size that the store was made with"):
        Segments(files, tmp_path / "row", size).load()


def test_a_cut_removes_later_files_and_zeros_the_rest(row):
    for _ in range(3):
        row.add(0).file.write(b"x" * 100, 0)

    row.cut(150)

    assert names(row) == [0, 100]
    assert row.row[1].map[:] == b"x" * 50 + bytes(50)


def test_a_cut_at_the_border_of_files_leaves_the_file_before_it(row):
    for _ in range(3):
        row.add(0)

    row.cut(200)

    assert names(row) == [0, 100]


def test_a_retired_file_is_synced_by_nobody(row):
    segment = row.add(0)
    segment.file.write(b"x", 0)
    row.detach_first(1)

    segment.sync()

    assert row.row == []


def test_a_file_is_closed_while_it_is_being_synced(row):
    segment = row.add(0)
    file = segment.file
    segment.retire()

    with pytest.raises(SyncFailed):
        file.sync()
    segment.sync()


def test_a_new_files_name_is_synced_with_it(row, files, monkeypatch):
    synced = []
    segment = row.add(0)
    monkeypatch.setattr(SystemFiles, "sync_folder", lambda _, path: synced.append(path.name))

    segment.sync()
    segment.sync()

    assert synced == ["row"]


# The checkpoint


@pytest.mark.row("ST-03")
def test_a_checkpoint_is_a_page_with_three_times_at_its_beginning(tmp_path, files):
    checkpoint = Checkpoint(files, tmp_path / "checkpoint")
    checkpoint.log_at_ms, checkpoint.queues_at_ms, checkpoint.index_at_ms = 5000, 6000, 7000

    checkpoint.save()

    data = (tmp_path / "checkpoint").read_bytes()
    assert len(data) == CHECKPOINT_BYTES
    assert data[:24] == (5000).to_bytes(8, "big") + (6000).to_bytes(8, "big") + (7000).to_bytes(8, "big")
    assert not any(data[24:])
    assert checkpoint.oldest_ms() == 2000


def test_a_checkpoint_that_we_wrote_names_the_safe_position(tmp_path, files):
    checkpoint = Checkpoint(files, tmp_path / "checkpoint")
    checkpoint.log_at_ms = checkpoint.queues_at_ms = 5000
    checkpoint.safe_position, checkpoint.reach = 123, 100
    checkpoint.save()

    loaded = Checkpoint(files, tmp_path / "checkpoint")
    loaded.load()

    assert (loaded.safe_position, loaded.reach, loaded.log_at_ms) == (123, 100, 5000)


def test_a_checkpoint_that_rocketmq_wrote_since_does_not(tmp_path, files):
    checkpoint = Checkpoint(files, tmp_path / "checkpoint")
    checkpoint.safe_position = 123
    checkpoint.save()
    with (tmp_path / "checkpoint").open("r+b") as file:
        file.write((9000).to_bytes(8, "big") * 3)

    loaded = Checkpoint(files, tmp_path / "checkpoint")
    loaded.load()

    assert loaded.safe_position is None
    assert (loaded.log_at_ms, loaded.queues_at_ms, loaded.index_at_ms) == (9000, 9000, 9000)


@pytest.mark.parametrize("data", [b"", b"short", bytes(24), bytes(range(200, 224))])
def test_a_damaged_checkpoint_names_no_position(tmp_path, files, data):
    (tmp_path / "checkpoint").write_bytes(data)

    checkpoint = Checkpoint(files, tmp_path / "checkpoint")
    checkpoint.load()

    assert checkpoint.safe_position is None


# Delay levels


def test_delay_levels_count_from_one():
    levels = parse_delay_levels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")

    assert len(levels) == 18
    assert (levels[1], levels[5], levels[17]) == (1000, 60_000, 3_600_000)
    assert parse_delay_levels("2d") == {1: 172_800_000}


@pytest.mark.parametrize("text", ["1x", "s", "-1s", "1s five", "١s"])
def test_a_bad_delay_level_is_named(text):
    with pytest.raises(ConfigError, match="messageDelayLevel"):
        parse_delay_levels(text)
