"""Messages that a gRPC client sends: whether each may be stored, and what is stored of it.

The checks stand in the order in which RocketMQ 5's proxy makes them (SendMessageActivity, GrpcValidator), so
that a message with two faults gets the code of the same one. What only a broker knows, whether the topic
exists and what it accepts, is asked behind them.
"""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyromq.codes import SysFlag
from pyromq.wire import properties as names
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.grpc.grpc_messages import Digest, Message, SystemProperties
from pyromq.wire.grpc.grpc_names import check_grpc_topic, check_word, has_control_character
from pyromq.wire.grpc.grpc_times import ms_of
from pyromq.wire.grpc.proto_numbers import DigestType, Encoding, MessageType
from pyromq.wire.grpc.reserved_names import RESERVED_NAMES

_ZLIB_HEAD: Final = 0x78
_GZIP_HEAD: Final = b"\x1f\x8b"
_GZIP_WBITS: Final = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class SendLimits:
    """The limits of what a client may send; RocketMQ's names are in the settings."""

    body_bytes_max: int = 4 * 1024 * 1024
    is_empty_body_refused: bool = True
    property_count_max: int = 128
    property_bytes_max: int = 16 * 1024
    group_bytes_max: int = 64
    recovery_s_max: int = 3600
    delay_ms_max: int = 86_400_000


@dataclass(slots=True)
class SentMessage:
    """A message as it is stored, whatever protocol brought it."""

    message_id: str
    kind: int
    body: bytes
    properties: dict[str, str]
    sys_flag: int
    born_at_ms: int
    #: The message group, None for a message without one.
    group: str | None


def check_sent(messages: Sequence[Message], limits: SendLimits, now_ms: int) -> str:
    """Return the topic of the messages of a request; raise GrpcRefused unless all of them may be sent."""
    if not messages:
        raise GrpcRefused(GrpcCode.MESSAGE_CORRUPTED, "the request has no message")
    resource = messages[0].topic
    check_grpc_topic(resource.name)
    for message in messages:
        if message.topic != resource:
            raise GrpcRefused(
                GrpcCode.MESSAGE_CORRUPTED,
                "the messages of one request have one topic; send the others by themselves",
            )
    for message in messages:
        _check_body(message, limits)
        _check_properties(message, limits)
        _check_system_properties(message, limits, now_ms)
    if len(messages) > 1:
        for message in messages:
            if kind_of(message) in (MessageType.TRANSACTION, MessageType.DELAY):
                raise GrpcRefused(
                    GrpcCode.BAD_REQUEST,
                    "a message with a delivery time, or of a transaction, is sent by itself",
                )
    return resource.name


def kind_of(message: Message) -> int:
    """Return the MessageType that a message is, whatever it says that it is."""
    system = message.system_properties
    if system.message_type == MessageType.TRANSACTION:
        return MessageType.TRANSACTION
    if system.HasField("delivery_timestamp"):
        return MessageType.DELAY
    if system.message_group:
        return MessageType.FIFO
    if system.HasField("priority"):
        return MessageType.PRIORITY
    return MessageType.LITE if system.lite_topic else MessageType.NORMAL


def read_sent(message: Message, topic: str, peer: str) -> SentMessage:
    """Return what is stored of a message that passed the checks; raise GrpcRefused for a damaged body."""
    system = message.system_properties
    kind = kind_of(message)
    properties = dict(message.user_properties)
    sys_flag = 0
    if system.tag:
        properties[names.TAGS] = system.tag
    if keys := names.KEY_SEPARATOR.join(filter(None, system.keys)):
        properties[names.KEYS] = keys
    properties[names.UNIQ_KEY] = system.message_id
    if kind == MessageType.TRANSACTION:
        properties[names.TRANSACTION_PREPARED] = "true"
        sys_flag |= SysFlag.TRANSACTION_PREPARED
        if system.HasField("orphaned_transaction_recovery_duration"):
            seconds = system.orphaned_transaction_recovery_duration.seconds
            properties[names.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(seconds)
    elif kind == MessageType.DELAY:
        properties[names.TIMER_DELIVER_MS] = str(ms_of(system.delivery_timestamp))
    _add_rare(system, properties)
    born_at_ms = ms_of(system.born_timestamp)
    properties[names.BORN_HOST] = system.born_host or peer
    properties[names.BORN_TIMESTAMP] = str(born_at_ms)
    properties[names.PRODUCER_GROUP] = topic
    body = message.body
    if system.body_encoding == Encoding.GZIP:
        body, sys_flag = _stored_as_zlib(body), sys_flag | SysFlag.COMPRESSED
    group = system.message_group or None
    return SentMessage(system.message_id, kind, body, properties, int(sys_flag), born_at_ms, group)


def _add_rare(system: SystemProperties, properties: dict[str, str]) -> None:
    if system.message_group:
        properties[names.SHARDING_KEY] = system.message_group
    if system.trace_context:
        properties[names.TRACE_CONTEXT] = system.trace_context
    if system.lite_topic:
        properties[names.LITE_TOPIC] = system.lite_topic
    if system.HasField("priority"):
        properties[names.PRIORITY] = str(system.priority)


def _check_body(message: Message, limits: SendLimits) -> None:
    size = len(message.body)
    if not size and limits.is_empty_body_refused:
        raise GrpcRefused(GrpcCode.MESSAGE_BODY_EMPTY, "the message has no body")
    if size > limits.body_bytes_max:
        raise GrpcRefused(
            GrpcCode.MESSAGE_BODY_TOO_LARGE,
            f"the body has {size} bytes, and maxMessageSize is {limits.body_bytes_max}; split or compress it",
        )


def _check_properties(message: Message, limits: SendLimits) -> None:
    system, own = message.system_properties, message.user_properties
    if len(own) > limits.property_count_max:
        raise GrpcRefused(
            GrpcCode.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the message has {len(own)} properties, and userPropertyMaxNum is {limits.property_count_max}",
        )
    size = 0
    for name, value in own.items():
        if name in RESERVED_NAMES:
            raise GrpcRefused(
                GrpcCode.ILLEGAL_MESSAGE_PROPERTY_KEY,
                f"property {name} is RocketMQ's own; choose another name",
            )
        if has_control_character(name) or has_control_character(value):
            raise GrpcRefused(
                GrpcCode.ILLEGAL_MESSAGE_PROPERTY_KEY,
                f"property {name[:80]!r} has a control character in its name or value",
            )
        size += len(name.encode()) + len(value.encode())
    check_word(system.tag, GrpcCode.ILLEGAL_MESSAGE_TAG, "tag")
    if "|" in system.tag:
        raise GrpcRefused(
            GrpcCode.ILLEGAL_MESSAGE_TAG, "the tag has a |, which separates tags in subscriptions"
        )
    for key in system.keys:
        check_word(key, GrpcCode.ILLEGAL_MESSAGE_KEY, "key")
        size += len(key.encode())
    size += len(system.tag.encode())
    if size > limits.property_bytes_max:
        raise GrpcRefused(
            GrpcCode.MESSAGE_PROPERTIES_TOO_LARGE,
            f"properties, tag and keys have {size} bytes, and maxUserPropertySize is "
            f"{limits.property_bytes_max}",
        )


def _check_system_properties(message: Message, limits: SendLimits, now_ms: int) -> None:
    system = message.system_properties
    if not system.message_id.strip():
        raise GrpcRefused(GrpcCode.ILLEGAL_MESSAGE_ID, "the message has no id")
    check_word(system.message_id, GrpcCode.ILLEGAL_MESSAGE_ID, "message id")
    recovery = system.orphaned_transaction_recovery_duration
    if recovery.seconds > limits.recovery_s_max or recovery.seconds < 0:
        raise GrpcRefused(
            GrpcCode.BAD_REQUEST,
            f"orphaned_transaction_recovery_duration is 0 to {limits.recovery_s_max} seconds, "
            f"not {recovery.seconds}",
        )
    if system.HasField("delivery_timestamp"):
        if system.message_type == MessageType.TRANSACTION:
            raise GrpcRefused(GrpcCode.BAD_REQUEST, "a message of a transaction cannot have a delivery time")
        if ms_of(system.delivery_timestamp) > now_ms + limits.delay_ms_max:
            raise GrpcRefused(
                GrpcCode.ILLEGAL_DELIVERY_TIME,
                f"the delivery time is more than maxDelayTimeMills={limits.delay_ms_max} ahead",
            )
    group = system.message_group
    check_word(group, GrpcCode.ILLEGAL_MESSAGE_GROUP, "message group")
    if len(group.encode()) >= limits.group_bytes_max:
        raise GrpcRefused(
            GrpcCode.ILLEGAL_MESSAGE_GROUP,
            f"the message group has {len(group.encode())} bytes; it must have less than "
            f"maxMessageGroupSize={limits.group_bytes_max}",
        )
    for text, what in (
        (system.trace_context, "trace context"),
        (system.born_host, "born host"),
        (system.lite_topic, "lite topic"),
    ):
        check_word(text, GrpcCode.BAD_REQUEST, what)
    if system.priority < 0:
        raise GrpcRefused(GrpcCode.BAD_REQUEST, "a priority is not below 0")
    if system.body_digest.checksum and system.body_encoding != Encoding.GZIP:
        _check_digest(message.body, system.body_digest)


def _check_digest(body: bytes, digest: Digest) -> None:
    checksum = digest.checksum.lower()
    if digest.type == DigestType.MD5:
        is_right = checksum == hashlib.md5(body, usedforsecurity=False).hexdigest()
    elif digest.type == DigestType.SHA1:
        is_right = checksum == hashlib.sha1(body, usedforsecurity=False).hexdigest()
    elif digest.type == DigestType.CRC32:
        # SDKs write it in three ways: as a decimal number, as hex, and as hex of eight digits.
        crc = zlib.crc32(body)
        is_right = checksum in (str(crc), f"{crc:x}", f"{crc:08x}")
    else:
        return
    if not is_right:
        raise GrpcRefused(GrpcCode.MESSAGE_CORRUPTED, "the body is not the one that its digest was made from")


def _stored_as_zlib(body: bytes) -> bytes:
    """Return a compressed body as remoting consumers can read it: SDKs say GZIP and send zlib or gzip."""
    if body.startswith(_GZIP_HEAD):
        try:
            return zlib.compress(zlib.decompress(body, _GZIP_WBITS), 1)
        except zlib.error as error:
            raise GrpcRefused(
                GrpcCode.MESSAGE_CORRUPTED, f"the body is said to be gzip, and does not decompress: {error}"
            ) from error
    if body[:1] != bytes((_ZLIB_HEAD,)):
        raise GrpcRefused(
            GrpcCode.MESSAGE_CORRUPTED, "the body is said to be gzip, and is neither gzip nor zlib"
        )
    return body
