import pytest

from pyromq.testing.manual_clock import ManualClock
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
