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
        "_noted",
        "_noted_at",
        "_noted_before",
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
        #: The slots that were noted to be written, how many were given, and the count of entries then.
        self._noted: list[tuple[int, int]] | None = None
        self._noted_at = self._noted_before = 0

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

    @property
    def room(self) -> int:
        """The number of keys that still go into the file."""
        return self.entries_max - self.count

    def holds_much(self, entries_bytes: int, slots: int) -> bool:
        """Return whether so many bytes of entries or so many slots are held, or some are being written."""
        return self.is_noted or len(self.held) >= entries_bytes or len(self._held_slots) >= slots

    @property
    def is_noted(self) -> bool:
        """Whether slots are noted that are to be written."""
        return self._noted is not None

    def note_slots(self) -> None:
        """Note which slots are held now, so that they can be written part by part."""
        self._noted = sorted(self._held_slots.items())
        self._noted_at, self._noted_before = 0, self.count

    def noted_parts(self, most: int) -> list[tuple[bytes, int]]:
        """Return the next parts of what is to be written of the noted slots, each with its place in the file.

        There are no more when it returns none.

        Slots that are less than a page apart are one part, with what stands between them as it is: to write
        it again costs less than a call, and the ids of one producer's messages hash to slots that are near
        one another. A power cut may leave some sectors of a part unwritten, and no slot is in two.
        """
        assert self.look is not None
        parts: list[tuple[bytearray, int]] = []
        first = last = -_PART_BYTES_MAX
        noted = self._noted or []
        while self._noted_at < len(noted):
            slot, number = noted[self._noted_at]
            is_far = (slot - last) * SLOT_BYTES > _PAGE_BYTES
            if is_far or (slot - first) * SLOT_BYTES >= _PART_BYTES_MAX:
                if len(parts) >= most:
                    break
                parts.append((bytearray(), HEADER_BYTES + slot * SLOT_BYTES))
                first = slot
            last = slot
            part, at = parts[-1]
            part += self.look[at + len(part) : HEADER_BYTES + slot * SLOT_BYTES + SLOT_BYTES]
            _pack_slot(part, len(part) - SLOT_BYTES, number)
            self._noted_at += 1
        return [(bytes(part), at) for part, at in parts]

    def forget_noted(self) -> None:
        """Forget what was noted; it is held on."""
        self._noted = None

    def drop_noted(self) -> int:
        """Forget the noted slots, which are written, and return the count of entries when they were noted.

        Those that have changed since are held on.
        """
        before, self._noted = self._noted_before, None
        self._held_slots = {slot: number for slot, number in self._held_slots.items() if number >= before}
        return before

    def held_slots_count(self) -> int:
        """Return how many slots are not yet written."""
        return len(self._held_slots)

    def drop_held(self) -> None:
        """Forget what is held, because it was cut off."""
        self._noted = None
        self.held.clear()
        self._held_slots.clear()
