"""What waits, told from entries of the timer queue: both speeds say the same, and say it in order."""

import struct
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.kinds.timers import due_rows

kernel = pytest.importorskip("pyromq._kernel.storage.due_rows")

ENTRY = struct.Struct(">qiq")
SMALL = st.integers(-2, 20)
NUMBERS = st.one_of(SMALL, st.integers(-(1 << 63), (1 << 63) - 1))
ENTRIES = st.lists(st.tuples(SMALL, st.integers(-(1 << 31), (1 << 31) - 1), NUMBERS), max_size=40).map(
    lambda entries: b"".join(ENTRY.pack(*entry) for entry in sorted(entries, key=lambda entry: entry[0]))
)
PLACES = st.tuples(NUMBERS, NUMBERS)


@given(ENTRIES, NUMBERS)
def test_both_speeds_make_the_same_rows(entries: bytes, end: int) -> None:
    assert kernel.rows_before(entries, end) == due_rows.rows_before(entries, end)


@given(ENTRIES, PLACES, PLACES)
def test_both_speeds_find_the_same_that_is_due(
    entries: bytes, after: tuple[int, int], until: tuple[int, int]
) -> None:
    assert kernel.near_rows(entries, after, until) == due_rows.near_rows(entries, after, until)


@pytest.mark.parametrize("speed", [due_rows, kernel], ids=["pure", "compiled"])
def test_rows_are_of_what_waits_before_a_position_in_the_order_of_its_time(speed: ModuleType) -> None:
    entries = b"".join(ENTRY.pack(*entry) for entry in ((10, 5, 900), (20, 6, 0), (30, 7, 800), (40, 8, 700)))

    count, rows = speed.rows_before(entries, 40)

    assert count == 3
    assert list(due_rows.ROW.iter_unpack(rows)) == [(800, 30, 7), (900, 10, 5)]


@pytest.mark.parametrize("speed", [due_rows, kernel], ids=["pure", "compiled"])
def test_what_is_due_soon_is_told_from_what_is_due_later(speed: ModuleType) -> None:
    entries = b"".join(ENTRY.pack(*entry) for entry in ((10, 5, 900), (20, 6, 0), (30, 7, 800), (40, 8, 700)))

    assert speed.near_rows(entries, (700, 40), (800, 30)) == ([(800, 30, 7)], 900)
    assert speed.near_rows(entries, (-1, -1), (900, 10)) == ([(900, 10, 5), (800, 30, 7), (700, 40, 8)], None)
