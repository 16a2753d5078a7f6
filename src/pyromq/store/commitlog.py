"""The log of truth: every message of every topic, one behind the other.

    ┌ file 0 ───────────────────────────┐┌ file 1 ──────────
    │ record │ record │ … │ record │blank││ record │ record │ …
    └───────────────────────────────────┘└──────────────────
                                                          ▲ end

A record never crosses a file's end. When the next one, with eight bytes to spare for a blank behind it, does
not fit, a blank fills the file up and the record begins the next file. Bytes behind `end` are zeros or the
rest of a write that failed; they are never read, and the next append overwrites them.

Appending is one `pwrite`. `sync` may run in another thread while this one appends: it reads `committed` once,
syncs the files up to it, and then says how far the log is safe.

With a write buffer (`transientStorePoolEnable`) appending is a copy into memory, and `commit` writes the
buffer with one `pwrite`:

    │ record │ record │ record ┆ record │ record │
      synced ▲      committed ▲                  ▲ end

The files have the log up to `committed`; a process that is killed loses the rest. Whoever reads behind
`committed` has the buffer committed first, so that nobody sees a message that is not in its file.
"""

import logging
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pyromq.codes import SysFlag
from pyromq.errors import CorruptRecord, MessageTooLarge, StoreError
from pyromq.store.consumequeues import is_folder_name
from pyromq.store.files import Files
from pyromq.store.segment import Segment
from pyromq.store.segments import Segments
from pyromq.wire.record import (
    BLANK_BYTES,
    BORN_HOST_AT,
    HOST_BYTES_V4,
    HOST_BYTES_V6,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_BYTES_MIN,
    SYS_FLAG_AT,
    Record,
    decode_record,
    encode_blank,
    is_blank,
    look_at_record,
)

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_BORN_HOST_V6: Final = int(SysFlag.BORN_HOST_V6)
_log: Final = logging.getLogger(__name__)
#: The bytes that both kinds of records have in their magic.
_MAGIC: Final = _INT32.pack(MAGIC_V1)[:3]
assert _INT32.pack(MAGIC_V2)[:3] == _MAGIC
#: So many damaged records are reported one by one.
_NOTED_MAX: Final = 1000
#: How far a message is looked for whose queue entry is damaged.
_SEARCHED_BYTES: Final = 1 << 20
_COPY_BYTES: Final = 1 << 20
#: A write buffer that would be longer than this is committed before its time.
BUFFER_BYTES_MAX: Final = 16 << 20
#: A disk writes sectors whole; no smaller piece of a write is missing in its middle.
_EMPTY_SECTOR: Final = "\0" * 512


class CommitLog:
    """The files of the log, where it ends, and how far it is committed and synced."""

    __slots__ = (
        "_buffer",
        "_buffer_start",
        "_damaged",
        "_monotonic",
        "_roll_s",
        "_segments",
        "_tail",
        "end",
        "on_committed",
        "synced",
        "write_s",
        "written_from",
    )

    def __init__(
        self,
        files: Files,
        folder: Path,
        segment_bytes: int,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._segments = Segments(files, folder, segment_bytes)
        #: The file that is appended to.
        self._tail: Segment | None = None
        self.end = 0
        self.synced = 0
        #: Where this process began to append; what stands before it may have been damaged meanwhile.
        self.written_from = 0
        #: Seconds that the last append took, with the new file if it needed one.
        self.write_s = 0.0
        self._roll_s = 0.0
        self._monotonic = monotonic
        self._damaged: set[int] = set()
        #: What was appended and is in no file yet; None without a write buffer.
        self._buffer: bytearray | None = None
        self._buffer_start = 0
        #: Told up to where the log is committed, each time that the buffer was written.
        self.on_committed: Callable[[int], None] = lambda _position: None

    @property
    def is_buffered(self) -> bool:
        """Whether there is a write buffer."""
        return self._buffer is not None

    @property
    def committed(self) -> int:
        """Up to where the files have the log; may be read from another thread."""
        return self.end if self._buffer is None else self._buffer_start

    @property
    def min_position(self) -> int:
        """The position at which the oldest file begins; 0 when there is none."""
        row = self._segments.row
        return row[0].base if row else 0

    @property
    def segment_bytes(self) -> int:
        """The size of each file."""
        return self._segments.segment_bytes

    @property
    def segments(self) -> list[Segment]:
        """The files, oldest first."""
        return self._segments.row

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return self._segments.folder

    # Loading

    def load(self) -> None:
        """List the files; where the log ends in them is for `open_at` to say."""
        self._segments.load()

    def missing_bytes(self, safe_position: int) -> dict[Segment, int]:
        """Return the files that are too short although bytes behind their ends were safe, and their lengths.

        A file that is short behind the safe position is what a crash leaves.
        """
        lengths = {segment: self._segments.length_of(segment) for segment in self._segments.short()}
        return {
            segment: length for segment, length in lengths.items() if segment.base + length < safe_position
        }

    def open_at(self, end: int) -> None:
        """Make `end` the end of the log; what stands behind it is known to be zeros."""
        self.end = self.synced = self.written_from = end
        self._tail = self._segments.find(end)

    def cut_at(self, end: int, *, synced: int) -> None:
        """Make `end` the end of the log: what stands behind it is removed or reads as zeros, and is synced.

        What stands before it is whole, but after a kill it may be in the memory of the machine only; up to
        `synced` it is known to be on the disk.

        Old records must not be left there. The next ones overwrite them piece by piece, and a walk that came
        to the end of the new ones could find the beginning of an old one.
        """
        self._segments.cut(end)
        self._segments.sync_cut()
        self.open_at(end)
        self.synced = min(synced, end)

    def write_again(self, start: int) -> None:
        """Write everything from `start` to the end once more, as it is.

        A process that was killed may have seen a sync fail. The system then takes the bytes for written,
        shows them, and does not write them with the next sync either, which would promise what is not there.
        """
        for segment in self._segments.row:
            at, end = max(start - segment.base, 0), min(self.end, segment.end) - segment.base
            while at < end:
                data = segment.file.read(min(end - at, _COPY_BYTES), at)
                segment.file.write(data, at)
                at += len(data)

    # Appending

    def begin_buffering(self) -> None:
        """Append to a write buffer from now on, which `commit` writes."""
        self._buffer, self._buffer_start = bytearray(), self.end

    def commit(self) -> None:
        """Write the buffer to its file. After an error it still has everything, and may be tried again."""
        buffer, tail = self._buffer, self._tail
        if not buffer:
            return
        assert tail is not None
        tail.file.write(buffer, self._buffer_start - tail.base)
        buffer.clear()
        self._buffer_start = self.end
        self.on_committed(self.end)

    def room(self) -> int:
        """Return how many bytes the record or batch may have that still goes into the current file."""
        tail = self._tail
        return -1 if tail is None else tail.end - self.end - BLANK_BYTES

    def roll(self, size: int) -> None:
        """Fill the current file with a blank and begin the next, which must have room for `size` bytes."""
        if size + BLANK_BYTES > self.segment_bytes:
            raise MessageTooLarge(
                f"{size} bytes do not fit into a commit log file of {self.segment_bytes} bytes; "
                f"send less at a time, or raise mappedFileSizeCommitLog for a new store"
            )
        began_at = self._monotonic()
        self.commit()
        tail = self._tail
        if tail is not None and self.end < tail.end:
            tail.file.write(encode_blank(tail.end - self.end), self.end - tail.base)
            self.end = tail.end
        self._tail = self._segments.add(self.end)
        self.end = self._buffer_start = self._tail.base
        self._roll_s = self._monotonic() - began_at

    def append(self, data: bytes | memoryview) -> None:
        """Write a record, or several, at the end; they must fit into the current file."""
        tail, monotonic = self._tail, self._monotonic
        assert tail is not None
        began_at, end = monotonic(), self.end
        if self._buffer is None:
            (tail.opened_file or tail.file).write(data, end - tail.base)
        else:
            if len(self._buffer) + len(data) > BUFFER_BYTES_MAX:
                self.commit()
            self._buffer += data
        self.end = end + len(data)
        self.write_s = monotonic() - began_at + self._roll_s
        self._roll_s = 0.0

    def append_copied(self, data: bytes | memoryview) -> None:
        """Write records and blanks of another log at the end, over as many files as they need.

        A log that is copied has no write buffer.
        """
        with memoryview(data) as view:
            at = 0
            while at < len(view):
                tail = self._tail
                if tail is None or self.end == tail.end:
                    tail = self._tail = self._segments.add(self.end)
                part = view[at : at + tail.end - self.end]
                tail.file.write(part, self.end - tail.base)
                at += len(part)
                self.end += len(part)

    def take_back(self, end: int) -> None:
        """Remove what a failed write left behind the end that the log had before it."""
        self._segments.cut(end)
        self.end = end
        self._tail = self._segments.find(end)

    def begin_at(self, position: int) -> None:
        """Let a log without records begin at a position, where a file begins."""
        self._segments.remove(self._segments.detach_first(len(self._segments.row)))
        self._segments.add(position).sync()
        self.open_at(position)

    def wipe_tail(self) -> None:
        """Remove what a failed write left behind the end."""
        if self._tail is not None:
            self._tail.wipe_from(self.committed - self._tail.base)

    def sync(self) -> int:
        """Put everything committed so far on the disk and return the position up to which it is.

        May be called from another thread, by one thread at a time. Raises SyncFailed.
        """
        end, synced = self.committed, self.synced
        for segment in self._segments.row:
            if segment.end > synced and segment.base < end:
                segment.sync()
        self.synced = end
        return end

    # Reading

    def read(self, position: int, size: int) -> bytes | None:
        """Return the bytes of records, or None when they are not there, or not in one file."""
        segment = self.segment_at(position)
        if segment is None or size <= 0 or position + size > min(segment.end, self.end):
            return None
        at = position - segment.base
        return segment.map[at : at + size]

    def read_run(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes from a position on; fewer where a file or what is committed ends."""
        segment = self._segments.find(position)
        if segment is None:
            return b""
        end = min(position + size, segment.end, self.committed)
        return segment.map[position - segment.base : end - segment.base] if end > position else b""

    def segment_at(self, position: int) -> Segment | None:
        """Return the file that holds a position, None when none does; it has what is in the buffer too."""
        if self._buffer and position >= self._buffer_start:
            self.commit()
        return self._segments.find(position)

    def run_end(self, position: int) -> int:
        """Return up to where bytes from a position on can be read at once; the position if none can."""
        segment = self._segments.find(position)
        return position if segment is None else max(min(segment.end, self.committed), position)

    def record_bytes(self, position: int) -> bytes | None:
        """Return the record that begins at a position; None when it is no record's beginning."""
        head = self.read(position, RECORD_BYTES_MIN)
        if head is None:
            return None
        data = self.read(position, _INT32.unpack_from(head)[0])
        if data is None:
            return None
        try:
            record = decode_record(data, check_crc=position < self.written_from)
        except CorruptRecord:
            return None
        return data if record.position == position else None

    def record_head(self, position: int) -> Record | None:
        """Return the record that begins at a position, without its body; None when none does."""
        segment = self.segment_at(position)
        if segment is None or position >= self.end:
            return None
        with memoryview(segment.map) as view:
            try:
                record = decode_record(view, position - segment.base, check_crc=False, with_body=False)
            except CorruptRecord:
                return None
        return record if record.position == position else None

    def has_message(self, position: int, size: int, topic: str, queue_id: int, offset: int) -> bool:
        """Return whether a whole record stands at a position, and is the one that a queue means."""
        data = self.read(position, size)
        if data is None:
            return False
        try:
            record = decode_record(data)
        except CorruptRecord:
            return False
        is_here = record.position == position and record.size == size
        return is_here and (record.topic, record.queue_id, record.queue_offset) == (topic, queue_id, offset)

    def count_whole(self, position: int, sizes: Sequence[int], topic: str, queue_id: int, offset: int) -> int:
        """Return how many of the records that stand one behind the other are whole, and a queue's next ones.

        It is `has_message` for many records, without making objects of them.
        """
        segment = self.segment_at(position)
        if segment is None:
            return 0
        at, name = position - segment.base, topic.encode("utf-8", "replace")
        with memoryview(segment.map) as view:
            for count, size in enumerate(sizes):
                try:
                    head, _, _, topic_at, properties_at, _ = look_at_record(view, at)
                except CorruptRecord:
                    return count
                expected = (size, queue_id, offset + count, segment.base + at)
                if (head[0], head[3], *head[5:7]) != expected or view[topic_at : properties_at - 2] != name:
                    return count
                at += size
        return len(sizes)

    def find_message(
        self, topic: str, queue_id: int, offset: int, start: int, before: int
    ) -> tuple[int, int] | None:
        """Return position and size of a queue's message that stands not far behind `start`, or None."""
        before = min(before, start + _SEARCHED_BYTES, self.end)
        for record in self.walk(start):
            if record.position >= before:
                return None
            if (record.topic, record.queue_id, record.queue_offset) == (topic, queue_id, offset):
                return record.position, record.size
        return None

    def note_damage(self, position: int, who: str) -> None:
        """Report once that a record cannot be served."""
        if position not in self._damaged and len(self._damaged) < _NOTED_MAX:
            self._damaged.add(position)
            what = self.why_no_record(position) or f"it does not stand at {position} of the log"
            _log.error("damaged: %s: %s; `pyromq store verify FOLDER` tells more", who, what)

    def stored_at(self, position: int) -> int | None:
        """Return the stored time of the record at a position, which must be a record's beginning."""
        at = position - self._buffer_start
        if self._buffer and at >= 0:
            # A time is no message: nothing has to be committed for it.
            head: bytes | None = bytes(self._buffer[at : at + RECORD_BYTES_MIN])
        else:
            head = self.read(position, RECORD_BYTES_MIN)
        return stored_at_of(head) if head else None

    def walk(self, start: int, *, check_crc: bool = True) -> Iterator[Record]:
        """Yield the records from a position on, checked; return at the first that is none.

        Does not look at `end`, which is what recovery uses it to find: the walk ends behind the last record
        it yielded. A blank leads to the next file.
        """
        position = start
        while (segment := self.segment_at(position)) is not None:
            record = _record_in(segment, position, check_crc=check_crc)
            if record is None:
                return
            if record.size:
                yield record
                position += record.size
            else:
                position = segment.end

    def walk_marked(self, start: int, mark: bytes) -> Iterator[Record]:
        """Yield the records from a position to `end` that have certain bytes; return at what is no record.

        The others are stepped over by their sizes, and files without those bytes are not looked at further:
        this is ten times faster than `walk` where few are marked.
        """
        position = start
        self.commit()
        while position < self.end and (segment := self.segment_at(position)) is not None:
            at, data = position - segment.base, segment.map
            limit = min(self.end - segment.base, segment.size)
            found = data.find(mark, at, limit)
            while found >= 0:
                size = _INT32.unpack_from(data, at)[0]
                if size < RECORD_BYTES_MIN or at + size > limit:
                    return
                if at + size > found:
                    record = _record_in(segment, segment.base + at, check_crc=False)
                    if record is None:
                        return
                    yield record
                    found = data.find(mark, at + size, limit)
                at += size
            position = segment.end

    def why_no_record(self, position: int) -> str | None:
        """Return what is wrong at a position where a walk ended; None when nothing was ever written there."""
        position = self.behind_blank(position)
        segment = self.segment_at(position)
        if segment is None or not _has_bytes(segment, position - segment.base):
            return None
        try:
            with memoryview(segment.map) as view:
                record = decode_record(view, position - segment.base)
        except CorruptRecord as error:
            return f"{segment.path} at byte {position - segment.base}: {error}"
        if record.position != position:
            what = f"says that its position is {record.position}"
        elif is_torn(record.properties):
            what = "has properties that were not written to their end"
        else:
            what = f"has no place in a queue: {record.queue_id}, offset {record.queue_offset}"
        place = f"{segment.path} at byte {position - segment.base}"
        return f"{place}: the record there, of topic {record.topic!r}, {what}"

    def behind_blank(self, position: int) -> int:
        """Return where the next file begins when only a blank stands at a position, else the position."""
        segment = self.segment_at(position)
        if segment is None:
            return position
        with memoryview(segment.map) as view:
            return segment.end if is_blank(view, position - segment.base) else position

    def next_record(self, position: int, before: int) -> int | None:
        """Return where the first whole record behind a position begins, if it does before another."""
        for segment in self._segments.row:
            at = max(position + 1 - segment.base, 0)
            while segment.end > position and (at := segment.map.find(_MAGIC, at + MAGIC_AT)) >= 0:
                at -= MAGIC_AT
                if segment.base + at >= before:
                    return None
                record = _record_in(segment, segment.base + at, check_crc=True)
                if record is not None and record.size:
                    return segment.base + at
                at += 1
        return None

    # Retention

    def detach_first(self, count: int) -> list[Segment]:
        """Take the oldest files out of the log; the caller removes them."""
        if count >= len(self._segments.row):
            raise StoreError("the last file of the log is never removed")
        return self._segments.detach_first(count)

    def forget_pages(self) -> None:
        """Give the maps' pages back to the system."""
        for segment in self._segments.row:
            segment.forget_pages()

    def close(self) -> None:
        """Give all files back."""
        self._segments.close()


def stored_at_of(head: bytes) -> int:
    """Return the stored time from the first 91 bytes of a record."""
    sys_flag: int = _INT32.unpack_from(head, SYS_FLAG_AT)[0]
    born_host_bytes = HOST_BYTES_V6 if sys_flag & _BORN_HOST_V6 else HOST_BYTES_V4
    stored_at_ms: int = _INT64.unpack_from(head, BORN_HOST_AT + born_host_bytes)[0]
    return stored_at_ms


_BLANK: Final = Record(topic="", body=b"")


def _record_in(segment: Segment, position: int, *, check_crc: bool) -> Record | None:
    """Return the record at a position, a record of size 0 for a blank, or None."""
    at = position - segment.base
    with memoryview(segment.map) as view:
        if is_blank(view, at) or segment.size - at < BLANK_BYTES:
            return _BLANK
        try:
            record = decode_record(view, at, check_crc=check_crc)
        except CorruptRecord:
            return None
    is_here = record.position == position and is_folder_name(record.topic)
    is_here = is_here and record.queue_id >= 0 and record.queue_offset >= 0
    return record if is_here and not is_torn(record.properties) else None


def is_torn(properties: str) -> bool:
    """Return whether the end of a record, or a sector in it, was never written and reads as zeros.

    The checksum of a record covers its body, and the lengths stand before the properties: of a torn write
    whose last sectors are missing, nothing else tells. The store takes no properties that look like that.
    """
    return "\0" in properties and (properties.endswith("\0") or _EMPTY_SECTOR in properties)


def _has_bytes(segment: Segment, at: int) -> bool:
    """Return whether anything but zeros stands at `at`, as far as a record's head goes."""
    return any(segment.file.read(RECORD_BYTES_MIN, at))
