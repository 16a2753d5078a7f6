"""Messages in the form that is sent: checked, with id and properties, compressed or joined to a batch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from pyromq.client.names import RETRY_TOPIC_PREFIX, check_sendable_topic
from pyromq.client.namespaces import wrap
from pyromq.client.producer.compression import compress
from pyromq.client.producer.delays import timer_property
from pyromq.codes import ResponseCode, SysFlag
from pyromq.config.settings import ClientSettings
from pyromq.errors import MessageIllegal
from pyromq.model import Message, SendResult
from pyromq.wire import properties as names
from pyromq.wire.batch import UNIT_BYTES_MIN, BatchUnit, encode_batch
from pyromq.wire.record import PROPERTIES_BYTES_MAX

#: Takes the result of an asynchronous send, or the error that ended it.
SendCallback: TypeAlias = Callable[[SendResult | None, BaseException | None], None]

#: The value of MSG_TYPE that makes a message the reply to a request.
REPLY: Final = "reply"
#: What a message counts beside topic, body and properties when batches are split, as in RocketMQ's example.
LOG_BYTES: Final = 20

_SEPARATORS: Final = frozenset("\x01\x02")

#: Properties that a field of Message stands for.
_OWN_FIELDS: Final = {
    names.TAGS: "tags",
    names.KEYS: "keys",
    names.DELAY: "delay_level",
    names.WAIT: "wait_stored",
    names.TIMER_DELAY_MS: "delay",
    names.TIMER_DELAY_SEC: "delay",
    names.TIMER_DELIVER_MS: "deliver_at",
}
#: Properties that only brokers and consumers write. Whoever copies a received message's properties into a new
#: message would send it to a wrong place with these.
NOT_A_PRODUCERS: Final = frozenset(
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
        names.TIMER_OUT_MS,
        names.TIMER_ENQUEUE_MS,
        names.TIMER_DEQUEUE_MS,
        names.TIMER_ROLL_TIMES,
        names.TIMER_DEL_UNIQKEY,
    }
)


class Outgoing(msgspec.Struct, frozen=True):
    """A message or a batch, ready to be sent any number of times.

    `message` is what the application gave, for its selectors (a batch's first); `topic` is the name on the
    wire, with its namespace; `message_id` joins the ids of a batch by commas.
    """

    message: Message
    topic: str
    body: bytes
    properties: str
    message_id: str
    flag: int = 0
    sys_flag: int = 0
    is_batch: bool = False
    is_reply: bool = False
    #: Whether it waits for its time, which not every broker can let it do.
    is_timed: bool = False
    #: How often a message to a retry topic was tried, and how often it may be before it is a dead letter.
    reconsume_times: int = 0
    max_reconsume_times: int | None = None


def prepare(message: Message, message_id: str, settings: ClientSettings) -> Outgoing:
    """Return a message in the form that is sent; raise MessageIllegal when the message breaks a rule.

    A UNIQ_KEY among the properties is kept in place of `message_id`: a message sent again keeps its id.
    """
    return compressed(prepare_plain(message, message_id, settings), settings)


def compressed(outgoing: Outgoing, settings: ClientSettings) -> Outgoing:
    """Return a message with its body compressed, unless the body is too small to gain by it."""
    if len(outgoing.body) < settings.compress_msg_body_over_howmuch:
        return outgoing
    body, flags = compress(outgoing.body, settings.compress_type, settings.compress_level)
    return msgspec.structs.replace(outgoing, body=body, sys_flag=outgoing.sys_flag | flags)


def prepare_plain(message: Message, message_id: str, settings: ClientSettings) -> Outgoing:
    """Return a message as `prepare` does, with its body not compressed yet."""
    body = _checked_body(message, settings)
    pairs = pairs_of(message, message_id, settings.namespace)
    is_reply = pairs.get(names.MSG_TYPE) == REPLY
    sys_flag = 0
    if pairs.get(names.TRANSACTION_PREPARED, "").lower() == "true":
        sys_flag |= SysFlag.TRANSACTION_PREPARED
    return Outgoing(
        message=message,
        # The topic of replies is the cluster's own.
        topic=message.topic if is_reply else wrap(settings.namespace, message.topic),
        body=body,
        properties=encoded(pairs),
        message_id=pairs[names.UNIQ_KEY],
        flag=message.flag,
        sys_flag=int(sys_flag),
        is_reply=is_reply,
        is_timed=message.delay is not None or message.deliver_at is not None,
        reconsume_times=_retry_number(message, names.RECONSUME_TIME) or 0,
        max_reconsume_times=_retry_number(message, names.MAX_RECONSUME_TIMES),
    )


def prepare_batch(
    messages: Sequence[Message], message_ids: Sequence[str], settings: ClientSettings
) -> Outgoing:
    """Return several messages as one batch; bodies in a batch are not compressed."""
    outgoing = _joined(_parts(messages, message_ids, settings), settings)
    if len(outgoing.body) > settings.max_message_size:
        raise _illegal(
            f"the batch of {len(messages)} messages has {len(outgoing.body)} bytes; "
            f"{settings.max_message_size} are the limit (maxMessageSize): send it in parts, by send_batches"
        )
    return outgoing


def prepare_batches(
    messages: Sequence[Message], message_ids: Sequence[str], settings: ClientSettings
) -> list[Outgoing]:
    """Return several messages as batches, as few as their order and their size allow."""
    parts = _parts(messages, message_ids, settings)
    return [_joined(group, settings) for group in _split(parts, settings.max_message_size)]


class _Part(msgspec.Struct, frozen=True):
    """One message of a batch, encoded."""

    message: Message
    message_id: str
    unit: BatchUnit
    size: int


def _parts(messages: Sequence[Message], message_ids: Sequence[str], settings: ClientSettings) -> list[_Part]:
    _check_batch(messages)
    parts: list[_Part] = []
    for message, message_id in zip(messages, message_ids, strict=True):
        body = _checked_body(message, settings)
        pairs = pairs_of(message, message_id, settings.namespace)
        if names.TRANSACTION_PREPARED in pairs:
            raise _illegal("a message of a transaction cannot be in a batch; send it on its own")
        properties = encoded(pairs)
        parts.append(
            _Part(
                message,
                pairs[names.UNIQ_KEY],
                BatchUnit(message.flag, body, properties),
                _size(message.topic, body, properties),
            )
        )
    return parts


def _size(topic: str, body: bytes, properties: str) -> int:
    """Return what a message counts in a batch: its unit's bytes, or RocketMQ's rule of thumb if that is more.

    The rule counts the topic, which the unit does not have, and less than the unit's head.
    """
    properties_bytes = len(properties.encode("utf-8", "replace"))
    return len(body) + properties_bytes + max(UNIT_BYTES_MIN, len(topic) + LOG_BYTES)


def _split(parts: Sequence[_Part], bytes_max: int) -> Iterator[list[_Part]]:
    group: list[_Part] = []
    size = 0
    for part in parts:
        if part.size > bytes_max:
            raise _illegal(
                f"message {part.message_id} counts {part.size} bytes in a batch, with topic and properties; "
                f"{bytes_max} are the limit (maxMessageSize): make it smaller, or send it on its own"
            )
        if group and size + part.size > bytes_max:
            yield group
            group, size = [], 0
        group.append(part)
        size += part.size
    yield group


def _joined(parts: Sequence[_Part], settings: ClientSettings) -> Outgoing:
    first = parts[0].message
    return Outgoing(
        message=first,
        topic=wrap(settings.namespace, first.topic),
        body=encode_batch(part.unit for part in parts),
        properties=names.encode({names.WAIT: _java_bool(first.wait_stored)}),
        message_id=",".join(part.message_id for part in parts),
        is_batch=True,
    )


def _retry_number(message: Message, name: str) -> int | None:
    """Return the number for the header that a message to a retry topic has as a property, as in RocketMQ."""
    value = message.properties.get(name)
    if value is None or not message.topic.startswith(RETRY_TOPIC_PREFIX):
        return None
    if not value.isascii() or not value.isdigit():
        raise _illegal(f"property {name} is {value!r}; for a message to a retry topic it is a whole number")
    return int(value)


def _illegal(text: str) -> MessageIllegal:
    return MessageIllegal(ResponseCode.MESSAGE_ILLEGAL, text)


def _checked_body(message: Message, settings: ClientSettings) -> bytes:
    if not isinstance(message, Message):
        raise _illegal(f"{type(message).__name__} is no message; send Message(topic, body)")
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
        if message.is_delayed or names.START_DELIVER_TIME in message.properties:
            raise _illegal("a delayed message cannot be in a batch; send it on its own")
        if message.topic.startswith(RETRY_TOPIC_PREFIX):
            raise _illegal(f"a batch cannot go to a retry topic ({message.topic})")


def pairs_of(message: Message, message_id: str, namespace: str) -> dict[str, str]:
    """Return the properties of a message; raise MessageIllegal when one breaks a rule."""
    for name, value in message.properties.items():
        _check_property(name, value)
    pairs = dict(message.properties)
    keys = message.key_list if message.keys else ()
    if keys:
        if any(" " in key for key in keys):
            raise _illegal(f"a key may have no space, which separates keys: {keys!r}")
        pairs[names.KEYS] = names.KEY_SEPARATOR.join(keys)
    if message.tags:
        if not isinstance(message.tags, str):
            raise _illegal(f"tags is {message.tags!r}, not text; a message has one tag, such as tags='paid'")
        pairs[names.TAGS] = message.tags
    if message.delay_level:
        pairs[names.DELAY] = str(message.delay_level)
    timer = timer_property(message)
    if timer is not None:
        pairs[timer[0]] = timer[1]
    if namespace:
        pairs[names.INSTANCE_ID] = namespace
    pairs[names.WAIT] = _java_bool(message.wait_stored)
    pairs.setdefault(names.UNIQ_KEY, message_id)
    return pairs


def _check_property(name: str, value: str) -> None:
    if name in _OWN_FIELDS:
        raise _illegal(f"property {name} is RocketMQ's own; use Message({_OWN_FIELDS[name]}=…)")
    if name in NOT_A_PRODUCERS:
        raise _illegal(f"property {name} is written by brokers and consumers; leave it out or rename it")
    if not isinstance(value, str) or not isinstance(name, str):
        raise _illegal(f"property {name!r} is {value!r}; names and values must be text: use str(…)")
    if not name or not value:
        raise _illegal(f"property {name!r} has an empty name or value, which does not travel; leave it out")


def encoded(pairs: Mapping[str, str]) -> str:
    """Return properties as they travel; raise MessageIllegal when they cannot."""
    text = names.encode(pairs)
    # Nobody but the encoding itself may have put separators there.
    if text.count("\x01") != len(pairs) or text.count("\x02") != len(pairs) - 1:
        bad = [name for name, value in pairs.items() if not _SEPARATORS.isdisjoint(name + value)]
        raise _illegal(f"property {bad[0]!r} has the characters 1 or 2, which separate properties")
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    if size > PROPERTIES_BYTES_MAX:
        raise _illegal(f"the properties have {size} bytes; {PROPERTIES_BYTES_MAX} are the limit")
    return text


def _java_bool(value: bool) -> str:  # noqa: FBT001  the value is what it is about
    return "true" if value else "false"
