"""The messages that are due next."""

from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.kinds.timers.near import NEVER, NearFuture

ROWS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 1000), st.integers(1, 100)), unique_by=lambda row: row[1]
)


def near_with(*rows: tuple[int, int, int], until: tuple[int, int] = (100, 0)) -> NearFuture:
    near = NearFuture()
    near.until = until
    for row in rows:
        near.add(row)
    return near


def take(near: NearFuture, now_ms: int = 100, *, count: int = 100, size: int = 10_000) -> list[int]:
    return [row[1] for row in near.take_due(now_ms, count_max=count, bytes_max=size)]


@given(ROWS, st.integers(0, 20))
def test_what_is_due_comes_in_order_and_the_rest_stays(rows: list[tuple[int, int, int]], now_ms: int) -> None:
    near = near_with(*rows)

    taken = near.take_due(now_ms, count_max=10_000, bytes_max=1 << 30)

    assert taken == sorted(row for row in rows if row[0] <= now_ms)
    assert len(near) == len(rows) - len(taken)


def test_only_so_many_are_taken_at_once() -> None:
    near = near_with((1, 10, 50), (1, 20, 50), (1, 30, 50), (1, 40, 50))

    assert take(near, count=1) == [10]
    assert take(near, size=51) == [20, 30]
    assert take(near) == [40]


def test_one_that_was_taken_out_does_not_come() -> None:
    near = near_with((1, 10, 50), (2, 20, 50))

    near.discard(10)
    near.discard(99)

    assert (10 in near, len(near), near.head_ms()) == (False, 1, 2)
    assert take(near) == [20]
    assert near.head_ms() is None


def test_one_that_is_put_back_comes_once() -> None:
    near = near_with((1, 10, 50))
    (row,) = near.take_due(5, count_max=1, bytes_max=100)

    near.add(row)
    near.add(row)

    assert take(near) == [10]
    assert take(near) == []


def test_too_many_leave_at_the_end_and_are_not_covered_any_more() -> None:
    near = near_with((5, 50, 1), (1, 10, 1), (3, 30, 1), (3, 31, 1))

    near.shrink(2)

    assert near.until == (3, 30)
    assert near.covers(3, 30)
    assert not near.covers(3, 31)
    assert take(near) == [10, 30]


def test_all_may_leave() -> None:
    near = near_with((5, 50, 1))

    near.shrink(0)

    assert (near.until, len(near)) == (NEVER, 0)


def test_few_do_not_leave() -> None:
    near = near_with((5, 50, 1))

    near.shrink(2)

    assert (near.until, len(near)) == ((100, 0), 1)
