import pytest

from pyromq.broker.queue_locks import LOCK_LIFE_MS, QueueLocks
from pyromq.model import MessageQueue
from pyromq.testing.clock import ManualClock

QUEUES = [MessageQueue("T", "broker-a", queue_id) for queue_id in range(3)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def locks(clock: ManualClock) -> QueueLocks:
    return QueueLocks(clock)


def test_a_free_queue_is_locked(locks: QueueLocks) -> None:
    assert locks.lock("g", QUEUES, "one") == QUEUES


def test_a_queue_that_another_member_holds_is_left_out(locks: QueueLocks) -> None:
    locks.lock("g", QUEUES[:1], "one")
    assert locks.lock("g", QUEUES, "two") == QUEUES[1:]


def test_groups_do_not_know_each_others_locks(locks: QueueLocks) -> None:
    locks.lock("g", QUEUES, "one")
    assert locks.lock("h", QUEUES, "two") == QUEUES


def test_a_lock_is_anyones_after_its_life(locks: QueueLocks, clock: ManualClock) -> None:
    locks.lock("g", QUEUES, "one")
    clock.advance(LOCK_LIFE_MS)
    assert locks.lock("g", QUEUES, "two") == []

    clock.advance(1)
    assert locks.lock("g", QUEUES, "two") == QUEUES


def test_renewing_prolongs_a_lock(locks: QueueLocks, clock: ManualClock) -> None:
    locks.lock("g", QUEUES, "one")
    clock.advance(LOCK_LIFE_MS)
    locks.lock("g", QUEUES, "one")
    clock.advance(LOCK_LIFE_MS)

    assert locks.lock("g", QUEUES, "two") == []


def test_an_unlocked_queue_is_free(locks: QueueLocks) -> None:
    locks.lock("g", QUEUES, "one")
    locks.unlock("g", QUEUES[:2], "one")
    assert locks.lock("g", QUEUES, "two") == QUEUES[:2]


def test_nobody_unlocks_what_another_holds(locks: QueueLocks) -> None:
    locks.lock("g", QUEUES, "one")
    locks.unlock("g", QUEUES, "two")
    assert locks.lock("g", QUEUES, "two") == []


def test_unlocking_what_was_never_locked_changes_nothing(locks: QueueLocks) -> None:
    locks.unlock("g", QUEUES, "one")
    assert locks.lock("g", QUEUES, "two") == QUEUES
