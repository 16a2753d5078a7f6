"""Any damage to any file: verify and dump end with findings, never with an error of their own."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.store.inspect.dump import Selection, dump
from pyromq.store.inspect.findings import StoreReport
from pyromq.store.inspect.store_survey import Layout, take_survey
from pyromq.store.inspect.store_verification import Verification
from pyromq.store.store import Draft, QueueEntry

SEEDS = 5
CHANGES_PER_SEED = 12
#: Bytes of a record that something vouches for: size to queue id, offset, position, length of the body.
VOUCHED = [*range(16), *range(20, 36), *range(84, 88)]


def layout_of(root: Path) -> Layout:
    return Layout(root, root / "commitlog", slots=50, entries_max=200, delays_ms={1: 1000})


def verify(root: Path) -> StoreReport:
    return Verification(layout_of(root), piece_bytes=2500).run()


class Whole:
    """A store that was closed, and copies of it."""

    def __init__(self, root: Path, entries: list[QueueEntry]) -> None:
        self.root = root
        self.entries = entries
        self._copies = 0

    def copy(self) -> Path:
        self._copies += 1
        copy = self.root.with_name(f"copy-{self._copies}")
        shutil.copytree(self.root, copy)
        return copy


@pytest.fixture
def whole(box: Any, draft: Callable[..., Draft]) -> Whole:
    store = box.open()
    for number in range(50):
        properties = f"KEYS\x01k{number}\x02UNIQ_KEY\x01{number:032X}\x02TAGS\x01t{number % 3}"
        store.put(
            draft(queue_id=number % 2, body=bytes([number]) * (number * 41 % 700), properties=properties)
        )
        store.put(draft("SCHEDULE_TOPIC_XXXX", properties="DELAY\x011"))
        box.clock.advance(300)
    entries = [*store.entries("orders", 0, 0, 20), *store.entries("orders", 0, 20, 20)]
    store.close()
    (box.root / "config").mkdir()
    (box.root / "config" / "delayOffset.json").write_bytes(b'{"offsetTable":{1:3}}')
    return Whole(box.root, entries)


def damage(path: Path, chance: random.Random) -> None:
    """Flip bits, write noise or zeros, cut, extend, or remove."""
    data = bytearray(path.read_bytes())
    at = chance.randrange(len(data) + 1)
    size = chance.choice([1, 8, 100, 5000])
    kind = chance.randrange(6)
    if kind == 0 and data:
        data[at % len(data)] ^= 1 << chance.randrange(8)
    elif kind == 1:
        data[at : at + size] = chance.randbytes(len(data[at : at + size]))
    elif kind == 2:
        data[at : at + size] = bytes(len(data[at : at + size]))
    elif kind == 3:
        del data[at:]
    elif kind == 4:
        data += chance.randbytes(size)
    else:
        path.unlink()
        return
    path.write_bytes(data)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_is_damaged_it_ends_with_a_report(whole: Whole, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(CHANGES_PER_SEED):
        copy = whole.copy()
        paths = sorted(path for path in copy.rglob("*") if path.is_file())
        for path in chance.sample(paths, chance.choice([1, 1, 2, 5])):
            damage(path, chance)
        if chance.random() < 0.3:
            (copy / "abort").touch()

        verify(copy)
        list(dump(take_survey(layout_of(copy)), Selection()))
        list(dump(take_survey(layout_of(copy)), Selection(topic="orders")))
        list(dump(take_survey(layout_of(copy)), Selection(topic="orders", key="k7")))
        shutil.rmtree(copy)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_flipped_bit_that_anything_vouches_for_is_found(whole: Whole, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(CHANGES_PER_SEED):
        position, size, _ = chance.choice(whole.entries)
        body_bytes = (chance.randrange(88, 88 + 5) + 1) if size > 300 else 0
        at = chance.choice([*VOUCHED, *([body_bytes] * 20 if body_bytes else [])])
        copy = whole.copy()
        log = copy / "commitlog" / f"{position - position % 8192:020d}"
        data = bytearray(log.read_bytes())
        data[position % 8192 + at] ^= 1 << chance.randrange(8)
        log.write_bytes(data)

        report = verify(copy)

        assert not report.is_whole, f"byte {at} of the record at {position}"
        assert all(fault.remedy for fault in report.faults)
        shutil.rmtree(copy)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_flipped_bit_of_a_queue_or_of_the_index_is_found(whole: Whole, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(CHANGES_PER_SEED):
        copy = whole.copy()
        queue = copy / "consumequeue" / "orders" / "0" / f"{0:020d}"
        index = sorted((copy / "index").iterdir())[0]
        # The queue has 20 entries in its first file, the index 100 keys. The time of the first counts from
        # the end of an index file that may be gone, so nothing vouches for it.
        path, low, high = chance.choice(
            [(queue, 0, 400), (index, 0, 36), (index, 40, 240), (index, 280, 2000)]
        )
        data = bytearray(path.read_bytes())
        at = chance.randrange(low, high)
        data[at] ^= 1 << chance.randrange(8)
        path.write_bytes(data)

        report = verify(copy)

        assert not report.is_whole, f"byte {at} of {path}"
        assert str(path) in {fault.file for fault in report.faults}
        shutil.rmtree(copy)
