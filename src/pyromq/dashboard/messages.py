"""Messages for a page: found by topic and time, by key, by id; and their bodies in a form to read."""

import asyncio
import json
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from pyromq.client.aio.asking import Asker
from pyromq.client.plans import admin, progress
from pyromq.client.plans.admin import FOREVER_MS, KeyQuery
from pyromq.client.plans.pull import Wanted, pull
from pyromq.dashboard.picture import Picture
from pyromq.errors import ConfigError, PyroError, QueryNotFound
from pyromq.model import MessageQueue, ReceivedMessage
from pyromq.net.address import join_address
from pyromq.wire.message_id import parse_offset_message_id

#: Messages of one answer.
COUNT_MAX: Final = 64
#: Bytes of a body that a page shows; the whole is downloaded.
PREVIEW_BYTES_MAX: Final = 64 * 1024
#: Bytes of it that are shown as hexadecimal numbers.
HEX_BYTES_MAX: Final = 8 * 1024
#: Bytes of a body that a list shows.
_LINE_BYTES_MAX: Final = 160
#: Queues of a topic that one search reads.
_QUEUES_MAX: Final = 256

Shown = dict[str, Any]


async def browse(asker: Asker, query: Mapping[str, str]) -> Shown:
    """Return messages of a topic stored from a time on, the oldest first; without a time, the newest first.

    `cursor` of an answer asks for the next.
    """
    topic = needed(query, "topic")
    begin_ms, end_ms = moment(query, "begin"), moment(query, "end")
    if query.get("cursor"):
        places = _read_cursor(query["cursor"], topic)
    elif begin_ms is None:
        places = await _ends(asker, topic, end_ms)
    else:
        at = begin_ms
        places = await _places(asker, topic, lambda queue: asker.run(progress.offset_by_time, queue, at))
    if begin_ms is None:
        return await _older(asker, places, end_ms)
    return await _newer(asker, places, begin_ms, end_ms)


async def _newer(asker: Asker, places: dict[MessageQueue, int], begin_ms: int, end_ms: int | None) -> Shown:
    lots = await asyncio.gather(*(_read(asker, queue, offset) for queue, offset in places.items()))
    # For a time behind the last message brokers name the last one.
    within = [
        one for lot in lots for one in lot.messages if begin_ms <= one.stored_at_ms <= (end_ms or FOREVER_MS)
    ]
    ordered = sorted(within, key=_when)
    shown = ordered[:COUNT_MAX]
    for one in shown:
        places[one.queue] = max(places[one.queue], one.queue_offset + 1)
    counts = Counter(one.queue for one in within)
    has_more = len(ordered) > len(shown) or any(count >= COUNT_MAX for count in counts.values())
    return {"rows": [row(one) for one in shown], "cursor": _cursor(places) if has_more else None}


async def _older(asker: Asker, ends: dict[MessageQueue, int], end_ms: int | None) -> Shown:
    """Return the last messages before some places, the newest first."""
    lots = await asyncio.gather(*(_read_before(asker, queue, end) for queue, end in ends.items()))
    within = [one for lot in lots for one in lot.messages if one.stored_at_ms <= (end_ms or FOREVER_MS)]
    shown = sorted(within, key=_when, reverse=True)[:COUNT_MAX]
    for lot in lots:
        # Where all that was read is too new, the next look is at what is before it.
        if lot.messages and lot.messages[0].stored_at_ms > (end_ms or FOREVER_MS):
            ends[lot.queue] = lot.messages[0].queue_offset
    for one in shown:
        ends[one.queue] = min(ends[one.queue], one.queue_offset)
    has_more = any(ends[lot.queue] > lot.min_offset for lot in lots if lot.messages)
    return {"rows": [row(one) for one in shown], "cursor": _cursor(ends) if has_more else None}


def _when(message: ReceivedMessage) -> tuple[int, MessageQueue, int]:
    return message.stored_at_ms, message.queue, message.queue_offset


async def _ends(asker: Asker, topic: str, end_ms: int | None) -> dict[MessageQueue, int]:
    """Return where the messages end that were stored until a time, or now."""
    if end_ms is None:
        return await _places(asker, topic, lambda queue: asker.run(progress.max_offset, queue))
    # One more, for a time behind the last message brokers name the last one.
    at = end_ms + 1
    found = await _places(asker, topic, lambda queue: asker.run(progress.offset_by_time, queue, at))
    return {queue: offset + 1 for queue, offset in found.items()}


async def _places(
    asker: Asker, topic: str, find: Callable[[MessageQueue], Awaitable[int]]
) -> dict[MessageQueue, int]:
    queues = await asker.run(progress.subscribe_queues, topic)
    if len(queues) > _QUEUES_MAX:
        raise ConfigError(
            f"topic {topic!r} has {len(queues)} queues, more than the {_QUEUES_MAX} that a page reads; "
            "search by key or id"
        )
    offsets = await asyncio.gather(*(find(queue) for queue in queues))
    return dict(zip(queues, offsets, strict=True))


class _Lot(NamedTuple):
    """Messages of one queue in their order, and where that begins."""

    queue: MessageQueue
    messages: list[ReceivedMessage]
    min_offset: int


async def _read(asker: Asker, queue: MessageQueue, offset: int) -> _Lot:
    """Read up to a page's worth of a queue; one that begins later is read from its beginning."""
    found: list[ReceivedMessage] = []
    min_offset = 0
    for _ in range(4):
        result = await asker.run(pull, Wanted(queue, offset, count=COUNT_MAX - len(found)))
        found += result.messages
        min_offset = result.min_offset
        is_moved = result.next_offset != offset
        offset = result.next_offset
        if len(found) >= COUNT_MAX or not is_moved or offset >= result.max_offset:
            break
    return _Lot(queue, found, min_offset)


async def _read_before(asker: Asker, queue: MessageQueue, end: int) -> _Lot:
    """Read the last messages of a queue before a place, fewer of them where they are large."""
    lot = _Lot(queue, [], 0)
    for span in (COUNT_MAX, 8, 4, 1) if end else ():
        read = await _read(asker, queue, max(0, end - span))
        lot = _Lot(queue, [one for one in read.messages if one.queue_offset < end], read.min_offset)
        if not lot.messages or read.messages[-1].queue_offset >= end - 1:
            break
    return lot


async def by_key(asker: Asker, query: Mapping[str, str]) -> Shown:
    """Return the messages of a topic with a key."""
    wanted = KeyQuery(
        needed(query, "topic"),
        needed(query, "key"),
        COUNT_MAX,
        moment(query, "begin") or 0,
        moment(query, "end") or FOREVER_MS,
    )
    found = await asker.run(admin.query_message, wanted)
    return {"rows": [row(one) for one in found], "cursor": None}


async def by_id(asker: Asker, picture: Picture, query: Mapping[str, str]) -> ReceivedMessage:
    """Return the message with an id: the broker's, or its producer's, which needs the topic too."""
    message_id = needed(query, "id").strip()
    place = place_of(picture, message_id)
    if place is not None:
        return await asker.run(admin.view_message, message_id)
    topic = query.get("topic", "")
    if not topic:
        raise ConfigError(
            f"{message_id} is no id that a broker of this cluster gave; for an id that a producer gave, say "
            "the topic too"
        )
    return await asker.run(admin.find_message, topic, message_id)


def place_of(picture: Picture, message_id: str) -> str | None:
    """Return the address in a broker's id, if it is one of the cluster's: nobody else is connected to."""
    try:
        place = parse_offset_message_id(message_id)
        address = join_address(place.host, place.port)
    except (PyroError, ValueError):
        return None
    known = (*picture.brokers, *picture.gone)
    return address if any(broker.address == address for broker in known) else None


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


def row(message: ReceivedMessage) -> Shown:
    """Return a message for a list."""
    body = message.body[:_LINE_BYTES_MAX]
    return {
        "id": message.message_id,
        "placeId": message.offset_message_id,
        "topic": message.topic,
        "tags": message.tags,
        "keys": message.keys,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "stored": message.stored_at_ms,
        "born": message.born_at_ms,
        "size": len(message.body),
        "line": "".join(c if c.isprintable() else " " for c in body.decode("utf-8", "replace")),
    }


def full(message: ReceivedMessage) -> Shown:
    """Return a message with its properties, and its body in every form that it has."""
    return {
        **row(message),
        "bornHost": message.born_host,
        "storeHost": message.store_host,
        "position": message.position,
        "tries": message.reconsume_times,
        "crc": message.body_crc,
        "properties": dict(sorted(message.properties.items())),
        "body": preview(message.body),
    }


def preview(body: bytes) -> Shown:
    """Return a body as text, as JSON if it is, and its bytes, as much of it as a page shows."""
    part = body[:PREVIEW_BYTES_MAX]
    shown: Shown = {"size": len(body), "isCut": len(body) > len(part)}
    try:
        # A character may be cut in two.
        shown["text"] = part.decode() if not shown["isCut"] else part.decode("utf-8", "ignore")
    except UnicodeDecodeError:
        shown["text"] = None
    shown["json"] = None if shown["isCut"] or shown["text"] is None else _pretty(shown["text"])
    shown["bytes"] = b64encode(part[:HEX_BYTES_MAX]).decode()
    return shown


def _pretty(text: str) -> str | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None


def needed(query: Mapping[str, str], name: str) -> str:
    """Return a field that must be there."""
    text = query.get(name, "")
    if not text:
        raise ConfigError(f"say the {name}")
    return text


def moment(query: Mapping[str, str], name: str) -> int | None:
    """Return a time in milliseconds since 1970, or None when none is given."""
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise ConfigError(f"{name}={text!r} is no time in milliseconds since 1970")
    return int(text)


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
