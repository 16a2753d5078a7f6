"""The expected contents of consume queues and key index, made from the log's records.

They are kept as bytes, never as an object for each message: 20 bytes for a queue entry, 12 and 8 for each
key. A stretch of a queue is then compared with its file by one comparison of bytes.
"""

import struct
from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyromq.kernel import IS_COMPILED
from pyromq.store.consumequeue import ENTRY
from pyromq.store.follower import TIMED_TOPICS, LogEntry, entry_of, has_queue_entry
from pyromq.store.index.index import key_hashes
from pyromq.wire.java_hash import java_hash
from pyromq.wire.record import Record

#: Hash and position of a key: the beginning of its index entry.
KEY: Final = struct.Struct(">iq")
_pack_entry = ENTRY.pack
_pack_key = KEY.pack

_MASK: Final = 0xFFFFFFFF
_REMEMBERED_MAX: Final = 1 << 17


class NotPlain(Exception):
    """A record that only `Facts.take_in` reads right."""


class Hashes(dict[bytes, int]):
    """The Java hashes of pieces of text, each times the power of 31 for the text behind it.

    The hash of a whole is the sum of those of its pieces.
    """

    __slots__ = ("_before", "_power")

    def __init__(self, bytes_behind: int, before: bytes = b"") -> None:
        super().__init__()
        self._power = pow(31, bytes_behind, 1 << 32)
        self._before = before

    def __missing__(self, text: bytes) -> int:
        if not text.isascii() or b"\x02" in text or b"\0" in text:
            raise NotPlain
        if len(self) >= _REMEMBERED_MAX:
            self.clear()
        value = java_hash((self._before + text).decode()) * self._power & _MASK
        self[text] = value
        return value


class TagsCodes(dict[bytes, int]):
    """The codes of tags."""

    def __missing__(self, tags: bytes) -> int:
        if not tags:
            # An empty pair counts for nothing, and one of the same name before it may hold.
            raise NotPlain
        if len(self) >= _REMEMBERED_MAX:
            self.clear()
        code = self[tags] = java_hash(tags.decode("utf-8", "replace"))
        return code


class PureRun:
    """Records of one queue, one behind the other, as the queue's entries should be."""

    __slots__ = ("entries", "first", "next_offset", "queue_id", "topic")

    def __init__(self, topic: str, queue_id: int, first: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.first = first
        self.next_offset = first
        self.entries = bytearray()


if TYPE_CHECKING or not IS_COMPILED:
    Run = PureRun
    RunTable = dict[object, Run]
else:
    from pyromq._kernel.storage.facts import Run, RunTable


class TopicRuns:
    """The runs of a topic's queues that grow, and hashes of `topic#…` up to the last eight bytes of a key."""

    __slots__ = ("heads", "name", "queues")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: dict[int, Run] = {}
        self.heads = Hashes(8, f"{name}#".encode())


#: The topic, the tags code, and how properties look that differ in the unique id only.
Shape = tuple[TopicRuns, int]


class Facts:
    """The entries that the followers of a stretch of the log should hold."""

    __slots__ = (
        "_delays_ms",
        "_ended",
        "_others",
        "keys",
        "newest",
        "records",
        "runs",
        "shapes",
        "times",
        "topics",
    )

    def __init__(self, delays_ms: Mapping[int, int]) -> None:
        self._delays_ms = delays_ms
        #: Topics by the bytes of their name, and those that `scan` does not know how to follow.
        self.topics: dict[bytes, TopicRuns] = {}
        self._others: dict[str, TopicRuns] = {}
        self._ended: list[Run] = []
        #: For `scan`: what it found out about topics and properties that look alike.
        self.shapes: dict[bytes, Shape] = {}
        #: For the compiled `scan`: the runs of `topics` that it met, each by its queue.
        self.runs = RunTable()
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
        for hashed in key_hashes(entry):
            self.keys += _pack_key(hashed, position)
            self.times.append(entry.stored_at_ms)
        self.records += 1
        self.newest = position
        return entry

    def _run_for(self, entry: LogEntry) -> Run:
        topic = self._topic(entry.topic)
        run = topic.queues.get(entry.queue_id)
        if run is None or run.next_offset != entry.queue_offset:
            if run is not None:
                self._ended.append(run)
                self.runs.clear()
            run = topic.queues[entry.queue_id] = Run(entry.topic, entry.queue_id, entry.queue_offset)
        return run

    def _topic(self, name: str) -> TopicRuns:
        if name in TIMED_TOPICS or not name.isascii():
            return self._others.setdefault(name, TopicRuns(name))
        return self.topics.setdefault(name.encode(), TopicRuns(name))

    def end(self) -> list[Run]:
        """Return all runs; those of one queue in the order of the log."""
        topics = [*self.topics.values(), *self._others.values()]
        runs = [*self._ended, *(run for topic in topics for run in topic.queues.values())]
        self._ended, self.topics, self._others, self.shapes = [], {}, {}, {}
        self.runs.clear()
        return runs
