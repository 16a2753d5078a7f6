"""Messages that wait for their time: take one back, and list them.

Whoever lists is answered in pages, and for each page only so many messages are looked at: a filter that
matches nothing among five million brings empty pages and holds up nobody.

After a start it may take a while until it is known which messages wait. Nobody is kept waiting for that; one
is told to ask again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.kinds.timers.timers import Timers
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import Perm, ResponseCode
from pyromq.config.settings import BrokerSettings
from pyromq.errors import (
    CorruptRecord,
    HeaderError,
    IllegalOperation,
    ServiceNotAvailable,
    SystemBusy,
    TopicNotFound,
)
from pyromq.net.routes import Answer, Request
from pyromq.store.store import MessageStore
from pyromq.system_names import WHEEL_TIMER
from pyromq.wire import properties as names
from pyromq.wire.header import write_header
from pyromq.wire.headers.timer_headers import ListWaiting, ListWaitingAnswer, RecallMessage
from pyromq.wire.recall_handle import RecallHandle, decode_recall_handle
from pyromq.wire.record import decode_record, read_properties

#: Messages that are looked at for one page, and how many of them in one turn of the loop.
LOOKED_AT_MAX: Final = 1_024
TURN: Final = 64
#: A page ends with the message that makes it so large.
PAGE_BYTES: Final = 256 * 1_024
#: Messages with one key that are looked at, the newest; the index gives no more.
KEY_COUNT_MAX: Final = 64
#: Clients wait for three seconds.
PATIENCE_S: Final = 2.0
_LAST: Final = 2**63 - 1

Wants = Callable[[bytes], bool]


class TimerHandlers:
    """Answers RECALL_MESSAGE and LIST_WAITING."""

    def __init__(
        self,
        timers: Timers,
        *,
        store: MessageStore,
        topics: TopicTable,
        durability: Durability,
        settings: BrokerSettings,
    ) -> None:
        self._timers = timers
        self._store = store
        self._topics = topics
        self._durability = durability
        self._settings = settings
        #: What every answer to a recall carries, a refusal too.
        self.recall_ext = {names.MSG_REGION: settings.region_id}

    async def recall(self, request: Request[RecallMessage]) -> Answer:
        """Let a waiting message never be delivered, no copy of it; answer its id when that is as safe as a
        sent message.

        RocketMQ 5.x stores what was asked and answers before it looks; here the answer says what became of
        it.
        """
        handle = self._handle(request.header)
        async with _patience():
            recalled = await self._timers.recall(handle.topic, handle.message_id, due_ms=handle.due_ms)
        if recalled.end is None:
            raise _illegal(
                f"recall failed, message {handle.message_id} does not wait: it was delivered or recalled "
                "already"
            )
        if recalled.was_delivered:
            raise _illegal(
                f"recall failed, message {handle.message_id} was sent more than once, and a copy was "
                "delivered already; those that still waited are taken back"
            )
        answer = Answer(ext={"msgId": handle.message_id, **self.recall_ext})
        acknowledged = self._durability.acknowledge(recalled.end, answer)
        if not isinstance(acknowledged, Answer):
            answer = await acknowledged
        if answer.code != ResponseCode.SUCCESS:
            answer.remark = (
                f"message {handle.message_id} is recalled here, but not yet safely "
                f"({ResponseCode(answer.code).name}): it is delivered after all if this broker is lost now"
            )
        return answer

    async def list_waiting(self, request: Request[ListWaiting]) -> Answer:
        """Answer a page of what waits, and how many wait; an empty one costs nothing."""
        header = request.header
        async with _patience():
            if header.max_num <= 0:
                answer = _answer(ListWaitingAnswer())
            elif header.key is not None:
                answer = await self._with_key(header, header.key)
            else:
                answer = await self._page(header)
            if header.with_count:
                assert answer.ext is not None
                answer.ext["waitingCount"] = str(await self._timers.count())
        return answer

    def _handle(self, header: RecallMessage) -> RecallHandle:
        """Return what a recall is about; the remarks are RocketMQ's."""
        if not self._settings.broker_permission & Perm.WRITE:
            raise ServiceNotAvailable(
                ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available"
            )
        if self._topics.get(header.topic) is None:
            raise TopicNotFound(
                ResponseCode.TOPIC_NOT_EXIST, f"recall failed, the topic[{header.topic}] not exist"
            )
        try:
            handle = decode_recall_handle(header.recall_handle)
        except HeaderError as error:
            raise _illegal(str(error)) from error
        if handle.topic != header.topic:
            raise _illegal("recall failed, topic not match")
        if handle.broker_name != self._settings.broker_name:
            raise _illegal("recall failed, broker service not available")
        return handle

    async def _page(self, header: ListWaiting) -> Answer:
        wants = _wanted(header.topic)
        after = max((header.after_due_ms, header.after_position), (header.begin_due_ms - 1, _LAST))
        page: list[bytes] = []
        size = 0
        for _ in range(LOOKED_AT_MAX // TURN):
            entries = await self._timers.list_waiting(after=after, count=TURN)
            for due_ms, position, _ in entries:
                if due_ms > header.end_due_ms:
                    return _answer(ListWaitingAnswer(), page)
                if len(page) >= header.max_num or size >= PAGE_BYTES:
                    return _answer(_more(after), page)
                after = due_ms, position
                record = self._store.read_at(position)
                if record is not None and wants(record):
                    page.append(record)
                    size += len(record)
            if len(entries) < TURN:
                return _answer(ListWaitingAnswer(), page)
        return _answer(_more(after), page)

    async def _with_key(self, header: ListWaiting, key: str) -> Answer:
        """Answer what waits of the newest messages with a key, on one page."""
        wants = _wanted(header.topic)
        after = header.after_due_ms, header.after_position
        found = self._store.query(WHEEL_TIMER, key, count_max=KEY_COUNT_MAX, begin_ms=0, end_ms=_LAST)
        waiting: list[tuple[tuple[int, int], bytes]] = []
        for record in found.records:
            place = _place_of(record, key)
            if place is None or not header.begin_due_ms <= place[0] <= header.end_due_ms:
                continue
            if place > after and wants(record) and await self._waits(place):
                waiting.append((place, record))
        waiting.sort()
        return _answer(ListWaitingAnswer(), [record for _, record in waiting[: header.max_num]])

    async def _waits(self, place: tuple[int, int]) -> bool:
        due_ms, position = place
        rows = await self._timers.list_waiting(after=(due_ms, position - 1), count=1)
        return [row[:2] for row in rows] == [place]


@asynccontextmanager
async def _patience() -> AsyncIterator[None]:
    """Refuse what takes too long; a recall is not cut short once it is stored, for it awaits nothing then."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield
    except TimeoutError as error:
        raise SystemBusy(
            ResponseCode.SYSTEM_BUSY,
            "the broker does not know yet which messages wait, as after a start; try again in some seconds",
        ) from error


def _wanted(topic: str | None) -> Wants:
    """Return whether a record will be delivered to a topic; None is any."""
    if topic is None:
        return lambda _: True

    def wants(record: bytes) -> bool:
        try:
            return names.find_text(read_properties(record), names.REAL_TOPIC) == topic
        except CorruptRecord:
            return False

    return wants


def _place_of(record: bytes, key: str) -> tuple[int, int] | None:
    """Return when a record is due and where it is, None unless it has the key.

    The index goes by hash, so other messages may come along; a recall has no time.
    """
    try:
        decoded = decode_record(record, check_crc=False)
    except CorruptRecord:
        return None
    properties = names.decode(decoded.properties)
    due = properties.get(names.TIMER_OUT_MS, "")
    if not (due.isascii() and due.isdecimal()):
        return None
    has_key = key == properties.get(names.UNIQ_KEY) or key in properties.get(names.KEYS, "").split()
    return (int(due), decoded.position) if has_key else None


def _more(after: tuple[int, int]) -> ListWaitingAnswer:
    return ListWaitingAnswer(next_due_ms=after[0], next_position=after[1])


def _answer(header: ListWaitingAnswer, records: list[bytes] | None = None) -> Answer:
    return Answer(ext=write_header(header), body=b"".join(records or ()))


def _illegal(remark: str) -> IllegalOperation:
    return IllegalOperation(ResponseCode.ILLEGAL_OPERATION, remark)
