"""The ends of an index are written in the same parts by both speeds, and nothing else is changed by them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.store.index.index_tail import HEADER_BYTES, IndexTail

kernel = pytest.importorskip("pyromq._kernel.storage.tails")

SLOTS = 40_000
SLOT = struct.Struct(">i")
#: Slots that are neighbours, some pages apart, and anywhere.
HASHES = st.lists(
    st.one_of(
        st.integers(0, 40), st.integers(1_000, 4_000), st.integers(0, SLOTS - 1), st.integers(0, 2**31 - 1)
    ),
    min_size=1,
    max_size=60,
)


def filled(tail: IndexTail, hashes: list[int], file: bytes) -> IndexTail:
    tail.look = file  # type: ignore[assignment]  # any buffer does
    for number, key_hash in enumerate(hashes):
        tail.put(key_hash, 100 * number, 1_700_000_000_000)
    return tail


def parts_of(tail: IndexTail, most: int = 1 << 20) -> list[tuple[bytes, int]]:
    """Return all parts of what the tail holds, so many at a time."""
    tail.note_slots()
    parts: list[tuple[bytes, int]] = []
    while some := tail.noted_parts(most):
        assert len(some) <= most
        parts += some
    return parts


@given(HASHES, st.binary(min_size=64, max_size=64))
def test_both_speeds_write_the_same_parts(hashes: list[int], pattern: bytes) -> None:
    file = (pattern * (SLOTS // 16 + 1))[: HEADER_BYTES + 4 * SLOTS]

    pure = filled(IndexTail(SLOTS, 1 << 20), hashes, file)
    compiled = filled(kernel.IndexTail(SLOTS, 1 << 20), hashes, file)

    assert parts_of(compiled) == parts_of(pure)
    assert compiled.held == pure.held


@pytest.mark.parametrize("make", [IndexTail, kernel.IndexTail], ids=["pure", "compiled"])
@given(hashes=HASHES, most=st.integers(1, 5))
def test_parts_are_the_same_however_many_are_taken_at_once(
    make: type[IndexTail], hashes: list[int], most: int
) -> None:
    tail = filled(make(SLOTS, 1 << 20), hashes, bytes(HEADER_BYTES + 4 * SLOTS))

    assert parts_of(tail, most) == parts_of(tail)


@pytest.mark.parametrize("make", [IndexTail, kernel.IndexTail], ids=["pure", "compiled"])
@given(before=HASHES, after=HASHES)
def test_what_changes_while_slots_are_written_is_held_on(
    make: type[IndexTail], before: list[int], after: list[int]
) -> None:
    tail = filled(make(SLOTS, 1 << 20), before, bytes(HEADER_BYTES + 4 * SLOTS))
    tail.note_slots()
    for key_hash in after:
        tail.put(key_hash, 1 << 30, 1_700_000_000_000)
    tail.noted_parts(1 << 20)

    assert tail.drop_noted() == 1 + len(before)

    changed = {key_hash % SLOTS for key_hash in after}
    assert (tail.held_slots_count(), tail.is_noted) == (len(changed), False)
    assert all(tail.newest(slot) for slot in changed)
    assert not any(tail.newest(key_hash % SLOTS) for key_hash in before if key_hash % SLOTS not in changed)


@pytest.mark.parametrize("make", [IndexTail, kernel.IndexTail], ids=["pure", "compiled"])
@given(hashes=HASHES)
def test_parts_change_the_held_slots_alone(make: type[IndexTail], hashes: list[int]) -> None:
    file = bytes(range(256)) * (SLOTS // 64 + 1)
    tail = filled(make(SLOTS, 1 << 20), hashes, file)

    written = bytearray(file)
    for part, at in parts_of(tail):
        written[at : at + len(part)] = part

    expected = bytearray(file)
    for number, key_hash in enumerate(hashes, 1):
        SLOT.pack_into(expected, HEADER_BYTES + 4 * (key_hash % SLOTS), number)
    assert written == expected


def test_slots_that_are_near_are_one_write_and_no_write_is_endless() -> None:
    near = filled(kernel.IndexTail(SLOTS, 1 << 20), [5, 900, 1_900], bytes(HEADER_BYTES + 4 * SLOTS))
    far = filled(kernel.IndexTail(SLOTS, 1 << 20), [5, 1_030], bytes(HEADER_BYTES + 4 * SLOTS))
    many = filled(kernel.IndexTail(SLOTS, 1 << 20), list(range(SLOTS)), bytes(HEADER_BYTES + 4 * SLOTS))

    assert len(parts_of(near)) == 1
    assert len(parts_of(far)) == 2
    assert [len(part) for part, _ in parts_of(many)] == [65_536, 65_536, 28_928]
