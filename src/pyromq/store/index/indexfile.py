"""One file of the key index: a hash table whose chains run from the newest message to the oldest.

    at
    0          header: time of the first and the last message, their positions (8 each),
               used slots and next entry number (4 each)
    40         slots, 4 bytes each: the number of the newest entry whose key hashes here, or 0
    40+4·S     entries, 20 bytes each: key hash 4, position 8, seconds since the first message 4,
               number of the entry before it in the same slot 4

    slot 17 ──► entry 9 ──► entry 4 ──► entry 1

Entry 0 is never used, so the count in the header starts at 1 (IndexFile.java, IndexHeader.java). The newest
entries and slots are held in memory and written together: an entry is 20 bytes at the end of the file, but
its slot is 4 bytes anywhere in 20 megabytes.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyromq.errors import StoreError
from pyromq.kernel import IS_COMPILED
from pyromq.store.files import Files
from pyromq.store.segment import Segment

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.store.index.index_tail import IndexTail
else:
    from pyromq._kernel.storage.tails import IndexTail

HEADER: Final = struct.Struct(">qqqqii")
HEADER_BYTES: Final = 40
SLOT: Final = struct.Struct(">i")
SLOT_BYTES: Final = 4
_UNSIGNED: Final = struct.Struct(">I")
ENTRY: Final = struct.Struct(">iqii")
ENTRY_BYTES: Final = 20
assert (HEADER.size, SLOT.size, ENTRY.size) == (HEADER_BYTES, SLOT_BYTES, ENTRY_BYTES)

#: Held slots are written when they are so many. Keys of many topics or producers are anywhere in the slots:
#: fewer would be a write each, and these are most of the slots' pages, sixteen in a write.
HELD_SLOTS_MAX: Final = 32_768
#: Held entries, which are one behind the other, are written when they are this many bytes.
HELD_ENTRIES_BYTES: Final = 1 << 16
#: A part of the slots is written for so many new keys: the last one before as many slots are held again.
_KEYS_A_PART: Final = 32
#: How many parts are made before they are written.
_PARTS_AT_ONCE: Final = 8
_NEVER_WRITTEN: Final = bytes(ENTRY_BYTES)
_CHUNK_BYTES: Final = 16384
_CARRIED: Final = b"\x80"
#: Whether the log has a message at a position that has a key of that hash; None for one that it removed.
HasKey = Callable[[int, int], bool | None]
_pack_slot = SLOT.pack


class IndexFile(IndexTail):
    """One index file: `put` until `count` is `entries_max`, `find` any time; `prepare` it before `put`."""

    __slots__ = (
        "_entries_at",
        "_has_unsynced",
        "_is_made",
        "_looked_at",
        "_noted_header",
        "_segment",
        "_settled",
        "_wanted",
        "path",
    )

    def __init__(self, files: Files, path: Path, *, slots: int, entries_max: int) -> None:
        super().__init__(slots, entries_max)
        self.path = path
        self._entries_at = HEADER_BYTES + slots * SLOT_BYTES
        self._segment = Segment(files, path, size=self._entries_at + entries_max * ENTRY_BYTES)
        self._has_unsynced = False
        self._is_made = True
        self._looked_at = 0
        #: The header as it was when slots were noted: what it counts has its slots when they are written.
        self._noted_header = b""
        #: How many entries there were when all was written that was held, and when that was last asked for.
        self._settled = self._wanted = 0

    @property
    def full_bytes(self) -> int:
        """The length of the whole file."""
        return self._segment.size

    def begin_behind(self, after: "IndexFile") -> None:
        """Begin where the file before this one ended."""
        self.begin_position = self.end_position = after.end_position
        self.begin_at_ms = self.end_at_ms = after.end_at_ms

    def make(self) -> None:
        """Make the file; until that succeeds everything is held in memory."""
        self._is_made = False
        self._segment.make()
        self._has_unsynced = True
        if self.end_position:
            self._segment.file.write(self._header(), 0)
        self._is_made = True

    def load(self, *, is_named: bool = True) -> None:
        """Read the header of a file that is there; `is_named`: its name survives a power cut."""
        self._segment.is_named = is_named
        header = HEADER.unpack(self._segment.file.read(HEADER_BYTES, 0))
        self.begin_at_ms, self.end_at_ms, self.begin_position, self.end_position = header[:4]
        self.slots_used, count = header[4:]
        self.count = min(max(count, 1), self.entries_max)

    def prepare(self) -> None:
        """See to it that the slots can be looked at, as far as there is a file."""
        if self.look is None and self._is_made:
            self.look = self._segment.map

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        held_from = self.count - len(self.held) // ENTRY_BYTES
        if number >= held_from:
            return ENTRY.unpack_from(self.held, (number - held_from) * ENTRY_BYTES)
        return ENTRY.unpack_from(self._segment.map, self._entries_at + number * ENTRY_BYTES)

    def settle_some(self) -> None:
        """Write a part of what is held, which is much.

        The slots that are held then are written part by part, so that nobody waits for all of them: so many
        for each call as keys came since the last one.
        """
        if len(self.held) >= HELD_ENTRIES_BYTES:
            self._write_entries()
        if not self.is_noted:
            if self.held_slots_count() < HELD_SLOTS_MAX:
                return
            self._note_slots()
            self._looked_at = self.count
        new, self._looked_at = self.count - self._looked_at, self.count
        self._write_slots(1 + new // _KEYS_A_PART)

    def begin_settling(self) -> None:
        """Have all that is held now written, by `settle_wanted`."""
        self._wanted = self.count
        self.forget_noted()

    def settle_wanted(self, parts: int = _PARTS_AT_ONCE) -> bool:
        """Write some of what was held when `begin_settling` was called; return whether nothing is left."""
        if self._settled < self._wanted and (self.held or self.held_slots_count()):
            if not self.is_noted:
                self._note_slots()
            self._write_slots(parts)
            return False
        return True

    def settle(self) -> None:
        """Write what is held: the entries first, so that no slot ever points at one that is not there."""
        if not self._is_made:
            self.make()
        self.begin_settling()
        while not self.settle_wanted():
            pass

    def _note_slots(self) -> None:
        self._write_entries()
        self.prepare()
        self.note_slots()
        self._noted_header = self._header()

    def _write_entries(self) -> None:
        if not self._is_made:
            self.make()
        if not self.held:
            return
        self._has_unsynced = True
        self._segment.file.write(self.held, self._entries_at + self.count * ENTRY_BYTES - len(self.held))
        self.held.clear()

    def _write_slots(self, count: int) -> None:
        """Write so many parts of the noted slots; after an error they are all held on."""
        self._has_unsynced = True
        try:
            while count > 0 and (parts := self.noted_parts(min(count, _PARTS_AT_ONCE))):
                self._segment.file.write_each(parts)
                count -= len(parts)
            if count > 0:
                # Whoever opens the file after a kill, or copies it, finds each counted entry by its slot.
                self._segment.file.write(self._noted_header, 0)
                self._settled = self.drop_noted()
        except StoreError:
            self.forget_noted()
            raise

    def take_unsynced(self) -> bool:
        """Return whether bytes were written since the last call."""
        unsynced, self._has_unsynced = self._has_unsynced, False
        return unsynced

    def _header(self) -> bytes:
        return HEADER.pack(
            self.begin_at_ms,
            self.end_at_ms,
            self.begin_position,
            self.end_position,
            self.slots_used,
            # A file without entries has 0 here, as RocketMQ leaves it.
            self.count if self.count > 1 else 0,
        )

    def sync(self) -> None:
        """Put what was written on the disk."""
        self._segment.sync()

    def covers(self, begin_ms: int, end_ms: int) -> bool:
        """Return whether messages of that time may be in here, by RocketMQ's rule (isTimeMatched)."""
        first, last = self.begin_at_ms, self.end_at_ms
        return (begin_ms < first and end_ms > last) or first <= begin_ms <= last or first <= end_ms <= last

    def candidates(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Yield positions of messages whose key has that hash, newest first."""
        self.prepare()
        number = self.newest(key_hash % self.slots)
        while number:
            its_hash, position, seconds, before = self._entry(number)
            if seconds < 0:
                break
            time_ms = self.begin_at_ms + seconds * 1000
            if its_hash == key_hash and begin_ms <= time_ms <= end_ms:
                yield position
            if not 0 < before < number or time_ms < begin_ms:
                break
            number = before

    def count_before(self, position: int, has_key: HasKey | None) -> int:
        """Return the number behind the last entry of a message before a log position, 1 when there is none.

        Those entries must have been synced. What follows them may be anything, also half an entry, so the
        last ones are looked up in the log.
        """
        count = 1 + bisect_left(range(1, self.entries_max), x=True, key=lambda n: self._is_past(n, position))
        while count > 1 and (self._is_past(count - 1, position) or not self._is_trusted(count - 1, has_key)):
            count -= 1
        return count

    def _is_trusted(self, number: int, has_key: HasKey | None) -> bool:
        at = self._entries_at + number * ENTRY_BYTES
        key_hash, position, _, _ = ENTRY.unpack(self._segment.file.read(ENTRY_BYTES, at))
        is_there = has_key(position, key_hash) if has_key is not None else True
        if is_there is None:
            # The log does not have it any more; but positions grow from entry to entry, and of a file whose
            # only entry is such a one nothing is lost.
            return number > 1 and not self._is_past(number - 1, position + 1)
        return is_there

    def cut(self, count: int, *, is_whole: bool = False) -> None:
        """Drop the entries from number `count` on, and mend the slots that knew them.

        There must be one before it. Those, and their slots, must have been synced; what follows them may be
        anything, unless `is_whole` says that all is there that was written.

        First the header forgets the entries, then the slots do, and then they go: whoever is killed in
        between finds slots that are right or lead to entries that are still there.
        """
        self.drop_held()
        self.count = count
        self._settled = 0
        mended = self._mended_slots(is_whole=is_whole)
        _, self.end_position, seconds, _ = self._entry(self.count - 1)
        self.end_at_ms = self.begin_at_ms + seconds * 1000
        self._has_unsynced = True
        self._segment.file.write(self._header(), 0)
        self._segment.file.write_each(
            [(_pack_slot(number), HEADER_BYTES + slot * SLOT_BYTES) for slot, number in mended.items()]
        )
        self._segment.wipe_from(self._entries_at + self.count * ENTRY_BYTES)

    def _is_past(self, number: int, position: int) -> bool:
        entry = self._segment.file.read(ENTRY_BYTES, self._entries_at + number * ENTRY_BYTES)
        # All zeros was never written: a key whose hash is 0, of the first message of a log, is one in 2³¹.
        return entry == _NEVER_WRITTEN or ENTRY.unpack(entry)[1] >= position

    def _mended_slots(self, *, is_whole: bool) -> dict[int, int]:
        """Return the slots that know a dropped entry, each with the newest that is left, or 0."""
        wrong, used = self._count_slots()
        mended: dict[int, int] = {}
        unknown: set[int] = set()
        for slot, number in wrong:
            newest = self._newest_left(slot, number) if is_whole else None
            if newest is None:
                unknown.add(slot)
            else:
                mended[slot] = newest
        if unknown:
            mended |= self._look_through(unknown)
        self.slots_used = used + sum(1 for number in mended.values() if number)
        return mended

    def _count_slots(self) -> tuple[list[tuple[int, int]], int]:
        """Return the slots that know a dropped entry, each with its number, and how many others are used.

        There are millions of slots. A chunk of them is taken as one long number, so that one addition asks
        all of them: what is added to a slot carries into its highest bit when the slot has at least that
        much. No good number has that bit itself.
        """
        wrong: list[tuple[int, int]] = []
        used = 0
        one_each = int.from_bytes(b"\0\0\0\1" * (_CHUNK_BYTES // SLOT_BYTES), "big")
        highest = one_each << 31
        to_carry_dropped, to_carry_used = highest - one_each * self.count, highest - one_each
        for at in range(HEADER_BYTES, self._entries_at, _CHUNK_BYTES):
            chunk = self._segment.file.read(min(_CHUNK_BYTES, self._entries_at - at), at)
            value = int.from_bytes(chunk, "big")
            if not value:
                continue
            negative = value & highest
            value ^= negative
            used += ((value + to_carry_used) & highest | negative).bit_count()
            dropped = (value + to_carry_dropped) & highest | negative
            if dropped:
                flags = dropped.to_bytes(len(chunk), "big")[::SLOT_BYTES]
                first = (at - HEADER_BYTES) // SLOT_BYTES
                wrong += [
                    (first + i, _UNSIGNED.unpack_from(chunk, i * SLOT_BYTES)[0]) for i in _places(flags)
                ]
        return wrong, used - len(wrong)

    def _newest_left(self, slot: int, number: int) -> int | None:
        """Return where the chain of a slot leaves the dropped entries, or None when it is no chain.

        Entries are written before the slots that know them, and their last field names the one before, so
        after a kill every chain is whole. Nothing is lost by looking twice: a chain that is not one says that
        the files are not what the killed process wrote.
        """
        entries = self._segment.map
        while number >= self.count:
            if number >= self.entries_max:
                return None
            key_hash, position, _, before = ENTRY.unpack_from(
                entries, self._entries_at + number * ENTRY_BYTES
            )
            if key_hash % self.slots != slot or position <= 0 or not 0 <= before < number:
                return None
            number = before
        return number

    def _look_through(self, slots: Collection[int]) -> dict[int, int]:
        """Return the newest entry that is left of each slot, or 0.

        The dropped entries cannot be asked: a power cut may have torn them, and one whose last field is
        missing looks like the first of its slot. So all that are left are looked through.
        """
        newest = dict.fromkeys(slots, 0)
        entries = self._segment.file.read((self.count - 1) * ENTRY_BYTES, self._entries_at + ENTRY_BYTES)
        for number, (key_hash, _, _, _) in enumerate(ENTRY.iter_unpack(entries), start=1):
            slot = key_hash % self.slots
            if slot in newest:
                newest[slot] = number
        return newest

    def forget_pages(self) -> None:
        """Give the map's pages back to the system."""
        self._segment.forget_pages()

    def retire(self) -> None:
        """Close the file for good; the caller removes it."""
        self.look = None
        self._segment.retire()

    def close(self) -> None:
        """Give the file back."""
        self.look = None
        self._segment.close()


def _places(flags: bytes) -> Iterator[int]:
    """Yield where a byte is not zero; there are few."""
    at = flags.find(_CARRIED)
    while at >= 0:
        yield at
        at = flags.find(_CARRIED, at + 1)
