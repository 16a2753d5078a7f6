"""Searches for messages: of a topic, from a time on or the newest first, by key, by id.

A topic lies on several brokers. One that does not answer must not hide what the others have: it is told too.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from pyromq.client.aio.asking import Asker
from pyromq.client.plans import progress_plans
from pyromq.client.plans.admin.lookups import FOREVER_MS
from pyromq.client.plans.pull_plans import PullQuery, pull
from pyromq.dashboard.failure_advice import next_step
from pyromq.dashboard.message_pages import COUNT_MAX, by_id, by_key, moment, needed, row
from pyromq.dashboard.picture import Picture
from pyromq.errors import ConfigError, PyroError, QueryNotFound
from pyromq.model import MessageQueue, ReceivedMessage

#: Queues of a topic that one search reads.
_QUEUES_MAX: Final = 256

T = TypeVar("T")
Shown = dict[str, Any]


async def search(asker: Asker, picture: Picture, query: Mapping[str, str]) -> Shown:
    """Return what a search finds; `by` is time, key or id."""
    how = query.get("by", "time")
    if how == "key":
        return await by_key(asker, query)
    if how == "id":
        try:
            return {"rows": [row(await by_id(asker, picture, query))], "cursor": None}
        except QueryNotFound:
            return {"rows": [], "cursor": None}
    return await browse(asker, query)


async def browse(asker: Asker, query: Mapping[str, str]) -> Shown:
    """Return messages of a topic stored from a time on, the oldest first; without a time, the newest first.

    `cursor` of an answer asks for the next; `missing` are brokers that did not answer.
    """
    topic = needed(query, "topic")
    begin_ms, end_ms = moment(query, "begin"), moment(query, "end")
    reading = _Reading(asker)
    if query.get("cursor"):
        places = _read_cursor(query["cursor"], topic)
    else:
        queues = await _queues(asker, topic)
        places = await (reading.ends(queues, end_ms) if begin_ms is None else reading.at(queues, begin_ms))
    if begin_ms is None:
        shown = await reading.older(places, end_ms or FOREVER_MS)
    else:
        shown = await reading.newer(places, begin_ms, end_ms or FOREVER_MS)
    return {**shown, "missing": reading.missing()}


class _Lot(NamedTuple):
    """Messages of one queue in their order, and where that begins."""

    queue: MessageQueue
    messages: list[ReceivedMessage]
    min_offset: int


class _Reading:
    """Reads queues together, and notes which brokers did not say their part."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._errors: dict[str, PyroError] = {}

    async def at(self, queues: Iterable[MessageQueue], at_ms: int) -> dict[MessageQueue, int]:
        """Return where in each queue a time is."""
        return await self._each(
            queues, lambda queue: self._asker.run(progress_plans.offset_by_time, queue, at_ms)
        )

    async def ends(self, queues: Iterable[MessageQueue], end_ms: int | None) -> dict[MessageQueue, int]:
        """Return where the messages end that were stored until a time, or now."""
        if end_ms is None:
            return await self._each(queues, lambda queue: self._asker.run(progress_plans.max_offset, queue))
        # One more: for a time behind the last message brokers name the last one.
        return {queue: offset + 1 for queue, offset in (await self.at(queues, end_ms + 1)).items()}

    async def newer(self, places: dict[MessageQueue, int], begin_ms: int, end_ms: int) -> Shown:
        """Return messages from places on, the oldest first."""
        lots = await self._each(places, lambda queue: self._read(queue, places[queue]))
        # For a time behind the last message brokers name the last one.
        within = [
            one for lot in lots.values() for one in lot.messages if begin_ms <= one.stored_at_ms <= end_ms
        ]
        shown = sorted(within, key=_when)[:COUNT_MAX]
        for one in shown:
            places[one.queue] = max(places[one.queue], one.queue_offset + 1)
        counts = Counter(one.queue for one in within)
        has_more = len(within) > len(shown) or any(count >= COUNT_MAX for count in counts.values())
        return {"rows": [row(one) for one in shown], "cursor": _cursor(places) if has_more else None}

    async def older(self, ends: dict[MessageQueue, int], end_ms: int) -> Shown:
        """Return the last messages before some places, the newest first."""
        lots = await self._each(ends, lambda queue: self._read_before(queue, ends[queue]))
        within = [one for lot in lots.values() for one in lot.messages if one.stored_at_ms <= end_ms]
        shown = sorted(within, key=_when, reverse=True)[:COUNT_MAX]
        for queue, lot in lots.items():
            # Where all that was read is too new, the next look is at what is before it.
            if lot.messages and lot.messages[0].stored_at_ms > end_ms:
                ends[queue] = lot.messages[0].queue_offset
        for one in shown:
            ends[one.queue] = min(ends[one.queue], one.queue_offset)
        has_more = any(ends[queue] > lot.min_offset for queue, lot in lots.items() if lot.messages)
        return {"rows": [row(one) for one in shown], "cursor": _cursor(ends) if has_more else None}

    def missing(self) -> list[Shown]:
        """Return the brokers that did not answer, why, and what to do."""
        return [
            {"broker": name, "why": str(error), "next": next_step(error)}
            for name, error in sorted(self._errors.items())
        ]

    async def _each(
        self, queues: Iterable[MessageQueue], ask: Callable[[MessageQueue], Awaitable[T]]
    ) -> dict[MessageQueue, T]:
        """Return what was said of each queue; raise the error when nothing was said of any."""
        asked = list(queues)
        answers = await asyncio.gather(*(ask(queue) for queue in asked), return_exceptions=True)
        found: dict[MessageQueue, T] = {}
        for queue, answer in zip(asked, answers, strict=True):
            if isinstance(answer, PyroError):
                self._errors[queue.broker_name] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[queue] = answer
        if self._errors and not found:
            raise next(iter(self._errors.values()))
        return found

    async def _read(self, queue: MessageQueue, offset: int) -> _Lot:
        """Read up to a page's worth of a queue; one that begins later is read from its beginning."""
        found: list[ReceivedMessage] = []
        min_offset = 0
        for _ in range(4):
            result = await self._asker.run(pull, PullQuery(queue, offset, count=COUNT_MAX - len(found)))
            found += result.messages
            min_offset = result.min_offset
            is_moved = result.next_offset != offset
            offset = result.next_offset
            if len(found) >= COUNT_MAX or not is_moved or offset >= result.max_offset:
                break
        return _Lot(queue, found, min_offset)

    async def _read_before(self, queue: MessageQueue, end: int) -> _Lot:
        """Read the last messages of a queue before a place, fewer of them where they are large."""
        lot = _Lot(queue, [], 0)
        for span in (COUNT_MAX, 8, 4, 1) if end else ():
            read = await self._read(queue, max(0, end - span))
            lot = _Lot(queue, [one for one in read.messages if one.queue_offset < end], read.min_offset)
            if not lot.messages or read.messages[-1].queue_offset >= end - 1:
                break
        return lot


def _when(message: ReceivedMessage) -> tuple[int, MessageQueue, int]:
    return message.stored_at_ms, message.queue, message.queue_offset


async def _queues(asker: Asker, topic: str) -> list[MessageQueue]:
    queues = await asker.run(progress_plans.subscribe_queues, topic)
    if len(queues) > _QUEUES_MAX:
        raise ConfigError(
            f"topic {topic!r} has {len(queues)} queues, more than the {_QUEUES_MAX} that a page reads; "
            "search by key or id"
        )
    return queues


def _cursor(places: Mapping[MessageQueue, int]) -> str:
    return json.dumps([[queue.broker_name, queue.queue_id, offset] for queue, offset in places.items()])


def _read_cursor(text: str, topic: str) -> dict[MessageQueue, int]:
    try:
        return {
            MessageQueue(topic, str(broker), int(queue_id)): int(offset)
            for broker, queue_id, offset in json.loads(text)
        }
    except (ValueError, TypeError) as error:
        raise ConfigError(f"the place to go on from does not read: {error}") from error
