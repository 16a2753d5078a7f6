"""A copy of a store that is open and written to: it opens, has what was there, and grows by what is new."""

import random
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import ConfigError, CorruptRecord, DiskFull, StoreError, StoreLocked
from pyromq.store.backup.backup import BackedUp, Backup, BackupOrder
from pyromq.store.backup.backup_manifest import load_manifest
from pyromq.store.consumequeue import ENTRY_BYTES
from pyromq.store.consumequeues import HELD_BYTES_MAX
from pyromq.store.epochs import Epoch, decode_epochs, encode_epochs
from pyromq.store.files import DiskUse, Files, SystemFiles
from pyromq.store.inspect.findings import StoreReport
from pyromq.store.inspect.store_survey import Layout
from pyromq.store.inspect.store_verification import Verification
from pyromq.store.store import MessageStore
from pyromq.testing.manual_clock import ManualClock

#: So late that the times of files can be trusted.
LATER_MS = int(time.time() * 1_000) + 3_600_000


def wanted(root: Path, target: Path, **changes: Any) -> BackupOrder:
    about = BackupOrder(
        root=root, log_folder=root / "commitlog", folder=root, target=target, name=f"host:{root}"
    )
    return replace(about, **changes)


def back_up(
    root: Path,
    target: Path,
    *,
    advance: Callable[[int], None] = lambda _: None,
    files: Files | None = None,
    **changes: Any,
) -> BackedUp:
    return Backup(wanted(root, target, **changes), clock=ManualClock(LATER_MS), files=files).run(advance)


def verified(box: Any, folder: Path) -> StoreReport:
    slots, entries_max = box.settings.max_hash_slot_num, box.settings.max_index_num
    layout = Layout(folder, folder / "commitlog", slots=slots, entries_max=entries_max, delays_ms={})
    return Verification(layout).run()


def opened(box: Any, folder: Path, tmp_path: Path) -> MessageStore:
    """Return the store that a broker finds when a backup is put back; the backup stays as it is."""
    place = tmp_path / "restored"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    return box.open(store_path_root_dir=str(place))


def fill(store: MessageStore, draft: Any, count: int, *, topic: str = "orders", keys: str = "k") -> None:
    for number in range(count):
        store.put(draft(topic, 0, b"message %d" % number + bytes(100), f"KEYS\x01{keys}\x02"))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "backup"


def test_a_backup_of_an_open_store_is_whole_and_opens_with_every_message(
    box, draft, all_of, target, tmp_path
):
    store = box.open()
    fill(store, draft, 200)
    expected = all_of(store)

    done = back_up(box.root, target)

    assert verified(box, target).faults == []
    assert (done.is_first, done.end) == (True, store.max_position)
    copy = opened(box, target, tmp_path)
    assert all_of(copy) == expected
    assert len(copy.query("orders", "k", count_max=64, begin_ms=0, end_ms=1 << 60).records) == 64


def test_a_store_that_was_stopped_in_order_is_so_in_its_backup(box, draft, all_of, target):
    store = box.open()
    fill(store, draft, 100)
    expected = all_of(store)
    store.close()

    back_up(box.root, target)

    copy = box.store(store_path_root_dir=str(target))
    assert copy.open().was_clean
    assert all_of(copy) == expected


def test_what_is_written_while_it_is_copied_is_there_whole_or_not_at_all(
    box, draft, all_of, target, tmp_path
):
    store = box.open()
    fill(store, draft, 300)

    back_up(box.root, target, advance=lambda _: fill(store, draft, 7))

    records = all_of(opened(box, target, tmp_path))
    assert 300 <= len(records) <= store.max_offset("orders", 0)
    assert records == all_of(store)[: len(records)]
    assert verified(box, target).faults == []


def test_a_record_that_is_half_written_is_left_out(box, draft, all_of, target, tmp_path):
    store = box.open()
    fill(store, draft, 10)
    end = store.max_position
    store.put(draft(body=b"torn" * 100))
    with (box.root / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(end + 200)
        log.write(bytes(400))

    done = back_up(box.root, target)

    assert done.end == end
    assert len(all_of(opened(box, target, tmp_path))) == 10


def test_the_second_backup_copies_what_is_new_and_nothing_else(box, draft, all_of, target, tmp_path):
    store = box.open()
    fill(store, draft, 200)
    fill(store, draft, 10, topic="quiet")
    store.sync_queues()
    first = back_up(box.root, target)
    fill(store, draft, 100)
    store.sync_queues()

    second = back_up(box.root, target)

    assert second.copied_bytes == second.end - first.end > 0
    assert not second.is_first
    assert 0 < second.follower_files < first.follower_files
    assert all_of(opened(box, target, tmp_path)) == all_of(store)
    assert verified(box, target).faults == []


def test_a_backup_of_what_was_backed_up_copies_nothing(box, draft, target):
    fill(box.open(), draft, 200)
    back_up(box.root, target)

    again = back_up(box.root, target)

    assert (again.copied_bytes, again.follower_files, again.removed_files) == (0, 0, 0)


@pytest.mark.parametrize("is_pruned", [False, True], ids=["kept", "pruned"])
def test_messages_that_retention_took_stay_in_the_backup_unless_it_is_pruned(
    box, draft, all_of, target, tmp_path, is_pruned
):
    store = box.open()
    # So many that the queue has just written its entries.
    count = HELD_BYTES_MAX // ENTRY_BYTES
    fill(store, draft, count)
    back_up(box.root, target)
    fill(store, draft, 10)
    forget_oldest(box, store)

    done = back_up(box.root, target, is_pruned=is_pruned)

    copy = opened(box, target, tmp_path)
    kept = all_of(copy)
    assert kept[-10:] == all_of(store)[-10:]
    assert (kept == all_of(store)) is is_pruned
    assert (len(kept) == count + 10) is not is_pruned
    assert (done.removed_files > 0) is is_pruned
    assert verified(box, target).faults == []


def forget_oldest(box: Any, store: MessageStore, count: int = 2) -> None:
    """Let the oldest files of the log go, as retention does on a full disk."""
    store.sync_queues()
    files = sorted((Path(store.settings.store_path_root_dir) / "commitlog").iterdir())
    store.may_go_before = lambda _: int(files[min(count, len(files) - 1)].name)
    box.disk.use = DiskUse(used_bytes=86, usable_bytes=14)
    store.sweep().remove()
    box.disk.use = DiskUse(used_bytes=10, usable_bytes=90)


def test_a_file_that_retention_takes_while_it_is_copied_is_left_out(box, draft, all_of, target, tmp_path):
    store = box.open()
    fill(store, draft, 300)
    took = []

    def retention(_: int) -> None:
        if not took:
            took.append(forget_oldest(box, store, 3))

    back_up(box.root, target, advance=retention)

    assert all_of(opened(box, target, tmp_path)) == all_of(store)
    assert verified(box, target).faults == []


def test_messages_that_were_never_copied_make_a_gap_that_is_refused(box, draft, target):
    store = box.open()
    fill(store, draft, 10)
    back_up(box.root, target)
    fill(store, draft, 300)
    forget_oldest(box, store, 3)

    with pytest.raises(ConfigError, match="--prune"):
        back_up(box.root, target)

    back_up(box.root, target, is_pruned=True)
    assert verified(box, target).faults == []


def test_a_topic_that_was_removed_is_gone_from_the_backup(box, draft, all_of, target, tmp_path):
    store = box.open()
    fill(store, draft, 50)
    store.sync_queues()
    back_up(box.root, target)
    store.delete_topic("orders")
    fill(store, draft, 3)
    store.sync_queues()

    back_up(box.root, target)

    assert len(all_of(opened(box, target, tmp_path))) == 3


def test_full_files_are_links_when_told(box, draft, all_of, target, tmp_path):
    store = box.open()
    fill(store, draft, 200)

    done = back_up(box.root, target, is_linked=True)

    *full, newest = sorted((target / "commitlog").iterdir())
    assert done.linked_files == len(full) > 0
    assert all(path.samefile(box.root / "commitlog" / path.name) for path in full)
    assert not newest.samefile(box.root / "commitlog" / newest.name)
    fill(store, draft, 100)
    back_up(box.root, target, is_linked=True)
    assert all_of(opened(box, target, tmp_path)) == all_of(store)


def test_a_file_that_is_a_link_already_is_not_written_through(box, draft, target):
    store = box.open()
    fill(store, draft, 200)
    back_up(box.root, target, is_linked=True)
    first = box.root / "commitlog" / f"{0:020d}"
    before = first.stat().st_mtime_ns
    manifest = load_manifest(target, SystemFiles())
    # As if it had been interrupted behind the first link.
    manifest.end = 0
    manifest.save(target, SystemFiles())

    back_up(box.root, target)

    assert first.stat().st_mtime_ns == before
    assert verified(box, target).faults == []


def test_a_store_that_apache_s_broker_wrote_last_is_copied_too(box, draft, all_of, target, tmp_path):
    store = box.open()
    fill(store, draft, 200)
    store.sync_queues()
    expected = all_of(store)
    # RocketMQ's checkpoint has its three times only.
    path = box.root / "checkpoint"
    path.write_bytes(path.read_bytes()[:24].ljust(4096, b"\0"))

    back_up(box.root, target)
    again = back_up(box.root, target)

    assert all_of(opened(box, target, tmp_path)) == expected
    # Its times of files are not to be trusted, and the newest ones are looked at each time.
    assert again.follower_files > 0
    assert verified(box, target).faults == []


def test_a_file_that_is_followed_by_an_empty_one_is_not_full(box, draft, all_of, target, tmp_path):
    store = box.open()
    fill(store, draft, 10)
    # RocketMQ makes the next file before it is needed.
    with (box.root / "commitlog" / f"{8192:020d}").open("wb") as made:
        made.truncate(8192)
    back_up(box.root, target)
    fill(store, draft, 10)

    done = back_up(box.root, target)

    assert done.end == store.max_position
    assert all_of(opened(box, target, tmp_path)) == all_of(store)


# What stands beside the log


def test_what_is_no_part_of_a_store_is_left_out_and_told(box, target):
    box.open()
    (box.root / "timerwheel").write_text("5.x")

    done = back_up(box.root, target)

    assert done.notes == ["timerwheel is no part of a store, and was not copied"]
    assert not (target / "timerwheel").exists()


def table(root: Path, name: str, text: str) -> Path:
    path = root / "config" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_tables_are_copied_with_their_permissions_and_those_that_are_gone_go(box, target):
    box.open()
    table(box.root, "plain_acl.yml", "secret").chmod(0o600)
    table(box.root, "acl/more.yml", "more")
    old = table(box.root, "old.json", "{}")
    back_up(box.root, target)
    old.unlink()

    back_up(box.root, target)

    assert (target / "config" / "plain_acl.yml").read_text() == "secret"
    assert (target / "config" / "plain_acl.yml").stat().st_mode & 0o777 == 0o600
    assert (target / "config" / "acl" / "more.yml").read_text() == "more"
    assert not (target / "config" / "old.json").exists()
    assert target.stat().st_mode & 0o777 == 0o700


def test_a_table_that_is_being_replaced_is_the_one_before(box, target):
    box.open()
    table(box.root, "topics.json.bak", "{}")
    table(box.root, "consumerOffset.json.bak", "{}")

    back_up(box.root, target)

    assert (target / "config" / "topics.json").read_text() == "{}"
    assert (target / "config" / "consumerOffset.json").read_text() == "{}"


def test_a_backup_does_not_say_that_it_has_all_that_the_group_was_promised(box, target):
    box.open()
    table(box.root, "replica.json", '{"mark":"1"}')

    back_up(box.root, target)

    assert not (target / "config" / "replica.json").exists()


def test_epochs_that_wrote_nothing_of_the_copied_log_are_left_out(box, draft, target):
    store = box.open()
    fill(store, draft, 3)
    ours, later = Epoch(1, 0), Epoch(2, store.max_position + 1)
    (box.root / "epochFileCheckpoint").write_bytes(encode_epochs([ours, later]))

    back_up(box.root, target)

    assert decode_epochs((target / "epochFileCheckpoint").read_bytes()) == (ours,)


# What is refused


def test_a_folder_that_is_no_backup_is_left_alone(box, target):
    box.open()
    target.mkdir()
    (target / "letters.txt").write_text("dear")

    with pytest.raises(ConfigError, match=r"no backup\.json"):
        back_up(box.root, target)

    assert [path.name for path in target.iterdir()] == ["letters.txt"]


@pytest.mark.parametrize("place", ["store", "store/inside", "store/commitlog", "."])
def test_store_and_backup_are_not_inside_of_one_another(box, tmp_path, place):
    box.open()

    with pytest.raises(ConfigError, match="inside of one another"):
        back_up(box.root, tmp_path / place)


def test_the_backup_of_another_store_is_refused(box, draft, target, tmp_path):
    fill(box.open(), draft, 10)
    other = box.open(store_path_root_dir=str(tmp_path / "other"))
    other.put(draft(body=b"other"))
    back_up(tmp_path / "other", target)

    with pytest.raises(ConfigError, match=r"another store.*other"):
        back_up(box.root, target)


def test_a_backup_that_has_messages_which_the_store_lost_is_kept(box, draft, target):
    store = box.open()
    fill(store, draft, 10)
    store.sync_queues()
    end = store.max_position
    fill(store, draft, 10)
    back_up(box.root, target)
    store.close()
    box.store().open(cut_at=end)

    with pytest.raises(ConfigError, match="has messages that"):
        back_up(box.root, target)


def test_a_log_that_is_cut_while_it_is_copied_is_told(box, draft, target):
    store = box.open()
    fill(store, draft, 150)
    store.sync_queues()
    cut_at, chance = store.max_position, random.Random(1)
    fill(store, draft, 1)
    store.close()

    def cut(size: int) -> None:
        again = box.store()
        again.open(cut_at=cut_at)
        again.put(draft(body=b"%d" % (chance.random() * size)))
        again.close()

    with pytest.raises(StoreError, match="was cut while it was copied"):
        back_up(box.root, target, advance=cut)


def test_too_little_room_is_told_before_anything_is_copied(box, draft, target):
    fill(box.open(), draft, 100)
    box.disk.use = DiskUse(used_bytes=90, usable_bytes=10)

    with pytest.raises(DiskFull, match="10 bytes left, and the backup needs"):
        back_up(box.root, target, files=box.disk)

    assert not target.exists()


def test_a_folder_that_a_broker_runs_on_is_refused(box, draft, target):
    fill(box.open(), draft, 3)
    back_up(box.root, target)
    box.open(store_path_root_dir=str(target))

    with pytest.raises((StoreLocked, ConfigError)):
        back_up(box.root, target)


def test_a_manifest_that_does_not_read_is_told(box, target):
    box.open()
    target.mkdir()
    (target / "backup.json").write_text("{")

    with pytest.raises(CorruptRecord, match="does not read"):
        back_up(box.root, target)


# Interrupted


class Interrupted(Exception):
    """Somebody pressed Ctrl-C."""


def test_an_interrupted_backup_says_so_and_is_gone_on_with(box, draft, all_of, target, tmp_path):
    store = box.open()
    fill(store, draft, 300)
    copied: list[int] = []

    def interrupt(size: int) -> None:
        copied.append(size)
        if len(copied) == 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        back_up(box.root, target, advance=interrupt)
    assert "not finished" in verified(box, target).faults[0].what

    done = back_up(box.root, target)

    assert done.copied_bytes < done.end
    assert verified(box, target).faults == []
    assert all_of(opened(box, target, tmp_path)) == all_of(store)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_a_store_does_between_and_during_backups_the_copy_is_a_moment_of_it(
    box, draft, all_of, target, tmp_path, seed
):
    chance = random.Random(seed)
    store = box.open()

    def work(_: int = 0) -> None:
        what = chance.random()
        if what < 0.2:
            store.sync_queues()
        elif what < 0.25:
            forget_oldest(box, store, 1)
        else:
            fill(store, draft, chance.randrange(30), topic=chance.choice(["orders", "other"]))

    for _ in range(4):
        for _ in range(chance.randrange(6)):
            work()
        before = {topic: all_of(store, topic) for topic in ("orders", "other")}
        back_up(box.root, target, advance=work, is_linked=chance.random() < 0.3, is_pruned=True)
        assert verified(box, target).faults == []
        copy = opened(box, target, tmp_path)
        for topic, records in before.items():
            kept, now = all_of(copy, topic), all_of(store, topic)
            offsets = [record.queue_offset for record in kept]
            assert offsets == list(range(min(offsets, default=0), max(offsets, default=-1) + 1))
            # What was there when it began is there, unless retention took it meanwhile; nothing else is.
            assert {one.position for one in records} & {one.position for one in now} <= {
                one.position for one in kept
            }
            assert {one.position for one in kept} <= {one.position for one in (*records, *now)}
        copy.close()


def test_the_machine_s_files_are_used_when_none_are_given(box, draft, target):
    fill(box.open(), draft, 3)

    Backup(wanted(box.root, target), clock=ManualClock(LATER_MS), files=SystemFiles()).run()

    assert verified(box, target).faults == []
