"""Records of the log, given once more to the queues and the index that follow it: after a crash.

Plain records are the compiled kernel's, by the megabyte, as on a slave (`replica.py`). The first record of
each queue, and all that are not plain, go through `Follower.apply`; the kernel learns their queues.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pyromq.errors import DiskFull
from pyromq.store.commitlog import CommitLog
from pyromq.store.consumequeues import ConsumeQueues
from pyromq.store.follower import Follower, entry_of
from pyromq.store.index.index import KeyIndex
from pyromq.store.replica import learn_copy, make_copies
from pyromq.wire.record import Record

if TYPE_CHECKING:
    from pyromq._kernel.storage.copies import Copies

#: Bytes of the log that the kernel looks at in one call.
_PART_BYTES: Final = 1 << 20


class LogReplay:
    """The records from a position of the log on, and what came of them.

    `end` is the log position behind the last one, `count` how many there were.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        index: KeyIndex | None,
        delays_ms: Mapping[int, int],
        *,
        check_crc: bool,
    ) -> None:
        self._log = log
        self._queues = queues
        self._index = index
        self._followers: tuple[Follower, ...] = (queues,) if index is None else (queues, index)
        self._delays_ms = delays_ms
        self._check_crc = check_crc
        # A new one: what another knows are queues that may be gone.
        self._copies: Copies | None = make_copies(has_index=index is not None)
        self.end = 0
        self.count = 0
        self.last_stored_at_ms = 0

    def run(self, start: int) -> None:
        """Give on all records from a position on, up to the first that fails its checks.

        On a full disk the followers hold in memory what they were given; the store says so when it is open.
        """
        position = start
        while (record := next(self._log.walk(position, check_crc=self._check_crc), None)) is not None:
            self._follow(record)
            self.end = position = record.position + record.size
            while self._follow_plain(position):
                position = self.end

    def _follow(self, record: Record) -> None:
        entry = entry_of(record, record.size, self._delays_ms)
        for follower in self._followers:
            with suppress(DiskFull):
                follower.apply(entry)
        self.last_stored_at_ms = record.stored_at_ms
        self.count += 1
        queue = self._queues.get(record.topic, record.queue_id)
        if self._copies is not None and queue is not None:
            learn_copy(self._copies, record, queue, self._delays_ms)

    def _follow_plain(self, position: int) -> bool:
        """Give on the plain records that stand at a position; return whether there was one."""
        copies, segment = self._copies, self._log.segment_at(position)
        if copies is None or segment is None:
            return False
        at = position - segment.base
        index_room = 0 if self._index is None else self._index.room()
        with memoryview(segment.map) as view, view[at : at + _PART_BYTES] as part:
            size = copies.plan(part, position, len(part), index_room)
        count = copies.message_count
        if not count:
            return False
        newest = None if self._index is None else self._index.newest()
        full, _, self.last_stored_at_ms = copies.apply(newest, self._queues.held_bytes_max)
        for queue in full:
            with suppress(DiskFull):
                queue.settle()
        if self._index is not None and newest is not None:
            with suppress(DiskFull):
                self._index.settle_much(newest)
        self.end = position + size
        self.count += count
        return True
