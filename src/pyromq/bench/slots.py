"""What a slot of a connection does: it has one request under way at a time, and knows the next one."""

import struct
from typing import Final, Protocol

from pyromq.bench.frames import Answer, PullFrame, SendFrame
from pyromq.bench.workload import Tally
from pyromq.codes import ResponseCode, SysFlag
from pyromq.wire.record import BORN_HOST_AT, HOST_BYTES_V4, HOST_BYTES_V6, SYS_FLAG_AT

_UINT64: Final = struct.Struct(">Q")
#: A plain number: an enum member is looked up and compared more slowly, for each message.
_SUCCESS: Final = int(ResponseCode.SUCCESS)
_INT32: Final = struct.Struct(">i")
#: Between the two hosts the time of storing; behind them reconsume times, prepared position, body length.
_BETWEEN_HOSTS: Final = 8
_BEHIND_HOSTS: Final = 4 + 8 + 4


class Slot(Protocol):
    """One request at a time on one connection."""

    is_paced: bool
    """Whether the clock decides when the next request leaves; if not, it leaves when the last is answered."""
    is_waited_for: bool
    """Whether the answer comes soon, so that a run ends when it is there; a held pull's does not."""
    since_ns: int
    """From when on the answer is waited for: the time at which the request was to leave."""

    def request(self, born_ms: bytes) -> bytes | bytearray | None:
        """Return the next request's frame, or None when this slot is done."""
        ...

    def answered(self, answer: Answer, now_ns: int, tally: Tally) -> None:
        """Take the answer."""
        ...


class SendSlot:
    """Sends messages to one queue."""

    __slots__ = ("_batch", "_frame", "_is_stamped", "is_paced", "is_waited_for", "since_ns")

    def __init__(self, frame: SendFrame, *, batch: int, is_paced: bool, is_stamped: bool) -> None:
        self._frame = frame
        self._batch = batch
        self._is_stamped = is_stamped
        self.is_paced = is_paced
        self.is_waited_for = True
        self.since_ns = 0

    def request(self, born_ms: bytes) -> bytearray:
        """Return the next send; it always has one."""
        if self._is_stamped:
            self._frame.stamp(self.since_ns)
        return self._frame.patched(born_ms)

    def answered(self, answer: Answer, now_ns: int, tally: Tally) -> None:
        """Count the messages, or the refusal."""
        if answer.code == _SUCCESS:
            tally.answered(self._batch, now_ns, self.since_ns)
        else:
            tally.refuse(answer.code)


class ReadSlot:
    """Reads one queue after the other from its start to its end, once or again and again."""

    __slots__ = (
        "_at",
        "_frames",
        "_is_repeated",
        "_offset",
        "_starts",
        "is_paced",
        "is_waited_for",
        "since_ns",
    )

    def __init__(self, frames: list[PullFrame], starts: list[int], *, is_repeated: bool) -> None:
        self._frames = frames
        self._starts = starts
        self._is_repeated = is_repeated
        self._at = 0
        self._offset = starts[0]
        self.is_paced = False
        self.is_waited_for = True
        self.since_ns = 0

    def request(self, born_ms: bytes) -> bytes | None:
        """Return the next pull, or None when all is read."""
        return self._frames[self._at].at(self._offset) if self._at < len(self._frames) else None

    def answered(self, answer: Answer, now_ns: int, tally: Tally) -> None:
        """Count the messages and move on."""
        if answer.code == _SUCCESS:
            following = answer.next_offset()
            tally.answered(following - self._offset, now_ns, self.since_ns)
            self._offset = following
        elif answer.code == ResponseCode.PULL_OFFSET_MOVED and answer.next_offset() > self._offset:
            # Old messages were removed since the run began.
            self._offset = answer.next_offset()
        else:
            if answer.code != ResponseCode.PULL_NOT_FOUND:
                tally.refuse(answer.code)
            self._next_queue()

    def _next_queue(self) -> None:
        self._at += 1
        if self._at == len(self._frames):
            if not self._is_repeated:
                return
            self._at = 0
        self._offset = self._starts[self._at]


class FollowSlot:
    """Waits at the end of one queue and takes the time of each message that arrives."""

    __slots__ = ("_frame", "_offset", "is_paced", "is_waited_for", "since_ns")

    def __init__(self, frame: PullFrame, start: int) -> None:
        self._frame = frame
        self._offset = start
        self.is_paced = False
        self.is_waited_for = False
        self.since_ns = 0

    def request(self, born_ms: bytes) -> bytes:
        """Return a pull that the broker holds until there is something."""
        return self._frame.at(self._offset)

    def answered(self, answer: Answer, now_ns: int, tally: Tally) -> None:
        """Count each message, from the time that its body carries."""
        if answer.code == _SUCCESS:
            for since_ns in stamps(answer.buffer, answer.body_at, answer.end):
                tally.delivered(now_ns, since_ns)
        elif answer.code not in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY):
            tally.refuse(answer.code)
            return
        self._offset = max(self._offset, answer.next_offset())


def stamps(buffer: bytes, at: int, end: int) -> list[int]:
    """Return the first 8 bytes of each body in a row of records."""
    found = []
    while at < end:
        (size,) = _INT32.unpack_from(buffer, at)
        (flags,) = _INT32.unpack_from(buffer, at + SYS_FLAG_AT)
        born = HOST_BYTES_V6 if flags & SysFlag.BORN_HOST_V6 else HOST_BYTES_V4
        store = HOST_BYTES_V6 if flags & SysFlag.STORE_HOST_V6 else HOST_BYTES_V4
        body_at = at + BORN_HOST_AT + born + _BETWEEN_HOSTS + store + _BEHIND_HOSTS
        found.append(_UINT64.unpack_from(buffer, body_at)[0])
        at += size
    return found
