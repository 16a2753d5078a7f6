"""The kernel finds the same runs of entries as Python."""

from random import Random

import pytest
from effort import times

from pyromq.store.consumequeue import ENTRY
from pyromq.store.reading import plain_run_of

entry_runs = pytest.importorskip("pyromq._kernel.storage.entry_runs")


def random_entries(random: Random, start: int) -> bytes:
    """Return entries of records one behind the other; now and then one that is elsewhere, or of odd size."""
    entries, position = b"", start
    for _ in range(random.randrange(1, 40)):
        size = random.choice((200, 1_100, 1_100, 1 << 20))
        if random.random() < 0.02:
            size = random.choice((0, -5, 0x7FFFFFFF, -(1 << 31)))
        if random.random() < 0.03:
            position += random.choice((-1, 1, 5_000, -(1 << 40)))
        entries += ENTRY.pack(max(position, -(1 << 62)), size, 7)
        position += size
    return entries


def test_runs_are_the_same() -> None:
    random = Random(5)
    for _ in range(times(5_000)):
        start = random.choice((0, 1 << 30, 1 << 50))
        asked = (
            random_entries(random, start),
            start + random.choice((0, 1, 5_000, 1 << 30)),
            random.choice((0, 1, 2, 32, 1 << 31)),
            random.choice((0, 1_000, 262_144, 1 << 40)),
        )
        assert entry_runs.run_of(*asked) == plain_run_of(*asked)


def test_no_entry_is_no_run() -> None:
    with pytest.raises(ValueError, match="an entry"):
        entry_runs.run_of(b"", 1, 1, 1)
