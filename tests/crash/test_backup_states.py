"""A backup whose machine loses power at any moment: an older one stays good, and a finished one is whole.

The store is on the machine's own disk and the backup on a simulated one, which keeps any part of what was not
synced (`pyromq.testing.disk`).
"""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from store_story import HOST, SETTINGS, read_all

from pyromq.store.atomic_file import read_with_backup
from pyromq.store.backup.backup import Backup, BackupOrder
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.disk import Cut, Mark, SimulatedDisk, cuts_of
from pyromq.testing.manual_clock import ManualClock

TARGET = Path("/backup")
QUEUES = [("orders", 0), ("orders", 1), ("payments", 0)]
Bodies = dict[tuple[str, int], list[bytes]]


class Source:
    """A store that is written to, with the progress of a group beside it."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self._root = root
        self._chance = chance
        self._settings = replace(SETTINGS, store_path_root_dir=str(root))
        self.store = MessageStore(self._settings, clock=ManualClock())
        self.store.open()

    def work(self, count_max: int = 12) -> None:
        """Put messages, let the group read them, and sync now and then."""
        for _ in range(self._chance.randrange(1, count_max)):
            topic, queue_id = self._chance.choice(QUEUES)
            body = self._chance.randbytes(self._chance.choice([5, 40, 600]))
            keys = f"KEYS\x01k{self._chance.randrange(9)}\x02"
            self.store.put(Draft(topic, queue_id, body, keys, 0, 0, 0, HOST, HOST))
        offsets = {
            f"{topic}-{queue_id}": self.store.max_offset(topic, queue_id) for topic, queue_id in QUEUES
        }
        path = self._root / "config" / "consumerOffset.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(offsets))
        if self._chance.random() < 0.5:
            self.store.sync_queues()

    def bodies(self) -> Bodies:
        return bodies_of(self.store)

    def back_up(self, disk: SimulatedDisk) -> None:
        """Back up while it is written to."""
        wanted = BackupOrder(
            root=self._root,
            log_folder=self._root / "commitlog",
            folder=self._root,
            target=TARGET,
            name="host:/store",
        )
        Backup(wanted, clock=ManualClock(), files=disk).run(lambda _: self.work(4))


def bodies_of(store: MessageStore) -> Bodies:
    return {queue: [record.body for record in read_all(store, *queue)] for queue in QUEUES}


def is_beginning(short: Bodies, long: Bodies) -> bool:
    return all(long[queue][: len(bodies)] == bodies for queue, bodies in short.items())


def cuts_behind(disk: SimulatedDisk, mark: str, seed: int) -> Iterator[Cut]:
    """Yield some of what power cuts leave, from a mark in the journal on."""
    first = next(at for at, step in enumerate(disk.journal) if isinstance(step, Mark) and step.value == mark)
    platter = disk.base.copy()
    for operation in disk.journal[:first]:
        platter.apply(operation)
    cuts = cuts_of(disk.journal[first:], random.Random(seed), base=platter, random_cuts=1)
    # Each start takes some milliseconds; the seeds begin at different ones.
    yield from islice(cuts, seed, None, 3)


@pytest.mark.parametrize("seed", range(4))
def test_whenever_the_power_fails_in_a_second_backup_the_first_is_good_or_it_is(tmp_path, seed):
    source, disk = Source(tmp_path / "store", random.Random(seed)), SimulatedDisk()
    source.work()
    at_first = source.bodies()
    source.back_up(disk)
    disk.mark("first")
    source.work()
    source.back_up(disk)
    at_last = source.bodies()

    tried = 0
    for cut in cuts_behind(disk, "first", seed):
        left = SimulatedDisk(cut.image)
        store = MessageStore(
            replace(SETTINGS, store_path_root_dir=str(TARGET)), clock=ManualClock(), files=left
        )
        store.open()
        kept, tried = bodies_of(store), tried + 1
        offsets = read_with_backup(TARGET / "config" / "consumerOffset.json", json.loads, files=left)
        assert is_beginning(at_first, kept), cut.story
        assert is_beginning(kept, at_last), cut.story
        ahead = {queue for queue in QUEUES if offsets[f"{queue[0]}-{queue[1]}"] > len(kept[queue])}
        assert not ahead, cut.story
        store.close()
    source.store.close()
    assert tried > 20


@pytest.mark.parametrize("seed", range(3, 6))
def test_a_backup_that_was_finished_survives_a_power_cut_with_all_that_was_there_when_it_began(
    tmp_path, seed
):
    source, disk = Source(tmp_path / "store", random.Random(seed)), SimulatedDisk()
    source.work()
    source.back_up(disk)
    source.work()
    began = source.bodies()
    source.back_up(disk)
    source.store.close()

    left = disk.after_power_cut(random.Random(seed))
    store = MessageStore(replace(SETTINGS, store_path_root_dir=str(TARGET)), clock=ManualClock(), files=left)
    store.open()

    assert is_beginning(began, bodies_of(store))
    store.close()
