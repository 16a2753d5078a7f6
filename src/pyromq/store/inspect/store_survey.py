"""The survey of a store's files and their ends, taken in an order that is safe while a broker writes.

A broker appends a message to the log first and to queues and index afterwards. So the checkpoint is read
first, then the ends of the queues and of the index, and the files of the log last. Every message that a
queue had when its end was read is then in the log, and a message that was stored later is no fault.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyromq.store.checkpoint import Checkpoint
from pyromq.store.consumequeue import BLANK_SIZE, ENTRY, ENTRY_BYTES
from pyromq.store.files import SystemFiles
from pyromq.store.index.indexfile import ENTRY_BYTES as KEY_BYTES
from pyromq.store.index.indexfile import HEADER, HEADER_BYTES, SLOT_BYTES
from pyromq.store.inspect.read_only_files import FileGone, ReadOnlyFile, is_locked, names_in

_ROW_NAME_DIGITS: Final = 20
_INDEX_NAME_DIGITS: Final = 17

QueueName = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RowFile:
    """One file of a row; its name is the position of its first byte."""

    path: Path
    base: int
    length: int

    @property
    def end(self) -> int:
        """The position behind its last byte."""
        return self.base + self.length


@dataclass(frozen=True, slots=True)
class QueueSurvey:
    """One consume queue: its files, and the offset behind its last entry when they were looked at."""

    topic: str
    queue_id: int
    files: tuple[RowFile, ...]
    end: int
    #: The log position behind the newest message.
    reach: int

    @property
    def name(self) -> QueueName:
        """Topic and id."""
        return self.topic, self.queue_id

    @property
    def first(self) -> int:
        """The first offset that the files have."""
        return self.files[0].base // ENTRY_BYTES

    def place_of(self, offset: int) -> tuple[Path, int]:
        """Return the file and the byte in it where an entry stands, or should stand."""
        file = self.files[max(bisect_right(self.files, offset * ENTRY_BYTES, key=_base_of) - 1, 0)]
        return file.path, offset * ENTRY_BYTES - file.base

    def read(self, first: int, end: int) -> bytes:
        """Return the bytes of entries; what the files do not have reads as zeros."""
        start, stop = first * ENTRY_BYTES, end * ENTRY_BYTES
        entries = bytearray(stop - start)
        for file in self.files:
            low, high = max(file.base, start), min(file.end, stop)
            if low < high:
                with ReadOnlyFile(file.path) as opened:
                    part = opened.read(high - low, low - file.base)
                entries[low - start : low - start + len(part)] = part
        return bytes(entries)

    def entries(self, first: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the offset, position, size and tags code of entries."""
        for offset, (position, size, code) in enumerate(ENTRY.iter_unpack(self.read(first, end)), first):
            yield offset, position, size, code


@dataclass(frozen=True, slots=True)
class IndexSurvey:
    """One file of the key index, and its header."""

    path: Path
    length: int
    begin_at_ms: int
    end_at_ms: int
    begin_position: int
    end_position: int
    slots_used: int
    #: The number that the next entry gets; entries are counted from 1.
    count: int


@dataclass(frozen=True, slots=True)
class StoreSurvey:
    """The files of a store: its log, queues and index, and how far each goes."""

    root: Path
    log: tuple[RowFile, ...]
    segment_bytes: int
    queues: Mapping[QueueName, QueueSurvey]
    queue_file_bytes: int
    index: tuple[IndexSurvey, ...]
    #: The slots of an index file, by the settings.
    slots: int
    entries_max: int
    delays_ms: Mapping[int, int]
    log_at_ms: int
    queues_at_ms: int
    index_at_ms: int
    #: Where our checkpoint says that everything before was synced; None when RocketMQ wrote it last.
    safe_position: int | None
    checkpoint_reach: int
    #: What is wrong with the checkpoint's own bytes.
    checkpoint_damage: str | None
    #: The stored time up to which log and queues were surely synced.
    oldest_ms: int
    #: Whether the last broker stopped in order, so that nothing is left to be written.
    is_clean: bool
    is_running: bool
    #: Whether tags codes may be addresses in RocketMQ's extension of the queues.
    has_queue_extension: bool

    @property
    def min_position(self) -> int:
        """The position at which the oldest file of the log begins."""
        return self.log[0].base if self.log else 0

    @property
    def reach(self) -> int:
        """The log position behind the newest message that any queue knows."""
        return max((queue.reach for queue in self.queues.values()), default=0)

    @property
    def index_bytes(self) -> int:
        """The length of an index file in bytes, by the settings."""
        return HEADER_BYTES + SLOT_BYTES * self.slots + KEY_BYTES * self.entries_max

    def log_file_of(self, position: int) -> RowFile | None:
        """Return the file of the log that holds a position."""
        at = bisect_right(self.log, position, key=_base_of) - 1
        return self.log[at] if at >= 0 and position < self.log[at].end else None


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout that the files do not tell: where the log is, and the sizes and delays of the settings."""

    root: Path
    log_folder: Path
    slots: int
    entries_max: int
    delays_ms: Mapping[int, int]


def store_root(folder: Path) -> Path:
    """Return the store in a folder: the folder itself, or the only one of its folders that is one.

    Raises FileNotFoundError, whose text says what is there.
    """
    if (folder / "commitlog").is_dir() or (folder / "checkpoint").is_file():
        return folder
    inside = sorted(path.parent for path in folder.glob("*/commitlog") if path.is_dir())
    if len(inside) == 1:
        return inside[0]
    if inside:
        raise FileNotFoundError(f"{folder} holds several stores; name one: {', '.join(map(str, inside))}")
    raise FileNotFoundError(f"{folder} holds no store: there is no commitlog in it")


def take_survey(layout: Layout) -> StoreSurvey:
    """Look at a store's folders."""
    root = layout.root
    is_clean = not (root / "abort").exists()
    checkpoint = Checkpoint(SystemFiles(), root / "checkpoint")
    damage = checkpoint.load()
    queues = {queue.name: queue for queue in _queues(root / "consumequeue")}
    index = tuple(_index(root / "index"))
    log = tuple(row_of(layout.log_folder))
    return StoreSurvey(
        root=root,
        log=log,
        segment_bytes=usual_length(log),
        queues=queues,
        queue_file_bytes=usual_length(file for queue in queues.values() for file in queue.files),
        index=index,
        slots=layout.slots,
        entries_max=layout.entries_max,
        delays_ms=layout.delays_ms,
        log_at_ms=checkpoint.log_at_ms,
        queues_at_ms=checkpoint.queues_at_ms,
        index_at_ms=checkpoint.index_at_ms,
        safe_position=checkpoint.safe_position,
        checkpoint_reach=checkpoint.reach,
        checkpoint_damage=damage,
        oldest_ms=checkpoint.oldest_ms(),
        is_clean=is_clean,
        is_running=is_locked(root / "lock"),
        has_queue_extension=(root / "consumequeue_ext").exists(),
    )


def row_of(folder: Path) -> list[RowFile]:
    """Return the files of a row, oldest first."""
    row: list[RowFile] = []
    for name in names_in(folder):
        if len(name) == _ROW_NAME_DIGITS and name.isascii() and name.isdigit():
            try:
                with ReadOnlyFile(folder / name) as file:
                    row.append(RowFile(file.path, int(name), file.size))
            except FileGone:
                # Files go from the front, so by now those before it are gone too.
                row.clear()
    return row


def usual_length(row: Iterable[RowFile]) -> int:
    """Return the length that most files have, of equals the greatest; 0 when there are none."""
    lengths = Counter(file.length for file in row)
    return max(lengths, key=lambda length: (lengths[length], length), default=0)


def is_blank_entry(position: int, size: int) -> bool:
    """Return whether a queue entry only keeps the place of a message that is older than the queue."""
    return size == BLANK_SIZE and position == 0


def _base_of(file: RowFile) -> int:
    return file.base


def _queues(folder: Path) -> Iterator[QueueSurvey]:
    for topic in names_in(folder):
        for name in names_in(folder / topic):
            if name.isascii() and name.isdigit() and name == str(int(name)):
                files = tuple(row_of(folder / topic / name))
                if files:
                    yield QueueSurvey(topic, int(name), files, *_end_of(files))


def _end_of(files: tuple[RowFile, ...]) -> tuple[int, int]:
    """Return the offset behind a queue's last entry, and the position behind the message of that entry."""
    for file in reversed(files):
        try:
            with ReadOnlyFile(file.path) as opened:
                count = -(-opened.last_byte_but_zeros(file.length) // ENTRY_BYTES)
                last = opened.read(ENTRY_BYTES, (count - 1) * ENTRY_BYTES) if count else b""
        except FileGone:
            continue
        if count:
            position, size, _ = ENTRY.unpack(last.ljust(ENTRY_BYTES, b"\0"))
            return file.base // ENTRY_BYTES + count, 0 if is_blank_entry(position, size) else position + size
    return files[0].base // ENTRY_BYTES, 0


def _index(folder: Path) -> Iterator[IndexSurvey]:
    for name in names_in(folder):
        if len(name) == _INDEX_NAME_DIGITS and name.isascii() and name.isdigit():
            try:
                with ReadOnlyFile(folder / name) as file:
                    header = HEADER.unpack(file.read(HEADER_BYTES, 0).ljust(HEADER_BYTES, b"\0"))
                    yield IndexSurvey(file.path, file.size, *header)
            except FileGone:
                continue
