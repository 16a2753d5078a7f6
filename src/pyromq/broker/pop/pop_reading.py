"""Messages that a pop finds in a queue: as they are stored, and the words of a handle for each."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyromq.broker.pop.pop_asks import PopFilter
from pyromq.codes import SysFlag
from pyromq.kernel import IS_COMPILED
from pyromq.store.reading import GetStatus
from pyromq.store.store import MessageStore
from pyromq.wire.record import HOST_BYTES_V4, HOST_BYTES_V6

Split = tuple[list[int], list[int], list[int], list[int]]

_split_compiled: Callable[[bytes], Split | None] | None = None
if IS_COMPILED:
    # Only then: without a compiler there is nothing to import.
    from pyromq._kernel.requests.popped_records import split_records as _split_compiled

#: Size, queue offset, position, sysFlag.
_HEAD: Final = struct.Struct(">i16xqqi")
_RECONSUME_TIMES: Final = struct.Struct(">i")
_RECONSUME_TIMES_AT: Final = 72
_BORN_V6, _STORE_V6 = int(SysFlag.BORN_HOST_V6), int(SysFlag.STORE_HOST_V6)
_MORE_BYTES_V6: Final = HOST_BYTES_V6 - HOST_BYTES_V4
#: Reads of one queue in one pop, each of which may pass over hundreds of messages that nobody wants. By their
#: properties it is a record that is read each time.
_READS_MAX: Final = 20
_MOVED_ON: Final = frozenset(
    {
        GetStatus.NO_MATCHED_MESSAGE,
        GetStatus.MESSAGE_WAS_REMOVING,
        GetStatus.OFFSET_FOUND_NULL,
        GetStatus.OFFSET_TOO_SMALL,
        GetStatus.OFFSET_OVERFLOW_BADLY,
    }
)


@dataclass(slots=True)
class ReadMessages:
    """Messages of a queue. `next_offset` is behind the last one that was looked at."""

    next_offset: int
    #: Whether there may be more behind it that nobody looked at.
    is_more: bool = False
    body: bytes = b""
    sizes: list[int] | tuple[int, ...] = ()
    offsets: list[int] | tuple[int, ...] = ()
    positions: list[int] | tuple[int, ...] = ()
    #: How often each was delivered, with this time.
    attempts: list[int] | tuple[int, ...] = ()


def read_messages(
    store: MessageStore, topic: str, queue_id: int, offset: int, count: int, wanted: PopFilter
) -> ReadMessages:
    """Return up to `count` messages of a queue from an offset on; one that is wrong is corrected."""
    for _ in range(1 if wanted.matches is not None else _READS_MAX):
        got = store.get(topic, queue_id, offset, count_max=count, wants=wanted.tags, matches=wanted.matches)
        if got.status is GetStatus.FOUND:
            return _split(got.body, got.next_offset)
        if got.status not in _MOVED_ON or got.next_offset == offset:
            return ReadMessages(offset)
        offset = got.next_offset
    return ReadMessages(offset, is_more=True)


def _split(body: bytes, next_offset: int) -> ReadMessages:
    split = None if _split_compiled is None else _split_compiled(body)
    sizes, offsets, positions, attempts = split_records(body) if split is None else split
    return ReadMessages(
        next_offset, body=body, sizes=sizes, offsets=offsets, positions=positions, attempts=attempts
    )


def split_records(body: bytes) -> Split:
    """Return sizes, queue offsets, positions and delivery attempts of records one behind the other."""
    sizes, offsets, positions, attempts = [], [], [], []
    at, end = 0, len(body)
    unpack = _HEAD.unpack_from
    while at < end:
        size, offset, position, sys_flag = unpack(body, at)
        times_at = at + _RECONSUME_TIMES_AT
        if sys_flag & (_BORN_V6 | _STORE_V6):
            times_at += _MORE_BYTES_V6 * (bool(sys_flag & _BORN_V6) + bool(sys_flag & _STORE_V6))
        sizes.append(size)
        offsets.append(offset)
        positions.append(position)
        attempts.append(_RECONSUME_TIMES.unpack_from(body, times_at)[0] + 1)
        at += size
    return sizes, offsets, positions, attempts
