"""The inner loop of `verify`: the log's records, checked, into what its followers should hold.

`scan` goes over a block of the log and takes in the *plain* records: version 1, IPv4 hosts, whole, with the
right checksum and position, whose queue goes on where it stopped. At the first record that is anything else
it stops and says where; `take_in`, which decodes a record with the store's own functions, looks at that one.
So `scan` is fast because it knows one shape, and right because it never decides what is wrong. A compiled
`scan` would have the same signature, and `take_in` is the oracle for both.

What a record makes is kept as bytes, never as an object: 20 bytes for its queue entry, 12 and 8 for each of
its keys. Comparing a stretch of a queue with its file is then one comparison of bytes.
"""

import struct
from array import array
from collections.abc import Mapping
from itertools import repeat
from typing import Final
from zlib import crc32

from pyromq.codes import SysFlag
from pyromq.store.consumequeue import ENTRY
from pyromq.store.follower import SCHEDULE_TOPIC, LogEntry, entry_of, has_index_entry, has_queue_entry
from pyromq.store.index import key_hash
from pyromq.wire.java_hash import java_hash
from pyromq.wire.properties import KEY_SEPARATOR
from pyromq.wire.record import CRC_MASK, MAGIC_V1, Record

#: size, magic, checksum, queue id, queue offset, position, sysFlag, stored at, body length.
_HEAD: Final = struct.Struct(">iiii4xqqi8x8xq8x4x8xi")
_HEAD_BYTES: Final = 88
assert _HEAD.size == _HEAD_BYTES
KEY: Final = struct.Struct(">iq")
_unpack_head = _HEAD.unpack_from
_unpack_int16 = struct.Struct(">h").unpack_from
_pack_entry = ENTRY.pack
_pack_key = KEY.pack

#: IPv6 hosts, and what has no place in a queue: bit 2 is set in prepared and in rolled-back messages.
_NOT_PLAIN: Final = int(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6 | SysFlag.TRANSACTION_PREPARED)
_MASK: Final = 0xFFFFFFFF
_REMEMBERED_MAX: Final = 1 << 17
#: The part of a key that is looked up as a whole ends this long before the key's end.
_TAIL_BYTES: Final = 8


class _NotPlain(Exception):
    """A record that only `take_in` reads right."""


class _Hashes(dict[bytes, int]):
    """The Java hashes of pieces of text, each times a power of 31."""

    __slots__ = ("_before", "_power")

    def __init__(self, bytes_behind: int, before: bytes = b"") -> None:
        super().__init__()
        self._power = pow(31, bytes_behind, 1 << 32)
        self._before = before

    def __missing__(self, text: bytes) -> int:
        if not text.isascii():
            raise _NotPlain
        if len(self) >= _REMEMBERED_MAX:
            self.clear()
        value = java_hash((self._before + text).decode()) * self._power & _MASK
        self[text] = value
        return value


class _TagsCodes(dict[bytes, int]):
    """The codes of tags."""

    def __missing__(self, tags: bytes) -> int:
        if not tags:
            raise _NotPlain
        if len(self) >= _REMEMBERED_MAX:
            self.clear()
        code = self[tags] = java_hash(tags.decode("utf-8", "replace"))
        return code


_tags_codes: Final = _TagsCodes()
_next_to_last: Final = _Hashes(4)
_last: Final = _Hashes(0)


class Run:
    """Records of one queue, one behind the other, as the queue's entries should be."""

    __slots__ = ("entries", "first", "heads", "next_offset", "queue_id", "topic")

    def __init__(self, topic: str, queue_id: int, first: int, heads: "_Hashes") -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.first = first
        self.next_offset = first
        self.entries = bytearray()
        #: Hashes of «topic#…», of all but the last bytes of a key.
        self.heads = heads


class Facts:
    """What the followers of a stretch of the log should hold."""

    __slots__ = (
        "_delays_ms",
        "_heads",
        "_others",
        "keys",
        "newest",
        "records",
        "runs",
        "runs_ended",
        "times",
    )

    def __init__(self, delays_ms: Mapping[int, int]) -> None:
        self._delays_ms = delays_ms
        self._heads: dict[str, _Hashes] = {}
        #: The runs that grow, of plain topics by the bytes of their name.
        self.runs: dict[tuple[bytes, int], Run] = {}
        #: Those of topics that `scan` does not know how to follow.
        self._others: dict[tuple[str, int], Run] = {}
        self.runs_ended: list[Run] = []
        #: Hash and position of each key, and the stored time of its message.
        self.keys = bytearray()
        self.times = array("q")
        self.records = 0
        #: The position of the newest record.
        self.newest = -1

    def take_in(self, record: Record, position: int) -> LogEntry:
        """Add what any whole record makes that begins at a position, whatever it says of its own."""
        record.position = position
        entry = entry_of(record, record.size, self._delays_ms)
        if has_queue_entry(entry.sys_flag):
            run = self._run_for(entry)
            run.entries += _pack_entry(position, entry.size, entry.tags_code)
            run.next_offset += 1
        if has_index_entry(entry.sys_flag):
            for hashed in key_hashes(entry):
                self.keys += _pack_key(hashed, position)
                self.times.append(entry.stored_at_ms)
        self.records += 1
        self.newest = position
        return entry

    def _run_for(self, entry: LogEntry) -> Run:
        topic, queue_id = entry.topic, entry.queue_id
        is_plain = topic != SCHEDULE_TOPIC and topic.isascii()
        run = self.runs.get((topic.encode(), queue_id)) if is_plain else self._others.get((topic, queue_id))
        if run is not None and run.next_offset == entry.queue_offset:
            return run
        if run is not None:
            self.runs_ended.append(run)
        if topic not in self._heads:
            self._heads[topic] = _Hashes(_TAIL_BYTES, f"{topic}#".encode())
        run = Run(topic, queue_id, entry.queue_offset, self._heads[topic])
        if is_plain:
            self.runs[topic.encode(), queue_id] = run
        else:
            self._others[topic, queue_id] = run
        return run

    def end(self) -> list[Run]:
        """Return all runs, in the order in which they ended."""
        runs = [*self.runs_ended, *self.runs.values(), *self._others.values()]
        self.runs_ended, self.runs, self._others = [], {}, {}
        return runs


def key_hashes(entry: LogEntry) -> list[int]:
    """Return the hashes under which a message is entered into the index, in order."""
    keys = [entry.unique_id] if entry.unique_id else []
    keys += [key for key in (entry.keys or "").split(KEY_SEPARATOR) if key]
    return [key_hash(entry.topic, key) for key in keys]


def scan(block: bytes, at: int, limit: int, base: int, facts: Facts) -> int:
    """Take in plain records from byte `at` of a block on, and return where the first begins that was not.

    That is at `limit` or behind it when all were plain. `base` is the position of the block's first byte.
    """
    view, block_bytes, runs = memoryview(block), len(block), facts.runs
    keys, times, count, newest = facts.keys, facts.times, 0, facts.newest
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
            properties_at = topic_at + 3 + block[topic_at]
            if properties_at > end or _unpack_int16(block, properties_at - 2)[0] != end - properties_at:
                break
            run = runs.get((block[topic_at + 1 : properties_at - 2], queue_id))
            if run is None or run.next_offset != offset:
                break
            # All pairs begin with a separator here, so that a name is found by one search.
            properties = b"\x02" + block[properties_at:end] + b"\x02"
            made = b""
            code = 0
            if (found := properties.rfind(b"\x02TAGS\x01") + 6) > 5:
                code = _tags_codes[properties[found : properties.find(b"\x02", found)]]
            if (found := properties.rfind(b"\x02UNIQ_KEY\x01") + 10) > 9:
                made = _pack_key(
                    _key_hash(run, properties[found : properties.find(b"\x02", found)]), position
                )
            if (found := properties.rfind(b"\x02KEYS\x01") + 6) > 5:
                made += _pack_keys(run, properties[found : properties.find(b"\x02", found)], position)
            # Nothing was kept so far, and from here on nothing fails.
            if made:
                keys += made
                times.extend(repeat(time_ms, len(made) // KEY.size))
            run.entries += _pack_entry(position, size, code)
            run.next_offset = offset + 1
            newest = position
            count += 1
            at = end
    except _NotPlain:
        pass
    facts.records += count
    facts.newest = newest
    return at


def _pack_keys(run: Run, keys: bytes, position: int) -> bytes:
    return b"".join([_pack_key(_key_hash(run, key), position) for key in keys.split(b" ")])


def _key_hash(run: Run, key: bytes) -> int:
    if len(key) < 8:
        # Two spaces make an empty key, which is none; an empty value may stand before one that holds.
        if not key or not key.isascii():
            raise _NotPlain
        return key_hash(run.topic, key.decode())
    # The last eight digits of a unique id are a time and a counter; its head stays for a minute.
    value = run.heads[key[:-8]] + _next_to_last[key[-8:-4]] + _last[key[-4:]] & _MASK
    if value & 0x80000000:
        value = (1 << 32) - value
    # Java has no positive 2³¹, and RocketMQ takes 0 in its place.
    return value if value <= 0x7FFFFFFF else 0
