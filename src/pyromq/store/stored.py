"""The reading half of the store: a queue's messages, its offsets and times, single records, keys.

It reads the log, the queues and the index, and changes nothing. `MessageStore` adds the writing.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.config.settings import StoreSettings
from pyromq.errors import EndsUnknown
from pyromq.store.commitlog import CommitLog
from pyromq.store.consumequeue import ENTRY, ConsumeQueue
from pyromq.store.consumequeues import ConsumeQueues
from pyromq.store.files import DiskUse, Files
from pyromq.store.index.index import KeyIndex, carries_key
from pyromq.store.messages import Queried, QueueEntry
from pyromq.store.reading import GetStatus, Got, MatchesRecord, WantsTags, limits_of, read_queue
from pyromq.wire.record import Record, decode_record

#: RocketMQ's maxMsgsNumBatch.
_QUERY_COUNT_MAX: Final = 64


class StoredMessages:
    """The log, the queues and the index of a store, to be read.

    When `readable_position` is set, queues end for readers before the first message that does not end before
    it in the log: where messages count only when the disk or the slaves have them, nobody sees the others.
    """

    def __init__(
        self, settings: StoreSettings, *, clock: Clock, files: Files, memory_bytes: int | None = None
    ) -> None:
        self.settings = settings
        self.readable_position: int | None = None
        #: Whether that position is still to be found out: nothing is readable meanwhile, and no end is told.
        self.ends_are_unknown = False
        #: Whether new messages are in a write buffer until they are committed.
        self.is_buffered = False
        self._clock = clock
        self._files = files
        self._memory_bytes = memory_bytes or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._root = Path(settings.store_path_root_dir)
        log_folder = Path(settings.store_path_commit_log or self._root / "commitlog")
        self._log = CommitLog(
            self._files, log_folder, settings.mapped_file_size_commit_log, monotonic=clock.monotonic
        )
        self._queues = ConsumeQueues(
            self._files, self._root / "consumequeue", settings.mapped_file_size_consume_queue
        )
        self._index = KeyIndex(
            self._files,
            self._root / "index",
            slots=settings.max_hash_slot_num,
            entries_max=settings.max_index_num,
            now_ms=clock.now_ms,
        )

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        count_max: int,
        bytes_max: int | None = None,
        wants: WantsTags | None = None,
        matches: MatchesRecord | None = None,
    ) -> Got:
        """Return messages of a queue from `offset` on, as they stand in the log.

        `wants` is asked with a message's tags code, `matches` with its record. With many `bytes_max` there
        may be more of them than usual.
        """
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return Got(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        limits = limits_of(self.settings, count_max, self.disk_position, bytes_max)
        return read_queue(self._log, queue, offset, limits, wants, matches, self._readable_end(queue))

    @property
    def log(self) -> CommitLog:
        """The log, to be read."""
        return self._log

    @property
    def committed_position(self) -> int:
        """Up to where the log is in its files: what readers and slaves may have, and a kill leaves."""
        return self._log.committed

    def _show(self, position: int) -> None:
        self.readable_position = position

    @property
    def disk_position(self) -> int:
        """The log position before which messages are taken to have left the memory."""
        return self._log.end - self.bytes_in_memory()

    def bytes_in_memory(self) -> int:
        """Return how many bytes at the log's end are taken to be in memory, as the settings are now."""
        return self._memory_bytes * self.settings.access_message_in_memory_max_ratio // 100

    def is_in_memory(self, topic: str, queue_id: int, offset: int) -> bool:
        """Return whether a message is taken to be in memory still; one that does not exist is."""
        queue = self._queues.get(topic, queue_id)
        place = queue.place(offset) if queue is not None else None
        return place is None or place[0] >= self.disk_position

    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[QueueEntry]:
        """Return up to `count` entries of a queue from `offset` on; at a file's end there may be fewer."""
        queue = self._queues.get(topic, queue_id)
        if queue is None or offset < queue.min_offset:
            return []
        return [QueueEntry(*entry) for entry in ENTRY.iter_unpack(queue.read(offset, count))]

    def tags_codes(self, queue: ConsumeQueue, first: int) -> Iterator[tuple[int, int]]:
        """Yield the offset and the code of the tag of each message of a queue, from `first` to its end."""
        while entries := self.entries(queue.topic, queue.queue_id, first, queue.end - first):
            for entry in entries:
                yield first, entry.tags_code
                first += 1

    @property
    def disk_ratio(self) -> float:
        """The used share of the fuller of the disks that hold the log and the queues."""
        return max(self._files.disk_use(folder).ratio for folder in {self._root, self._log.folder})

    @property
    def disk_use(self) -> DiskUse:
        """The use of the disk that holds the store's folder."""
        return self._files.disk_use(self._root)

    @property
    def min_position(self) -> int:
        """The position at which the oldest file of the log begins."""
        return self._log.min_position

    @property
    def queues(self) -> ConsumeQueues:
        """All queues, to be gone through."""
        return self._queues

    def queue(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue's entries, None when it never had any."""
        return self._queues.get(topic, queue_id)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset of a queue's oldest message."""
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        """Return the offset that a queue's next message gets: for the broker's own work.

        What clients are told of a queue's end is `readable_end`.
        """
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else queue.end

    def readable_end(self, topic: str, queue_id: int) -> int:
        """Return the offset at which a queue ends for readers, the one that every answer tells.

        See `readable_position`. A client that hears of more plans to an offset that the next master may give
        to another message, or never reach. One that hears of less, as after a switch of masters, begins or
        goes on at offset 0: so EndsUnknown is raised until the end is known.
        """
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else self._told_end(queue)

    def waiting_end(self, topic: str, queue_id: int) -> int:
        """Return the offset from which on pulls wait: the readable end, 0 while that is unknown."""
        queue = self._queues.get(topic, queue_id)
        return 0 if queue is None else self._readable_end(queue)

    def _told_end(self, queue: ConsumeQueue) -> int:
        if self.ends_are_unknown and queue.end > queue.min_offset:
            raise EndsUnknown(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "this replica has just started, and does not know yet which of its messages the group has "
                "confirmed; ask again in a second",
            )
        return self._readable_end(queue)

    def _readable_end(self, queue: ConsumeQueue) -> int:
        position = self.readable_position
        return queue.end if position is None or queue.reach <= position else queue.end_before(position)

    def log_bytes(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes of the log from a position on; nothing where the log has none.

        Fewer are returned at the end of the log and at the end of a file.
        """
        return self._log.read_run(position, size)

    def offset_by_time(self, topic: str, queue_id: int, stored_at_ms: int) -> int:
        """Return the offset of the message that was stored at a time, or nearest to it; 0 if none was.

        It is not behind the end for readers.
        """
        queue = self._queues.get(topic, queue_id)
        if queue is None:
            return 0
        nearest = queue.offset_by_time(stored_at_ms, self._log.min_position, self._log.stored_at)
        return min(nearest, self._told_end(queue))

    def earliest_time(self, topic: str, queue_id: int) -> int:
        """Return when a queue's oldest message was stored, −1 in a queue that is empty for readers."""
        oldest = self.min_offset(topic, queue_id)
        is_there = oldest < self.readable_end(topic, queue_id)
        return self.stored_time(topic, queue_id, oldest) if is_there else -1

    def stored_time(self, topic: str, queue_id: int, offset: int) -> int:
        """Return when a queue's message was stored, −1 when it is not there."""
        queue = self._queues.get(topic, queue_id)
        place = queue.place(offset) if queue is not None else None
        stored_at_ms = None if place is None else self._log.stored_at(place[0])
        return -1 if stored_at_ms is None else stored_at_ms

    def read_at(self, position: int) -> bytes | None:
        """Return the record that begins at a position of the log, None when none does."""
        return self._log.record_bytes(position)

    def record_at(self, position: int) -> Record | None:
        """Return the record that begins at a position of the log, decoded; None when none does."""
        data = self._log.record_bytes(position)
        return None if data is None else decode_record(data, check_crc=False)

    def query(self, topic: str, key: str, *, count_max: int, begin_ms: int, end_ms: int) -> Queried:
        """Return a topic's messages of a time that have a key: the newest `count_max`, oldest first."""

        def has_key(position: int) -> bool:
            record = self._log.record_head(position)
            return record is not None and carries_key(record, topic, key)

        matches = self._index.query(
            topic,
            key,
            count_max=min(count_max, _QUERY_COUNT_MAX),
            begin_ms=begin_ms,
            end_ms=end_ms,
            has_key=has_key,
        )
        records = [self._log.record_bytes(position) for position in sorted(matches.positions)]
        return Queried(
            [record for record in records if record is not None],
            matches.last_stored_at_ms,
            matches.last_position,
        )
