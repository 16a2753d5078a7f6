"""The growing end of an index file: its newest entries, and counters that change with each key.

`pyromq._kernel.storage.tails` has the same class, compiled; `IndexFile` inherits from whichever runs.
"""

import struct
from mmap import mmap
from typing import Final

HEADER_BYTES: Final = 40
SLOT_BYTES: Final = 4
#: No memory is written to a disk by less; one that is written anyway costs nothing to write once more.
_PAGE_BYTES: Final = 4096
_PART_BYTES_MAX: Final = 65_536
_SECONDS_MAX: Final = 0x7FFFFFFF
_pack_entry: Final = struct.Struct(">iqii").pack
_pack_slot: Final = struct.Struct(">i").pack_into
_unpack_slot: Final = struct.Struct(">i").unpack_from


class IndexTail:
    """The header's numbers, and the newest entries and slots, which are not yet written.

    `look` is a map of the file, in which the slots are that are written; None before there is a file.
    """

    __slots__ = (
        "_held_slots",
        "begin_at_ms",
        "begin_position",
        "count",
        "end_at_ms",
        "end_position",
        "entries_max",
        "held",
        "look",
        "slots",
        "slots_used",
    )

    def __init__(self, slots: int, entries_max: int) -> None:
        self.slots = slots
        self.entries_max = entries_max
        self.begin_at_ms = self.end_at_ms = self.begin_position = self.end_position = self.slots_used = 0
        self.count = 1
        self.held = bytearray()
        self.look: mmap | None = None
        self._held_slots: dict[int, int] = {}

    def put(self, key_hash: int, position: int, stored_at_ms: int) -> None:
        """Hold a key of the message at a position; there must be room for one more entry."""
        slot, number, begin_at_ms = key_hash % self.slots, self.count, self.begin_at_ms
        before = self.newest(slot)
        seconds = 0
        if 0 < begin_at_ms < stored_at_ms:
            seconds = min((stored_at_ms - begin_at_ms) // 1000, _SECONDS_MAX)
        self.held += _pack_entry(key_hash, position, seconds, before)
        self._held_slots[slot] = number
        if number == 1:
            self.begin_position, self.begin_at_ms = position, stored_at_ms
        if not before:
            self.slots_used += 1
        self.count = number + 1
        self.end_position, self.end_at_ms = position, stored_at_ms

    def newest(self, slot: int) -> int:
        """Return the number of the newest entry in a slot, 0 when there is none."""
        number = self._held_slots.get(slot)
        if number is None:
            if self.look is None:
                return 0
            number = _unpack_slot(self.look, HEADER_BYTES + slot * SLOT_BYTES)[0]
        return number if 0 < number < self.count else 0

    def slot_parts(self) -> list[tuple[bytes, int]]:
        """Return what is to be written of the slots, each part with its place in the file.

        Slots that are less than a page apart are one part, with what stands between them as it is: to write
        it again costs less than a call, and the ids of one producer's messages hash to slots that are near
        one another. A power cut may leave some sectors of a part unwritten, and no slot is in two.
        """
        assert self.look is not None
        parts: list[tuple[bytearray, int]] = []
        first = last = -_PART_BYTES_MAX
        for slot, number in sorted(self._held_slots.items()):
            is_far = (slot - last) * SLOT_BYTES > _PAGE_BYTES
            if is_far or (slot - first) * SLOT_BYTES >= _PART_BYTES_MAX:
                parts.append((bytearray(), HEADER_BYTES + slot * SLOT_BYTES))
                first = slot
            last = slot
            part, at = parts[-1]
            part += self.look[at + len(part) : HEADER_BYTES + slot * SLOT_BYTES + SLOT_BYTES]
            _pack_slot(part, len(part) - SLOT_BYTES, number)
        return [(bytes(part), at) for part, at in parts]

    def held_slots_count(self) -> int:
        """Return how many slots are not yet written."""
        return len(self._held_slots)

    def drop_held(self) -> None:
        """Forget what is held: it was written, or cut off."""
        self.held.clear()
        self._held_slots.clear()
