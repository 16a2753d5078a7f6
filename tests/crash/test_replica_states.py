"""A slave's store after a kill or a power cut at every moment: of copying, and of cutting its log."""

import random
from collections.abc import Iterator

import pytest
from replica_stage import fill, followers, log_files, log_of, open_on, record_ends
from store_story import ROOT

from pyromq.testing.disk import Cut, Image, SimulatedDisk, cuts_of, kills_of

EVERYTHING = "everything kept"
IN_WRITES = 0.003
BOOT, NEXT_BOOT = "the boot of the kill", "the boot after it"


def master_log(seed: int, count: int) -> tuple[bytes, Image]:
    """Return a master's log, and its files after a clean stop."""
    disk = SimulatedDisk()
    master = open_on(disk)
    fill(master, seed, count)
    data = log_of(master)
    master.close()
    return data, disk.image()


def disks_after(disk: SimulatedDisk, how: str, seed: int) -> Iterator[tuple[Cut, SimulatedDisk]]:
    """Yield the disks that a kill or a power cut leaves, at every moment."""
    chance = random.Random(seed)
    if how == "kill":
        for cut in kills_of(disk.journal, base=disk.base):
            # A write is cut at every fourth byte: some of these are enough.
            if cut.story == EVERYTHING or chance.random() < IN_WRITES:
                yield cut, SimulatedDisk(cut.image, boot_id=BOOT)
    else:
        for cut in cuts_of(disk.journal, chance, base=disk.base, each_max=1, random_cuts=1):
            yield cut, SimulatedDisk(cut.image, boot_id=NEXT_BOOT)


def files_of(image: Image) -> tuple[object, object]:
    return log_files(image), followers(image)


@pytest.mark.row("HA-01")
@pytest.mark.parametrize("how", ["kill", "power cut"])
@pytest.mark.parametrize("seed", range(2))
def test_whenever_a_slave_dies_it_has_a_beginning_of_the_masters_log_and_goes_on(how, seed):
    data, expected = master_log(seed, 30)
    disk = SimulatedDisk(boot_id=BOOT)
    slave = open_on(disk)
    chance = random.Random(seed)
    while (at := slave.max_position) < len(data):
        slave.append_copied(data[at : at + chance.choice((60, 500, 1500, 4000))])
        if chance.random() < 0.3:
            disk.mark(slave.sync())
        if chance.random() < 0.2:
            slave.sync_queues()
            disk.mark(slave.flushed_position)
    whole = [0, *record_ends(data)]
    tried = 0

    for cut, left in disks_after(disk, how, seed):
        tried += 1
        again = open_on(left)
        assert log_of(again) == data[: again.max_position], cut.story
        safe = max(end for end in whole if end <= max((0, *cut.marks)))
        assert again.max_position >= safe, cut.story
        again.append_copied(data[again.max_position :])
        again.close()
        assert files_of(left.image()) == files_of(expected), cut.story
    assert tried > len(whole)


@pytest.mark.row("HA-09")
@pytest.mark.parametrize("how", ["kill", "power cut"])
@pytest.mark.parametrize(("seed", "share"), [(0, 0.9), (1, 0.4), (2, 0.0)])
def test_whenever_a_cut_is_interrupted_it_can_be_made_again(how, seed, share):
    data, image = master_log(seed, 30)
    ends = [0, *record_ends(data)]
    position = ends[int(len(ends) * share)]
    once = SimulatedDisk(image)
    open_on(once, cut_at=position).close()
    expected = files_of(once.image())
    cutting = SimulatedDisk(image, boot_id=BOOT)
    open_on(cutting, cut_at=position).close()

    states = 0
    for cut, left in disks_after(cutting, how, seed):
        states += 1
        untold = SimulatedDisk(dict(left.image()), boot_id=left.boot_id())
        open_on(left, cut_at=position).close()
        assert files_of(left.image()) == expected, cut.story
        # Whoever does not say it again finds the log from its beginning to somewhere behind the place.
        again = open_on(untold)
        assert position <= again.max_position, cut.story
        assert log_of(again) == data[: again.max_position], cut.story
        again.close()
    assert states > 20


@pytest.mark.parametrize("how", ["kill", "power cut"])
def test_whenever_a_slave_dies_as_it_begins_in_the_middle_it_begins_there_or_is_empty(how):
    data, _ = master_log(3, 60)
    start = len(data) - len(data) % 4096
    disk = SimulatedDisk(boot_id=BOOT)
    slave = open_on(disk)
    before = len(disk.journal)
    slave.begin_at(start)
    slave.append_copied(data[start:])
    tried = 0

    for cut, left in disks_after(disk, how, 1):
        if cut.at < before:
            continue
        tried += 1
        again = open_on(left)
        assert again.max_position in (0, *range(start, len(data) + 1)), cut.story
        if not again.max_position:
            again.begin_at(start)
        again.append_copied(data[again.max_position :])
        assert again.min_position == start
        assert log_of(again, start) == data[start:]
        assert left.names(ROOT / "commitlog") == [f"{start:020d}"]
        again.close()
    assert tried >= len(disk.journal) - before
