"""From a message to what travels: checked, with its id and properties, compressed or joined to a batch."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyromq.client.names import RETRY_TOPIC_PREFIX, check_sendable_topic
from pyromq.codes import ResponseCode, SysFlag
from pyromq.config.settings import ClientSettings
from pyromq.errors import MessageIllegal
from pyromq.model import Message, SendResult
from pyromq.wire import properties as names
from pyromq.wire.batch import BatchUnit, encode_batch
from pyromq.wire.record import PROPERTIES_BYTES_MAX

#: Takes the result of an asynchronous send, or the error that ended it.
SendCallback: TypeAlias = Callable[[SendResult | None, BaseException | None], None]

#: RocketMQ's default level; the bytes then equal Java's in practice.
ZLIB_LEVEL: Final = 5

#: Properties that a field of Message stands for.
_OWN_FIELDS: Final = {
    names.TAGS: "tags",
    names.KEYS: "keys",
    names.DELAY: "delay_level",
    names.WAIT: "wait_stored",
}
#: Properties that only brokers and consumers write. Whoever copies a received message's properties into a new
#: message would send it to a wrong place with these.
_NOT_A_PRODUCERS: Final = frozenset(
    {
        names.RETRY_TOPIC,
        names.REAL_TOPIC,
        names.REAL_QUEUE_ID,
        names.MIN_OFFSET,
        names.MAX_OFFSET,
        names.ORIGIN_MESSAGE_ID,
        names.TRANSFER_FLAG,
        names.CORRECTION_FLAG,
        names.MQ2_FLAG,
        names.CONSUME_START_TIME,
        names.ARRIVE_TIME,
        names.PUSH_REPLY_TIME,
        names.CLUSTER,
        names.MSG_REGION,
        names.TRACE_ON,
    }
)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message or a batch, ready to be sent any number of times.

    `message` is what the application gave, for its selectors (a batch's first); `message_id` joins the ids of
    a batch by commas.
    """

    message: Message
    topic: str
    body: bytes
    properties: str
    message_id: str
    flag: int = 0
    sys_flag: int = 0
    is_batch: bool = False


def prepare(message: Message, message_id: str, settings: ClientSettings) -> Outgoing:
    """Return what travels of one message; raise MessageIllegal when the message breaks a rule.

    A UNIQ_KEY among the properties is kept in place of `message_id`: a message sent again keeps its id.
    """
    body = _checked_body(message, settings)
    pairs = _pairs(message, message_id)
    sys_flag = 0
    if pairs.get(names.TRANSACTION_PREPARED, "").lower() == "true":
        sys_flag |= SysFlag.TRANSACTION_PREPARED
    if len(body) >= settings.compress_msg_body_over_howmuch:
        body = zlib.compress(body, ZLIB_LEVEL)
        sys_flag |= SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
    return Outgoing(
        message=message,
        topic=message.topic,
        body=body,
        properties=_encoded(pairs),
        message_id=pairs[names.UNIQ_KEY],
        flag=message.flag,
        sys_flag=int(sys_flag),
    )


def prepare_batch(
    messages: Sequence[Message], message_ids: Sequence[str], settings: ClientSettings
) -> Outgoing:
    """Return what travels of several messages in one request; bodies in a batch are not compressed."""
    _check_batch(messages)
    units: list[BatchUnit] = []
    ids: list[str] = []
    for message, message_id in zip(messages, message_ids, strict=True):
        body = _checked_body(message, settings)
        pairs = _pairs(message, message_id)
        if names.TRANSACTION_PREPARED in pairs:
            raise _illegal("a message of a transaction cannot be in a batch; send it on its own")
        ids.append(pairs[names.UNIQ_KEY])
        units.append(BatchUnit(message.flag, body, _encoded(pairs)))
    body = encode_batch(units)
    if len(body) > settings.max_message_size:
        raise _illegal(
            f"the batch of {len(messages)} messages has {len(body)} bytes; {settings.max_message_size} are "
            "the limit (maxMessageSize): send it in parts"
        )
    return Outgoing(
        message=messages[0],
        topic=messages[0].topic,
        body=body,
        properties=names.encode({names.WAIT: _java_bool(messages[0].wait_stored)}),
        message_id=",".join(ids),
        is_batch=True,
    )


def _illegal(text: str) -> MessageIllegal:
    return MessageIllegal(ResponseCode.MESSAGE_ILLEGAL, text)


def _checked_body(message: Message, settings: ClientSettings) -> bytes:
    check_sendable_topic(message.topic)
    body = message.body
    if not isinstance(body, bytes):
        # A caller without a type checker may hand over text, which has no one way to become bytes.
        raise _illegal(f"the body is {type(body).__name__}, not bytes; text becomes bytes by .encode()")
    if not body:
        raise _illegal("the body is empty; RocketMQ takes no message without one")
    if len(body) > settings.max_message_size:
        raise _illegal(
            f"the body has {len(body)} bytes; {settings.max_message_size} are the limit (maxMessageSize, "
            "which the broker checks too)"
        )
    return body


def _check_batch(messages: Sequence[Message]) -> None:
    if not messages:
        raise _illegal("the batch is empty")
    first = messages[0]
    for message in messages:
        if message.topic != first.topic:
            raise _illegal(f"a batch has one topic; this one has {first.topic!r} and {message.topic!r}")
        if message.wait_stored != first.wait_stored:
            raise _illegal("the messages of a batch must agree in wait_stored")
        if message.delay_level > 0 or names.START_DELIVER_TIME in message.properties:
            raise _illegal("a delayed message cannot be in a batch; send it on its own")
        if message.topic.startswith(RETRY_TOPIC_PREFIX):
            raise _illegal(f"a batch cannot go to a retry topic ({message.topic})")


def _pairs(message: Message, message_id: str) -> dict[str, str]:
    for name, value in message.properties.items():
        _check_property(name, value)
    pairs = dict(message.properties)
    keys = message.key_list
    if any(" " in key for key in keys):
        raise _illegal(f"a key may have no space, which separates keys: {keys!r}")
    if keys:
        pairs[names.KEYS] = names.KEY_SEPARATOR.join(keys)
    if message.tags:
        pairs[names.TAGS] = message.tags
    if message.delay_level:
        pairs[names.DELAY] = str(message.delay_level)
    pairs[names.WAIT] = _java_bool(message.wait_stored)
    pairs.setdefault(names.UNIQ_KEY, message_id)
    return pairs


def _check_property(name: str, value: str) -> None:
    if name in _OWN_FIELDS:
        raise _illegal(f"property {name} is RocketMQ's own; use Message({_OWN_FIELDS[name]}=…)")
    if name in _NOT_A_PRODUCERS:
        raise _illegal(f"property {name} is written by brokers and consumers; leave it out or rename it")
    if not name or not value:
        raise _illegal(f"property {name!r} has an empty name or value, which does not travel; leave it out")


def _encoded(pairs: Mapping[str, str]) -> str:
    for name, value in pairs.items():
        if any(mark in text for text in (name, value) for mark in "\x01\x02"):
            raise _illegal(f"property {name!r} has the characters 1 or 2, which separate properties")
    text = names.encode(pairs)
    size = len(text.encode("utf-8", "replace"))
    if size > PROPERTIES_BYTES_MAX:
        raise _illegal(f"the properties have {size} bytes; {PROPERTIES_BYTES_MAX} are the limit")
    return text


def _java_bool(value: bool) -> str:  # noqa: FBT001  the value is what it is about
    return "true" if value else "false"
