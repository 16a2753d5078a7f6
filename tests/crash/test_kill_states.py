"""The store after a kill at every moment: between any two of its file operations, and inside of each write.

A kill leaves what was written, in the order it was, so a start trusts the chains of the key index (see
`store/abort.py`). Whether it may is asked of a start that trusts nothing: both must leave the same bytes.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from effort import times
from store_story import HOST, ROOT, SETTINGS

from pyromq.store.inspect.findings import StoreReport
from pyromq.store.inspect.store_survey import Layout
from pyromq.store.inspect.store_verification import Verification
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.disk import Image, SimulatedDisk, kills_of
from pyromq.testing.manual_clock import ManualClock

EVERYTHING = "everything kept"
BOOT, NEXT_BOOT = "the boot of the kill", "the boot after it"


def run_on(disk: SimulatedDisk) -> MessageStore:
    store = MessageStore(SETTINGS, clock=ManualClock(), files=disk)
    store.open()
    return store


def drafts(count: int, chance: random.Random) -> list[Draft]:
    """Return messages with one to three keys, some of which meet in a slot of the index."""
    words = [" ".join(f"k{chance.randrange(25)}" for _ in range(chance.randint(1, 3))) for _ in range(count)]
    return [Draft("orders", 0, b"x", f"KEYS\x01{keys}\x02", 0, 0, 0, HOST, HOST) for keys in words]


def files_after_a_start(image: Image, boot_id: str) -> Image:
    """Return what a start and a stop make of the files."""
    disk = SimulatedDisk(image, boot_id=boot_id)
    run_on(disk).close()
    return disk.image()


def verified(root: Path) -> StoreReport:
    slots, entries_max = SETTINGS.max_hash_slot_num, SETTINGS.max_index_num
    layout = Layout(root, root / "commitlog", slots=slots, entries_max=entries_max, delays_ms={})
    return Verification(layout).run()


def index_of(image: Image) -> Image:
    return {path: data for path, data in image.items() if path.is_relative_to(ROOT / "index")}


def kills(disk: SimulatedDisk, first: int = 0) -> Iterator[tuple[str, Image]]:
    """Yield what kills behind an operation leave; the bytes inside of writes only for the index."""
    journal = disk.journal
    for cut in kills_of(journal, base=disk.base):
        is_inside = cut.story != EVERYTHING
        if cut.at >= first and (not is_inside or "/index/" in cut.story or "/abort" in cut.story):
            yield f"after {cut.at} operations, {cut.story}", cut.image


def disk_with_dropped_entries(seed: int) -> tuple[SimulatedDisk, int]:
    """Return a disk whose index has entries behind the checkpoint, and where in its journal those begin."""
    chance = random.Random(seed)
    disk = SimulatedDisk(boot_id=BOOT)
    store = run_on(disk)
    for draft in drafts(chance.randint(2, 8), chance):
        store.put(draft)
    store.sync_queues()
    before = len(disk.journal)
    for _ in range(3):
        for draft in drafts(chance.randint(1, 4), chance):
            store.put(draft)
        # Followers write, and the sync does not come.
        store.queue_sync()
    return disk, before


@pytest.mark.row("ST-02", "ST-23")
@pytest.mark.parametrize("seed", range(times(2)))
def test_whenever_a_store_is_killed_trusting_the_index_leaves_what_looking_through_it_leaves(seed):
    disk, before = disk_with_dropped_entries(seed)

    states = list(kills(disk, before))

    assert len(states) >= len(disk.journal) - before
    for story, image in states:
        trusted = files_after_a_start(image, BOOT)
        assert trusted == files_after_a_start(image, NEXT_BOOT), story


@pytest.mark.row("ST-02", "ST-23")
@pytest.mark.parametrize("boot_id", [BOOT, NEXT_BOOT], ids=["after a kill", "after a power cut"])
@pytest.mark.parametrize("seed", range(times(1)))
def test_a_start_that_is_killed_itself_is_made_good_by_the_next(seed, boot_id):
    disk, _ = disk_with_dropped_entries(seed)
    image = disk.image()
    expected = files_after_a_start(image, boot_id)
    starting = SimulatedDisk(image, boot_id=boot_id)
    run_on(starting)

    states = list(kills(starting))

    assert len(states) >= len(starting.journal) > 0
    for story, left in states:
        assert index_of(files_after_a_start(left, boot_id)) == index_of(expected), story


@pytest.mark.parametrize("seed", range(2))
def test_verifying_finds_no_fault_in_what_a_killed_start_leaves(seed, tmp_path):
    disk, _ = disk_with_dropped_entries(seed)
    starting = disk.after_kill()
    run_on(starting)

    assert starting.journal
    for number, cut in enumerate(kills_of(starting.journal, base=starting.base)):
        # A system writes the pages of a write whole, and all of these writes are within one.
        if cut.story == EVERYTHING:
            folder = tmp_path / str(number)
            SimulatedDisk(cut.image).copy_to(folder)
            assert verified(folder / ROOT.relative_to("/")).faults == [], f"after {cut.at} operations"


@pytest.mark.parametrize("seed", range(times(1)))
def test_a_power_cut_after_a_kill_is_a_power_cut(seed):
    disk, _ = disk_with_dropped_entries(seed)
    killed = disk.after_kill()
    run_on(killed).put(drafts(1, random.Random(seed))[0])
    cut = killed.after_power_cut(random.Random(seed))

    assert disk.boot_id() == killed.boot_id() != cut.boot_id()
    run_on(cut).close()
