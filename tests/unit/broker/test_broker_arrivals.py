import asyncio
from collections.abc import Callable

import pytest

from pyromq.broker.delivery.arrivals import Arrivals, HeldPull
from pyromq.testing.manual_clock import ManualClock


class Queues:
    """Where each queue ends, as the store would say."""

    def __init__(self) -> None:
        self.ends: dict[tuple[str, int], int] = {}

    def end(self, topic: str, queue_id: int) -> int:
        return self.ends.get((topic, queue_id), 0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queues() -> Queues:
    return Queues()


@pytest.fixture
def arrivals(queues: Queues, clock: ManualClock) -> Arrivals:
    return Arrivals(queues.end, clock)


def held(
    clock: ManualClock,
    woken: list[str],
    name: str,
    *,
    offset: int = 0,
    wants: Callable[[int], bool] | None = None,
) -> HeldPull:
    return HeldPull(offset, clock.now_ms() + 15_000, wants, lambda: woken.append(name))


async def turn() -> None:
    """Let the loop finish the turn in which pulls are woken."""
    await asyncio.sleep(0)


async def test_a_message_wakes_the_pull_that_waits_for_it(arrivals: Arrivals, clock: ManualClock) -> None:
    woken: list[str] = []
    arrivals.hold("T", 0, held(clock, woken, "pull"))

    arrivals.announce("T", 0, 1, 0)
    await turn()

    assert woken == ["pull"]
    assert arrivals.held_count == 0


async def test_a_burst_of_messages_wakes_a_pull_once(arrivals: Arrivals, clock: ManualClock) -> None:
    woken: list[str] = []
    arrivals.hold("T", 0, held(clock, woken, "pull"))

    for end in (1, 2, 3):
        arrivals.announce("T", 0, end, 0)
    await turn()

    assert woken == ["pull"]


async def test_pulls_of_several_queues_wake_in_one_turn(arrivals: Arrivals, clock: ManualClock) -> None:
    woken: list[str] = []
    for queue_id in (0, 1):
        arrivals.hold("T", queue_id, held(clock, woken, f"queue {queue_id}"))

    arrivals.announce("T", 0, 1, 0)
    arrivals.announce("T", 1, 1, 0)
    await turn()

    assert woken == ["queue 0", "queue 1"]


async def test_other_queues_stay_asleep(arrivals: Arrivals, clock: ManualClock) -> None:
    woken: list[str] = []
    arrivals.hold("T", 1, held(clock, woken, "pull"))

    arrivals.announce("T", 0, 1, 0)
    arrivals.announce("U", 1, 1, 0)
    await turn()

    assert woken == []


async def test_a_message_with_another_tag_does_not_wake(arrivals: Arrivals, clock: ManualClock) -> None:
    woken: list[str] = []
    arrivals.hold("T", 0, held(clock, woken, "red", wants={7}.__contains__))

    arrivals.announce("T", 0, 1, 8)
    await turn()
    assert woken == []

    arrivals.announce("T", 0, 2, 7)
    await turn()
    assert woken == ["red"]


async def test_only_the_pulls_that_want_a_message_wake(arrivals: Arrivals, clock: ManualClock) -> None:
    woken: list[str] = []
    arrivals.hold("T", 0, held(clock, woken, "red", wants={7}.__contains__))
    arrivals.hold("T", 0, held(clock, woken, "all"))

    arrivals.announce("T", 0, 1, 8)
    await turn()

    assert woken == ["all"]
    assert arrivals.held_count == 1


async def test_a_pull_ahead_of_the_queue_waits_until_it_gets_there(
    arrivals: Arrivals, clock: ManualClock
) -> None:
    woken: list[str] = []
    arrivals.hold("T", 0, held(clock, woken, "pull", offset=2))

    arrivals.announce("T", 0, 2, 0)
    await turn()

    assert woken == []


async def test_a_sweep_wakes_nobody_before_the_time(arrivals: Arrivals, clock: ManualClock) -> None:
    woken: list[str] = []
    arrivals.hold("T", 0, held(clock, woken, "pull"))

    clock.advance(14_999)
    arrivals.sweep()
    await turn()

    assert woken == []


async def test_a_sweep_wakes_the_pull_whose_time_is_up(arrivals: Arrivals, clock: ManualClock) -> None:
    woken: list[str] = []
    arrivals.hold("T", 0, held(clock, woken, "pull"))

    clock.advance(15_000)
    arrivals.sweep()
    await turn()

    assert woken == ["pull"]


async def test_a_sweep_wakes_for_messages_that_were_not_wanted(
    arrivals: Arrivals, clock: ManualClock, queues: Queues
) -> None:
    # The consumer is told to move on past them; it would otherwise read them all at the next start.
    woken: list[str] = []
    arrivals.hold("T", 0, held(clock, woken, "red", wants={7}.__contains__))
    queues.ends["T", 0] = 1

    arrivals.sweep()
    await turn()

    assert woken == ["red"]


async def test_a_dropped_pull_is_forgotten(arrivals: Arrivals, clock: ManualClock) -> None:
    woken: list[str] = []
    pull = held(clock, woken, "pull")
    arrivals.hold("T", 0, pull)

    arrivals.drop("T", 0, pull)
    arrivals.announce("T", 0, 1, 0)
    await turn()

    assert woken == []
    assert arrivals.held_count == 0


async def test_dropping_a_pull_that_was_woken_changes_nothing(arrivals: Arrivals, clock: ManualClock) -> None:
    woken: list[str] = []
    pull = held(clock, woken, "pull")
    arrivals.hold("T", 0, pull)
    arrivals.announce("T", 0, 1, 0)

    arrivals.drop("T", 0, pull)

    assert arrivals.held_count == 0


async def test_a_stop_wakes_every_pull(arrivals: Arrivals, clock: ManualClock) -> None:
    woken: list[str] = []
    arrivals.hold("T", 0, held(clock, woken, "first"))
    arrivals.hold("U", 5, held(clock, woken, "second"))

    arrivals.wake_all()
    await turn()

    assert woken == ["first", "second"]
