"""CloudEvents in RocketMQ's messages: the binding of CloudEvents for RocketMQ, in both of its modes.

    message = to_message(CloudEvent(type="order.paid", source="/shop", data={"id": 7}), "orders")
    event = from_message(received)

| mode       | attributes                                       | body                        |
| ---------- | ------------------------------------------------ | --------------------------- |
| binary     | properties `CE_id`, `CE_type`, …; the media type | the data                    |
|            | of the data in `CE_contenttype`                  |                             |
| structured | in the body                                      | the whole event as JSON;    |
|            |                                                  | `CE_contenttype` says so    |

Programs with the CloudEvents SDK for Java read and write the same. RocketMQ has no empty bodies: an event
without data has one byte, a zero, in binary mode.
"""

import base64
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from pyromq.codes import ResponseCode
from pyromq.errors import MessageIllegal, PyroError
from pyromq.model import Message, ReceivedMessage

PREFIX: Final = "CE_"
CONTENT_TYPE: Final = "CE_contenttype"
STRUCTURED: Final = "application/cloudevents+json"
_STRUCTURED_PREFIX: Final = "application/cloudevents"
_JSON: Final = "application/json"
_NO_DATA: Final = b"\x00"
_REQUIRED: Final = ("specversion", "id", "source", "type")
_OPTIONAL: Final = ("datacontenttype", "dataschema", "subject", "time")
#: CloudEvents lets attributes have no other names.
_NAME: Final = re.compile(r"[a-z0-9]{1,20}")


class NoCloudEvent(PyroError):
    """A message that is no CloudEvent, or one that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudEvent:
    """An event. `data` is bytes, text, or a value that has JSON; `extensions` are further attributes.

    An event that was read in binary mode has its data as bytes, unless `datacontenttype` says JSON or text.
    """

    type: str
    source: str
    data: Any = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    time: datetime | None = field(default_factory=lambda: datetime.now(UTC))
    subject: str | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    specversion: str = "1.0"
    extensions: Mapping[str, str] = field(default_factory=dict)

    def attributes(self) -> dict[str, str]:
        """Return all attributes as text; raise MessageIllegal for one that CloudEvents does not allow."""
        found: dict[str, str] = {}
        for name in _REQUIRED:
            value = getattr(self, name)
            if not value or not isinstance(value, str):
                raise _illegal(f"a CloudEvent needs the attribute {name}, as text; it is {value!r}")
            found[name] = value
        for name in _OPTIONAL:
            value = getattr(self, name)
            if value is not None:
                found[name] = value.isoformat().replace("+00:00", "Z") if name == "time" else value
        if "datacontenttype" not in found and (kind := _media_type_of(self.data)):
            found["datacontenttype"] = kind
        for name, value in self.extensions.items():
            if not _NAME.fullmatch(name) or name in found or name == "data":
                raise _illegal(
                    f"{name!r} is no name of an extension: 1 to 20 of a-z and 0-9, and not an attribute's"
                )
            found[name] = str(value)
        return found


def to_message(
    event: CloudEvent,
    topic: str,
    *,
    structured: bool = False,
    tags: str | None = None,
    keys: Sequence[str] | str = (),
) -> Message:
    """Return the message that carries an event, in binary mode unless `structured` is True."""
    attributes = event.attributes()
    if structured:
        body = msgspec.json.encode({**attributes, **_data_member(event.data)})
        properties = {CONTENT_TYPE: f"{STRUCTURED}; charset=UTF-8"}
    else:
        media_type = attributes.pop("datacontenttype", None)
        properties = {PREFIX + name: value for name, value in attributes.items()}
        if media_type is not None:
            properties[CONTENT_TYPE] = media_type
        body = _encoded(event.data) or _NO_DATA
    return Message(topic, body, tags=tags, keys=keys, properties=properties)


def is_event(message: Message | ReceivedMessage) -> bool:
    """Return whether a message says that it is a CloudEvent."""
    properties = message.properties
    return properties.get(CONTENT_TYPE, "").startswith(_STRUCTURED_PREFIX) or PREFIX + "id" in properties


def from_message(message: Message | ReceivedMessage) -> CloudEvent:
    """Return the event that a message carries; raise NoCloudEvent that says what it lacks."""
    media_type = message.properties.get(CONTENT_TYPE, "")
    if media_type.startswith(_STRUCTURED_PREFIX):
        if not media_type.startswith(STRUCTURED):
            raise NoCloudEvent(f"the event is written as {media_type}; this reads {STRUCTURED}")
        return _from_json(message.body)
    attributes = {
        name.removeprefix(PREFIX): value
        for name, value in message.properties.items()
        if name.startswith(PREFIX) and name != CONTENT_TYPE
    }
    if media_type:
        attributes["datacontenttype"] = media_type
    data = None if message.body == _NO_DATA else _decoded(message.body, media_type)
    return _event(attributes, data)


def _from_json(body: bytes) -> CloudEvent:
    try:
        members = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise NoCloudEvent(f"the body is no CloudEvent in JSON: {error}") from error
    data = members.pop("data", None)
    if (encoded := members.pop("data_base64", None)) is not None:
        try:
            data = base64.b64decode(encoded, validate=True)
        except (TypeError, ValueError) as error:
            raise NoCloudEvent(f"data_base64 is no base64: {error}") from error
    return _event({name: str(value) for name, value in members.items() if value is not None}, data)


def _event(attributes: dict[str, str], data: object) -> CloudEvent:
    missing = [name for name in _REQUIRED if not attributes.get(name)]
    if missing:
        raise NoCloudEvent(f"the message is no CloudEvent: it lacks {', '.join(missing)}")
    known = {name: attributes.pop(name, None) for name in (*_REQUIRED, *_OPTIONAL)}
    when = known.pop("time")
    try:
        time = None if when is None else datetime.fromisoformat(when)
    except ValueError as error:
        raise NoCloudEvent(f"the event's time {when!r} is no RFC 3339 time") from error
    return CloudEvent(data=data, time=time, extensions=attributes, **{k: v for k, v in known.items() if v})


def _illegal(text: str) -> MessageIllegal:
    return MessageIllegal(ResponseCode.MESSAGE_ILLEGAL, text)


def _media_type_of(data: object) -> str | None:
    if data is None or isinstance(data, bytes):
        return None
    return "text/plain; charset=UTF-8" if isinstance(data, str) else _JSON


def _encoded(data: object) -> bytes:
    if data is None or isinstance(data, bytes):
        return data or b""
    if isinstance(data, str):
        return data.encode()
    try:
        return msgspec.json.encode(data)
    except (TypeError, ValueError) as error:
        raise _illegal(f"the data of the event has no JSON: {error}") from error


def _data_member(data: object) -> dict[str, object]:
    if data is None:
        return {}
    if isinstance(data, bytes):
        return {"data_base64": base64.b64encode(data).decode()}
    return {"data": data}


def _decoded(body: bytes, media_type: str) -> object:
    """Return data as a value where its media type says how; else the bytes."""
    kind = media_type.partition(";")[0].strip().lower()
    try:
        if kind == _JSON or kind.endswith("+json"):
            return msgspec.json.decode(body)
        if kind.startswith("text/"):
            return body.decode()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NoCloudEvent(f"the data is not {media_type}: {error}") from error
    return body
