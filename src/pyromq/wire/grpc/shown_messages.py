"""Stored records as clients of gRPC see them: a protobuf `Message`, written from the record's own bytes.

    record of the log                           Message
      topic ────────────── the one asked for ─► 1 topic
      properties ─┬─ what is not reserved ────► 2 user_properties
                  └─ TAGS, KEYS, UNIQ_KEY, … ─► 3 system_properties ◄── hosts, times, queue, offset
      body ───── decompressed where it must be ► 4 body

Fields stand in the order of their numbers. Clients insist on some of them: C# fails without a body digest or
a born timestamp, Python without a body encoding, and C++ crashes on a digest that is wrong.

No client reads LZ4 or Zstandard, and only some zlib; so bodies leave uncompressed. One that cannot be read
here (a package is missing, it is damaged, it grows too large) leaves as it is, marked as compressed.
"""

import logging
from collections.abc import Mapping
from functools import lru_cache
from hashlib import md5
from typing import Final

from pyromq.codes import SysFlag
from pyromq.name_rules import DEAD_LETTER_PREFIX, RETRY_PREFIX
from pyromq.wire import properties as names
from pyromq.wire.grpc.proto_numbers import MessageType
from pyromq.wire.grpc.reserved_names import RESERVED_NAMES
from pyromq.wire.inflate import InflateError
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.record import decode_host, look_at_record
from pyromq.wire.unpacking import NoUnpacker, unpack_body

log = logging.getLogger(__name__)

_INT64_BITS: Final = (1 << 64) - 1
_INT64_MAX: Final = (1 << 63) - 1
_INT32_MAX: Final = (1 << 31) - 1
_COMPRESSED: Final = int(SysFlag.COMPRESSED)
_SMALL: Final = tuple(bytes((number,)) for number in range(128))

_IDENTITY, _GZIP = b"\x28\x01", b"\x28\x02"
#: Field 4 of the system properties: MD5, and a text of 32 characters.
_DIGEST_HEAD: Final = b"\x22\x24\x08\x02\x12\x20"
_DELAYED_BY: Final = (names.DELAY, names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC)
_NAMESPACE_END: Final = "%"


def varint(number: int) -> bytes:
    """Return a number in protobuf's variable length; a negative one takes ten bytes, as int64 does."""
    if 0 <= number < 128:
        return _SMALL[number]
    number &= _INT64_BITS
    out = bytearray()
    while number >= 128:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(head: bytes, content: bytes) -> bytes:
    """Return a field whose content has a length: a text, bytes, a message."""
    return b"".join((head, varint(len(content)), content))


def timestamp(at_ms: int) -> bytes:
    """Return a protobuf `Timestamp`."""
    seconds, ms = divmod(at_ms, 1000)
    return _seconds(seconds) + _nanos(ms)


@lru_cache(maxsize=1024)
def _seconds(seconds: int) -> bytes:
    return b"\x08" + varint(seconds) if seconds else b""


@lru_cache(maxsize=1024)
def _nanos(ms: int) -> bytes:
    return b"\x10" + varint(ms * 1_000_000) if ms else b""


@lru_cache(maxsize=1024)
def shown_topic(topic: str) -> bytes:
    """Return field 1 of each message of a topic: the name, and the namespace that stands before a `%`."""
    prefix = next((each for each in (RETRY_PREFIX, DEAD_LETTER_PREFIX) if topic.startswith(each)), "")
    namespace, separator, rest = topic.removeprefix(prefix).partition(_NAMESPACE_END)
    if not (namespace and separator and rest):
        namespace, rest = "", topic.removeprefix(prefix)
    resource = _text(b"\x0a", namespace) + _text(b"\x12", prefix + rest)
    return field(b"\x0a", resource)


def shown_message(
    record: bytes | memoryview, topic: bytes, *, body_bytes_max: int, receipt: bytes = b"", attempt: int = 0
) -> bytes:
    """Return the `Message` that a stored record is, with field 1 as `shown_topic` made it.

    `receipt` is the handle of this delivery, empty where the message was not popped; `attempt` counts the
    deliveries with this one, and 0 takes the record's word for it. A compressed body is unpacked up to
    `body_bytes_max`. Raises CorruptRecord when the record is not whole.
    """
    head, body_at, topic_at, _, properties_at, end = look_at_record(record, check_crc=False)
    queue_id, queue_offset, position, sys_flag = head[3], head[5], head[6], head[7]
    properties = names.decode(str(record[properties_at:end], "utf-8", "replace"))
    body = bytes(record[body_at:topic_at])
    encoding = _IDENTITY
    if sys_flag & _COMPRESSED:
        body, encoding = _unpacked(body, sys_flag, body_bytes_max, position)
    message_id = properties.get(names.UNIQ_KEY) or offset_message_id(head[11], position)
    system = b"".join(
        (
            _keys_of(properties),
            _text(b"\x1a", message_id),
            _DIGEST_HEAD,
            md5(body, usedforsecurity=False).hexdigest().upper().encode(),
            encoding,
            b"\x30",
            varint(message_type(properties)),
            field(b"\x3a", timestamp(head[8])),
            _born_host(properties, head[9]),
            field(b"\x4a", timestamp(head[10])),
            _store_host(head[11]),
            _delivery_time(properties),
            field(b"\x62", receipt) if receipt else b"",
            b"\x68" + varint(queue_id) if queue_id else b"",
            b"\x70",
            varint(queue_offset),
            b"\x80\x01",
            varint(attempt or head[12] + 1),
            _rare_fields(properties),
        )
    )
    shown = field(b"\x1a", system)
    return b"".join((topic, _user_properties(properties), shown, field(b"\x22", body) if body else b""))


def message_type(properties: Mapping[str, str]) -> int:
    """Return the `MessageType` of a stored message, by its properties; a committed one stays TRANSACTION."""
    if properties.get(names.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION
    if any(name in properties for name in _DELAYED_BY):
        return MessageType.DELAY
    if names.SHARDING_KEY in properties:
        return MessageType.FIFO
    if names.PRIORITY in properties:
        return MessageType.PRIORITY
    return MessageType.LITE if names.LITE_TOPIC in properties else MessageType.NORMAL


def _unpacked(body: bytes, sys_flag: int, bytes_max: int, position: int) -> tuple[bytes, bytes]:
    """Return a body and its encoding: as it was before it was compressed, or, if that fails, as it is."""
    try:
        return unpack_body(body, sys_flag, bytes_max), _IDENTITY
    except (InflateError, NoUnpacker) as error:
        log.warning(
            "the message at %d leaves compressed, and its consumer may not read it: %s", position, error
        )
        return body, _GZIP


def _text(head: bytes, text: str) -> bytes:
    return field(head, text.encode("utf-8", "replace")) if text else b""


def _user_properties(properties: Mapping[str, str]) -> bytes:
    entries = [
        field(b"\x12", _text(b"\x0a", name) + _text(b"\x12", value))
        for name, value in properties.items()
        if name not in RESERVED_NAMES
    ]
    return b"".join(entries)


def _keys_of(properties: Mapping[str, str]) -> bytes:
    """Return the tag and the keys."""
    tag = _text(b"\x0a", properties.get(names.TAGS, ""))
    keys = properties.get(names.KEYS)
    if keys is None:
        return tag
    return tag + b"".join(_text(b"\x12", key) for key in keys.split(names.KEY_SEPARATOR))


def _delivery_time(properties: Mapping[str, str]) -> bytes:
    deliver_ms = _number(properties.get(names.TIMER_DELIVER_MS), _INT64_MAX)
    return b"" if deliver_ms is None else field(b"\x5a", timestamp(deliver_ms))


def _rare_fields(properties: Mapping[str, str]) -> bytes:
    """Return the fields behind the delivery attempt, which most messages do not have."""
    group = _text(b"\x8a\x01", properties.get(names.SHARDING_KEY, ""))
    trace = _text(b"\x92\x01", properties.get(names.TRACE_CONTEXT, ""))
    origin_topic = properties.get(names.DLQ_ORIGIN_TOPIC, "")
    origin_id = properties.get(names.DLQ_ORIGIN_MESSAGE_ID, "")
    origin = b""
    if origin_topic and origin_id:
        origin = field(b"\xa2\x01", _text(b"\x0a", origin_topic) + _text(b"\x12", origin_id))
    lite = _text(b"\xaa\x01", properties.get(names.LITE_TOPIC, ""))
    priority = _number(properties.get(names.PRIORITY), _INT32_MAX)
    return b"".join((group, trace, origin, lite, b"" if priority is None else b"\xb0\x01" + varint(priority)))


def _number(text: str | None, at_most: int) -> int | None:
    """Return a number that a property has; None for whatever else a producer of any language wrote there."""
    if text is None or len(text) > 19 or not (text.isascii() and text.isdecimal()):
        return None
    number = int(text)
    return number if number <= at_most else None


def _born_host(properties: Mapping[str, str], host: bytes) -> bytes:
    told = properties.get(names.BORN_HOST)
    return _host(b"\x42", host) if told is None else _text(b"\x42", told)


@lru_cache(maxsize=4096)
def _host(head: bytes, host: bytes) -> bytes:
    return _text(head, decode_host(host)[0])


@lru_cache(maxsize=4096)
def _store_host(host: bytes) -> bytes:
    address, port = decode_host(host)
    return _text(b"\x52", f"{address}:{port}")
