import time
from datetime import timedelta

import pytest

import pyromq.testing
from pyromq.testing.broker_of_test import ms_of
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.shifted_clock import ShiftedClock
from pyromq.testing.waiting import aeventually, eventually


def test_both_times_move_together_and_only_when_told() -> None:
    clock = ManualClock(now_ms=1_000)
    before = clock.monotonic()

    clock.advance(2_500)

    assert clock.now_ms() == 3_500
    assert clock.monotonic() - before == 2.5


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="cannot go back"):
        ManualClock().advance(-1)


def test_what_becomes_true_is_returned() -> None:
    answers = iter([0, None, "", "here"])

    assert eventually(lambda: next(answers)) == "here"


def test_a_deadline_that_passes_says_what_was_waited_for_and_seen() -> None:
    with pytest.raises(AssertionError, match=r"three messages: not true within 0 s; last seen: \[\]"):
        eventually(list, timeout_s=0, what="three messages")


async def test_plain_functions_and_coroutines_can_be_waited_for() -> None:
    answers = iter([0, 7])

    async def ask() -> int:
        return next(answers)

    assert await aeventually(ask) == 7
    assert await aeventually(lambda: 5) == 5


async def test_the_awaitable_wait_ends_at_its_deadline_too() -> None:
    with pytest.raises(AssertionError, match="last seen: 0"):
        await aeventually(lambda: 0, timeout_s=0)


def test_a_shifted_clock_flows_and_jumps_and_tells_who_waits() -> None:
    clock = ShiftedClock()
    seen: list[int] = []
    forget = clock.on_move(lambda: seen.append(clock.shift_ms))
    wall_ms, monotonic = clock.now_ms(), clock.monotonic()

    since = clock.advance(86_400_000)

    assert seen == [86_400_000]
    assert clock.now_ms() - wall_ms >= 86_400_000
    assert monotonic + 86_400 <= since <= clock.monotonic()
    assert abs(clock.now_ms() - 86_400_000 - time.time() * 1_000) < 60_000
    forget()
    clock.advance(1)
    assert len(seen) == 1


def test_a_shifted_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="cannot go back by 1 ms"):
        ShiftedClock().advance(-1)


@pytest.mark.parametrize(
    ("text", "ms"),
    [("10s", 10_000), ("1h30m", 5_400_000), ("1d", 86_400_000), ("250ms", 250), (1.5, 1_500), (0, 0)],
)
def test_a_time_is_read(text: str | float, ms: int) -> None:
    assert ms_of(text) == ms
    assert ms_of(timedelta(milliseconds=ms)) == ms


def test_the_public_names_are_there() -> None:
    for name in pyromq.testing.__all__:
        assert getattr(pyromq.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Nobody'"):
        _ = pyromq.testing.Nobody  # type: ignore[attr-defined]
