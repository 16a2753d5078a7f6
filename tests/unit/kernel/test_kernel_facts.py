"""What verify compares in index files means the same compiled and not, and so does the checksum."""

import struct
from array import array
from types import SimpleNamespace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.store.inspect import chains, compare
from pyromq.store.inspect.facts import KEY

kernel = pytest.importorskip("pyromq._kernel.storage.facts")

ENTRY: Final = struct.Struct(">iqii")
INT32 = st.one_of(st.integers(0, 9), st.integers(-(1 << 31), (1 << 31) - 1))
INT64 = st.one_of(st.integers(0, 9), st.integers(-(1 << 63), (1 << 63) - 1))
ENTRIES = st.lists(st.tuples(INT32, INT64, INT32, INT32), max_size=30).map(
    lambda rows: b"".join(ENTRY.pack(*row) for row in rows)
)


@given(ENTRIES, st.integers(1, 9), st.integers(1, 1 << 30), st.integers(0, 30))
def test_entries_are_played_alike(chunk: bytes, slot_count: int, first: int, at: int) -> None:
    slots, pure = array("i", [0]) * slot_count, array("i", [0]) * slot_count
    at = min(at, len(chunk) // ENTRY.size)

    assert kernel.play(slots, first, chunk, at) == chains.pure_play(pure, first, chunk, at)
    assert slots == pure
    assert kernel.count_used(slots) == chains.pure_count_used(pure)


@given(st.lists(INT32, max_size=20), st.data())
def test_slots_are_compared_alike(values: list[int], data: st.DataObject) -> None:
    slots, stored = array("i", values), struct.pack(f">{len(values)}i", *values)
    other = data.draw(st.one_of(st.just(stored), st.binary(max_size=80), st.just(stored[:-1])))

    assert kernel.are_slots(slots, stored)
    assert kernel.are_slots(slots, other) == (other == stored)


@given(ENTRIES, st.booleans(), st.lists(INT64, max_size=4))
def test_boundaries_are_found_alike(chunk: bytes, is_rising: bool, boundaries: list[int]) -> None:
    if is_rising:
        rows = sorted(ENTRY.iter_unpack(chunk), key=lambda row: row[1])
        chunk = b"".join(ENTRY.pack(*row) for row in rows)

    assert kernel.count_before(chunk, boundaries) == chains.pure_count_before(chunk, boundaries)


@given(
    st.lists(st.tuples(INT32, INT64, st.integers(-5, 1 << 43)), max_size=12),
    st.integers(0, 3),
    st.integers(-5, 1 << 42),
    st.data(),
)
def test_keys_are_compared_alike(
    keys: list[tuple[int, int, int]], first: int, begin_ms: int, data: st.DataObject
) -> None:
    facts: Any = SimpleNamespace(
        keys=bytearray(b"".join(KEY.pack(hashed, position) for hashed, position, _ in keys)),
        times=array("q", [time_ms for _, _, time_ms in keys]),
    )
    rows = [
        ENTRY.pack(hashed, position, compare.seconds_since(begin_ms, time_ms), 0)
        for hashed, position, time_ms in keys[first:]
    ]
    entries = bytearray(b"".join(rows))
    assert kernel.are_keys(entries, facts, first, begin_ms) == (first <= len(keys))
    for _ in range(data.draw(st.integers(0, 1)) if entries else 0):
        entries[data.draw(st.integers(0, len(entries) - 1))] ^= data.draw(st.integers(1, 255))

    is_same = kernel.are_keys(entries, facts, first, begin_ms)

    assert is_same == compare.pure_are_keys(bytes(entries), facts, first, begin_ms)
