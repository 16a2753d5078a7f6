"""Messages for a page: found by key, by id; and their bodies in a form to read."""

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from pyromq.client.aio.asking import Asker
from pyromq.client.consumer.incoming import shown_body
from pyromq.client.plans.admin import lookups as admin
from pyromq.client.plans.admin.lookups import FOREVER_MS, KeyQuery
from pyromq.dashboard.picture import Picture
from pyromq.errors import ConfigError, PyroError
from pyromq.model import ReceivedMessage
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

Shown = dict[str, Any]


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
    known = (*picture.brokers, *(one.broker for one in picture.gone))
    return address if any(broker.address == address for broker in known) else None


def row(message: ReceivedMessage) -> Shown:
    """Return a message for a list."""
    body = shown_body(message)
    line = body[:_LINE_BYTES_MAX].decode("utf-8", "replace")
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
        "size": len(body),
        "line": "".join(c if c.isprintable() else " " for c in line),
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
        "body": preview(shown_body(message)),
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
