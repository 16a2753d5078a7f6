"""The key index: from "topic#key" to the positions of messages, as one follower of the log.

    index/{yyyyMMddHHmmssSSS}      named by the local time at which the file was made

A message is entered under its unique id (UNIQ_KEY) and under each word of its KEYS. Only the hash of topic
and key is kept, and anybody can make keys that have a hash: whether a message has the key is for the log to
say (`has_key`). RocketMQ leaves that to the one who asks, and so shows messages of other topics. A new file
begins when the last one is full.
"""

import logging
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from pyromq.errors import DiskFull
from pyromq.store.files import Files
from pyromq.store.follower import LogEntry, has_index_entry
from pyromq.store.index import indexfile
from pyromq.store.index.indexfile import HasKey, IndexFile
from pyromq.wire.java_hash import java_hash
from pyromq.wire.properties import KEYS, UNIQ_KEY, find_text, index_keys
from pyromq.wire.record import Record

#: Messages that a query looks at, whether they have its key or only the key's hash.
LOOKED_AT_MAX: Final = 10_000

_NAME_DIGITS: Final = 17
_MASK: Final = 0xFFFFFFFF
_POWERS: Final = [pow(31, length, 1 << 32) for length in range(256)]


_log: Final = logging.getLogger(__name__)


class Matches(NamedTuple):
    """Positions of messages, newest first, and how far the index goes."""

    positions: list[int]
    last_stored_at_ms: int
    last_position: int


class KeyIndex:
    """All index files, oldest first; the last is the one that grows."""

    __slots__ = ("_entries_max", "_files", "_folder", "_full", "_now_ms", "_ready", "_row", "_slots")

    def __init__(
        self, files: Files, folder: Path, *, slots: int, entries_max: int, now_ms: Callable[[], int]
    ) -> None:
        self._files = files
        self._folder = folder
        self._slots = slots
        self._entries_max = entries_max
        self._now_ms = now_ms
        self._row: list[IndexFile] = []
        #: Why the newest file could not be made yet.
        self._full: DiskFull | None = None
        #: The newest file once it was found ready; None when it is to be looked at again.
        self._ready: IndexFile | None = None

    def load(self, *, is_named: bool = True) -> None:
        """Read the headers of the files that are there; `is_named`: their names survive a power cut."""
        self._ready = None
        self._row = [
            IndexFile(self._files, self._folder / name, slots=self._slots, entries_max=self._entries_max)
            for name in self._files.names(self._folder)
            if len(name) == _NAME_DIGITS and name.isascii() and name.isdigit()
        ]
        for file in self._row:
            length = self._files.size(file.path)
            if length < file.full_bytes:
                _log.warning("%s has %d bytes; extending it to %d", file.path, length, file.full_bytes)
            file.load(is_named=is_named)

    def load_before(self, position: int, has_key: HasKey | None = None, *, is_whole: bool = False) -> None:
        """Load, and drop every entry of a message at a log position or behind it.

        What the index says of messages before it must have been synced; `is_whole`: so it is with all that
        was written, as after a kill.
        """
        self.load(is_named=False)
        # Nobody asks for the newest file before this returns.
        while self._row:
            last = self._row[-1]
            count = last.count_before(position, has_key)
            if count > 1:
                last.cut(count, is_whole=is_whole)
                return
            self._row.pop()
            last.retire()
            self._files.remove(last.path)
            # A power cut must not bring it back: it knows of messages that the log does not have.
            self._files.sync_folder(self._folder)

    def apply(self, entry: LogEntry) -> None:
        """Enter the message under its unique id and its keys, unless it was rolled back or is in already.

        Raises DiskFull; the message is entered then, and held in memory.
        """
        hashes = key_hashes(entry)
        if not hashes:
            return
        # RocketMQ compares with the last position too, and lets the same message in again.
        if self._row and entry.position <= self._row[-1].end_position and self._row[-1].count > 1:
            return
        for hashed in hashes:
            file = self._row[-1] if self._row else None
            if file is None or file.count >= file.entries_max:
                file = self._add_file()
            if file.look is None:
                file.prepare()
            file.put(hashed, entry.position, entry.stored_at_ms)
        full, self._full = self._full, None
        if full is not None:
            raise full
        if file is not None:
            self.settle_much(file)

    def settle_much(self, file: IndexFile) -> None:
        """Write a part of what a file holds if that is much; to be called after each write to the log."""
        # Looked at here, because it is asked after each write, and there is rarely much.
        if file.holds_much(indexfile.HELD_ENTRIES_BYTES, indexfile.HELD_SLOTS_MAX):
            file.settle_some()

    def _add_file(self) -> IndexFile:
        self._ready = None
        # Two files that are filled within a millisecond must not get one name.
        now_ms = self._now_ms()
        while self._row and self._row[-1].path.name >= _file_name(now_ms):
            now_ms += 1
        path = self._folder / _file_name(now_ms)
        file = IndexFile(self._files, path, slots=self._slots, entries_max=self._entries_max)
        if self._row:
            file.begin_behind(self._row[-1])
        self._row.append(file)
        try:
            self._files.make_folder(self._folder)
            file.make()
        except DiskFull as full:
            self._full = full
        return file

    def newest(self) -> IndexFile | None:
        """Return the file that the next key goes into, ready for it; None when that is a new one."""
        ready = self._ready
        if ready is not None and ready.room > 0:
            # The usual case: this is asked twice for each write to the log.
            return ready
        row = self._row
        if not row or self._full is not None or row[-1].room <= 0:
            return None
        file = row[-1]
        if file.look is None:
            file.prepare()
        self._ready = file
        return file

    def room(self) -> int:
        """Return how many keys go into the newest file; 0 when the next one needs a new file."""
        newest = self.newest()
        return 0 if newest is None else newest.room

    def settle(self) -> list[IndexFile]:
        """Write what is held in memory, and return the files that have unsynced bytes."""
        for file in self._row:
            file.settle()
        return self.take_unsynced()

    def begin_settling(self) -> None:
        """Begin to write what is held in memory now."""
        for file in self._row:
            file.begin_settling()

    def settle_some(self) -> bool:
        """Write some of it, and return whether nothing is left to do."""
        return all(file.settle_wanted() for file in self._row)

    def take_unsynced(self) -> list[IndexFile]:
        """Return the files with bytes that were not asked to be synced yet."""
        return [file for file in self._row if file.take_unsynced()]

    def query(
        self,
        topic: str,
        key: str,
        *,
        count_max: int,
        begin_ms: int,
        end_ms: int,
        has_key: Callable[[int], bool] = lambda _position: True,
    ) -> Matches:
        """Return the positions of at most `count_max` messages of that time that have the key.

        `has_key` says so of the message at a position. It is asked of the newest `LOOKED_AT_MAX` whose hash
        is the key's: a flood of keys with one hash must not hold the broker up.
        """
        candidates = islice(self._candidates(key_hash(topic, key), begin_ms, end_ms), LOOKED_AT_MAX)
        found = list(islice(filter(has_key, candidates), max(count_max, 0)))
        last = self._row[-1] if self._row else None
        return Matches(found, last.end_at_ms if last else 0, last.end_position if last else 0)

    def _candidates(self, hashed: int, begin_ms: int, end_ms: int) -> Iterator[int]:
        for file in reversed(self._row):
            if file.covers(begin_ms, end_ms):
                yield from file.candidates(hashed, begin_ms, end_ms)
            if file.begin_at_ms < begin_ms:
                break

    def expire(self, min_position: int) -> list[IndexFile]:
        """Return the files, never the last, that only know messages which the log lost."""
        gone: list[IndexFile] = []
        while len(self._row) > 1 and self._row[0].end_position < min_position:
            gone.append(self._row.pop(0))
            gone[-1].retire()
        return gone

    def remove_all(self) -> None:
        """Remove every file."""
        self._ready = None
        for file in self._row:
            file.retire()
            self._files.remove(file.path)
        self._row = []

    def forget_pages(self) -> None:
        """Give the maps' pages back to the system."""
        for file in self._row:
            file.forget_pages()

    def close(self) -> None:
        """Give all files back."""
        self._ready = None
        for file in self._row:
            file.close()


def key_hashes(entry: LogEntry) -> list[int]:
    """Return the hashes under which a message is entered; none when it was rolled back."""
    unique_id, keys, topic = entry.unique_id, entry.keys, entry.topic
    if not (unique_id or keys) or not has_index_entry(entry.sys_flag):
        return []
    return [key_hash(topic, key) for key in index_keys(unique_id, keys)]


def carries_key(record: Record, topic: str, key: str) -> bool:
    """Return whether a record is of a topic, and has a key as its unique id or as a word of its keys."""
    properties = record.properties
    return record.topic == topic and key in index_keys(
        find_text(properties, UNIQ_KEY), find_text(properties, KEYS)
    )


def key_hash(topic: str, key: str) -> int:
    """Return the hash under which `topic#key` is entered: Java's, made positive."""
    if key.isascii() and 4 < len(key) < len(_POWERS):
        # A unique id ends in four digits that count. What stands before them is the same for many messages,
        # and its hash is remembered.
        a, b, c, d = key[-4:].encode()
        tail = ((a * 31 + b) * 31 + c) * 31 + d
        value = (java_hash(topic + "#") * _POWERS[len(key)] + java_hash(key[:-4]) * _POWERS[4] + tail) & _MASK
        if value & 0x80000000:
            value = (1 << 32) - value
    else:
        value = abs(java_hash(f"{topic}#{key}"))
    # Java has no positive 2³¹, and RocketMQ takes 0 in its place.
    return value if value <= 0x7FFFFFFF else 0


def _file_name(now_ms: int) -> str:
    return time.strftime("%Y%m%d%H%M%S", time.localtime(now_ms // 1000)) + f"{now_ms % 1000:03d}"
