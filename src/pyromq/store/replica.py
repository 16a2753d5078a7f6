"""The log of a master, copied: bytes that are cut anywhere become records again.

    frames     ┌────────┐┌────────┐┌────────┐
    records    ├──────┤├────────────────┤├──
                      ▲                 ▲   ▲
                      whole             │   end: written, and acknowledged to the master
                                        whole, after the third frame

A slave writes what it is sent at once and as it is, so that its log is the master's byte for byte. The
beginning of a record whose rest has not come is kept here too, and the record reaches the followers when it
is whole. The blank at a file's end is such a piece as well: it ends with the file.

What is no record is found before anything of it is written, as far as the bytes tell. A kill in the middle of
a record leaves a torn end, which recovery cuts off, and the slave asks for it again.
"""

import struct
from typing import Final, NamedTuple

from pyromq.errors import CorruptRecord
from pyromq.store.consumequeues import is_folder_name
from pyromq.wire.record import (
    BLANK_BYTES,
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    POSITION_AT,
    RECORD_BYTES_MIN,
    Record,
    decode_record,
)

_unpack_head: Final = struct.Struct(">ii").unpack_from
_unpack_int64: Final = struct.Struct(">q").unpack_from
_POSITION_END: Final = POSITION_AT + 8
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)


class Split(NamedTuple):
    """A frame, looked at: the records that it completes, and the beginning of the one behind them.

    `rest` is None when the whole frame goes on with what was there before. `needed` is how many bytes there
    must be of the next record before it is worth a look.
    """

    records: list[Record]
    rest: bytes | None
    needed: int


class Arriving:
    """The beginning of a record whose rest has not come yet; the log has these bytes already."""

    __slots__ = ("_needed", "_segment_bytes", "partial")

    def __init__(self, segment_bytes: int) -> None:
        self._segment_bytes = segment_bytes
        self.partial = bytearray()
        self._needed = BLANK_BYTES

    def split(self, data: bytes | memoryview, end: int) -> Split:
        """Look at bytes that follow at the log's end, and change nothing.

        Raises CorruptRecord when they, with those before them, are no records.
        """
        partial = self.partial
        if partial and len(partial) + len(data) < self._needed:
            return Split([], None, self._needed)
        records: list[Record] = []
        with memoryview(partial + data if partial else data) as buffer:
            start, at, left = end - len(partial), 0, len(buffer)
            needed = self._size_at(buffer, 0, start)
            while left >= abs(needed):
                if needed > 0:
                    records.append(_record_at(buffer, at, start + at))
                at, left = at + abs(needed), left - abs(needed)
                needed = self._size_at(buffer, at, start + at)
            return Split(records, bytes(buffer[at:]), abs(needed))

    def keep(self, data: bytes | memoryview, split: Split) -> None:
        """Remember what is not whole of bytes that were written."""
        if split.rest is None:
            self.partial += data
        else:
            self.partial = bytearray(split.rest)
        self._needed = split.needed

    def forget(self) -> None:
        """Forget the beginning of a record."""
        self.partial = bytearray()
        self._needed = BLANK_BYTES

    def _size_at(self, buffer: memoryview, at: int, position: int) -> int:
        """Return how many bytes the next piece has, negative for a blank; 8 when that is not known yet."""
        room = self._segment_bytes - position % self._segment_bytes
        if room < BLANK_BYTES:
            return -room
        left = len(buffer) - at
        if left < BLANK_BYTES:
            return BLANK_BYTES
        size, magic = _unpack_head(buffer, at)
        if magic == BLANK_MAGIC:
            return -room
        if magic not in _MAGICS or not RECORD_BYTES_MIN <= size <= room:
            raise CorruptRecord(
                f"what the master sent for position {position} of the log is no record: size {size}, "
                f"magic {magic & 0xFFFFFFFF:#x}; the file has room for {room} bytes. "
                f"mappedFileSizeCommitLog must be the master's"
            )
        if left >= _POSITION_END and _unpack_int64(buffer, at + POSITION_AT)[0] != position:
            raise CorruptRecord(f"a record of another place came for position {position} of the log")
        return int(size)


def _record_at(buffer: memoryview, at: int, position: int) -> Record:
    record = decode_record(buffer, at)
    if not is_folder_name(record.topic) or record.queue_id < 0 or record.queue_offset < 0:
        raise CorruptRecord(
            f"the record that came for position {position} of the log has no place in a queue: "
            f"{record.topic!r}, {record.queue_id}, offset {record.queue_offset}"
        )
    return record
