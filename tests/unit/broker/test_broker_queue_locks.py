from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.broker.groups.queue_locks import BELIEVED_MS, LEFT_MAX, LOCK_LIFE_MS, QueueLocks
from pyromq.model import MessageQueue
from pyromq.testing.manual_clock import ManualClock

QUEUES = [MessageQueue("T", "broker-a", queue_id) for queue_id in range(3)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def locks(clock: ManualClock, tmp_path: Path) -> AsyncIterator[QueueLocks]:
    locks = QueueLocks(tmp_path / "queueLocks.json", clock)
    yield locks
    await locks.save()


async def test_a_free_queue_is_locked(locks: QueueLocks) -> None:
    assert locks.lock("g", QUEUES, "one") == QUEUES


async def test_a_queue_that_another_member_holds_is_left_out(locks: QueueLocks) -> None:
    locks.lock("g", QUEUES[:1], "one")
    assert locks.lock("g", QUEUES, "two") == QUEUES[1:]


async def test_groups_do_not_know_each_others_locks(locks: QueueLocks) -> None:
    locks.lock("g", QUEUES, "one")
    assert locks.lock("h", QUEUES, "two") == QUEUES


async def test_a_lock_is_anyones_after_its_life(locks: QueueLocks, clock: ManualClock) -> None:
    locks.lock("g", QUEUES, "one")
    clock.advance(LOCK_LIFE_MS)
    assert locks.lock("g", QUEUES, "two") == []

    clock.advance(1)
    assert locks.lock("g", QUEUES, "two") == QUEUES


async def test_renewing_prolongs_a_lock(locks: QueueLocks, clock: ManualClock) -> None:
    locks.lock("g", QUEUES, "one")
    clock.advance(LOCK_LIFE_MS)
    locks.lock("g", QUEUES, "one")
    clock.advance(LOCK_LIFE_MS)

    assert locks.lock("g", QUEUES, "two") == []


async def test_an_unlocked_queue_is_free(locks: QueueLocks) -> None:
    locks.lock("g", QUEUES, "one")
    locks.unlock("g", QUEUES[:2], "one")
    assert locks.lock("g", QUEUES, "two") == QUEUES[:2]


async def test_nobody_unlocks_what_another_holds(locks: QueueLocks) -> None:
    locks.lock("g", QUEUES, "one")
    locks.unlock("g", QUEUES, "two")
    assert locks.lock("g", QUEUES, "two") == []


async def test_unlocking_what_was_never_locked_changes_nothing(locks: QueueLocks) -> None:
    locks.unlock("g", QUEUES, "one")
    assert locks.lock("g", QUEUES, "two") == QUEUES


@pytest.mark.row("OR-03")
async def test_after_a_restart_members_hold_what_they_held(
    locks: QueueLocks, clock: ManualClock, tmp_path: Path
) -> None:
    locks.lock("g", QUEUES, "one")
    locks.unlock("g", QUEUES[:1], "one")
    locks.lock("g", QUEUES[:1], "two")
    await locks.save()

    again = QueueLocks(tmp_path / "queueLocks.json", clock)
    again.load()

    assert again.lock("g", QUEUES, "two") == QUEUES[:1]
    assert again.lock("g", QUEUES, "one") == QUEUES[1:]
    await again.save()


@pytest.mark.row("OR-03")
async def test_after_a_restart_a_lock_that_is_not_renewed_holds_as_long_as_its_member_believes_in_it(
    locks: QueueLocks, clock: ManualClock, tmp_path: Path
) -> None:
    locks.lock("g", QUEUES, "one")
    await locks.save()

    again = QueueLocks(tmp_path / "queueLocks.json", clock)
    again.load()
    clock.advance(BELIEVED_MS)
    assert again.lock("g", QUEUES, "two") == []

    clock.advance(1)
    assert again.lock("g", QUEUES, "two") == QUEUES
    await again.save()


async def test_a_renewal_is_not_written(locks: QueueLocks) -> None:
    locks.lock("g", QUEUES, "one")
    await locks.save()
    locks.lock("g", QUEUES, "one")
    assert locks.is_saved


async def test_locks_whose_life_is_over_leave_the_file(
    locks: QueueLocks, clock: ManualClock, tmp_path: Path
) -> None:
    locks.lock("g", QUEUES, "one")
    clock.advance(LOCK_LIFE_MS + 1)
    locks.lock("h", QUEUES, "two")
    await locks.save()
    assert "one" not in (tmp_path / "queueLocks.json").read_text()


async def test_a_file_that_does_not_read_holds_nothing(clock: ManualClock, tmp_path: Path) -> None:
    (tmp_path / "queueLocks.json").write_text("{")
    locks = QueueLocks(tmp_path / "queueLocks.json", clock)
    locks.load()
    assert locks.lock("g", QUEUES, "one") == QUEUES
    await locks.save()


async def test_a_member_that_left_holds_nothing_and_gets_nothing(locks: QueueLocks) -> None:
    locks.lock("g", QUEUES, "one")
    locks.lock("h", QUEUES, "one")

    locks.left("g", "one")

    # Its request was on the way when it left.
    assert locks.lock("g", QUEUES, "one") == []
    assert locks.lock("g", QUEUES, "two") == QUEUES
    assert locks.lock("h", QUEUES, "one") == QUEUES


async def test_a_member_that_joined_again_may_lock(locks: QueueLocks) -> None:
    locks.left("g", "one")
    locks.joined("g", "one")
    assert locks.lock("g", QUEUES, "one") == QUEUES


async def test_members_that_left_are_forgotten(locks: QueueLocks, clock: ManualClock) -> None:
    locks.left("g", "one")
    clock.advance(LOCK_LIFE_MS)
    assert locks.lock("g", QUEUES, "one") == QUEUES
    for number in range(LEFT_MAX + 5):
        locks.left("g", str(number))
    assert len(locks._left) == LEFT_MAX
    clock.advance(LOCK_LIFE_MS)
    locks.left("g", "last")
    assert list(locks._left) == [("g", "last")]


async def test_what_a_member_gave_up_by_leaving_is_in_the_file(
    locks: QueueLocks, clock: ManualClock, tmp_path: Path
) -> None:
    locks.lock("g", QUEUES, "one")
    await locks.save()
    locks.left("g", "one")
    await locks.save()

    after = QueueLocks(tmp_path / "queueLocks.json", clock)
    after.load()
    assert after.lock("g", QUEUES, "two") == QUEUES
