"""One index file by itself: its header, and the chains from its slots through its entries.

The file is played again: each entry in turn goes into its slot, and must name the one that was there before.
In the end every slot must hold what the file's slot holds. Whether the entries belong to the messages that
they point at is not asked here; `compare` knows the log. Only the header's times are: a query that asks for
another time passes the whole file over.
"""

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyromq.kernel import IS_COMPILED
from pyromq.store.commitlog import stored_at_of
from pyromq.store.index.indexfile import ENTRY, ENTRY_BYTES, HEADER_BYTES, SLOT_BYTES
from pyromq.store.inspect.read_only_files import FileGone, ReadOnlyFile
from pyromq.store.inspect.store_survey import IndexSurvey, RowFile, StoreSurvey
from pyromq.wire.record import MAGIC_V1, RECORD_BYTES_MIN

_CHUNK_ENTRIES: Final = 1 << 15
_POSITION: Final = struct.Struct(">4xq8x")
_LINK: Final = struct.Struct(">i12xi")
assert _POSITION.size == _LINK.size == ENTRY_BYTES
_KEPT_MAX: Final = 200
#: The magic number and the position of a record.
_NAMED: Final = struct.Struct(">4xi20xq")


def pure_play(slots: "array[int]", first: int, chunk: bytes, at: int) -> int:
    """Put entries into their slots, from the one at `at` on, up to one that names a wrong one before it.

    `first` is the number of the chunk's first entry. Returns which one is wrong, or how many there are.
    """
    slot_count = len(slots)
    for hashed, before in _LINK.iter_unpack(memoryview(chunk)[at * ENTRY_BYTES :]):
        slot = hashed % slot_count
        if slots[slot] != before:
            return at
        slots[slot] = first + at
        at += 1
    return at


def pure_are_slots(slots: "array[int]", actual: bytes) -> bool:
    """Return whether the slots of a file are these."""
    return _slots_of(actual) == slots


def pure_count_used(slots: "array[int]") -> int:
    """Return how many slots are not empty."""
    return len(slots) - slots.count(0)


def pure_count_before(chunk: bytes, boundaries: Sequence[int]) -> list[int] | None:
    """Return for each boundary how many entries point before it; None when they do not rise."""
    positions = [position for (position,) in _POSITION.iter_unpack(chunk)]
    if positions != sorted(positions):
        return None
    return [bisect_left(positions, boundary) for boundary in boundaries]


if TYPE_CHECKING or not IS_COMPILED:
    play, are_slots, count_used = pure_play, pure_are_slots, pure_count_used
    count_before = pure_count_before
else:
    from pyromq._kernel.storage.facts import are_slots, count_before, count_used, play


@dataclass(frozen=True, slots=True)
class Broken:
    """Something in an index file that does not hold together; `slot` is None when no chain is concerned."""

    at: int
    what: str
    slot: int | None = None


@dataclass(slots=True)
class IndexChecked:
    """The result of checking an index file.

    `marks` has for each boundary the number of the first entry that points at it or behind it.
    """

    marks: list[int] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)
    broken_count: int = 0
    entries: int = 0
    #: Whether the entries could be looked at.
    is_read: bool = False

    def add(self, at: int, what: str, slot: int | None = None) -> None:
        """Note something that is broken."""
        self.broken_count += 1
        if len(self.broken) < _KEPT_MAX:
            self.broken.append(Broken(at, what, slot))


def check_index_file(survey: StoreSurvey, boundaries: Sequence[int], number: int) -> IndexChecked:
    """Check one file of the index, and find the entries that point between the boundaries."""
    head = survey.index[number]
    checked = IndexChecked(marks=[1] * len(boundaries))
    is_short = not head.length or HEADER_BYTES + survey.slots * SLOT_BYTES <= head.length < survey.index_bytes
    if is_short and number == len(survey.index) - 1 and not survey.is_clean:
        # A broker was killed while it made the file or cut it behind an entry, or does so at this moment; the
        # next start mends it.
        return checked
    if head.length != survey.index_bytes:
        checked.add(
            0,
            f"the file has {head.length} bytes; with {survey.slots} slots and {survey.entries_max} entries "
            f"it would have {survey.index_bytes} (if yours are others: --set maxHashSlotNum, maxIndexNum)",
        )
        return checked
    if not 0 <= head.count <= survey.entries_max:
        checked.add(36, f"the header counts {head.count} entries; at most {survey.entries_max} have room")
        return checked
    try:
        with ReadOnlyFile(head.path) as file:
            _IndexWalk(survey, head, file, checked).run(boundaries)
        checked.is_read = True
    except FileGone:
        checked.broken.clear()
        checked.broken_count = 0
    return checked


class _IndexWalk:
    def __init__(
        self, survey: StoreSurvey, head: IndexSurvey, file: ReadOnlyFile, checked: IndexChecked
    ) -> None:
        self._head = head
        self._file = file
        self._checked = checked
        self._log = survey.log
        self._is_clean = survey.is_clean
        self._slot_count = survey.slots
        self._entries_at = HEADER_BYTES + survey.slots * SLOT_BYTES
        self._slots = array("i", [0]) * survey.slots
        assert self._slots.itemsize == SLOT_BYTES

    def run(self, boundaries: Sequence[int]) -> None:
        checked = self._checked
        marks = [0] * len(boundaries)
        for first, chunk in self._chunks():
            self._play(first, chunk)
            before = count_before(chunk, boundaries)
            if before is None:
                before = _count_about_before(chunk, boundaries)
            marks = [mark + count for mark, count in zip(marks, before, strict=True)]
            checked.entries += len(chunk) // ENTRY_BYTES
        checked.marks = [1 + mark for mark in marks]
        self._compare_slots()
        self._check_header()

    def _chunks(self) -> Iterator[tuple[int, bytes]]:
        for first in range(1, self._head.count, _CHUNK_ENTRIES):
            count = min(_CHUNK_ENTRIES, self._head.count - first)
            chunk = self._file.read(count * ENTRY_BYTES, self._entries_at + first * ENTRY_BYTES)
            yield first, chunk[: len(chunk) // ENTRY_BYTES * ENTRY_BYTES]

    def _play(self, first: int, chunk: bytes) -> None:
        slots, at = self._slots, 0
        while (at := play(slots, first, chunk, at)) * ENTRY_BYTES < len(chunk):
            hashed, before = _LINK.unpack_from(chunk, at * ENTRY_BYTES)
            slot, number = hashed % self._slot_count, first + at
            self._checked.add(
                self._entries_at + number * ENTRY_BYTES + 16,
                f"entry {number} says that entry {before} is the one before it in its slot, "
                f"but it is {slots[slot]}",
                slot,
            )
            slots[slot] = number
            at += 1

    def _compare_slots(self) -> None:
        actual = self._file.read(SLOT_BYTES * self._slot_count, HEADER_BYTES)
        if are_slots(self._slots, actual):
            return
        for slot, (is_there, wanted) in enumerate(zip(_slots_of(actual), self._slots, strict=False)):
            # The slots of entries that came since, or that a crash left without a count, point past the end.
            if is_there != wanted and (self._is_clean or is_there < self._head.count):
                self._checked.add(
                    HEADER_BYTES + slot * SLOT_BYTES,
                    f"slot {slot} says that entry {is_there} is its newest, but it is {wanted}",
                    slot,
                )

    def _check_header(self) -> None:
        """The header's own counts and ends; while a broker writes, RocketMQ's are not changed together."""
        head, checked = self._head, self._checked
        if not self._is_clean or head.count <= 1:
            return
        used = count_used(self._slots)
        if head.slots_used != used:
            checked.add(32, f"the header counts {head.slots_used} used slots, but there are {used}")
        for at, name, position, time_ms, number in (
            (16, "first", head.begin_position, head.begin_at_ms, 1),
            (24, "last", head.end_position, head.end_at_ms, head.count - 1),
        ):
            entry = self._file.read(ENTRY_BYTES, self._entries_at + number * ENTRY_BYTES)
            its_position = ENTRY.unpack(entry.ljust(ENTRY_BYTES, b"\0"))[1]
            if position != its_position:
                checked.add(
                    at,
                    f"the header says that the {name} message is at {position}, "
                    f"but entry {number} points at {its_position}",
                )
            elif (stored_at_ms := _stored_at(self._log, position)) not in (None, time_ms):
                checked.add(
                    at - 16,
                    f"the header says that the {name} message was stored at {time_ms} ms, "
                    f"but the one at {position} of the log was at {stored_at_ms}",
                )


def _stored_at(log: Sequence[RowFile], position: int) -> int | None:
    """Return when the message at a position was stored; None when no file has one there."""
    for row_file in log:
        if row_file.base <= position < row_file.end:
            with ReadOnlyFile(row_file.path) as file:
                head = file.read(RECORD_BYTES_MIN, position - row_file.base)
            if len(head) == RECORD_BYTES_MIN and _NAMED.unpack_from(head) == (MAGIC_V1, position):
                return stored_at_of(head)
    return None


def _slots_of(stored: bytes) -> "array[int]":
    slots = array("i", stored[: len(stored) // SLOT_BYTES * SLOT_BYTES])
    if sys.byteorder == "little":
        slots.byteswap()
    return slots


def _count_about_before(chunk: bytes, boundaries: Sequence[int]) -> list[int]:
    positions = in_order([position for (position,) in _POSITION.iter_unpack(chunk)])
    return [bisect_left(positions, boundary) for boundary in boundaries]


def in_order(positions: list[int]) -> list[int]:
    """Return positions that rise, for a search: one that stands out counts as its neighbour."""
    around = zip([positions[0], *positions], positions, [*positions[1:], positions[-1]], strict=False)
    return [sorted(three)[1] for three in around]
