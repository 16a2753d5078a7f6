import pytest

from pyromq.broker.durability.watermark import Settle, Watermark


def collector(into: list[str], name: str) -> Settle:
    return lambda error: into.append(name if error is None else f"{name}: {error}")


def test_a_number_that_is_reached_already_settles_at_once() -> None:
    seen: list[str] = []
    Watermark(10).when(10, collector(seen, "ten"))
    assert seen == ["ten"]


def test_waiters_are_settled_in_the_order_of_their_numbers() -> None:
    seen: list[str] = []
    mark = Watermark()
    mark.when(30, collector(seen, "30"))
    mark.when(10, collector(seen, "10"))
    mark.when(20, collector(seen, "20"))

    mark.raise_to(25)

    assert seen == ["10", "20"]
    assert mark.waiting_count == 1


def test_waiters_of_one_number_are_settled_in_the_order_they_came() -> None:
    seen: list[str] = []
    mark = Watermark()
    for name in ("first", "second", "third"):
        mark.when(5, collector(seen, name))

    mark.raise_to(5)

    assert seen == ["first", "second", "third"]


def test_a_lower_number_changes_nothing() -> None:
    mark = Watermark(10)
    mark.raise_to(3)
    assert mark.value == 10


def test_giving_up_tells_the_reason_to_those_who_wait_for_less_and_to_no_others() -> None:
    seen: list[str] = []
    mark = Watermark()
    mark.when(10, collector(seen, "10"))
    mark.when(20, collector(seen, "20"))

    mark.give_up(10, TimeoutError("too slow"))
    mark.raise_to(20)

    assert seen == ["10: too slow", "20"]


async def test_reach_is_done_when_the_number_is_reached() -> None:
    mark = Watermark()
    reached = mark.reach(7)
    assert not reached.done()

    mark.raise_to(7)

    await reached


async def test_reach_raises_why_it_was_given_up() -> None:
    mark = Watermark()
    reached = mark.reach(7)

    mark.give_up(7, OSError("disk gone"))

    with pytest.raises(OSError, match="disk gone"):
        await reached


async def test_a_reach_that_nobody_awaits_any_more_disturbs_nobody() -> None:
    mark = Watermark()
    mark.reach(7).cancel()
    mark.raise_to(7)
    assert mark.waiting_count == 0
