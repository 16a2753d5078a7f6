"""A message and its bytes: in the commit log, and in the answer to a pull.

    at    bytes  field
     0      4    total size
     4      4    magic: v1, or v2 when the topic is longer than 127 bytes
     8      4    CRC-32 of the body, without its highest bit
    12      4    queue id
    16      4    flag, the application's own
    20      8    queue offset
    28      8    position in the commit log
    36      4    sysFlag
    40      8    born at, in milliseconds
    48    8|20   born host: address and a 4-byte port; 20 bytes when sysFlag says IPv6
    56      8    stored at, in milliseconds        (from here on: with IPv4 born host)
    64    8|20   store host
    72      4    reconsume times
    76      8    position of the prepared (half) message
    84      4+n  body
    88+n  1|2+n  topic: 1-byte length in v1, 2-byte in v2
          2+n    properties

All numbers are signed and big-endian. Where a file of the log has no room for the next record, a *blank*
fills it: int32 remaining bytes, int32 BLANK_MAGIC, then anything.

Text that is not UTF-8 reads with replacement characters, as it does in Java: a message that one client
wrote badly must not stop the others.
"""

import struct
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pyromq.codes import SysFlag
from pyromq.errors import CorruptRecord, MessageTooLarge
from pyromq.kernel import IS_COMPILED

if TYPE_CHECKING or not IS_COMPILED:
    from zlib import crc32
else:
    from pyromq._kernel.codec.crc32 import crc32

MAGIC_V1: Final = -626843481
MAGIC_V2: Final = -626843477
BLANK_MAGIC: Final = -875286124
#: Size and magic: what a blank needs, and what is kept free for it at the end of each file.
BLANK_BYTES: Final = 8

MAGIC_AT: Final = 4
BODY_CRC_AT: Final = 8
QUEUE_ID_AT: Final = 12
FLAG_AT: Final = 16
QUEUE_OFFSET_AT: Final = 20
POSITION_AT: Final = 28
SYS_FLAG_AT: Final = 36
BORN_AT_AT: Final = 40
BORN_HOST_AT: Final = 48

HOST_BYTES_V4: Final = 8
HOST_BYTES_V6: Final = 20
#: Two IPv4 hosts, empty body, topic and properties.
RECORD_BYTES_MIN: Final = 91
PROPERTIES_BYTES_MAX: Final = 32767
TOPIC_BYTES_MAX_V1: Final = 127
CRC_MASK: Final = 0x7FFFFFFF

_BORN_V6: Final = int(SysFlag.BORN_HOST_V6)
_STORE_V6: Final = int(SysFlag.STORE_HOST_V6)
_V6_MASK: Final = _BORN_V6 | _STORE_V6


def _head(born_host_bytes: int, store_host_bytes: int) -> struct.Struct:
    """Everything up to and including the length of the body."""
    return struct.Struct(f">iiiiiqqiq{born_host_bytes}sq{store_host_bytes}siqi")


_HEAD_V4: Final = _head(HOST_BYTES_V4, HOST_BYTES_V4)
_HEADS: Final = {
    0: _HEAD_V4,
    _BORN_V6: _head(HOST_BYTES_V6, HOST_BYTES_V4),
    _STORE_V6: _head(HOST_BYTES_V4, HOST_BYTES_V6),
    _V6_MASK: _head(HOST_BYTES_V6, HOST_BYTES_V6),
}
assert _HEAD_V4.size == RECORD_BYTES_MIN - 3
_HEAD_V4_SIZE: Final = _HEAD_V4.size
_unpack_head_v4 = _HEAD_V4.unpack_from
#: The fields of a head, by their order in it.
_CRC, _SYS_FLAG = 2, 7
_INT16: Final = struct.Struct(">h")
_unpack_int16 = _INT16.unpack_from
_unpack_int32 = struct.Struct(">i").unpack_from
_TWO_INT32: Final = struct.Struct(">ii")


#: The fields of a head in their order, and where the parts behind it begin: the body, the length of the
#: topic, the topic, the properties; and the byte behind the record.
RecordPlaces = tuple[tuple[Any, ...], int, int, int, int, int]


class Record(msgspec.Struct, gc=False):
    """A stored message. `properties` is the string as stored; `size` and `body_crc` are as read."""

    topic: str
    body: bytes
    queue_id: int = 0
    properties: str = ""
    flag: int = 0
    sys_flag: int = 0
    queue_offset: int = 0
    position: int = 0
    born_at_ms: int = 0
    born_host: bytes = bytes(HOST_BYTES_V4)
    stored_at_ms: int = 0
    store_host: bytes = bytes(HOST_BYTES_V4)
    reconsume_times: int = 0
    prepared_position: int = 0
    body_crc: int = 0
    size: int = 0


def body_crc(body: bytes) -> int:
    """Return the checksum that a record carries for a body."""
    return crc32(body) & CRC_MASK


def record_size(topic_bytes: int, body_bytes: int, properties_bytes: int, sys_flag: int) -> int:
    """Return how many bytes the record of a message takes."""
    topic_length_bytes = 1 if topic_bytes <= TOPIC_BYTES_MAX_V1 else 2
    head_bytes = _HEADS[sys_flag & _V6_MASK].size
    return head_bytes + body_bytes + topic_length_bytes + topic_bytes + 2 + properties_bytes


def encode_record(record: Record) -> bytes:
    """Return the record's bytes.

    Size, checksum and the two IPv6 bits follow from the record's own body and hosts, not from its fields.
    Raises MessageTooLarge when the properties or the topic do not fit their length fields.
    """
    topic = record.topic.encode("utf-8", "replace")
    properties = record.properties.encode("utf-8", "replace")
    body, born_host, store_host = record.body, record.born_host, record.store_host
    if len(properties) > PROPERTIES_BYTES_MAX or len(topic) > PROPERTIES_BYTES_MAX:
        raise MessageTooLarge(
            f"topic and properties have {len(topic)} and {len(properties)} bytes; "
            f"the limit of each is {PROPERTIES_BYTES_MAX}"
        )
    sys_flag, head = record.sys_flag, _HEAD_V4
    if sys_flag & _V6_MASK or len(born_host) != HOST_BYTES_V4 or len(store_host) != HOST_BYTES_V4:
        sys_flag = host_flags(sys_flag, born_host, store_host)
        head = _HEADS[sys_flag & _V6_MASK]
    is_v1 = len(topic) <= TOPIC_BYTES_MAX_V1
    topic_length_bytes = 1 if is_v1 else 2
    # A body may be megabytes: it is copied once.
    return b"".join(
        (
            head.pack(
                head.size + len(body) + topic_length_bytes + len(topic) + 2 + len(properties),
                MAGIC_V1 if is_v1 else MAGIC_V2,
                crc32(body) & CRC_MASK,
                record.queue_id,
                record.flag,
                record.queue_offset,
                record.position,
                sys_flag,
                record.born_at_ms,
                born_host,
                record.stored_at_ms,
                store_host,
                record.reconsume_times,
                record.prepared_position,
                len(body),
            ),
            body,
            len(topic).to_bytes(topic_length_bytes, "big"),
            topic,
            len(properties).to_bytes(2, "big"),
            properties,
        )
    )


def host_flags(sys_flag: int, born_host: bytes, store_host: bytes) -> int:
    """Return the sysFlag with the two IPv6 bits as the lengths of the hosts say."""
    born = _BORN_V6 if len(born_host) == HOST_BYTES_V6 else 0
    store = _STORE_V6 if len(store_host) == HOST_BYTES_V6 else 0
    return sys_flag & ~_V6_MASK | born | store


def can_be_record(size: int, magic: int, room: int) -> bool:
    """Return whether a size and a magic can begin a record where there are `room` bytes."""
    return magic in (MAGIC_V1, MAGIC_V2) and RECORD_BYTES_MIN <= size <= room


def look_at_record(
    buffer: bytes | bytearray | memoryview, at: int = 0, *, check_crc: bool = True
) -> RecordPlaces:
    """Return where the parts of the record are that begins at `at`; raise CorruptRecord if it is not whole.

    This is the one place where a record is looked at: its magic, its lengths, and the checksum of its body.
    `check_crc=False` skips the checksum, which costs as much as all the rest.
    """
    end_of_buffer = len(buffer)
    if at < 0 or end_of_buffer - at < RECORD_BYTES_MIN:
        raise CorruptRecord(f"{end_of_buffer - at} bytes at {at} are too few for a record")
    head = _unpack_head_v4(buffer, at)
    body_at = at + _HEAD_V4_SIZE
    if head[_SYS_FLAG] & _V6_MASK:
        head, body_at = _unpack_v6_head(buffer, at, head[_SYS_FLAG])
    size, magic, body_length = head[0], head[1], head[-1]
    end = at + size
    topic_at = body_at + body_length
    # One byte of topic length and two of properties length must still fit behind the body.
    if body_length < 0 or end > end_of_buffer or topic_at + 3 > end:
        raise CorruptRecord(
            f"the record at {at} says {size} bytes, {body_length} of body; "
            f"{end_of_buffer - at} bytes are there"
        )
    if magic == MAGIC_V1:
        topic_length, topic_start = buffer[topic_at], topic_at + 1
    else:
        topic_length, topic_start = _long_topic_length(buffer, topic_at, magic), topic_at + 2
    properties_at = topic_start + topic_length + 2
    if (
        topic_length < 0
        or properties_at > end
        or _unpack_int16(buffer, properties_at - 2)[0] != end - properties_at
    ):
        raise CorruptRecord(f"the record at {at} has lengths that do not add up to its {size} bytes")
    if check_crc and crc32(memoryview(buffer)[body_at:topic_at]) & CRC_MASK != head[_CRC]:
        raise _wrong_checksum(at, head[_CRC])
    return head, body_at, topic_at, topic_start, properties_at, end


def decode_record(
    buffer: bytes | bytearray | memoryview,
    at: int = 0,
    *,
    check_crc: bool = True,
    with_body: bool = True,
) -> Record:
    """Return the record that begins at `at`; raise CorruptRecord when there is no whole one.

    `check_crc` is that of `look_at_record`. `with_body=False` leaves the body where it is, for `body_of`: it
    may be megabytes.
    """
    # The body is copied once, and its checksum is that of the copy.
    head, body_at, topic_at, topic_start, properties_at, end = look_at_record(
        buffer, at, check_crc=check_crc and not with_body
    )
    (
        size, _, crc, queue_id, flag, queue_offset, position, sys_flag, born_at_ms, born_host,
        stored_at_ms, store_host, reconsume_times, prepared_position, _,
    ) = head  # fmt: skip
    body = bytes(buffer[body_at:topic_at]) if with_body else b""
    if check_crc and with_body and crc32(body) & CRC_MASK != crc:
        raise _wrong_checksum(at, crc)
    # By position, in the order of the class: measurably faster than by name, and every pull comes here.
    return Record(
        str(buffer[topic_start : properties_at - 2], "utf-8", "replace"),
        body,
        queue_id,
        str(buffer[properties_at:end], "utf-8", "replace"),
        flag,
        sys_flag,
        queue_offset,
        position,
        born_at_ms,
        born_host,
        stored_at_ms,
        store_host,
        reconsume_times,
        prepared_position,
        crc,
        size,
    )


def body_of(buffer: memoryview) -> memoryview:
    """Return the body in the bytes of a record that was decoded."""
    body_at = _HEADS[_unpack_int32(buffer, SYS_FLAG_AT)[0] & _V6_MASK].size
    return buffer[body_at : body_at + _unpack_int32(buffer, body_at - 4)[0]]


def read_properties(buffer: bytes | bytearray | memoryview) -> str:
    """Return the properties of the record that a buffer is, without the checksum of its body.

    Raises CorruptRecord when the record is not whole, or not as long as the buffer.
    """
    *_, properties_at, end = look_at_record(buffer, check_crc=False)
    if end != len(buffer):
        raise CorruptRecord(f"a record says that it has {end} bytes, and {len(buffer)} are there")
    return str(buffer[properties_at:end], "utf-8", "replace")


def _wrong_checksum(at: int, crc: int) -> CorruptRecord:
    return CorruptRecord(f"the body of the record at {at} does not have the checksum {crc:#x}")


def _long_topic_length(buffer: bytes | bytearray | memoryview, at: int, magic: int) -> int:
    if magic != MAGIC_V2:
        raise CorruptRecord(f"a record has the magic {magic & 0xFFFFFFFF:#x}")
    return int(_unpack_int16(buffer, at)[0])


def _unpack_v6_head(
    buffer: bytes | bytearray | memoryview, at: int, sys_flag: int
) -> tuple[tuple[int, ...], int]:
    head = _HEADS[sys_flag & _V6_MASK]
    if len(buffer) - at < head.size:
        raise CorruptRecord(f"{len(buffer) - at} bytes at {at} are too few for a record with IPv6 hosts")
    return head.unpack_from(buffer, at), at + head.size


def iter_records(
    buffer: bytes | bytearray | memoryview,
    *,
    check_crc: bool = True,
) -> Iterator[Record]:
    """Yield the records of a pull's answer, which stand one behind the other."""
    at, end = 0, len(buffer)
    while at < end:
        record = decode_record(buffer, at, check_crc=check_crc)
        yield record
        at += record.size


def encode_blank(remaining_bytes: int) -> bytes:
    """Return the mark that fills the last `remaining_bytes` of a file; what follows it is never read."""
    return _TWO_INT32.pack(remaining_bytes, BLANK_MAGIC)


def is_blank(buffer: bytes | bytearray | memoryview, at: int = 0) -> bool:
    """Return whether a blank begins at `at`."""
    return len(buffer) - at >= BLANK_BYTES and _TWO_INT32.unpack_from(buffer, at)[1] == BLANK_MAGIC


@lru_cache(maxsize=4096)
def encode_host(address: str, port: int) -> bytes:
    """Return an IP address and port as a record carries them: 8 bytes for IPv4, 20 for IPv6.

    Raises ValueError when the address is not one.
    """
    return ip_address(address.partition("%")[0]).packed + port.to_bytes(4, "big")


@lru_cache(maxsize=4096)
def decode_host(host: bytes) -> tuple[str, int]:
    """Return the address and port of a record's host."""
    if len(host) not in (HOST_BYTES_V4, HOST_BYTES_V6):
        raise CorruptRecord(f"a host of {len(host)} bytes; 8 (IPv4) and 20 (IPv6) exist")
    return str(ip_address(host[:-4])), int.from_bytes(host[-4:], "big", signed=True)
