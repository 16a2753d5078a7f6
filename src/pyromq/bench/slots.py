"""The requests in flight on the connections of one process, and their counts.

A connection has a number of slots. A free slot takes the next request, whose opaque is the slot's number; the
answer with that opaque frees it. `feed` takes all answers that arrived together, `fill` makes the requests of
all free slots together.

This is the meaning; `pyromq._kernel.client.load` is the same, compiled, and what normally runs.
"""

import struct
from collections.abc import Sequence
from typing import Final, Protocol

from pyromq.bench.frames import OPAQUE_FIRST, AnswerHead, PullTemplate, SendTemplate, answers, end_request
from pyromq.bench.histogram import LatencyHistogram
from pyromq.codes import ResponseCode, SysFlag
from pyromq.errors import RemoteProtocolError
from pyromq.wire.record import BORN_HOST_AT, HOST_BYTES_V4, HOST_BYTES_V6, SYS_FLAG_AT

_INT64: Final = struct.Struct(">q")
_LENGTHS: Final = struct.Struct(">iI")
#: A plain number: an enum member is looked up and compared more slowly, for each message.
_SUCCESS: Final = int(ResponseCode.SUCCESS)
_INT32: Final = struct.Struct(">i")
#: Between the two hosts the time of storing; behind them reconsume times, prepared position, body length.
_BETWEEN_HOSTS: Final = 8
_BEHIND_HOSTS: Final = 4 + 8 + 4


class Counts:
    """The counts of all connections of a process.

    Latencies, and the messages they are of, are those that ended in the measured time: `from_ns` ≤ now <
    `until_ns`. A message that is delayed by `delay_ns` is measured if it was due then.
    """

    __slots__ = (
        "_arrivals",
        "_requests",
        "delay_ns",
        "delivered_in_all",
        "early_ns",
        "from_ns",
        "late_ns",
        "messages",
        "messages_in_all",
        "refused",
        "sent",
        "under_way",
        "until_ns",
    )

    def __init__(self) -> None:
        self.from_ns = 0
        self.until_ns = 0
        self.delay_ns = 0
        self.messages = 0
        self.messages_in_all = 0
        self.delivered_in_all = 0
        self.sent = 0
        self.under_way = 0
        self.late_ns = 0
        self.early_ns = 0
        self.refused: dict[int, int] = {}
        self._requests = LatencyHistogram()
        self._arrivals = LatencyHistogram()

    def answered(self, messages: int, now_ns: int, since_ns: int) -> None:
        """Count a request that did what it should."""
        self.messages_in_all += messages
        if self.from_ns <= now_ns < self.until_ns:
            self.messages += messages
            self._requests.record(max(now_ns - since_ns, 0) // 1_000)

    def delivered(self, now_ns: int, since_ns: int) -> None:
        """Count a message that came back."""
        self.delivered_in_all += 1
        now_ns -= self.delay_ns
        if self.from_ns <= now_ns < self.until_ns:
            self._arrivals.record(max(now_ns - since_ns, 0) // 1_000)
            self.early_ns = max(self.early_ns, since_ns - now_ns)

    def refuse(self, code: int) -> None:
        """Count a request that was answered with an error."""
        self.refused[code] = self.refused.get(code, 0) + 1

    def latencies(self) -> tuple[list[int], int, int]:
        """Return how long requests took: a histogram's counts, its sum and its highest value."""
        return self._requests.parts()

    def arrivals(self) -> tuple[list[int], int, int]:
        """Return how long messages took, as `latencies` does."""
        return self._arrivals.parts()


class Templates:
    """The sends of one process: each request is the next template in turn, with ids of its own."""

    __slots__ = ("_rows", "next_key", "next_number")

    def __init__(self, rows: Sequence[SendTemplate], first_key: int, first_number: int = 0) -> None:
        self._rows = rows
        self.next_key = first_key
        self.next_number = first_number % len(rows)

    def write(self, opaque: int, since_ns: int, born_ms: int, *, is_stamped: bool) -> bytearray:
        """Return the next request."""
        row = self._rows[self.next_number]
        self.next_number = (self.next_number + 1) % len(self._rows)
        frame = bytearray(row.frame)
        if row.is_binary:
            _INT32.pack_into(frame, row.opaque_at, opaque)
        else:
            frame[row.opaque_at : row.opaque_at + 10] = b"%d" % opaque
        if row.born_at >= 0:
            frame[row.born_at : row.born_at + 13] = b"%d" % born_ms
        for at in row.keys_at:
            frame[at : at + 12] = b"%012X" % self.next_key
            self.next_key = (self.next_key + 1) & 0xFFFFFFFFFFFF
        if is_stamped:
            for at in row.stamps_at:
                _INT64.pack_into(frame, at, since_ns)
        return frame


class Slots(Protocol):
    """The slots of one connection."""

    rest: bytes
    """The begin of an answer that is not whole yet: the next `feed` wants it before what arrives then."""

    def feed(self, data: memoryview, now_ns: int) -> None:
        """Take what arrived; raise RemoteProtocolError, or ValueError, for what is no answer."""
        ...

    def fill(self, most: int, since_ns: int, born_ms: int) -> bytes:
        """Return the next requests of free slots, at most so many."""
        ...


class SendSlots:
    """A connection that sends.

    With a rate, requests are numbered: number n is due at start + n × interval, and this connection has every
    `step`th of them, from `number` on.
    """

    __slots__ = (
        "_batch",
        "_counts",
        "_free",
        "_interval_ns",
        "_is_stamped",
        "_number",
        "_since_ns",
        "_start_ns",
        "_step",
        "_templates",
        "rest",
    )

    def __init__(
        self, templates: Templates, counts: Counts, slots: int, *, batch: int, is_stamped: bool
    ) -> None:
        self._templates = templates
        self._counts = counts
        self._batch = batch
        self._is_stamped = is_stamped
        self._since_ns: list[int | None] = [None] * slots
        self._free = list(reversed(range(slots)))
        self._start_ns, self._interval_ns, self._number, self._step = 0, 0.0, 0, 1
        self.rest = b""

    def pace(self, start_ns: int, interval_ns: float, number: int, step: int) -> None:
        """Say when which requests are due."""
        self._start_ns, self._interval_ns, self._number, self._step = start_ns, interval_ns, number, step

    def feed(self, data: memoryview, now_ns: int) -> None:
        """Take the answers: count messages and refusals, and free the slots."""
        buffer, at = bytes(data), 0
        for answer in answers(buffer):
            slot = answer.opaque - OPAQUE_FIRST
            since_ns = self._since_ns[slot] if 0 <= slot < len(self._since_ns) else None
            if since_ns is None:
                raise RemoteProtocolError(f"an answer with opaque {answer.opaque} is to no request")
            self._take(answer, slot, now_ns, since_ns)
            at = answer.end
        self.rest = buffer[at:]

    def _take(self, answer: AnswerHead, slot: int, now_ns: int, since_ns: int) -> None:
        """Count a request that ended, and free its slot."""
        if answer.code == _SUCCESS:
            self._counts.answered(self._batch, now_ns, since_ns)
        else:
            self._counts.refuse(answer.code)
        self._since_ns[slot] = None
        self._free.append(slot)
        self._counts.under_way -= 1

    def fill(self, most: int, since_ns: int, born_ms: int) -> bytes:
        """Return the next sends of free slots, at most so many."""
        count = max(min(most, len(self._free)), 0)
        return b"".join([self._request(since_ns, born_ms) for _ in range(count)])

    def fill_due(self, now_ns: int, limit: int, born_ms: int) -> bytes:
        """Return the sends that are due and find a free slot; those numbered `limit` and above are never."""
        requests = []
        while self._free and self._number < limit:
            due_ns = self._start_ns + int(self._number * self._interval_ns)
            if due_ns > now_ns:
                break
            requests.append(self._request(due_ns, born_ms))
            self._number += self._step
            if due_ns >= self._counts.from_ns:
                self._counts.late_ns = max(self._counts.late_ns, now_ns - due_ns)
        return b"".join(requests)

    def _request(self, since_ns: int, born_ms: int) -> bytearray:
        slot = self._free.pop()
        self._since_ns[slot] = since_ns
        self._counts.under_way += 1
        self._counts.sent += 1
        return self._templates.write(OPAQUE_FIRST + slot, since_ns, born_ms, is_stamped=self._is_stamped)


class TransactionSlots(SendSlots):
    """A connection that sends halves, and commits each when it is stored: a slot is free after both.

    A commit leaves with the next `fill` or `fill_due`; the transaction counts when it is acknowledged.
    """

    __slots__ = ("_ends", "_halves")

    def __init__(
        self, templates: Templates, counts: Counts, slots: int, *, batch: int, is_stamped: bool
    ) -> None:
        super().__init__(templates, counts, slots, batch=batch, is_stamped=is_stamped)
        self._halves = [True] * slots
        self._ends: list[bytes] = []

    def _take(self, answer: AnswerHead, slot: int, now_ns: int, since_ns: int) -> None:
        if self._halves[slot] and answer.code == _SUCCESS:
            header = answer.buffer[answer.header_at : answer.body_at]
            self._ends.append(end_request(header, answer.serializer, answer.opaque))
            self._halves[slot] = False
            return
        self._halves[slot] = True
        super()._take(answer, slot, now_ns, since_ns)

    def fill(self, most: int, since_ns: int, born_ms: int) -> bytes:
        """Return the commits of stored halves, and then the next halves of free slots, at most so many."""
        return self._taken_ends() + super().fill(most, since_ns, born_ms)

    def fill_due(self, now_ns: int, limit: int, born_ms: int) -> bytes:
        """Return the commits of stored halves, and then the halves that are due and find a free slot."""
        return self._taken_ends() + super().fill_due(now_ns, limit, born_ms)

    def _taken_ends(self) -> bytes:
        ends, self._ends = b"".join(self._ends), []
        return ends


class PullSlots:
    """A connection that pulls: each slot reads its queues one after the other.

    A following slot stays at the end of its first queue, takes the time of each message that arrives, and is
    never waited for: the broker holds its pull.
    """

    __slots__ = (
        "_at",
        "_counts",
        "_free",
        "_is_following",
        "_is_repeated",
        "_offset",
        "_queues",
        "_since_ns",
        "rest",
    )

    def __init__(
        self,
        queues: Sequence[Sequence[PullTemplate]],
        counts: Counts,
        *,
        is_following: bool,
        is_repeated: bool,
    ) -> None:
        self._queues = queues
        self._counts = counts
        self._is_following = is_following
        self._is_repeated = is_repeated
        self._at = [0] * len(queues)
        self._offset = [row[0].start for row in queues]
        self._since_ns: list[int | None] = [None] * len(queues)
        self._free = list(reversed(range(len(queues))))
        self.rest = b""

    def feed(self, data: memoryview, now_ns: int) -> None:
        """Take the answers: count what they hold and go on behind it."""
        buffer, at = bytes(data), 0
        for answer in answers(buffer):
            slot = answer.opaque - OPAQUE_FIRST
            since_ns = self._since_ns[slot] if 0 <= slot < len(self._since_ns) else None
            if since_ns is None:
                raise RemoteProtocolError(f"an answer with opaque {answer.opaque} is to no request")
            if self._is_following:
                self._follow(slot, answer, now_ns)
            else:
                self._read(slot, answer, now_ns, since_ns)
                self._counts.under_way -= 1
            self._since_ns[slot] = None
            if self._at[slot] < len(self._queues[slot]):
                self._free.append(slot)
            at = answer.end
        self.rest = buffer[at:]

    def fill(self, most: int, since_ns: int, born_ms: int) -> bytes:
        """Return the next pulls of free slots; a following slot always has one."""
        pulls = []
        while self._free and (most > 0 or self._is_following):
            slot = self._free.pop()
            pull = self._queues[slot][self._at[slot]]
            header = b"%b%d%b" % (pull.head, self._offset[slot], pull.tail)
            pulls.append(_LENGTHS.pack(len(header) + 4, len(header)) + header)
            self._since_ns[slot] = since_ns
            if not self._is_following:
                most -= 1
                self._counts.under_way += 1
                self._counts.sent += 1
        return b"".join(pulls)

    def _follow(self, slot: int, answer: AnswerHead, now_ns: int) -> None:
        if answer.code == _SUCCESS:
            for since_ns in stamps(answer.buffer, answer.body_at, answer.end):
                self._counts.delivered(now_ns, since_ns)
        elif answer.code not in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY):
            self._counts.refuse(answer.code)
            return
        self._offset[slot] = max(self._offset[slot], answer.next_offset())

    def _read(self, slot: int, answer: AnswerHead, now_ns: int, since_ns: int) -> None:
        if answer.code == _SUCCESS:
            following = answer.next_offset()
            self._counts.answered(following - self._offset[slot], now_ns, since_ns)
            self._offset[slot] = following
        elif answer.code == ResponseCode.PULL_OFFSET_MOVED and answer.next_offset() > self._offset[slot]:
            # Old messages were removed since the run began.
            self._offset[slot] = answer.next_offset()
        else:
            if answer.code != ResponseCode.PULL_NOT_FOUND:
                self._counts.refuse(answer.code)
            self._next_queue(slot)

    def _next_queue(self, slot: int) -> None:
        self._at[slot] += 1
        if self._at[slot] == len(self._queues[slot]):
            if not self._is_repeated:
                return
            self._at[slot] = 0
        self._offset[slot] = self._queues[slot][self._at[slot]].start


def stamps(buffer: bytes, at: int, end: int) -> list[int]:
    """Return the first 8 bytes of each body in a row of records."""
    found = []
    while at < end:
        if end - at < BORN_HOST_AT:
            raise RemoteProtocolError("an answer's messages are not whole")
        (size,) = _INT32.unpack_from(buffer, at)
        (flags,) = _INT32.unpack_from(buffer, at + SYS_FLAG_AT)
        born = HOST_BYTES_V6 if flags & SysFlag.BORN_HOST_V6 else HOST_BYTES_V4
        store = HOST_BYTES_V6 if flags & SysFlag.STORE_HOST_V6 else HOST_BYTES_V4
        body_at = at + BORN_HOST_AT + born + _BETWEEN_HOSTS + store + _BEHIND_HOSTS
        if body_at + _INT64.size > at + size or at + size > end:
            raise RemoteProtocolError("an answer's messages are not whole")
        # A message of someone else carries no time, and counts from the clock's beginning.
        found.append(max(_INT64.unpack_from(buffer, body_at)[0], 0))
        at += size
    return found
