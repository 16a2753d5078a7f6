"""All consume queues of the store, as one follower of the log.

    consumequeue/{topic}/{queue id}/{first byte, twenty digits}

A queue's folder and files are made with its first entry: a topic of a thousand queues costs nothing until
they are used.
"""

from collections.abc import Iterator
from pathlib import Path

from pyromq.errors import StoreError
from pyromq.store.consumequeue import ConsumeQueue
from pyromq.store.files import Files
from pyromq.store.follower import LogEntry, has_queue_entry
from pyromq.store.segment import Segment


def is_folder_name(topic: str) -> bool:
    """Return whether a topic can be the name of a folder, and of no other one than its own."""
    return topic not in ("", ".", "..") and "/" not in topic and "\0" not in topic


class QueueGap(StoreError):
    """The log's next record does not fit behind a queue's last entry: entries are missing."""


class ConsumeQueues:
    """The queues by topic and id."""

    __slots__ = ("_file_bytes", "_files", "_folder", "_table", "gaps_are_filled")

    def __init__(self, files: Files, folder: Path, file_bytes: int) -> None:
        self._files = files
        self._folder = folder
        self._file_bytes = file_bytes
        self._table: dict[tuple[str, int], ConsumeQueue] = {}
        #: Whether a gap in a queue that has entries is filled with blanks, or raised as QueueGap.
        self.gaps_are_filled = True

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(self._table.values())

    def __len__(self) -> int:
        return len(self._table)

    @property
    def reach(self) -> int:
        """The log position behind the newest message of any queue."""
        return max((queue.reach for queue in self), default=0)

    @property
    def topics(self) -> set[str]:
        """The topics that have a queue."""
        return {topic for topic, _ in self._table}

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
                self._files, self._folder, topic=topic, queue_id=queue_id, file_bytes=self._file_bytes
            )
            self._table[topic, queue_id] = queue
        return queue

    def find_all(self) -> None:
        """List the queues that have a folder; each must then be loaded."""
        self._table.clear()
        for topic in self._files.names(self._folder):
            for name in self._files.names(self._folder / topic):
                if name.isascii() and name.isdigit() and name == str(int(name)):
                    self.get_or_make(topic, int(name))

    def apply(self, entry: LogEntry) -> None:
        """Add the record to its queue, unless it has no place in one or is there already."""
        if not has_queue_entry(entry.sys_flag):
            return
        queue = self._table.get((entry.topic, entry.queue_id)) or self.get_or_make(
            entry.topic, entry.queue_id
        )
        if entry.queue_offset != queue.end:
            if entry.position < queue.reach:
                return
            self._fit(queue, entry.queue_offset)
        queue.append(entry.position, entry.size, entry.tags_code)

    def _fit(self, queue: ConsumeQueue, offset: int) -> None:
        if offset > queue.end > 0 and not self.gaps_are_filled:
            raise QueueGap(
                f"queue {queue.queue_id} of {queue.topic!r} ends at {queue.end}, "
                f"but the log goes on with {offset}"
            )
        queue.begin_at(offset)

    def settle(self) -> list[Segment]:
        """Write what is held in memory, and return the files that have unsynced bytes."""
        for queue in self:
            queue.settle()
        return [segment for queue in self for segment in queue.take_unsynced()]

    def expire(self, min_position: int) -> list[Segment]:
        """Move the queues' beginnings past the messages that the log lost; return files nothing needs."""
        gone: list[Segment] = []
        for queue in self:
            gone += queue.expire(min_position)
        return gone

    def remove_topic(self, topic: str) -> int:
        """Remove a topic's queues and their files; return how many there were."""
        doomed = [queue for queue in self if queue.topic == topic]
        for queue in doomed:
            del self._table[topic, queue.queue_id]
            queue.remove()
        self._files.remove_folder(self._folder / topic)
        return len(doomed)

    def remove_all(self) -> None:
        """Remove every queue and its files."""
        for topic in self.topics:
            self.remove_topic(topic)

    def close(self) -> None:
        """Give all files back."""
        for queue in self:
            queue.close()
