"""The inner loop of `verify`: records of the log, checked, into what its followers should hold.

`scan` goes over a block of the log and takes in the *plain* records: version 1, IPv4 hosts, whole, with the
right checksum and position, whose queue goes on where it stopped. At the first record that is anything else
it stops and says where; `Facts.take_in`, which decodes a record with the store's own functions, looks at that
one. So `scan` is fast because it knows one shape, and right because it never decides what is wrong. A
compiled `scan` would have the same signature, and `take_in` is the oracle of both.

Topic and properties are most of the work. Messages of one producer differ there in nothing but the 32
characters of their unique id, so what is left without them is looked up as a whole (`Facts.shapes`).
"""

import struct
from typing import Final
from zlib import crc32

from pyromq.codes import SysFlag
from pyromq.store.consumequeue import ENTRY
from pyromq.store.index import key_hash
from pyromq.store.inspect.facts import KEY, Facts, Hashes, NotPlain, TagsCodes, Topic
from pyromq.wire.message_id import ID_CHARACTERS_V4
from pyromq.wire.record import CRC_MASK, MAGIC_V1

#: size, magic, checksum, queue id, queue offset, position, sysFlag, stored at, body length.
_HEAD: Final = struct.Struct(">iiii4xqqi8x8xq8x4x8xi")
_HEAD_BYTES: Final = 88
assert _HEAD.size == _HEAD_BYTES
_unpack_head = _HEAD.unpack_from
_unpack_int16 = struct.Struct(">h").unpack_from
_pack_entry = ENTRY.pack
_pack_key = KEY.pack

#: IPv6 hosts, and what has no place in a queue: bit 2 is set in prepared and in rolled-back messages.
_NOT_PLAIN: Final = int(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6 | SysFlag.TRANSACTION_PREPARED)
_ID_NAME: Final = b"UNIQ_KEY\x01"
_SHAPES_MAX: Final = 4096
_MASK: Final = 0xFFFFFFFF

_tags_codes: Final = TagsCodes()
_next_to_last: Final = Hashes(4)
_last: Final = Hashes(0)


def scan(block: bytes, at: int, limit: int, base: int, facts: Facts) -> int:
    """Take in plain records from byte `at` of a block on, and return where the first begins that was not.

    That is at `limit` or behind it when all were plain. `base` is the position of the block's first byte.
    """
    view, block_bytes, find_shape = memoryview(block), len(block), facts.shapes.get
    keys, add_time, count, newest = facts.keys, facts.times.append, 0, facts.newest
    limit = min(limit, block_bytes - _HEAD_BYTES)
    try:
        while at < limit:
            size, magic, crc, queue_id, offset, position, flags, time_ms, body_bytes = _unpack_head(block, at)
            end = at + size
            topic_at = at + _HEAD_BYTES + body_bytes
            if (
                magic != MAGIC_V1
                or position != base + at
                or flags & _NOT_PLAIN
                or body_bytes < 0
                or not topic_at < end <= block_bytes
                or crc32(view[at + _HEAD_BYTES : topic_at]) & CRC_MASK != crc
            ):
                break
            tail = block[topic_at:end]
            id_at = tail.find(_ID_NAME) + 9
            id_end = id_at + 32
            shape = find_shape(tail[:id_at] + tail[id_end:])
            if shape is not None and id_at > 8:
                topic, code = shape
                hashes = [_key_hash(topic, tail[id_at:id_end])]
            else:
                topic, code, hashes = _read_tail(facts, tail)
            run = topic.queues.get(queue_id)
            if run is None or run.next_offset != offset:
                break
            # Nothing was kept so far, and from here on nothing fails.
            for hashed in hashes:
                keys += _pack_key(hashed, position)
                add_time(time_ms)
            run.entries += _pack_entry(position, size, code)
            run.next_offset = offset + 1
            newest = position
            count += 1
            at = end
    except NotPlain:
        pass
    facts.records += count
    facts.newest = newest
    return at


def _read_tail(facts: Facts, tail: bytes) -> tuple[Topic, int, list[int]]:
    """Return what the end of a record says: its topic, its tags code, and the hashes of its keys."""
    properties_at = tail[0] + 3
    if properties_at > len(tail) or _unpack_int16(tail, properties_at - 2)[0] != len(tail) - properties_at:
        raise NotPlain
    topic = facts.topics.get(tail[1 : properties_at - 2])
    if topic is None or b"\0" in tail[properties_at:]:
        raise NotPlain
    # All pairs stand between separators here, so that a name is found by one search, and its value's end too.
    properties = b"\x02" + tail[properties_at:] + b"\x02"
    tags, identity, keys = (_value(properties, name) for name in (b"TAGS", b"UNIQ_KEY", b"KEYS"))
    code = _tags_codes[tags] if tags is not None else 0
    words = [] if identity is None else [identity]
    if keys is not None:
        words += keys.split(b" ")
    elif identity is not None and len(identity) == ID_CHARACTERS_V4:
        _remember(facts, tail, (topic, code))
    return topic, code, [_key_hash(topic, word) for word in words]


def _value(properties: bytes, name: bytes) -> bytes | None:
    """Return a property's value; of two with one name the later holds, unless it is empty."""
    marked = b"\x02" + name + b"\x01"
    at = properties.rfind(marked)
    if at < 0:
        return None
    at += len(marked)
    value = properties[at : properties.index(b"\x02", at)]
    if not value:
        raise NotPlain
    return value


def _remember(facts: Facts, tail: bytes, shape: tuple[Topic, int]) -> None:
    """Keep what the end of a record says for all that differ from it in their unique id only."""
    if tail.count(_ID_NAME) == 1:
        if len(facts.shapes) >= _SHAPES_MAX:
            facts.shapes.clear()
        before, name, behind = tail.partition(_ID_NAME)
        facts.shapes[before + name + behind[ID_CHARACTERS_V4:]] = shape


def _key_hash(topic: Topic, key: bytes) -> int:
    if len(key) < 8:
        # Two spaces make an empty key, which is none.
        if not key or not key.isascii():
            raise NotPlain
        return key_hash(topic.name, key.decode())
    # The last eight digits of a unique id are a time and a counter; its head stays for a minute.
    value = topic.heads[key[:-8]] + _next_to_last[key[-8:-4]] + _last[key[-4:]] & _MASK
    if value & 0x80000000:
        value = (1 << 32) - value
    # Java has no positive 2³¹, and RocketMQ takes 0 in its place.
    return value if value <= 0x7FFFFFFF else 0
