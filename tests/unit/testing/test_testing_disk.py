"""The disk that forgets, tears, fills and fails: it must do so exactly, or it proves nothing."""

import random
from pathlib import Path

import pytest

from pyromq.errors import DiskFull, StoreError, StoreLocked, SyncFailed
from pyromq.testing.disk import SimulatedDisk, cuts_of

FOLDER = Path("/data")
FILE = FOLDER / "f"


@pytest.fixture
def disk():
    disk = SimulatedDisk()
    disk.make_folder(FOLDER)
    return disk


def synced_file(disk, data=b"old", path=FILE):
    file = disk.open(path, 0)
    file.write(data, 0)
    file.sync()
    disk.sync_folder(path.parent)
    return file


def states(disk):
    """Return what any power cut so far may leave in the file."""
    return {cut.image.get(FILE) for cut in cuts_of(disk.journal, random.Random(1))}


def test_a_map_shows_what_is_written_later(disk):
    file = disk.open(FILE, 100)
    view = file.map()

    file.write(b"abc", 10)
    file.write_each([(b"x", 0), (b"y", 99)])

    assert (view[10:13], view[0:1], view[99:100]) == (b"abc", b"x", b"y")
    assert file.read(3, 10) == b"abc"
    assert disk.size(FILE) == 100
    view.close()


def test_after_a_power_cut_only_what_was_synced_is_sure(disk):
    file = synced_file(disk)
    file.write(b"new", 0)

    assert disk.platter.image()[FILE] == b"old"
    assert disk.image()[FILE] == disk.after_kill().read_all(FILE) == b"new"
    assert {b"old", b"new"} <= states(disk)


def test_a_write_may_be_kept_in_part(disk):
    file = synced_file(disk, bytes(6))
    file.write(b"abcdef", 0)

    assert {b"abc\0\0\0", b"\0\0\0def"} <= states(disk)


def test_a_number_in_its_place_is_never_torn(disk):
    file = synced_file(disk, bytes(4))
    file.write(b"abcd", 0)

    assert states(disk) == {None, b"", bytes(4), b"abcd"}


def test_a_file_whose_folder_was_not_synced_may_have_no_name(disk):
    file = disk.open(FILE, 0)
    file.write(b"new", 0)
    file.sync()

    assert FILE not in disk.platter.image()
    disk.sync_folder(FOLDER)
    assert disk.platter.image()[FILE] == b"new"


def test_a_removed_file_may_come_back_until_its_folder_is_synced(disk):
    synced_file(disk)
    disk.remove(FILE)

    assert not disk.exists(FILE)
    assert disk.platter.image()[FILE] == b"old"
    disk.sync_folder(FOLDER)
    assert FILE not in disk.platter.image()


def test_a_rename_happens_whole_or_not_at_all(disk):
    synced_file(disk, b"one")
    synced_file(disk, b"two", FOLDER / "g")
    disk.rename(FOLDER / "g", FILE)

    after = [cut.image for cut in cuts_of(disk.journal[-1:], random.Random(1), base=disk.base)]
    assert disk.platter.image() == {FOLDER: None, FILE: b"one", FOLDER / "g": b"two"}
    assert disk.image() == {FOLDER: None, FILE: b"two"}
    assert after
    disk.sync_folder(FOLDER)
    assert disk.platter.image() == {FOLDER: None, FILE: b"two"}


def test_a_failed_sync_loses_its_bytes_even_when_the_next_one_succeeds(disk):
    file = synced_file(disk)
    disk.fail_syncs(under="data")
    file.write(b"new", 0)

    with pytest.raises(SyncFailed, match="/data/f"):
        file.sync()
    file.sync()

    assert disk.platter.image()[FILE] == b"old"
    assert file.read(3, 0) == b"new"
    file.write(b"NEW", 0)
    file.sync()
    assert disk.platter.image()[FILE] == b"NEW"
    assert disk.platter.pending == []


def test_a_failed_write_writes_nothing(disk):
    file = synced_file(disk)
    disk.fail_writes()

    with pytest.raises(StoreError, match="/data/f"):
        file.write(b"new", 0)

    assert file.read(9, 0) == b"old"


def test_a_full_disk_takes_a_part_and_has_room_again_when_something_is_removed(disk):
    disk.capacity_bytes = 3 * 4096
    first = disk.open(FOLDER / "first", 1 << 20)
    first.write(bytes(4096 * 2), 100_000 * 4096)
    file = disk.open(FILE, 0)

    with pytest.raises(DiskFull, match="No space left"):
        file.write(b"x" * 9000, 0)

    assert disk.size(FILE) == 4096
    assert disk.disk_use(FILE).ratio == 1.0
    disk.remove(FOLDER / "first")
    with pytest.raises(DiskFull):
        file.write(b"x" * 9000, 0)
    first.close()
    file.write(b"x" * 9000, 0)
    file.resize(0)
    assert disk.used_bytes == 0


def test_a_bit_flips_and_nobody_is_told(disk):
    file = synced_file(disk, b"\0\0")
    operations = len(disk.journal)

    disk.flip_bit(FILE, 9)

    assert file.read(2, 0) == disk.platter.image()[FILE] == b"\0\2"
    assert len(disk.journal) == operations
    disk.cut_file(FILE, 1)
    assert disk.read_all(FILE) == b"\0"


def test_a_lock_is_held_until_it_is_released_or_its_process_is_gone(disk):
    lock = disk.lock(FOLDER / "lock")

    with pytest.raises(StoreLocked):
        disk.lock(FOLDER / "lock")
    lock.release()
    disk.lock(FOLDER / "lock")
    disk.kill_processes()
    disk.lock(FOLDER / "lock").release()
    assert disk.read_all(FOLDER / "lock") == b"lock"


def test_folders_are_made_with_their_parents_and_removed_when_empty(disk):
    disk.make_folder(FOLDER / "a" / "b")
    disk.remove_folder(FOLDER / "a")

    assert disk.names(FOLDER) == ["a"]
    assert FOLDER / "a" / "b" in disk.platter.image()
    disk.remove_folder(FOLDER / "a" / "b")
    disk.remove_folder(FOLDER / "a")
    disk.remove_folder(FOLDER / "a")
    assert disk.names(FOLDER) == disk.names(FOLDER / "nowhere") == []


def test_what_is_not_there_is_an_error_that_names_it(disk):
    for action in (
        lambda: disk.open(FOLDER / "no" / "f", 1),
        lambda: disk.size(FILE),
        lambda: disk.rename(FILE, FOLDER / "g"),
        lambda: disk.sync_folder(FOLDER / "no"),
    ):
        with pytest.raises(StoreError, match=r"/data/(no|f)"):
            action()
    assert disk.read_all(FILE) is None
    disk.remove(FILE)


def test_a_closed_file_is_of_no_use(disk):
    file = disk.open(FILE, 1)
    file.close()
    file.close()

    for action in (lambda: file.read(1, 0), lambda: file.write(b"", 0), lambda: file.resize(1), file.map):
        with pytest.raises(StoreError, match="/data/f"):
            action()
    with pytest.raises(SyncFailed):
        file.sync()


def test_random_power_cuts_are_the_same_for_the_same_seed(disk):
    file = disk.open(FILE, 0)
    for at in range(20):
        file.write(b"x", at)

    images = [disk.after_power_cut(random.Random(7)).image() for _ in range(2)]

    assert images[0] == images[1]
    assert len({str(disk.after_power_cut(random.Random(seed)).image()) for seed in range(9)}) > 1


def test_all_files_can_be_copied_to_a_real_folder(disk, tmp_path):
    synced_file(disk)

    disk.copy_to(tmp_path)

    assert (tmp_path / "data" / "f").read_bytes() == b"old"


def test_a_mark_is_known_to_the_cuts_behind_it(disk):
    synced_file(disk)
    disk.mark("promised")
    disk.remove(FILE)

    cuts = list(cuts_of(disk.journal, random.Random(1)))

    assert {cut.marks for cut in cuts if cut.at == len(disk.journal)} == {("promised",)}
    assert cuts[0].marks == ()
