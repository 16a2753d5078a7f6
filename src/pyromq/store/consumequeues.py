"""All consume queues of the store, as one follower of the log.

    consumequeue/{topic}/{queue id}/{first byte, twenty digits}

A queue's folder and files are made with its first entry: a topic of a thousand queues costs nothing until
they are used.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from pyromq.errors import StoreError
from pyromq.store.consumequeue import ENTRY_BYTES, ConsumeQueue
from pyromq.store.files import Files, open_files_max
from pyromq.store.follower import LogEntry, has_queue_entry
from pyromq.store.open_files import OpenFiles, UnsyncedFiles
from pyromq.store.segment import Segment
from pyromq.wire.record import RECORD_BYTES_MIN


def is_folder_name(topic: str) -> bool:
    """Return whether a topic can be the name of a folder, and of no other one than its own."""
    is_name = topic not in ("", ".", "..") and "/" not in topic and "\0" not in topic
    return is_name and len(topic.encode("utf-8", "replace")) <= _NAME_BYTES_MAX


_log: Final = logging.getLogger(__name__)
_NAME_BYTES_MAX: Final = 255
_OFFSET_MAX: Final = 1 << 55
#: Held entries of a queue are written when they are so many bytes; with many queues fewer, as memory adds up.
HELD_BYTES_MIN: Final = 100 * ENTRY_BYTES
HELD_BYTES_MAX: Final = 500 * ENTRY_BYTES
_HELD_TOGETHER_MAX: Final = 8 << 20
#: A checkpoint is due when this much of the log is new; it is what a start after a crash has to walk.
SYNC_BYTES_MIN: Final = 128 << 20
SYNC_BYTES_MAX: Final = 512 << 20
_LOG_BYTES_FOR_A_QUEUE: Final = 8 << 10
#: A new one takes a tenth of a millisecond, and nothing else happens meanwhile.
_QUEUES_SETTLED_AT_ONCE: Final = 16


def _held_bytes_max(queue_count: int) -> int:
    """Return how many bytes each of so many queues may hold: whole entries."""
    share = _HELD_TOGETHER_MAX // queue_count // ENTRY_BYTES * ENTRY_BYTES
    return max(HELD_BYTES_MIN, min(share, HELD_BYTES_MAX))


class QueueGap(StoreError):
    """The log's next record does not fit behind a queue's last entry: entries are missing."""


class ConsumeQueues:
    """The queues by topic and id."""

    __slots__ = (
        "_dirty",
        "_file_bytes",
        "_files",
        "_folder",
        "_followed",
        "_open_files",
        "_reach",
        "_settling",
        "_table",
        "_topics",
        "_unsynced",
        "gaps_are_filled",
        "held_bytes_max",
    )

    def __init__(
        self, files: Files, folder: Path, file_bytes: int, *, files_open_max: int | None = None
    ) -> None:
        self._files = files
        self._folder = folder
        self._file_bytes = file_bytes
        self._open_files = OpenFiles(files, folder, files_open_max or open_files_max())
        self._table: dict[tuple[str, int], ConsumeQueue] = {}
        #: The queues of each topic: to remove one, the others are not looked at.
        self._topics: dict[str, list[ConsumeQueue]] = {}
        #: The queues that began to hold entries since the last settling; one may be there twice.
        self._dirty: list[ConsumeQueue] = []
        #: What is left of the settling under way, last first, and the files that it has written to.
        self._settling: list[ConsumeQueue] = []
        self._unsynced: list[Segment] = []
        #: The reach of all queues when the last settling began; None when it is to be found.
        self._reach: int | None = None
        #: The topics of whose messages somebody is told.
        self._followed: Collection[str] = ()
        #: Whether a gap in a queue that has entries is filled with blanks, or raised as QueueGap.
        self.gaps_are_filled = True
        #: A queue that holds so many bytes of entries is to be settled.
        self.held_bytes_max = HELD_BYTES_MAX

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(self._table.values())

    def __len__(self) -> int:
        return len(self._table)

    @property
    def reach(self) -> int:
        """The log position behind the newest message of any queue."""
        queues: Iterable[ConsumeQueue] = self if self._reach is None else (*self._settling, *self._dirty)
        return max(self._reach or 0, max((queue.reach for queue in queues if not queue.gone), default=0))

    @property
    def topics(self) -> set[str]:
        """The topics that have a queue."""
        return set(self._topics)

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue, or None when nothing was ever stored in it."""
        return self._table.get((topic, queue_id))

    def get_or_make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue; a new one is empty and has no files yet."""
        queue = self._table.get((topic, queue_id))
        if queue is None:
            if not is_folder_name(topic) or queue_id < 0:
                raise StoreError(f"queue {queue_id} of {topic!r} cannot be a folder")
            queue = ConsumeQueue(
                self._files,
                self._folder,
                topic=topic,
                queue_id=queue_id,
                file_bytes=self._file_bytes,
                dirty=self._dirty,
                opened=self._open_files,
            )
            queue.followed = topic in self._followed
            self._table[topic, queue_id] = queue
            self.held_bytes_max = _held_bytes_max(len(self._table))
            self._topics.setdefault(topic, []).append(queue)
        return queue

    def follow(self, topics: Collection[str]) -> None:
        """Mark the queues of certain topics, of whose messages somebody is told, and no others."""
        self._followed = topics
        for queue in self:
            queue.followed = queue.topic in topics

    def find_all(self) -> None:
        """List the queues that have a folder; each must then be loaded."""
        self._table.clear()
        self._topics.clear()
        self._dirty.clear()
        self._settling.clear()
        self._unsynced = []
        self._reach = None
        for topic in self._files.names(self._folder):
            for name in self._files.names(self._folder / topic):
                if name.isascii() and name.isdigit() and name == str(int(name)):
                    self.get_or_make(topic, int(name))

    def sync_names(self) -> None:
        """Put the names of the queues' folders on the disk, as whoever made them may not have lived to do."""
        if self._table:
            for folder in (self._folder, *(self._folder / topic for topic in sorted(self.topics))):
                self._files.sync_folder(folder)

    def apply(self, entry: LogEntry) -> None:
        """Add the record to its queue, unless it has no place in one or is there already.

        Raises DiskFull; the entry is added then, and held in memory.
        """
        if not has_queue_entry(entry.sys_flag):
            return
        queue = self._table.get((entry.topic, entry.queue_id)) or self.get_or_make(
            entry.topic, entry.queue_id
        )
        if entry.queue_offset != queue.end:
            if entry.position < queue.reach or not self._is_plausible(queue, entry):
                return
            self._fit(queue, entry)
        queue.add(entry.position, entry.size, entry.tags_code)
        if len(queue.held) >= self.held_bytes_max:
            queue.settle()

    def _is_plausible(self, queue: ConsumeQueue, entry: LogEntry) -> bool:
        """Return whether a record may have its offset: what is missing before it must have had room."""
        gap = entry.queue_offset - queue.end
        room = (entry.position - queue.reach) // RECORD_BYTES_MIN
        if entry.queue_offset <= _OFFSET_MAX and (gap <= room or not queue.end):
            return True
        _log.error(
            "damaged: the record at %d of the log says it is message %d of queue %d of %r, which ends at %d",
            entry.position,
            entry.queue_offset,
            queue.queue_id,
            queue.topic,
            queue.end,
        )
        return False

    def _fit(self, queue: ConsumeQueue, entry: LogEntry) -> None:
        offset = entry.queue_offset
        if offset > queue.end > 0 and not self.gaps_are_filled:
            raise QueueGap(
                f"queue {queue.queue_id} of {queue.topic!r} ends at {queue.end}, "
                f"but the log goes on with {offset}"
            )
        queue.begin_at(offset, entry.position)

    def settle(self) -> list[UnsyncedFiles]:
        """Write what is held in memory, and return what has unsynced bytes."""
        self.begin_settling()
        while not self.settle_some():
            pass
        return self.take_unsynced()

    def begin_settling(self) -> None:
        """Begin to write what is held in memory now, of the queues that hold something."""
        self._reach = self.reach
        self._settling = list(dict.fromkeys((*self._settling, *self._dirty)))
        self._settling.reverse()
        # The list itself stays: every queue has it.
        self._dirty.clear()

    def settle_some(self, count: int = _QUEUES_SETTLED_AT_ONCE) -> bool:
        """Write what some of the queues hold, and return whether nothing is left to do.

        Raises DiskFull; the queue is still to be settled then.
        """
        settling = self._settling
        for _ in range(min(count, len(settling))):
            settling[-1].settle()
            self._unsynced += settling.pop().take_unsynced()
        return not settling

    @property
    def bytes_between_syncs(self) -> int:
        """The new bytes of the log after which a sync of the queues is due: more when many have entries."""
        # To write a queue costs the same for one entry and for thirty.
        wanted = len(self._dirty) * _LOG_BYTES_FOR_A_QUEUE
        return max(SYNC_BYTES_MIN, min(wanted, SYNC_BYTES_MAX))

    def take_unsynced(self) -> list[UnsyncedFiles]:
        """Return what was written to by settling, as one thing to sync."""
        unsynced, self._unsynced = self._unsynced, []
        return [UnsyncedFiles(self._open_files, unsynced)] if unsynced else []

    def expire(self, min_position: int) -> list[Segment]:
        """Move the queues' beginnings past the messages that the log lost; return files nothing needs."""
        gone: list[Segment] = []
        for queue in self:
            gone += queue.expire(min_position)
        return gone

    def remove_topic(self, topic: str) -> int:
        """Remove a topic's queues and their files; return how many there were."""
        doomed = self._topics.pop(topic, [])
        for queue in doomed:
            del self._table[topic, queue.queue_id]
            queue.remove()
        self._reach = None
        self._files.remove_folder(self._folder / topic)
        return len(doomed)

    def remove_empty(self) -> None:
        """Remove the queues that never had a message."""
        for topic, queues in list(self._topics.items()):
            empty = [queue for queue in queues if not queue.end]
            for queue in empty:
                del self._table[topic, queue.queue_id]
                queues.remove(queue)
                queue.remove()
            if not queues:
                del self._topics[topic]
        for topic in set(self._files.names(self._folder)) - self.topics:
            self._files.remove_folder(self._folder / topic)

    def remove_damaged(self) -> dict[tuple[str, int], int]:
        """Remove every queue, to be made again from the log; return how far they seemed to go."""
        ends = {key: queue.guess_end() for key, queue in self._table.items()}
        self.remove_all()
        return ends

    def go_on_behind(self, ends: Mapping[tuple[str, int], int]) -> None:
        """Let queues of which the log has no message go on with the offsets they had."""
        for (topic, queue_id), end in ends.items():
            queue = self.get_or_make(topic, queue_id)
            if not queue.end and end:
                queue.begin_at(end)

    def remove_all(self) -> None:
        """Remove every queue and its files for good: a power cut does not bring them back."""
        folders = [self._folder, *(self._folder / topic for topic in sorted(self.topics))]
        for topic in sorted(self.topics):
            self.remove_topic(topic)
        for folder in filter(self._files.exists, folders):
            self._files.sync_folder(folder)

    def close(self) -> None:
        """Give all files back."""
        for queue in self:
            queue.close()
        self._open_files.close()
