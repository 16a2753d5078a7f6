"""The inner loop of `verify`: it checks records of the log, and makes the entries that queues and index need.

`scan` goes over a block of the log and takes in the *plain* records: version 1, IPv4 hosts, whole, with the
right checksum and position, whose queue goes on where it stopped. At the first record that is anything else
it stops and returns where; `Facts.take_in`, which decodes a record with the store's own functions, looks at
that one. So `scan` is fast because it knows one shape, and right because it never decides what is wrong.
The compiled `scan` (`pyromq._kernel.storage.facts`) takes the same arguments, and `take_in` is the oracle
of both.

Topic and properties are most of the work. Messages of one producer differ there in nothing but the 32
characters of their unique id, so what is left without them is looked up as a whole (`Facts.shapes`).
"""

from typing import Final

from pyromq.codes import SysFlag
from pyromq.errors import CorruptRecord
from pyromq.store.consumequeue import ENTRY
from pyromq.store.index.index import key_hash
from pyromq.store.inspect.facts import KEY, Facts, Hashes, NotPlain, TagsCodes, TopicRuns
from pyromq.wire.message_id import ID_CHARACTERS_V4
from pyromq.wire.properties import finder
from pyromq.wire.record import MAGIC_V1, look_at_record

_pack_entry = ENTRY.pack
_pack_key = KEY.pack

#: IPv6 hosts, and what has no place in a queue: bit 2 is set in prepared and in rolled-back messages.
_NOT_PLAIN: Final = int(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6 | SysFlag.TRANSACTION_PREPARED)
_ID_NAME: Final = b"UNIQ_KEY\x01"
_SHAPES_MAX: Final = 4096
_MASK: Final = 0xFFFFFFFF
_TWO_32: Final = 1 << 32
_SIGN: Final = 0x80000000
_POSITIVE: Final = 0x7FFFFFFF
_KEY_BYTES: Final = KEY.size

_find_tags, _find_unique_id, _find_keys = finder(b"TAGS"), finder(b"UNIQ_KEY"), finder(b"KEYS")
_tags_codes: Final = TagsCodes()
_next_to_last: Final = Hashes(4)
_last: Final = Hashes(0)


def scan(block: bytes, at: int, limit: int, base: int, facts: Facts) -> int:
    """Take in plain records from byte `at` of a block on, and return where the first begins that was not.

    That is at `limit` or behind it when all were plain. `base` is the position of the block's first byte.
    """
    view, find_shape = memoryview(block), facts.shapes.get
    keys, times, add_time = facts.keys, facts.times, facts.times.append
    count, newest = 0, facts.newest
    try:
        while at < limit:
            head, _, topic_at, _, properties_at, end = look_at_record(view, at)
            size, magic, _, queue_id, _, offset, position, flags, _, _, time_ms, *_ = head
            if magic != MAGIC_V1 or position != base + at or flags & _NOT_PLAIN:
                break
            tail = block[topic_at:end]
            id_at = tail.find(_ID_NAME) + 9
            shape = find_shape(tail[:id_at] + tail[id_at + 32 :]) if id_at > 8 else None
            if shape is not None:
                topic, code = shape
                # As `_key_hash`, which it is too dear to call.
                hashed = topic.heads[tail[id_at : id_at + 24]] + _next_to_last[tail[id_at + 24 : id_at + 28]]
                hashed = hashed + _last[tail[id_at + 28 : id_at + 32]] & _MASK
                made = _pack_key((_TWO_32 - hashed if hashed & _SIGN else hashed) & _POSITIVE, position)
            else:
                topic, code, made = _read_tail(facts, tail, properties_at - topic_at, position)
            run = topic.queues.get(queue_id)
            if run is None or run.next_offset != offset:
                break
            # Nothing was kept so far, and from here on nothing fails.
            keys += made
            if len(made) == _KEY_BYTES:
                add_time(time_ms)
            else:
                times.extend([time_ms] * (len(made) // _KEY_BYTES))
            run.entries += _pack_entry(position, size, code)
            run.next_offset = offset + 1
            newest = position
            count += 1
            at = end
    except (CorruptRecord, NotPlain):
        pass
    facts.records += count
    facts.newest = newest
    return at


def _read_tail(facts: Facts, tail: bytes, properties_at: int, position: int) -> tuple[TopicRuns, int, bytes]:
    """Return what the end of a record says: its topic, its tags code, and its keys, packed."""
    topic, properties = facts.topics.get(tail[1 : properties_at - 2]), tail[properties_at:]
    if topic is None or b"\0" in properties:
        raise NotPlain
    tags, identity, keys = _find_tags(properties), _find_unique_id(properties), _find_keys(properties)
    code = _tags_codes[tags] if tags is not None else 0
    words = [] if identity is None else [identity]
    if keys is not None:
        words += keys.split(b" ")
    elif identity is not None and len(identity) == ID_CHARACTERS_V4:
        _remember(facts, tail, (topic, code))
    return topic, code, b"".join([_pack_key(_key_hash(topic, word), position) for word in words])


def _remember(facts: Facts, tail: bytes, shape: tuple[TopicRuns, int]) -> None:
    """Keep what the end of a record says for all that differ from it in their unique id only."""
    if tail.count(_ID_NAME) == 1:
        if len(facts.shapes) >= _SHAPES_MAX:
            facts.shapes.clear()
        before, name, behind = tail.partition(_ID_NAME)
        facts.shapes[before + name + behind[ID_CHARACTERS_V4:]] = shape


def _key_hash(topic: TopicRuns, key: bytes) -> int:
    """Return the hash of `topic#key`, put together from pieces that many keys have in common.

    The last eight digits of a unique id are a time and a counter; its head stays for a minute.
    """
    if len(key) < 8:
        # Two spaces make an empty key, which is none.
        if not key or not key.isascii():
            raise NotPlain
        return key_hash(topic.name, key.decode())
    value = topic.heads[key[:-8]] + _next_to_last[key[-8:-4]] + _last[key[-4:]] & _MASK
    # Java's, made positive; of −2³¹ RocketMQ makes 0.
    return (_TWO_32 - value if value & _SIGN else value) & _POSITIVE
