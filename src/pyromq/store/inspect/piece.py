"""One piece of a log file, read and checked on its own, so that several processes can share a log.

A piece is some tens of megabytes of one file. The first of a file begins with a record; the others look for
the first record behind their beginning, and whoever joins the pieces sees whether that is where the piece
before it ended. A record that does not read is skipped up to the next one that does, which says at which
position it stands, so that nothing else is taken for one.

    file ├── piece ──────┼── piece ──────┼── piece ───┤ zeros
         │rec│rec│r e c │rec│ ? ? ? │rec│ rec │ blank │
                                ▲ unreadable
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from pyromq.errors import CorruptRecord
from pyromq.kernel import IS_COMPILED
from pyromq.store.commitlog import is_torn
from pyromq.store.consumequeues import is_folder_name
from pyromq.store.inspect.compare import KeyRange, KeysCompared, RunCompared, compare_keys, compare_run
from pyromq.store.inspect.facts import Facts
from pyromq.store.inspect.findings import REMEDY_LOG, StoreFinding
from pyromq.store.inspect.read_only_files import FileGone, ReadOnlyFile
from pyromq.store.inspect.store_survey import RowFile, StoreSurvey
from pyromq.wire.record import (
    BLANK_BYTES,
    BLANK_MAGIC,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_BYTES_MAX,
    RECORD_BYTES_MIN,
    SYS_FLAG_AT,
    Record,
    body_crc,
    can_be_record,
    decode_record,
    record_size,
)

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.store.inspect.scan import scan
else:
    from pyromq._kernel.storage.facts import scan

PIECE_BYTES: Final = 64 << 20
_BLOCK_BYTES: Final = 1 << 20
_SIZE_MAGIC: Final = struct.Struct(">ii")
_INT32: Final = struct.Struct(">i")
#: Enough for the head of a record with IPv6 hosts, and the most that can follow its body.
_HEAD_BYTES_MAX: Final = 128
_TAIL_BYTES_MAX: Final = 2 * PROPERTIES_BYTES_MAX + 4
_MARKS: Final = re.compile(
    b"|".join(re.escape(_SIZE_MAGIC.pack(0, magic)[4:]) for magic in (MAGIC_V1, MAGIC_V2, BLANK_MAGIC)),
    re.DOTALL,
)


class PieceEnding(Enum):
    """The way a piece ended."""

    AT_STOP = "at the next piece"
    BLANK = "with the blank that ends a file"
    TORN = "with bytes behind which no record is"
    GONE = "the file was removed meanwhile"


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes `start` to `stop` of a file: the records that begin there are the piece's."""

    file: RowFile
    start: int
    stop: int
    #: Whether a record is known to begin at `start`.
    is_exact: bool
    #: The index entries that point into the piece.
    keys: tuple[KeyRange, ...] = ()


@dataclass(slots=True)
class PieceChecked:
    """The result of checking a piece: its records, and the findings."""

    piece: LogPiece
    #: Where the first record begins and the last ends, as bytes of the file; None when there is none.
    start: int | None = None
    end: int = 0
    ending: PieceEnding = PieceEnding.AT_STOP
    records: int = 0
    newest: int = -1
    findings: list[StoreFinding] = field(default_factory=list)
    #: Positions of records whose topic or queue cannot be believed.
    distrusted: list[int] = field(default_factory=list)
    #: From position to position: bytes that are no records.
    unreadable: list[tuple[int, int]] = field(default_factory=list)
    runs: list[RunCompared] = field(default_factory=list)
    keys: KeysCompared = field(default_factory=KeysCompared)


def check_piece(survey: StoreSurvey, piece: LogPiece) -> PieceChecked:
    """Read a piece and compare it with what follows the log."""
    checked = PieceChecked(piece, end=piece.start)
    facts = Facts(survey.delays_ms)
    try:
        with ReadOnlyFile(piece.file.path) as file:
            _Walk(file, checked, facts).run()
    except FileGone:
        checked.ending = PieceEnding.GONE
        return checked
    checked.records, checked.newest = facts.records, facts.newest
    checked.runs = [compare_run(survey, run) for run in facts.end()]
    checked.keys = compare_keys(survey, piece.keys, facts)
    return checked


class _Walk:
    """One walk over a piece."""

    def __init__(self, file: ReadOnlyFile, checked: PieceChecked, facts: Facts) -> None:
        self._file = file
        self._checked = checked
        self._facts = facts
        self._row_file = checked.piece.file

    def run(self) -> None:
        checked, piece = self._checked, self._checked.piece
        if not piece.is_exact:
            found = next_record(self._file, self._row_file, piece.start)
            if found is None or found >= piece.stop:
                checked.end = piece.stop if found is None else found
                return
            checked.end = found
        checked.start = checked.end
        while checked.ending is PieceEnding.AT_STOP and checked.end < piece.stop:
            self._block()

    def _block(self) -> None:
        """Check the records of one block; the last may be only partly in it and begins the next block."""
        checked, begin = self._checked, self._checked.end
        block = self._file.read(_BLOCK_BYTES, begin)
        at, limit = 0, min(checked.piece.stop - begin, len(block))
        while at < limit and checked.ending is PieceEnding.AT_STOP:
            at = scan(block, at, limit, self._row_file.base + begin, self._facts)
            checked.end = begin + at
            if at >= limit:
                return
            if at and not _is_whole(block, at) and begin + len(block) < self._row_file.length:
                return
            self._step(block, at)
            at = checked.end - begin

    def _step(self, block: bytes, at: int) -> None:
        """Look closely at what stands at one place, and go on behind it."""
        checked, row_file = self._checked, self._row_file
        place = checked.end
        look = look_at(self._file, row_file, place, block, at)
        checked.findings += [
            StoreFinding(str(row_file.path), place, what, REMEDY_LOG) for what in look.faults
        ]
        if look.is_blank:
            checked.ending = PieceEnding.BLANK
        elif look.record is not None:
            if look.is_usable:
                self._facts.take_in(look.record, row_file.base + place)
            else:
                checked.distrusted.append(row_file.base + place)
            checked.end += look.record.size
        else:
            self._skip(place, look.why)

    def _skip(self, place: int, why: str) -> None:
        checked, row_file = self._checked, self._row_file
        found = next_record(self._file, row_file, place + 1)
        until = found if found is not None else checked.piece.file.length
        checked.unreadable.append((row_file.base + place, row_file.base + until))
        if found is None:
            # Whether that is a fault depends on what stands behind this file.
            checked.ending = PieceEnding.TORN
            checked.findings.append(StoreFinding(str(row_file.path), place, why, REMEDY_LOG))
            return
        checked.end = found
        checked.findings.append(
            StoreFinding(
                str(row_file.path), place, f"{why}; the next record that reads is at byte {found}", REMEDY_LOG
            )
        )


@dataclass(slots=True)
class LogLook:
    """The record or blank at one place of the log, or the reason why there is none."""

    #: The record there, if its lengths add up.
    record: Record | None = None
    is_blank: bool = False
    #: Whether the record's topic and queue can be believed.
    is_usable: bool = True
    #: Why there is no record.
    why: str = ""
    #: What is wrong with the record or the blank.
    faults: list[str] = field(default_factory=list)


def look_at(file: ReadOnlyFile, row_file: RowFile, place: int, block: bytes = b"", at: int = 0) -> LogLook:
    """Say what stands at a byte of a log file; `block` may hold the bytes from `at` on."""
    left = row_file.length - place
    if left < BLANK_BYTES:
        return LogLook(is_blank=True)
    if len(block) - at < _HEAD_BYTES_MAX:
        block, at = file.read(_HEAD_BYTES_MAX, place), 0
    if len(block) - at < BLANK_BYTES:
        return LogLook(why="the file was cut while it was looked at")
    size, magic = _SIZE_MAGIC.unpack_from(block, at)
    if magic == BLANK_MAGIC:
        wrong = [f"the blank says that {size} bytes are left in the file, but it is {left}"]
        return LogLook(is_blank=True, faults=wrong if size != left else [])
    if not can_be_record(size, magic, left):
        return LogLook(why=_why_no_record(size, magic, left))
    if not _adds_up(block, at, size):
        return LogLook(why=f"a record of {size} bytes says that its body has more, or much less")
    if len(block) - at < size:
        block, at = file.read(size, place), 0
    try:
        record = decode_record(block, at, check_crc=False)
    except CorruptRecord:
        return LogLook(why=f"a record of {size} bytes whose body, topic and properties do not add up to it")
    return _look_into(record, row_file.base + place)


def _adds_up(block: bytes, at: int, size: int) -> bool:
    """Return whether a record's size can be right, by what it says of its body, before so much is read."""
    (sys_flag,) = _INT32.unpack_from(block, at + SYS_FLAG_AT)
    least = record_size(0, 0, 0, sys_flag)
    # The length of the body stands before the lengths of topic and properties, three bytes or four.
    at += least - 3 - _INT32.size
    if at + _INT32.size > len(block):
        return False
    (body_bytes,) = _INT32.unpack_from(block, at)
    return bool(0 <= size - least - body_bytes <= _TAIL_BYTES_MAX and body_bytes >= 0)


def _why_no_record(size: int, magic: int, left: int) -> str:
    if not size and not magic:
        return "zeros where a record should begin"
    if magic in (MAGIC_V1, MAGIC_V2):
        return f"a record says that it has {size} bytes; at most {left} are possible here"
    return f"no record begins here: the magic is {magic & 0xFFFFFFFF:#010x}"


def _look_into(record: Record, position: int) -> LogLook:
    look = LogLook(record=record)
    whose = f"the message {record.queue_offset} of queue {record.queue_id} of {record.topic!r}"
    crc = body_crc(record.body)
    if crc != record.body_crc:
        look.faults.append(
            f"the body of {whose} has the checksum {crc:#010x}; the record says {record.body_crc:#010x}"
        )
    if record.position != position:
        look.faults.append(f"{whose} says that its position is {record.position}, but it is {position}")
    if not is_folder_name(record.topic) or record.queue_id < 0 or record.queue_offset < 0:
        look.is_usable = False
        look.faults.append(f"{whose}: no queue can have that name or number")
    if is_torn(record.properties):
        look.is_usable = False
        look.faults.append(f"{whose}: the end of its properties was never written")
    return look


def next_record(file: ReadOnlyFile, row_file: RowFile, start: int) -> int | None:
    """Return the first byte from `start` on where a record or the file's last blank begins, else None.

    A record must say the position that it stands at, so that a body which holds records is not taken for
    them.
    """
    for place in _marked(file, row_file.length, start):
        look = look_at(file, row_file, place)
        if look.record is not None and look.record.position == row_file.base + place:
            return place
        if look.is_blank and not look.faults:
            return place
    return None


def _marked(file: ReadOnlyFile, length: int, start: int) -> Iterator[int]:
    """Yield the places from `start` on whose second four bytes are a magic."""
    at = start
    end = file.last_byte_but_zeros(length)
    while at < end:
        block = file.read(_BLOCK_BYTES, at)
        for mark in _MARKS.finditer(block, 4):
            yield at + mark.start() - 4
        if len(block) < _BLOCK_BYTES:
            return
        # The next block begins early enough to see a magic that lies across the two.
        at += len(block) - 7


def _is_whole(block: bytes, at: int) -> bool:
    """Return whether a block has all bytes of the record or blank at `at`, as far as its size tells."""
    if len(block) - at < RECORD_BYTES_MIN:
        return False
    size, magic = _SIZE_MAGIC.unpack_from(block, at)
    return bool(magic not in (MAGIC_V1, MAGIC_V2) or size <= len(block) - at)
