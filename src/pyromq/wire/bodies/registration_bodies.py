"""A broker's registration with a name server: the body of 103, and the key values it gets back.

plain        {"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":…,"topicConfigTable":…}}

compressed   zlib of: length, JSON of the version
                      number of topics, then each: length, "name read write perm filterType"
                      length, JSON list of filter servers
"""

import struct
import zlib
from typing import Annotated, Final

import msgspec

from pyromq.errors import BodyError
from pyromq.wire.bodies.body import Body, convert, read_body
from pyromq.wire.bodies.table_text import TableText
from pyromq.wire.bodies.topic_bodies import (
    DataVersion,
    TopicConfig,
    TopicConfigTable,
    decode_data_version,
    topic_table_fields,
)
from pyromq.wire.header import ServerName
from pyromq.wire.inflate import InflatedTooLarge, InflateError, inflate
from pyromq.wire.java_json import dumps, loads

#: What a compressed body may grow to. 100,000 topics need about 6 MB.
_INFLATED_BYTES_MAX: Final = 64 * 1024 * 1024
FILTER_SERVERS_MAX: Final = 1_000
_INT32: Final = struct.Struct(">i")
_CRC_MASK: Final = 0x7FFFFFFF


class RegisterBrokerBody(Body, kw_only=True, frozen=True):
    """A broker's topics with their version; filter servers no longer exist but are still listed."""

    topics: TopicConfigTable = msgspec.field(
        default_factory=TopicConfigTable, name="topicConfigSerializeWrapper"
    )
    filter_servers: Annotated[list[ServerName], msgspec.Meta(max_length=FILTER_SERVERS_MAX)] = msgspec.field(
        default_factory=list, name="filterServerList"
    )


class KeyValueTable(Body, kw_only=True, frozen=True):
    """Text by text: the key values of a namespace, the runtime numbers of a broker."""

    table: dict[str, str] = msgspec.field(default_factory=dict)


def body_crc32(data: bytes) -> int:
    """Return the number that `bodyCrc32` of the header must be."""
    return zlib.crc32(data) & _CRC_MASK


def encode_register_broker(
    body: RegisterBrokerBody, *, compressed: bool = False, text: TableText | None = None
) -> bytes:
    """Return the body of 103; `text` is what is kept of the topics' JSON."""
    if compressed:
        return _deflate(body)
    return dumps(
        {
            "filterServerList": body.filter_servers,
            "topicConfigSerializeWrapper": topic_table_fields(body.topics, text),
        }
    )


def decode_register_broker(data: bytes, *, compressed: bool = False, crc32: int = 0) -> RegisterBrokerBody:
    """Return what a broker registers; a broker that sends no body has no topics.

    `crc32` is the header's `bodyCrc32`; 0 means that the broker did not compute it.
    """
    if crc32 and crc32 != body_crc32(data):
        raise BodyError("crc32 not match")
    if not data:
        return RegisterBrokerBody()
    return _inflate(data) if compressed else read_body(RegisterBrokerBody, data)


def encode_key_values(table: KeyValueTable) -> bytes:
    """Return a table's JSON."""
    return dumps(table)


def decode_key_values(data: bytes) -> KeyValueTable:
    """Return the table that JSON says."""
    return read_body(KeyValueTable, data)


def _deflate(body: RegisterBrokerBody) -> bytes:
    topics = body.topics.topic_config_table.values()
    lines = [
        f"{topic.topic_name} {topic.read_queue_nums} {topic.write_queue_nums} {topic.perm} "
        f"{topic.topic_filter_type}".encode()
        for topic in topics
    ]
    texts = [dumps(body.topics.data_version), *lines, dumps(body.filter_servers)]
    parts = [_INT32.pack(len(text)) + text for text in texts]
    parts.insert(1, _INT32.pack(len(lines)))
    return zlib.compress(b"".join(parts), 9)


def _inflate(data: bytes) -> RegisterBrokerBody:
    try:
        plain = inflate(data, _INFLATED_BYTES_MAX)
    except InflatedTooLarge:
        raise BodyError(f"the compressed body is larger than {_INFLATED_BYTES_MAX} bytes") from None
    except InflateError as error:
        raise BodyError(f"the compressed body does not read: {error}") from error
    parts = _Parts(plain)
    version = decode_data_version(parts.text())
    topics = [_read_topic(parts.text().decode("utf-8", "replace")) for _ in range(parts.number())]
    filter_servers = loads(parts.text())
    return convert(
        RegisterBrokerBody,
        {
            "topicConfigSerializeWrapper": _topic_table(version, topics),
            "filterServerList": filter_servers or [],
        },
    )


def _topic_table(version: DataVersion, topics: list[TopicConfig]) -> TopicConfigTable:
    return TopicConfigTable(
        data_version=version, topic_config_table={topic.topic_name: topic for topic in topics}
    )


def _read_topic(line: str) -> TopicConfig:
    words = line.split(" ")
    if len(words) < 5:
        raise BodyError(f"a topic is `name read write perm filterType`, not {line!r}")
    return convert(
        TopicConfig,
        {
            "topicName": words[0],
            "readQueueNums": words[1],
            "writeQueueNums": words[2],
            "perm": words[3],
            "topicFilterType": words[4],
        },
    )


class _Parts:
    """Reads numbers and length-prefixed texts one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        if self._at + 4 > len(self._data):
            raise BodyError("the compressed body ends within a number")
        (number,) = _INT32.unpack_from(self._data, self._at)
        self._at += 4
        return int(number)

    def text(self) -> bytes:
        length = self.number()
        end = self._at + length
        if length < 0 or end > len(self._data):
            raise BodyError(f"the compressed body says that a text has {length} bytes")
        text, self._at = self._data[self._at : end], end
        return text
