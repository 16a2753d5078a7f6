"""A walk over the log from record head to record head, for the records that name others as done.

Of each record only its size and the position that it names are looked at: a start may have to walk over
millions of messages that never waited. `stored_again.py` says what such a name is.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from pyromq.broker.kinds.stored_again import position_named
from pyromq.codes import SysFlag
from pyromq.store.commitlog import CommitLog
from pyromq.wire.record import HOST_BYTES_V4, HOST_BYTES_V6, MAGIC_V1, MAGIC_V2, RECORD_BYTES_MIN

#: Size, magic, position, sysFlag and, when both hosts are IPv4, the prepared position.
_HEAD: Final = struct.Struct(">ii20xqi36xq")
_PREPARED: Final = struct.Struct(">q")
_PREPARED_AT: Final = 76
assert _HEAD.size == _PREPARED_AT + _PREPARED.size
_BORN_V6, _STORE_V6 = int(SysFlag.BORN_HOST_V6), int(SysFlag.STORE_HOST_V6)
_MORE_BYTES_V6: Final = HOST_BYTES_V6 - HOST_BYTES_V4

#: How many records are looked at in one step; some milliseconds.
STEP_RECORDS: Final = 1_000


class DoneNames(NamedTuple):
    """The names that a step of the walk met: where a record is, and which position it names as done.

    Halves of transactions are named too, in another way: at some of the positions no record begins.
    """

    names: list[tuple[int, int]]
    #: Where the step ended.
    reached: int


def walk_names(log: CommitLog, position: int, end: int) -> Iterator[DoneNames]:
    """Yield, step by step, what records from a position up to another name; the log may grow meanwhile."""
    while position < end:
        names: list[tuple[int, int]] = []
        position = _gather(log, position, end, names)
        yield DoneNames(names, position)


def _gather(log: CommitLog, position: int, end: int, names: list[tuple[int, int]]) -> int:
    """Add the names of the next records, for one step, and return where it ended."""
    for _ in range(STEP_RECORDS):
        segment = log.segment_at(position)
        if position >= end or segment is None:
            return end
        at = position - segment.base
        size, magic, itself, sys_flag, prepared = (
            _HEAD.unpack_from(segment.map, at) if segment.size - at >= _HEAD.size else (0, 0, 0, 0, 0)
        )
        if magic not in (MAGIC_V1, MAGIC_V2) or itself != position or size < RECORD_BYTES_MIN:
            position = _behind_no_record(log, position, end)
            continue
        if sys_flag & (_BORN_V6 | _STORE_V6):
            more = _MORE_BYTES_V6 * (bool(sys_flag & _BORN_V6) + bool(sys_flag & _STORE_V6))
            (prepared,) = _PREPARED.unpack_from(segment.map, at + _PREPARED_AT + more)
        if prepared > 0:
            names.append((position, position_named(prepared)))
        position += size
    return min(position, end)


def _behind_no_record(log: CommitLog, position: int, end: int) -> int:
    """Return where the next record is behind a blank, or behind damage that recovery passed over too."""
    behind = log.behind_blank(position)
    if behind > position:
        return behind
    return log.next_record(position, end) or end
