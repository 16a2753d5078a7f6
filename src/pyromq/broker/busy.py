"""When a broker says that it is busy: SYSTEM_BUSY, before anything of a request is stored.

RocketMQ has a queue before each pool of threads, and cleans it of what waited too long. Here is one loop.
What waits for it is in the buffers of connections, and three things are told apart:

    loop late          a request waited for longer than its queue's `waitTimeMillsIn…` since the loop last
                       looked (`Link.waits_since`). The first ones of each turn are taken all the same, for a
                       quarter of that time: to refuse costs something too, and who only refuses gets nothing
                       done
    page cache busy    a write to the log took `osPageCacheBusyTimeOutMills` or longer: the sends that waited
                       meanwhile are refused, up to those that the loop finds in its next turn. Then one is
                       taken again, and shows how the disk is
    queue full         as many requests wait for disk or slaves as their queue's `…QueueCapacity` says

A request is refused before it is looked at, or not at all. Nothing is remembered from turn to turn but a
slow write: who stood still for an hour refuses what waited in that turn, and takes the next. Heartbeats have
half a minute, and requests that are in none of the queues (admin, replication) are never refused.
"""

import asyncio
import math
import re
import struct
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, NamedTuple

from pyromq.broker.live_settings import LiveSettings
from pyromq.clock import Clock
from pyromq.codes import CommandFlag, RequestCode, ResponseCode, Serializer
from pyromq.net.link import Link
from pyromq.net.routes import Answer
from pyromq.wire.command import Command, CommandReader, encode

#: The share of its patience for which each turn takes requests, however long they waited before it.
TAKEN_SHARE: Final = 0.25
#: Seconds without a refusal after which all are taken again.
QUIET_S: Final = 5.0
#: Seconds for which others are told that requests were refused.
TOLD_S: Final = 60.0

_OVERLOAD: Final = "[OVERLOAD]system busy, start flow control for a while"
_REJECT: Final = "[REJECTREQUEST]system busy, start flow control for a while"
_WAITED: Final = "[%s]broker busy, start flow control for a while, period in queue: %dms, size of queue: %d"
#: Less than any clock tells: what differences of seconds may lack.
_A_TICK_S: Final = 1e-6
_LENGTHS: Final = struct.Struct(">ii")
#: The numbers of a JSON header; those among a send's fields are texts.
_NUMBERS: Final = re.compile(rb'"(code|flag|opaque)":(-?[0-9]+)[,}]')
_WANTED: Final = {b"code", b"flag", b"opaque"}
_SEND_CODES: Final = {b"10", b"310", b"320", b"36"}
#: An opaque that stands in no other place of an answer's header.
_OPAQUE: Final = 2_147_480_001


class Reason(StrEnum):
    """Why requests are refused."""

    PAGE_CACHE = "page cache busy"
    LATE = "loop late"
    FULL = "queue full"


#: What the log says besides the reason.
_ABOUT: Final = {
    Reason.PAGE_CACHE: "a write to the log took osPageCacheBusyTimeOutMills or longer; look at the disk",
    Reason.LATE: "requests waited too long for the loop; there is more load than this broker bears",
    Reason.FULL: "too many requests wait for disk or slaves; look at both",
}


class Refusal(NamedTuple):
    """Why a request is refused, and what its sender is told."""

    reason: Reason
    remark: str


class Queue:
    """Requests of one kind: how long they may wait, how many may, and how many do."""

    __slots__ = ("_held", "_settings", "capacity", "codes", "count", "name", "refused", "wait_s")

    def __init__(
        self,
        name: str,
        codes: tuple[int, ...],
        *,
        wait: str | None,
        capacity: str,
        held: Callable[[], int] = lambda: 0,
    ) -> None:
        self.name = name
        self.codes = codes
        self._settings = (wait, capacity)
        self._held = held
        self.wait_s = math.inf
        self.capacity = 1
        #: How many wait for their answers, those that are held on purpose among them.
        self.count = 0
        self.refused: Counter[Reason] = Counter()

    @property
    def size(self) -> int:
        """How many wait that are not held."""
        return max(self.count - self._held(), 0)

    @property
    def is_full(self) -> bool:
        """Whether one more is too many."""
        return self.count >= self.capacity and self.size >= self.capacity

    def read(self, settings: object) -> None:
        """Take over what the settings say now."""
        wait, capacity = self._settings
        self.wait_s = math.inf if wait is None else getattr(settings, wait) / 1000
        self.capacity = getattr(settings, capacity)

    def ended(self, _answered: "asyncio.Future[Any]") -> None:
        """Note that one has its answer."""
        self.count -= 1


class Busy:
    """Says which requests are not taken now. `held_pulls` says how many pulls wait for messages."""

    def __init__(self, live: LiveSettings, clock: Clock, *, held_pulls: Callable[[], int]) -> None:
        self._live = live
        self._revision = -1
        self._is_enabled = True
        self._monotonic = clock.monotonic
        self.sends = Queue(
            "send",
            (
                RequestCode.SEND_MESSAGE,
                RequestCode.SEND_MESSAGE_V2,
                RequestCode.SEND_BATCH_MESSAGE,
                RequestCode.CONSUMER_SEND_MSG_BACK,
            ),
            wait="wait_time_mills_in_send_queue",
            capacity="send_thread_pool_queue_capacity",
        )
        self.pulls = Queue(
            "pull",
            (RequestCode.PULL_MESSAGE,),
            wait="wait_time_mills_in_pull_queue",
            capacity="pull_thread_pool_queue_capacity",
            held=held_pulls,
        )
        self.ends = Queue(
            "end_transaction",
            (RequestCode.END_TRANSACTION,),
            wait="wait_time_mills_in_transaction_queue",
            capacity="end_transaction_pool_queue_capacity",
        )
        self.queues = (
            self.sends,
            self.pulls,
            self.ends,
            Queue(
                "heartbeat",
                (RequestCode.HEART_BEAT,),
                wait="wait_time_mills_in_heartbeat_queue",
                capacity="heartbeat_thread_pool_queue_capacity",
            ),
            Queue(
                "reply",
                (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2),
                wait=None,
                capacity="reply_thread_pool_queue_capacity",
            ),
        )
        self._by_code = {int(code): queue for queue in self.queues for code in queue.codes}
        self._slow_write_s = 0.0
        self._slow_writes = 0
        #: Called when a request is refused after none was for a while.
        self.on_begin: Callable[[], None] = lambda: None
        #: When the last was refused, and why.
        self._last_at = -math.inf
        self._last_reason = Reason.LATE
        self._read_settings()

    # What requests meet

    def refuse(self, link: Link, command: Command) -> Answer | None:
        """Return the answer to a request that is not taken, None for one that is."""
        queue = self._by_code.get(command.code)
        if queue is None:
            return None
        refusal = self.refusal(queue, link)
        if refusal is None:
            return None
        self.note(queue, refusal.reason)
        return Answer(ResponseCode.SYSTEM_BUSY, refusal.remark)

    def refusal(self, queue: Queue, link: Link) -> Refusal | None:
        """Return why requests of a connection are not taken now, None when they are."""
        if self._revision != self._live.revision:
            self._read_settings()
        if queue.count >= queue.capacity and queue.is_full:
            return Refusal(Reason.FULL, _OVERLOAD)
        if self._slow_write_s and queue is self.sends:
            return Refusal(Reason.PAGE_CACHE, self._after_slow_write(queue, link))
        now = self._monotonic()
        waited_s = now - link.waits_since
        if waited_s + _A_TICK_S < queue.wait_s or not self._is_enabled:
            return None
        if now - link.read_at + _A_TICK_S < queue.wait_s * TAKEN_SHARE:
            return None
        return Refusal(Reason.LATE, _WAITED % ("TIMEOUT_CLEAN_QUEUE", _ms(waited_s), queue.size))

    def waits(self, code: int, answered: "asyncio.Future[Any]") -> None:
        """Note that a request was taken and its answer is not there yet."""
        queue = self._by_code.get(code)
        if queue is not None:
            queue.count += 1
            answered.add_done_callback(queue.ended)

    def wrote(self, seconds: float) -> None:
        """Note how long a write to the log took, before the sends that waited for it are looked at."""
        if _ms(seconds) < self._live.now.pressure.os_page_cache_busy_time_out_mills:
            return
        self._slow_write_s = seconds
        self._slow_writes += 1
        # The rest of this turn, and the next: what came meanwhile is readable there.
        asyncio.get_running_loop().call_soon(self._one_more_turn, self._slow_writes)

    def note(self, queue: Queue, reason: Reason, count: int = 1) -> None:
        """Count requests that are refused."""
        now = self._monotonic()
        is_first = now - self._last_at >= QUIET_S
        queue.refused[reason] += count
        self._last_at, self._last_reason = now, reason
        if is_first:
            self.on_begin()

    # What others are told

    @property
    def why(self) -> str | None:
        """Why requests are refused, None when none was for a while."""
        if self._monotonic() - self._last_at >= QUIET_S:
            return None
        return f"SYSTEM_BUSY, {self._last_reason}: {_ABOUT[self._last_reason]}"

    def told(self) -> dict[str, str]:
        """Return what doctors ask: empty unless requests were refused in the last minute."""
        if self._monotonic() - self._last_at > TOLD_S:
            return {}
        refused = sum(count for queue in self.queues for count in queue.refused.values())
        return {"brokerBusy": str(self._last_reason), "brokerBusyRefused": str(refused)}

    @property
    def slow_write_ms(self) -> int:
        """How long the write took for which sends are refused now; 0 when there is none."""
        return _ms(self._slow_write_s)

    def waited_ms(self, link: Link) -> int:
        """Return how long what is handled now has waited."""
        return max(_ms(self._monotonic() - link.waits_since), 0)

    def _after_slow_write(self, queue: Queue, link: Link) -> str:
        # RocketMQ looks at the page cache in two places, and only one of them can be switched off.
        if not self._is_enabled:
            return _REJECT
        return _WAITED % ("PCBUSY_CLEAN_QUEUE", self.waited_ms(link), queue.size)

    def _one_more_turn(self, number: int) -> None:
        asyncio.get_running_loop().call_soon(self._take_again, number)

    def _take_again(self, number: int) -> None:
        if number == self._slow_writes:
            self._slow_write_s = 0.0

    def _read_settings(self) -> None:
        self._revision = self._live.revision
        settings = self._live.now.pressure
        self._is_enabled = settings.broker_fast_failure_enable
        for queue in self.queues:
            queue.read(settings)


class QuickRefusals:
    """Refuses sends that are JSON without making commands of them: what refuses must not be busy with it.

    Links have it as their shortcut where there is no compiled kernel for sends; see `_kernel/refusals.pyx`.
    """

    def __init__(self, busy: Busy) -> None:
        self._busy = busy
        self._remark = ""
        self._parts = (b"", b"", b"")

    def __call__(self, link: Link, reader: CommandReader, answer_bytes_max: int) -> bool:
        """Refuse the sends at the front of what was received; return whether there was one."""
        busy = self._busy
        refusal = busy.refusal(busy.sends, link)
        if refusal is None:
            return False
        received, start = reader.pending
        before, after, _ = self._answer(refusal.remark)
        at, count, size, answers = start, 0, 0, []
        while size < answer_bytes_max and (found := _json_send(received, at)) is not None:
            at, opaque = found
            count += 1
            if opaque is not None:
                header = b"".join((before, opaque, after))
                answers.append(_LENGTHS.pack(len(header) + 4, len(header)) + header)
                size += len(header)
        if not count:
            return False
        reader.skip_to(at)
        busy.note(busy.sends, refusal.reason, count)
        link.send_frames(b"".join(answers))
        return True

    def _answer(self, remark: str) -> tuple[bytes, bytes, bytes]:
        if remark != self._remark:
            self._remark, self._parts = remark, refusal_parts(remark)
        return self._parts


def _json_send(received: bytes | bytearray, start: int) -> tuple[int, bytes | None] | None:
    """Return where a send ends that begins at `start`, and its opaque, None if it wants no answer.

    Returns None for what is not whole, no send, or not as clients write it: that is looked at properly.
    """
    if len(received) < start + _LENGTHS.size:
        return None
    length, header_length = _LENGTHS.unpack_from(received, start)
    end, header_end = start + 4 + length, start + _LENGTHS.size + header_length
    # Over 24 bits: another serializer, or nonsense.
    if not 0 < header_length < 1 << 24 or not header_end <= end <= len(received):
        return None
    numbers = dict(found := _NUMBERS.findall(received, start + _LENGTHS.size, header_end))
    if len(found) != len(numbers) or numbers.keys() != _WANTED or numbers[b"code"] not in _SEND_CODES:
        return None
    flag = int(numbers[b"flag"])
    if flag & CommandFlag.RESPONSE:
        return None
    return end, None if flag & CommandFlag.ONEWAY else bytes(numbers[b"opaque"])


def _ms(seconds: float) -> int:
    return int((seconds + _A_TICK_S) * 1000)


def refusal_parts(remark: str) -> tuple[bytes, bytes, bytes]:
    """Return what the kernel answers sends with: JSON before and behind the opaque, and a binary frame."""
    busy = Command(ResponseCode.SYSTEM_BUSY, opaque=_OPAQUE, flag=CommandFlag.RESPONSE, remark=remark)
    before, _, after = encode(busy)[8:].partition(str(_OPAQUE).encode())
    busy.serializer = Serializer.ROCKETMQ
    return before, after, encode(busy)
