"""Requests for any route, made from what the route itself says: so that new ones are walked by themselves."""

from collections.abc import Iterator
from typing import Any

import msgspec

from pyromq.net.routes import Route
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Heartbeat, encode_heartbeat
from pyromq.wire.bodies.lock_bodies import LockBatch, encode_lock_batch
from pyromq.wire.bodies.pop_bodies import (
    AssignmentQuestion,
    BatchAckPart,
    encode_assignment_question,
    encode_batch_ack,
)
from pyromq.wire.bodies.request_mode_bodies import RequestModeSetting, encode_request_mode

TOPIC, GROUP = "orders", "billing"
_GROUPS = frozenset(("consumerGroup", "group", "groupName", "producerGroup", "srcGroup", "destGroup", "a"))
_KNOWN = {
    "perm": "6",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "d": "4",
    "home": "broker-a",
    "commitOrRollback": "8",
    "extraInfo": "0 1700000000000 60000 0 0 broker-a 0 0",
}
#: Fields that are told although the request does without.
_TOLD = ("topic", "group", "consumerGroup")
#: RocketMQ answers nothing to who ends a transaction in no known way.
_UNANSWERED = ("commitOrRollback below zero",)
_LOCKS = encode_lock_batch(LockBatch(consumer_group=GROUP, client_id="c", queues=[]))
#: A message that was popped, and is acknowledged.
ACKED = BatchAckPart(
    group=GROUP,
    topic=TOPIC,
    start_offset=0,
    queue_id=0,
    revive_queue_id=0,
    popped_at_ms=1_700_000_000_000,
    invisible_ms=60_000,
    packed_bits="AQ==",
)
#: Requests whose body says who they are about.
_BODIES = {
    34: encode_heartbeat(Heartbeat(client_id="c", consumers=[ConsumerPart(group_name=GROUP)])),
    **dict.fromkeys((41, 42), _LOCKS),
    400: encode_assignment_question(AssignmentQuestion(topic=TOPIC, consumer_group=GROUP, client_id="c")),
    200151: encode_batch_ack("broker-a", [ACKED]),
    401: encode_request_mode(RequestModeSetting(topic=TOPIC, consumer_group=GROUP)),
}
#: Far beyond what any name may be.
LONG = 100_000


def name_of(route: Route[Any]) -> str:
    """Return how a test of a route is called."""
    return f"{int(route.code)}"


def fields_of(route: Route[Any]) -> dict[str, str]:
    """Return fields that read, about one topic and one group."""
    if route.header is None:
        return {}
    fields = msgspec.structs.fields(route.header)
    wanted = [field for field in fields if field.required or field.encode_name in _TOLD]
    return {field.encode_name: _value(field) for field in wanted}


def body_of(route: Route[Any]) -> bytes:
    """Return a body that reads."""
    return _BODIES.get(int(route.code), b"")


def absurd_fields(route: Route[Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield what is wrong, and fields of which one has it: far too long, of no type, or missing."""
    sane = fields_of(route)
    for name in sane:
        is_number = _is_number(route, name)
        for what, value in _ABSURD_NUMBERS if is_number else _ABSURD_TEXTS:
            if f"{name} {what}" not in _UNANSWERED:
                yield f"{name} {what}", {**sane, name: value}
        yield f"no {name}", {key: value for key, value in sane.items() if key != name}


_ABSURD_NUMBERS = (
    ("a word", "seven"),
    ("beyond 64 bits", "9" * 40),
    ("of many digits", "9" * LONG),
    ("below zero", "-9223372036854775808"),
    ("empty", ""),
)
_ABSURD_TEXTS = (
    ("far too long", "x" * LONG),
    ("with a path", "../../../etc/passwd"),
    ("with zeros", "\0\1\2"),
    ("empty", ""),
)


def _value(field: msgspec.structs.FieldInfo) -> str:
    name = field.encode_name
    if name in _KNOWN:
        return _KNOWN[name]
    if _is_text(field):
        return GROUP if name in _GROUPS else TOPIC
    return "0"


def _is_number(route: Route[Any], name: str) -> bool:
    assert route.header is not None
    return not any(
        field.encode_name == name and _is_text(field) for field in msgspec.structs.fields(route.header)
    )


def _is_text(field: msgspec.structs.FieldInfo) -> bool:
    return "str" in str(field.type)
