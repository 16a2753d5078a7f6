"""Back-pressure: the queues of waiting requests, the answer to refused ones, and the count of refusals.

`durability/acknowledgement.py` decides whether a request is accepted (`pressed`); its head has the rules.
This module has the queues that RocketMQ's settings name, the remarks of SYSTEM_BUSY, the refusal of sends
from their bytes, and the figures that others read.

Nothing is remembered from turn to turn but a slow write: a broker that stood still for an hour refuses the
requests that waited in that turn, and accepts the next.
"""

import asyncio
import math
import re
import struct
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from pyromq.broker.live_settings import BrokerLiveSettings
from pyromq.clock import Clock
from pyromq.codes import CommandFlag, RequestCode, ResponseCode, Serializer
from pyromq.net.link import Link
from pyromq.net.routes import Answer
from pyromq.net.turn import Turn, TurnStep
from pyromq.wire.command import Command, encode

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
    """The reason of a refusal."""

    PAGE_CACHE = "page cache busy"
    LATE = "loop late"
    FULL = "queue full"


#: What the log says besides the reason.
_ABOUT: Final = {
    Reason.PAGE_CACHE: "a write to the log took osPageCacheBusyTimeOutMills or longer; look at the disk",
    Reason.LATE: "requests waited too long for the loop; there is more load than this broker bears",
    Reason.FULL: "too many requests wait for disk or slaves; look at both",
}


class PressedQueue:
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
        """The number of waiting requests that are not held on purpose."""
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
    """The queues of requests, and what is told when some are refused.

    `held_pulls` tells how many pulls wait for messages. `step` is the step of a turn that ends what a slow
    write began. `refuse_quickly` refuses sends from their bytes; the compiled kernel has a quicker one.
    """

    def __init__(
        self,
        live: BrokerLiveSettings,
        clock: Clock,
        *,
        held_pulls: Callable[[], int],
        step: TurnStep | None = None,
    ) -> None:
        self.live = live
        #: The revision of the settings that were read last.
        self.revision = -1
        #: `brokerFastFailureEnable`.
        self.is_enabled = True
        self._step = step or Turn().step()
        self._step.run = self._end_turn
        self._monotonic = clock.monotonic
        self.sends = PressedQueue(
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
        self.pulls = PressedQueue(
            "pull",
            (RequestCode.PULL_MESSAGE,),
            wait="wait_time_mills_in_pull_queue",
            capacity="pull_thread_pool_queue_capacity",
            held=held_pulls,
        )
        self.ends = PressedQueue(
            "end_transaction",
            (RequestCode.END_TRANSACTION,),
            wait="wait_time_mills_in_transaction_queue",
            capacity="end_transaction_pool_queue_capacity",
        )
        self.queues = (
            self.sends,
            self.pulls,
            self.ends,
            PressedQueue(
                "heartbeat",
                (RequestCode.HEART_BEAT,),
                wait="wait_time_mills_in_heartbeat_queue",
                capacity="heartbeat_thread_pool_queue_capacity",
            ),
            PressedQueue(
                "reply",
                (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2),
                wait=None,
                capacity="reply_thread_pool_queue_capacity",
            ),
        )
        self.by_code = {int(code): queue for queue in self.queues for code in queue.codes}
        #: How long the write took for which sends are refused now, and for how many ends of turns they are.
        self.slow_write_s = 0.0
        self._slow_turns = 0
        self.refuse_quickly: Callable[..., tuple[int, bytes, int]] = refuse_json_sends
        #: Called when a request is refused after none was for a while.
        self.on_begin: Callable[[], None] = lambda: None
        #: When the last was refused, and why.
        self._last_at = -math.inf
        self._last_reason = Reason.LATE
        self.read_settings()

    # What requests meet

    def refuse(self, queue: PressedQueue, link: Link, reason: Reason) -> Answer:
        """Count a request that is refused, and return its answer."""
        self.note(queue, reason)
        return Answer(ResponseCode.SYSTEM_BUSY, self._why(queue, link, reason))

    def refuse_sends(self, link: Link, reason: Reason) -> bool:
        """Refuse the sends at the front of what a link received; return whether there was one."""
        before, after, binary = refusal_parts(self._why(self.sends, link, reason))
        received, start = link.received, link.start
        end, answers, count = self.refuse_quickly(
            received,
            start,
            json_before=before,
            json_after=after,
            binary=binary,
            answer_bytes_max=link.answer_room(),
        )
        if not count:
            return False
        link.skip_to(end)
        link.forgive(end - start)
        self.note(self.sends, reason, count)
        link.send_frames(answers)
        return True

    def waits(self, code: int, answered: "asyncio.Future[Any]") -> None:
        """Note that a request was taken and its answer is not there yet."""
        queue = self.by_code.get(code)
        if queue is not None:
            queue.count += 1
            answered.add_done_callback(queue.ended)

    def wrote(self, seconds: float) -> None:
        """Note how long a write to the log took, before the sends that waited for it are looked at."""
        if _ms(seconds) < self.live.now.pressure.os_page_cache_busy_time_out_mills:
            return
        self.slow_write_s = seconds
        # The rest of this turn, and the next: what came meanwhile is readable there.
        self._slow_turns = 2
        self._step.due()

    def note(self, queue: PressedQueue, reason: Reason, count: int = 1) -> None:
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
        """The reason of the last refusal in words, None when nothing was refused for a while."""
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
        """The duration of the slow write for which sends are refused now; 0 when there is none."""
        return _ms(self.slow_write_s)

    def waited_ms(self, link: Link) -> int:
        """Return how long what is handled now has waited."""
        return max(_ms(self._monotonic() - link.waits_since), 0)

    def _why(self, queue: PressedQueue, link: Link, reason: Reason) -> str:
        """Return what the sender of a request is told, in RocketMQ's words."""
        if reason is Reason.FULL:
            return _OVERLOAD
        if reason is Reason.PAGE_CACHE and not self.is_enabled:
            # RocketMQ looks at the page cache in two places, and only one of them can be switched off.
            return _REJECT
        cleaned = "PCBUSY_CLEAN_QUEUE" if reason is Reason.PAGE_CACHE else "TIMEOUT_CLEAN_QUEUE"
        return _WAITED % (cleaned, self.waited_ms(link), queue.size)

    def _end_turn(self) -> None:
        self._slow_turns -= 1
        if self._slow_turns:
            self._step.due()
        else:
            self.slow_write_s = 0.0

    def read_settings(self) -> None:
        """Take over what the settings say now."""
        self.revision = self.live.revision
        settings = self.live.now.pressure
        self.is_enabled = settings.broker_fast_failure_enable
        for queue in self.queues:
            queue.read(settings)


def refuse_json_sends(
    received: bytes | bytearray,
    start: int,
    *,
    json_before: bytes,
    json_after: bytes,
    binary: bytes,
    answer_bytes_max: int,
) -> tuple[int, bytes, int]:
    """Refuse the sends at the front that are JSON, without making commands of them.

    Return where the first frame stands that is left, the answers, and to how many sends they are.
    """
    at, count, size, answers = start, 0, 0, []
    while size < answer_bytes_max and (found := _json_send(received, at)) is not None:
        at, opaque = found
        count += 1
        if opaque is not None:
            header = b"".join((json_before, opaque, json_after))
            answers.append(_LENGTHS.pack(len(header) + 4, len(header)) + header)
            size += len(header)
    return at, b"".join(answers), count


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


@lru_cache(maxsize=512)  # they differ in the milliseconds that a send waited
def refusal_parts(remark: str) -> tuple[bytes, bytes, bytes]:
    """Return what the kernel answers sends with: JSON before and behind the opaque, and a binary frame."""
    busy = Command(ResponseCode.SYSTEM_BUSY, opaque=_OPAQUE, flag=CommandFlag.RESPONSE, remark=remark)
    before, _, after = encode(busy)[8:].partition(str(_OPAQUE).encode())
    busy.serializer = Serializer.ROCKETMQ
    return before, after, encode(busy)
