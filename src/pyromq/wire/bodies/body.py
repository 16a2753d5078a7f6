"""The base of all bodies: a struct whose fields travel in camel case, and its reading from JSON.

Reading forgives what fastjson forgives: unknown fields, null where something is expected (it is absent),
numbers and booleans as text. `java_json.dumps` writes a body; it sorts the fields and leaves out None.
"""

from typing import Any, TypeVar

import msgspec

from pyromq.errors import BodyError
from pyromq.model import MessageQueue
from pyromq.wire.header import Int32, ServerName, TopicName
from pyromq.wire.java_json import DEPTH_MAX, ObjectKey, loads


class Body(msgspec.Struct, rename="camel", frozen=True):
    """The fields of one JSON object. Subclasses say `kw_only=True, frozen=True`."""


B = TypeVar("B", bound=Body)


class _QueueFields(Body, kw_only=True, frozen=True):
    topic: TopicName
    broker_name: ServerName
    queue_id: Int32


def read_object(data: bytes) -> dict[Any, Any]:
    """Return the JSON object without its nulls; raise BodyError when the body is none."""
    value = loads(data)
    if not isinstance(value, dict):
        raise BodyError(f"a JSON object is expected, not {type(value).__name__}")
    return {key: _without_nulls(item, 1) for key, item in value.items() if item is not None}


def convert(body_type: type[B], value: Any) -> B:
    """Return a plain JSON value as a body; raise BodyError, which names the field that does not fit."""
    try:
        return msgspec.convert(value, body_type, strict=False)
    except msgspec.ValidationError as error:
        raise BodyError(f"{body_type.__name__}: {error}") from error


def read_body(body_type: type[B], data: bytes) -> B:
    """Return the body that the JSON says."""
    return convert(body_type, read_object(data))


def read_queue(value: Any) -> MessageQueue:
    """Return the queue that a JSON object, or an object that is a key, names."""
    fields = convert(_QueueFields, value.as_dict() if isinstance(value, ObjectKey) else value)
    return MessageQueue(fields.topic, fields.broker_name, fields.queue_id)


def read_queues(value: Any) -> list[MessageQueue]:
    """Return the queues of a JSON list."""
    if not isinstance(value, list):
        raise BodyError("a list of queues is expected")
    return [read_queue(item) for item in value]


def read_map(value: Any, name: str) -> dict[Any, Any]:
    """Return a JSON object that a body has under `name`."""
    if not isinstance(value, dict):
        raise BodyError(f"{name}: a JSON object is expected")
    return value


def read_int(value: Any, name: str) -> int:
    """Return a number that may stand as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= 20:
        try:
            return int(value)
        except ValueError:
            pass
    raise BodyError(f"{name}: a number is expected, not {value!r}")


def _without_nulls(value: Any, depth: int) -> Any:
    if depth > DEPTH_MAX:
        raise BodyError("the JSON is nested too deep")
    if isinstance(value, dict):
        return {key: _without_nulls(item, depth + 1) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item, depth + 1) for item in value]
    return value
