"""Delayed messages, transactions and messages that are sent back, over a crash at every moment.

A kill is made behind each operation on the disk, and inside of the writes; a power cut keeps any part of what
was not synced. Nothing that was acknowledged is lost, and nothing is delivered twice (tests/support/
kinds_story.py tells what is done, and what must hold).
"""

from collections.abc import Iterator
from random import Random, SystemRandom

import pytest
from effort import times
from kinds_story import STORIES, Promised, keep_promises, told

from pyromq.testing.disk import Cut, SimulatedDisk, cuts_of, kills_of

#: Kills inside of one write that are tried, of the hundred that there are.
INSIDE_WRITES_MAX = 2
#: What follows the log is made again from it; that this is so at every moment is asked elsewhere.
FOLLOWERS = ("/consumequeue/", "/index/", "/checkpoint", "/abort", "/lock")


@pytest.fixture
def chance() -> Random:
    seed = SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    return Random(seed)


def promised_at(cut: Cut) -> Promised:
    last = cut.marks[-1]
    assert isinstance(last, Promised)
    return last


def moments(disk: SimulatedDisk, chance: Random) -> Iterator[Cut]:
    """Yield the kills that are tried: behind what is done to the log and the tables, and inside of writes."""
    inside: dict[int, list[Cut]] = {}
    for cut in kills_of(disk.journal):
        if cut.marks and cut.story == "everything kept":
            done = str(disk.journal[cut.at - 1])
            # A kill does not see what is synced.
            if not done.startswith("Sync") and not any(part in done for part in FOLLOWERS):
                yield cut
        elif cut.marks and "/commitlog/" in cut.story:
            inside.setdefault(cut.at, []).append(cut)
    for cuts in inside.values():
        yield from chance.sample(cuts, min(len(cuts), INSIDE_WRITES_MAX))


@pytest.mark.row("DE-12", "TX-04", "TX-07", "TX-11", "RT-06", "RT-12")
@pytest.mark.parametrize("story", STORIES)
async def test_whenever_a_broker_is_killed_nothing_is_lost_and_nothing_comes_twice(
    story: str, chance: Random
) -> None:
    disk, now_ms = await told(STORIES[story])
    tried = 0

    for cut in moments(disk, chance):
        left = SimulatedDisk(cut.image, boot_id=disk.boot_id())
        await keep_promises(left, promised_at(cut), now_ms, f"kill at {cut.at}, {cut.story}")
        tried += 1

    assert tried > 40


@pytest.mark.row("DE-12", "TX-04", "TX-11", "RT-06", "FL-02")
@pytest.mark.parametrize("story", STORIES)
async def test_whenever_the_power_fails_nothing_is_lost_and_nothing_comes_twice(
    story: str, chance: Random
) -> None:
    disk, now_ms = await told(STORIES[story])
    cuts = [cut for cut in cuts_of(disk.journal, chance, each_max=1, random_cuts=1) if cut.marks]

    for cut in chance.sample(cuts, min(len(cuts), times(15))):
        left = SimulatedDisk(cut.image)
        await keep_promises(left, promised_at(cut), now_ms, f"power cut at {cut.at}, {cut.story}")

    assert len(cuts) > 50
