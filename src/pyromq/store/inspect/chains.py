"""One index file by itself: its header, and the chains from its slots through its entries.

The file is played again: each entry in turn goes into its slot, and must name the one that was there before.
In the end every slot must hold what the file's slot holds. Whether the entries belong to the messages that
they point at is not asked here; `compare` knows the log.
"""

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyromq.store.indexfile import ENTRY, ENTRY_BYTES, HEADER_BYTES, SLOT_BYTES
from pyromq.store.inspect.files import FileGone, ReadOnlyFile
from pyromq.store.inspect.survey import IndexSurvey, Survey

_CHUNK_ENTRIES: Final = 1 << 15
_POSITION: Final = struct.Struct(">4xq8x")
_LINK: Final = struct.Struct(">i12xi")
assert _POSITION.size == _LINK.size == ENTRY_BYTES
_KEPT_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Broken:
    """Something in an index file that does not hold together; `slot` is None when no chain is concerned."""

    at: int
    what: str
    slot: int | None = None


@dataclass(slots=True)
class IndexChecked:
    """What a file holds: for each boundary, the number of the first entry that points at it or behind it."""

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


def check_index_file(survey: Survey, boundaries: Sequence[int], number: int) -> IndexChecked:
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
    def __init__(self, survey: Survey, head: IndexSurvey, file: ReadOnlyFile, checked: IndexChecked) -> None:
        self._head = head
        self._file = file
        self._checked = checked
        self._is_clean = survey.is_clean
        self._slot_count = survey.slots
        self._entries_at = HEADER_BYTES + survey.slots * SLOT_BYTES
        self._slots = array("i", bytes(SLOT_BYTES * survey.slots))
        assert self._slots.itemsize == SLOT_BYTES

    def run(self, boundaries: Sequence[int]) -> None:
        checked = self._checked
        marks = [0] * len(boundaries)
        for first, chunk in self._chunks():
            self._play(first, chunk)
            positions = in_order([position for (position,) in _POSITION.iter_unpack(chunk)])
            marks = [
                mark + bisect_left(positions, boundary)
                for mark, boundary in zip(marks, boundaries, strict=True)
            ]
            checked.entries += len(positions)
        checked.marks = [1 + mark for mark in marks]
        self._compare_slots()
        self._check_header()

    def _chunks(self) -> Iterator[tuple[int, bytes]]:
        for first in range(1, self._head.count, _CHUNK_ENTRIES):
            count = min(_CHUNK_ENTRIES, self._head.count - first)
            chunk = self._file.read(count * ENTRY_BYTES, self._entries_at + first * ENTRY_BYTES)
            yield first, chunk[: len(chunk) // ENTRY_BYTES * ENTRY_BYTES]

    def _play(self, first: int, chunk: bytes) -> None:
        slots, slot_count = self._slots, self._slot_count
        for number, (hashed, before) in enumerate(_LINK.iter_unpack(chunk), first):
            slot = hashed % slot_count
            if slots[slot] != before:
                self._checked.add(
                    self._entries_at + number * ENTRY_BYTES + 16,
                    f"entry {number} says that entry {before} is the one before it in its slot, "
                    f"but it is {slots[slot]}",
                    slot,
                )
            slots[slot] = number

    def _compare_slots(self) -> None:
        actual = array("i", self._file.read(SLOT_BYTES * self._slot_count, HEADER_BYTES))
        if sys.byteorder == "little":
            actual.byteswap()
        if actual == self._slots:
            return
        for slot, (is_there, wanted) in enumerate(zip(actual, self._slots, strict=False)):
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
        used = self._slot_count - self._slots.count(0)
        if head.slots_used != used:
            checked.add(32, f"the header counts {head.slots_used} used slots, but there are {used}")
        for at, name, position, number in (
            (16, "first", head.begin_position, 1),
            (24, "last", head.end_position, head.count - 1),
        ):
            entry = self._file.read(ENTRY_BYTES, self._entries_at + number * ENTRY_BYTES)
            its_position = ENTRY.unpack(entry.ljust(ENTRY_BYTES, b"\0"))[1]
            if position != its_position:
                checked.add(
                    at,
                    f"the header says that the {name} message is at {position}, "
                    f"but entry {number} points at {its_position}",
                )


def in_order(positions: list[int]) -> list[int]:
    """Return positions that rise, for a search: one that stands out counts as its neighbour."""
    if positions == sorted(positions):
        return positions
    around = zip([positions[0], *positions], positions, [*positions[1:], positions[-1]], strict=False)
    return [sorted(three)[1] for three in around]
