"""The log of a master, copied: bytes that are cut anywhere become records again.

    frames     ┌────────┐┌────────┐┌────────┐
    records    ├──────┤├────────────────┤├──
                      ▲                 ▲   ▲
                      written           │   arrived, and acknowledged to the master
                                        written, after the third frame

A slave's log is the master's byte for byte. The beginning of a record whose rest has not come stays in
memory: each write is of whole records, as a master's is. Were the pieces of one record written as they come,
a power cut could leave it with a hole, and where only its head was hit no checksum would tell. Whoever loses
the beginning of a record asks for it again. The blank at a file's end is such a piece as well: it ends with
the file.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pyromq.errors import CorruptRecord
from pyromq.kernel import IS_COMPILED
from pyromq.store.consumequeue import ConsumeQueue
from pyromq.store.consumequeues import is_folder_name
from pyromq.store.follower import has_queue_entry
from pyromq.system_names import SCHEDULE, WHEEL_TIMER
from pyromq.wire.properties import DELAY, TIMER_OUT_MS
from pyromq.wire.record import (
    BLANK_BYTES,
    BLANK_MAGIC,
    POSITION_AT,
    Record,
    can_be_record,
    decode_record,
)

if TYPE_CHECKING:
    from pyromq._kernel.storage.copies import Copies

_unpack_head: Final = struct.Struct(">ii").unpack_from
_unpack_int64: Final = struct.Struct(">q").unpack_from
_POSITION_END: Final = POSITION_AT + 8


class Arrived(NamedTuple):
    """Bytes that were looked at: whole records and blanks, to be written, and what stands behind them.

    `needed` is how many bytes there must be of the next record before it is worth a look.
    """

    whole: memoryview
    records: list[Record]
    rest: memoryview
    needed: int


class Arriving:
    """The beginning of a record whose rest has not come yet."""

    __slots__ = ("_needed", "_segment_bytes", "partial")

    def __init__(self, segment_bytes: int) -> None:
        self._segment_bytes = segment_bytes
        self.partial = bytearray()
        self._needed = BLANK_BYTES

    def take(
        self, parts: Sequence[bytes | memoryview], end: int, plan: Callable[[memoryview, int], int]
    ) -> Arrived | None:
        """Look at more bytes, in parts; the log ends at `end`. None: they are kept, and complete nothing.

        Otherwise they are kept by `keep`. `plan` may take records at the front; it is told the bytes and how
        many of them the file has room for, and returns how many it took. Raises CorruptRecord when the bytes,
        with those before, are no records.
        """
        partial = self.partial
        if partial and len(partial) + sum(map(len, parts)) < self._needed:
            for part in parts:
                partial += part
            return None
        # Copied once at most: the kernel plans, and the file is written, from one piece of memory.
        buffer = memoryview(parts[0] if len(parts) == 1 and not partial else b"".join((partial, *parts)))
        records: list[Record] = []
        at = plan(buffer, self._segment_bytes - end % self._segment_bytes)
        left = len(buffer) - at
        size = self._size_at(buffer, at, end + at)
        while left >= abs(size):
            if size > 0:
                records.append(_record_at(buffer, at, end + at))
            at, left = at + abs(size), left - abs(size)
            size = self._size_at(buffer, at, end + at)
        return Arrived(buffer[:at], records, buffer[at:], abs(size))

    def keep(self, arrived: Arrived) -> None:
        """Remember what is not whole of bytes whose beginning was written."""
        if self.partial or arrived.rest:
            self.partial = bytearray(arrived.rest)
        self._needed = arrived.needed

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
        if not can_be_record(size, magic, room):
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


def make_copies(*, has_index: bool) -> "Copies | None":
    """Return what plans plain records without a Python object for each; None where there is no kernel."""
    if not IS_COMPILED:
        return None
    # Only now: without a compiler there is nothing to import.
    from pyromq._kernel.storage.copies import Copies

    return Copies(has_index=has_index)


def learn_copy(copies: "Copies", record: Record, queue: ConsumeQueue, delays_ms: Mapping[int, int]) -> None:
    """Let the kernel plan the next records of the queue that got one, unless that is not plain."""
    topic = record.topic
    if not topic.isascii() or not has_queue_entry(record.sys_flag):
        return
    if topic == WHEEL_TIMER:
        copies.learn(topic.encode(), record.queue_id, queue, TIMER_OUT_MS.encode())
    elif topic != SCHEDULE:
        copies.learn(topic.encode(), record.queue_id, queue)
    elif delays_ms:
        levels = [delays_ms[level] for level in sorted(delays_ms)]
        copies.learn(topic.encode(), record.queue_id, queue, DELAY.encode(), levels)
