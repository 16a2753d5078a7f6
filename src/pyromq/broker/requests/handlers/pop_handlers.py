"""Pop messages, look at them, and wait for them: 200050, 200052, 200054, 200055.

    checks ─► filter ─► Pop.pop ─► found            answer at once, with the records as they are stored
                              ├► nothing yet      held there; the answer comes when there is something
                              └► time is up       POLLING_TIMEOUT; POLLING_FULL if too many wait

An answer has no object for a message: three texts say where the messages are (`wire/pop_infos.py`), and the
body is the log's bytes. Only what comes out of a retry topic is written anew.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from pyromq.broker.delivery.sql_filters import SQL92, TAG, FilterTable, tag_test
from pyromq.broker.groups.offsets import OffsetTable
from pyromq.broker.pop.pop_asks import (
    ALL_QUEUES,
    COUNT_MAX,
    EVERYTHING,
    Done,
    PopAsk,
    PopFilter,
    Popped,
    PoppedPart,
    PopStatus,
)
from pyromq.broker.pop.pop_door import Pop
from pyromq.broker.requests.handlers.pop_checks import PopChecks
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.errors import Refused
from pyromq.filter.tags import parse_tags, wants_all
from pyromq.net.routes import Answer, Request
from pyromq.store.reading import GetStatus
from pyromq.store.store import MessageStore
from pyromq.wire.headers.pop_headers import CountHeldPops, PeekMessage, PopMessage, PopNotification
from pyromq.wire.java_hash import java_map_order
from pyromq.wire.pop_infos import (
    message_offsets_entry,
    order_count_entry,
    retried_record,
    start_offset_entry,
)
from pyromq.wire.receipt_handle import MARK_TOPIC, ReceiptHandle, pop_retry_topic

Handled = Answer | Awaitable[Answer]

#: A pop that is later than this behind its time is not tried: its client has given up.
_LATE_MS: Final = 500
#: Longer than any client waits, or lets messages be invisible.
WAIT_MS_MAX: Final = 3_600_000
INVISIBLE_MS_MAX: Final = 12 * 3_600_000
#: RocketMQ's remark of an answer that says nothing else.
UNSAID: Final = "not set any response code"

_FIELDS: Final = tuple(
    java_map_order(("popTime", "invisibleTime", "reviveQid", "restNum", "startOffsetInfo", "msgOffsetInfo"))
)
_ORDER_FIELDS: Final = tuple(java_map_order((*_FIELDS, "orderCountInfo")))
_CODES: Final = {
    PopStatus.FOUND: (ResponseCode.SUCCESS, "FOUND"),
    PopStatus.NOTHING: (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE"),
    PopStatus.NO_MATCH: (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE"),
    PopStatus.HELD_FULL: (ResponseCode.POLLING_FULL, "NO_MESSAGE_IN_QUEUE"),
    PopStatus.IN_FLIGHT_FULL: (
        ResponseCode.POLLING_FULL,
        "too many messages are in flight: acknowledge some, or raise popInflightMax",
    ),
}


class PopHandlers:
    """Answers 200050, 200052, 200054 and 200055."""

    def __init__(
        self,
        pop: Pop,
        store: MessageStore,
        offsets: OffsetTable,
        clock: Clock,
        *,
        filters: FilterTable,
        checks: PopChecks,
        broker_name: str,
    ) -> None:
        self._pop = pop
        self._store = store
        self._offsets = offsets
        self._clock = clock
        self._filters = filters
        self._checks = checks
        self._broker_name = broker_name
        #: Told of what was popped of a queue: group, topic, how many messages, and their bytes.
        self.on_read: Callable[[str, str, int, int], None] = lambda *_: None

    # Popping

    def pop(self, request: Request[PopMessage]) -> Handled:
        """Answer with messages, which are invisible to others from now on, or hold the request."""
        header = request.header
        now_ms = self._clock.now_ms()
        if header.born_time and now_ms - header.born_time - header.poll_time > _LATE_MS:
            raise Refused(
                ResponseCode.POLLING_TIMEOUT, self._checks.remark("pop message", "timeout too much")
            )
        self._check(request)
        ask = PopAsk(
            header.consumer_group,
            header.topic,
            max(header.queue_id, ALL_QUEUES),
            header.max_msg_nums,
            header.invisible_time,
            header.init_mode != 1,
            self._filter(header.exp_type, header.exp),
            bool(header.order),
            header.attempt_id,
        )
        popped = self._pop.pop(ask, min(header.poll_time, WAIT_MS_MAX))
        if isinstance(popped, Done):
            return self._answer(header, popped.value)
        return self._answer_later(header, popped)

    def _check(self, request: Request[PopMessage]) -> None:
        header = request.header
        self._checks.check_broker("pop message")
        if header.max_msg_nums > COUNT_MAX:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                self._checks.remark("pop message's num", f"greater than {COUNT_MAX}"),
            )
        check_invisible(header.invisible_time)
        self._checks.check_readable(header.topic, header.queue_id, header.consumer_group, request.link.peer)

    async def _answer_later(self, header: PopMessage, popped: Awaitable[Popped]) -> Answer:
        return self._answer(header, await popped)

    def _answer(self, header: PopMessage, popped: Popped) -> Answer:
        code, remark = _CODES[popped.status]
        starts, offsets, counts, bodies = [], [], [], []
        for part in popped.parts:
            self.on_read(header.consumer_group, part.real_topic, len(part.offsets), len(part.body))
            starts.append(start_offset_entry(part.mark, part.queue_id, part.start_offset))
            offsets.append(message_offsets_entry(part.mark, part.queue_id, part.offsets))
            if header.order:
                counts.append(order_count_entry(part.mark, part.queue_id, part.offsets, part.attempts))
            is_plain = part.mark == MARK_TOPIC
            bodies.append(part.body if is_plain else self._retried(header.topic, popped, part))
        values = {
            "popTime": str(popped.popped_at_ms),
            "invisibleTime": str(popped.invisible_ms),
            "reviveQid": str(popped.revive_queue_id),
            "restNum": str(popped.rest),
            "startOffsetInfo": ";".join(starts),
            "msgOffsetInfo": ";".join(offsets),
            "orderCountInfo": ";".join(counts),
        }
        names = _ORDER_FIELDS if header.order else _FIELDS
        body = bodies[0] if len(bodies) == 1 else b"".join(bodies)
        return Answer(code, remark, ext={name: values[name] for name in names}, body=body)

    def _retried(self, topic: str, popped: Popped, part: PoppedPart) -> bytes:
        return b"".join(
            retried_record(
                record,
                topic,
                ReceiptHandle(
                    part.start_offset,
                    popped.popped_at_ms,
                    popped.invisible_ms,
                    popped.revive_queue_id,
                    part.mark,
                    self._broker_name,
                    part.queue_id,
                    offset,
                ).encode_short(),
            )
            for offset, record in zip(part.offsets, part.records, strict=True)
        )

    def _filter(self, kind: str | None, expression: str | None) -> PopFilter:
        if not expression:
            return EVERYTHING
        try:
            if self._filters.check(kind):
                return PopFilter(None, self._filters.test(expression), f"{SQL92} {expression}")
        except Refused as refusal:
            if refusal.code != ResponseCode.SUBSCRIPTION_PARSE_FAILED:
                raise
            raise _unreadable(refusal.remark) from refusal
        if wants_all(expression):
            return EVERYTHING
        if not parse_tags(expression):
            raise _unreadable("it names no tag")
        # Another tag may have the same code: the client looks at the tags themselves.
        return PopFilter(tag_test(expression), None, f"{TAG} {expression}")

    # Looking

    def peek(self, request: Request[PeekMessage]) -> Answer:
        """Answer with the messages that a pop would find next; nothing changes by it."""
        header = request.header
        self._checks.check_broker("peeking message")
        group, queue_id = header.consumer_group, header.queue_id
        config = self._checks.check_readable(header.topic, queue_id, group, request.link.peer)
        queues = range(config.read_queue_nums) if queue_id < 0 else (queue_id,)
        places = [(header.topic, each) for each in queues]
        places += [(pop_retry_topic(group, header.topic, is_v2=is_v2), 0) for is_v2 in (False, True)]
        left, rest, bodies = min(max(header.max_msg_nums, 0), COUNT_MAX), 0, []
        for topic, each in places:
            least, end = self._checks.ends(topic, each)
            start = min(max(self._next_offset(group, topic, each), least), end)
            rest += end - start
            if left and start < end:
                got = self._store.get(topic, each, start, count_max=left)
                left -= got.count
                bodies.append(got.body)
        body = b"".join(bodies)
        status = GetStatus.FOUND if body else GetStatus.NO_MESSAGE_IN_QUEUE
        return Answer(
            ResponseCode.SUCCESS if body else ResponseCode.PULL_NOT_FOUND,
            status.name,
            ext=NOTHING_POPPED | {"restNum": str(rest)},
            body=body,
        )

    def _next_offset(self, group: str, topic: str, queue_id: int) -> int:
        popped = self._pop.next_offset(group, topic, queue_id)
        return max(self._offsets.progress(group, topic, queue_id) or 0, popped or 0)

    def notification(self, request: Request[PopNotification]) -> Awaitable[Answer]:
        """Answer when a pop would find something, or when the time is up."""
        header = request.header
        self._checks.check_broker("peeking message")
        self._checks.check_readable(header.topic, header.queue_id, header.consumer_group, request.link.peer)
        ask = PopAsk(
            header.consumer_group,
            header.topic,
            max(header.queue_id, ALL_QUEUES),
            from_min=True,
            wanted=self._filter(header.exp_type, header.exp),
            is_fifo=bool(header.order),
            attempt_id=header.attempt_id,
        )
        return self._notify(ask, min(header.poll_time, WAIT_MS_MAX))

    async def _notify(self, ask: PopAsk, wait_ms: int) -> Answer:
        status = await self._pop.has_message(ask, wait_ms)
        is_full = status is PopStatus.HELD_FULL
        found = {"hasMsg": _text(status is PopStatus.FOUND), "pollingFull": _text(is_full)}
        return Answer(remark=UNSAID, ext={name: found[name] for name in NOT_NOTIFIED})

    def held_count(self, request: Request[CountHeldPops]) -> Answer:
        """Answer how many pops of a group wait for a queue, or for all queues of a topic."""
        header = request.header
        self._checks.check_broker("peeking message")
        self._checks.check_readable(header.topic, header.queue_id, header.consumer_group, request.link.peer)
        count = self._pop.held_count(header.consumer_group, header.topic, max(header.queue_id, ALL_QUEUES))
        return Answer(remark=UNSAID, ext={"pollingNum": str(count)})


#: The fields of answers that say no.
NOTHING_POPPED: Final = dict.fromkeys(
    java_map_order(("popTime", "invisibleTime", "reviveQid", "restNum")), "0"
)
NOTHING_HELD: Final = {"pollingNum": "0"}
NOT_NOTIFIED: Final = dict.fromkeys(java_map_order(("hasMsg", "pollingFull")), "false")


def check_invisible(invisible_ms: int) -> None:
    """Raise Refused for a time that no message can be invisible."""
    if not 0 <= invisible_ms <= INVISIBLE_MS_MAX:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"invisibleTime[{invisible_ms}] is illegal: it is 0 to {INVISIBLE_MS_MAX} ms",
        )


def _text(value: bool) -> str:  # noqa: FBT001  Java's word for a value
    return "true" if value else "false"


def _unreadable(cause: str) -> Refused:
    return Refused(
        ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {cause}"
    )
