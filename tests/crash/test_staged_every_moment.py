"""Staged batches over a crash at every moment: when the writer begins again, each message is there, once.

A kill is made behind each operation on the log and on the table, and inside of the writes to the log; a power
cut keeps any part of what was not synced. tests/support/staged_story.py tells what is done.
"""

from collections.abc import Iterator
from random import Random, SystemRandom

import pytest
from staged_story import batches_of, begin_again, told

from pyromq.config.choices import FlushDiskType
from pyromq.testing.disk import Cut, SimulatedDisk, cuts_of, kills_of

#: Kills inside of one write that are tried, of the many that there are.
INSIDE_WRITES_MAX = 1
#: Moments that one run tries, of the hundred and more that there are.
KILLS, POWER_CUTS = 60, 20
#: What follows the log is made again from it; that this is so at every moment is asked elsewhere.
FOLLOWERS = ("/consumequeue/", "/index/", "/checkpoint", "/abort", "/lock")


@pytest.fixture
def chance() -> Random:
    seed = SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    return Random(seed)


def moments(disk: SimulatedDisk, chance: Random) -> Iterator[Cut]:
    inside: dict[int, list[Cut]] = {}
    for cut in kills_of(disk.journal):
        if cut.marks and cut.story == "everything kept":
            if not any(part in str(disk.journal[cut.at - 1]) for part in FOLLOWERS):
                yield cut
        elif cut.marks and "/commitlog/" in cut.story:
            inside.setdefault(cut.at, []).append(cut)
    for cuts in inside.values():
        yield from chance.sample(cuts, min(len(cuts), INSIDE_WRITES_MAX))


@pytest.mark.timeout(300)
async def test_whenever_a_broker_is_killed_each_message_comes_once(chance: Random) -> None:
    disk, now_ms = await told(FlushDiskType.ASYNC_FLUSH)
    kills = list(moments(disk, chance))

    for cut in chance.sample(kills, KILLS):
        left = SimulatedDisk(cut.image, boot_id=disk.boot_id())
        await begin_again(left, batches_of(cut.marks), now_ms, f"kill at {cut.at}, {cut.story}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("flush", FlushDiskType)
async def test_whenever_the_power_fails_each_message_comes_once(flush: FlushDiskType, chance: Random) -> None:
    disk, now_ms = await told(flush)
    cuts = [cut for cut in cuts_of(disk.journal, chance, each_max=1, random_cuts=1) if cut.marks]

    for cut in chance.sample(cuts, POWER_CUTS):
        left = SimulatedDisk(cut.image)
        await begin_again(left, batches_of(cut.marks), now_ms, f"power cut at {cut.at}, {cut.story}")
