"""Heartbeats: who a client is, and what its groups produce and subscribe to.

Java and Go write enums by name; the C++ client writes their ordinals, and `subVersion` as text. Both read.
"""

from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from pyromq.errors import BodyError
from pyromq.wire.bodies.body import Body, convert, read_body, read_object
from pyromq.wire.header import ClientId, Expression, GroupName, Int32, Int64, TopicName, Word
from pyromq.wire.java_json import dumps

#: What a broker keeps of a client is in its heartbeat. 10,000 subscriptions by tags need about 2 MB.
HEARTBEAT_BYTES_MAX: Final = 4 * 1024 * 1024


class ConsumeType(StrEnum):
    """The consume type, pull or push; in the order of RocketMQ's ordinals."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """The message model: each member gets a message, or one of them; in RocketMQ's order."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """The start offset of a new group; in the order of RocketMQ's ordinals, 1 to 3 long out of use."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = (
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    )
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class Subscription(Body, kw_only=True, frozen=True):
    """A group's subscription to a topic: the expression, and for tags also the tags and their hashes."""

    topic: TopicName
    sub_string: Expression = "*"
    tags: list[Expression] = msgspec.field(default_factory=list, name="tagsSet")
    tag_codes: list[Int32] = msgspec.field(default_factory=list, name="codeSet")
    sub_version: Int64 = 0
    expression_type: Word = "TAG"
    class_filter_mode: bool = False


class ProducerPart(Body, kw_only=True, frozen=True):
    """A producer group that the client is in."""

    group_name: GroupName


class ConsumerPart(Body, kw_only=True, frozen=True):
    """A consumer group that the client is in."""

    group_name: GroupName
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    subscriptions: list[Subscription] = msgspec.field(default_factory=list, name="subscriptionDataSet")
    unit_mode: bool = False


class Heartbeat(Body, kw_only=True, frozen=True):
    """A client's heartbeat, which it sends every 30 seconds."""

    client_id: ClientId = msgspec.field(name="clientID")
    producers: list[ProducerPart] = msgspec.field(default_factory=list, name="producerDataSet")
    consumers: list[ConsumerPart] = msgspec.field(default_factory=list, name="consumerDataSet")


class ClientConfigCheck(Body, kw_only=True, frozen=True):
    """46: a subscription that the client wants checked before it starts."""

    client_id: ClientId
    group: GroupName
    namespace: Word | None = None
    subscription: Subscription | None = msgspec.field(default=None, name="subscriptionData")


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """Return the heartbeat's JSON."""
    return dumps(heartbeat)


def decode_heartbeat(data: bytes) -> Heartbeat:
    """Return the heartbeat that JSON says, from any client; its names and expressions have limits."""
    if len(data) > HEARTBEAT_BYTES_MAX:
        raise BodyError(f"a heartbeat of {len(data)} bytes; {HEARTBEAT_BYTES_MAX} are the limit")
    fields = read_object(data)
    consumers = fields.get("consumerDataSet")
    for consumer in consumers if isinstance(consumers, list) else ():
        if isinstance(consumer, dict):
            _name_enum(consumer, "consumeType", ConsumeType)
            _name_enum(consumer, "messageModel", MessageModel)
            _name_enum(consumer, "consumeFromWhere", ConsumeFromWhere)
    return convert(Heartbeat, fields)


def encode_client_config_check(check: ClientConfigCheck) -> bytes:
    """Return the JSON of 46's body."""
    return dumps(check)


def decode_client_config_check(data: bytes) -> ClientConfigCheck:
    """Return what 46's body says."""
    return read_body(ClientConfigCheck, data)


E = TypeVar("E", bound=StrEnum)


def _name_enum(fields: dict[Any, Any], name: str, enum: type[E]) -> None:
    """Replace an ordinal, as number or as text, by the name it stands for."""
    value = fields.get(name)
    if isinstance(value, str) and value.isdecimal() and len(value) < 3:
        value = int(value)
    if not isinstance(value, int):
        return
    members = list(enum)
    if not 0 <= value < len(members):
        raise BodyError(f"{name}: the ordinals are 0 to {len(members) - 1}, not {value}")
    fields[name] = members[value]
