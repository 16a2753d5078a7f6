"""Popped messages over crashes at any moment: what is acknowledged never comes again, all else does.

tests/support/pop_model.py tells what members do, and what must hold.
"""

from collections.abc import Iterator
from random import Random, SystemRandom

import pytest
from effort import times
from pop_model import Chaos, Model, finish, popped_on

from pyromq.config.choices import FlushDiskType
from pyromq.testing.disk import Cut, SimulatedDisk, kills_of
from pyromq.testing.manual_clock import ManualClock

#: What follows the log is made again from it; that this is so at every moment is asked elsewhere.
FOLLOWERS = ("/consumequeue/", "/index/", "/checkpoint", "/abort", "/lock")


@pytest.fixture
def chance() -> Random:
    seed = SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    return Random(seed)


def model_at(cut: Cut) -> Model:
    last = cut.marks[-1]
    assert isinstance(last, Model)
    return last


def kills(disk: SimulatedDisk) -> Iterator[Cut]:
    """Yield the kills behind what is done to the log and the tables, and inside of writes to the log."""
    for cut in kills_of(disk.journal):
        done = str(disk.journal[cut.at - 1])
        is_whole = cut.story == "everything kept"
        if is_whole and (done.startswith("Sync") or any(part in done for part in FOLLOWERS)):
            continue
        if cut.marks and (is_whole or "/commitlog/" in cut.story):
            yield cut


@pytest.mark.row("PO-02", "PO-04")
@pytest.mark.timeout(300)
async def test_whenever_a_broker_is_killed_the_group_sees_what_it_was_promised(chance: Random) -> None:
    disk = SimulatedDisk()
    async with popped_on(disk) as stage:
        chaos = Chaos(stage, disk, chance)
        for _ in range(60):
            await chaos.step()
    cuts = list(kills(disk))

    for cut in chance.sample(cuts, min(len(cuts), times(40))):
        model = model_at(cut)
        clock = ManualClock(model.now_ms)
        async with popped_on(SimulatedDisk(cut.image, boot_id=disk.boot_id()), clock) as survivor:
            await finish(survivor, model)

    assert len(cuts) > 100


@pytest.mark.row("PO-02", "PO-04")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_power_cut", [False, True], ids=["kill", "power cut"])
async def test_over_crash_after_crash_the_group_sees_what_it_was_promised(
    chance: Random, *, is_power_cut: bool
) -> None:
    flush = FlushDiskType.SYNC_FLUSH if is_power_cut else FlushDiskType.ASYNC_FLUSH
    disk, clock, model = SimulatedDisk(), ManualClock(), Model()
    for _ in range(times(8)):
        async with popped_on(disk, clock, flush) as stage:
            chaos = Chaos(stage, disk, chance, model)
            for _ in range(chance.randrange(10, 50)):
                await chaos.step()
            disk = disk.after_power_cut(chance) if is_power_cut else disk.after_kill()
        model.crashed(is_power_cut=is_power_cut)
    async with popped_on(disk, clock, flush) as stage:
        await finish(stage, model)

    assert len(model.sent) > 20


@pytest.mark.row("PO-02", "PO-04")
async def test_without_a_crash_the_group_sees_what_it_was_promised(chance: Random) -> None:
    disk = SimulatedDisk()
    async with popped_on(disk) as stage:
        chaos = Chaos(stage, disk, chance)
        for _ in range(300):
            await chaos.step()
        await chaos.finish()
