"""Drafts of messages for the store, and its answers: where a message is, and how a read ended."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from pyromq.errors import CorruptRecord
from pyromq.store.commitlog import is_torn
from pyromq.wire.properties import PROPERTY_SEPARATOR
from pyromq.wire.record import TOPIC_BYTES_MAX_V1, Record, encode_record


@dataclass(slots=True)
class Draft:
    """A message as it is to be stored. The hosts are in the record's format, `properties` is the string."""

    topic: str
    queue_id: int
    body: bytes
    properties: str
    flag: int
    sys_flag: int
    born_at_ms: int
    born_host: bytes
    store_host: bytes
    reconsume_times: int = 0
    prepared_position: int = 0
    #: How long its topic may be: RocketMQ 4 has 127 bytes, 5.x more for topics of the broker's own.
    topic_bytes_max: int = TOPIC_BYTES_MAX_V1


class Placed(msgspec.Struct, frozen=True, gc=False):
    """The place of a stored message. The message is safe once the log is synced up to `end`."""

    position: int
    size: int
    queue_id: int
    queue_offset: int
    stored_at_ms: int

    @property
    def end(self) -> int:
        """The log position behind the message."""
        return self.position + self.size


class QueueEntry(NamedTuple):
    """An entry of a queue: the position and size of its message, and the code of the message's tags."""

    position: int
    size: int
    tags_code: int


class Queried(msgspec.Struct, frozen=True):
    """Records whose keys may match, oldest first, and how far the index goes."""

    records: list[bytes]
    index_updated_at_ms: int
    index_position: int


def make_record(draft: Draft, queue_offset: int, position: int, stored_at_ms: int) -> Record:
    """Return the record of a draft that is stored at a time, at places in its queue and in the log."""
    properties = draft.properties
    if "\0" in properties:
        properties = untorn(properties)
    return Record(
        topic=draft.topic,
        body=draft.body,
        queue_id=draft.queue_id,
        properties=properties,
        flag=draft.flag,
        sys_flag=draft.sys_flag,
        queue_offset=queue_offset,
        position=position,
        born_at_ms=draft.born_at_ms,
        born_host=draft.born_host,
        stored_at_ms=stored_at_ms,
        store_host=draft.store_host,
        reconsume_times=draft.reconsume_times,
        prepared_position=draft.prepared_position,
    )


def encode_all(records: Iterable[Record], position: int) -> list[bytes]:
    """Return the bytes of records that stand one behind the other from a position on."""
    parts = []
    for record in records:
        record.position = position
        parts.append(encode_record(record))
        position += len(parts[-1])
    return parts


def untorn(properties: str) -> str:
    """Return properties that do not look like a torn record to recovery; see `commitlog.is_torn`."""
    if properties.endswith("\0"):
        properties += PROPERTY_SEPARATOR
    if is_torn(properties):
        raise CorruptRecord("properties with a sector of zeros look like a torn write; leave the zeros out")
    return properties
