"""The store: put messages, get them back, find them, sync, forget.

One thread appends and reads; there are no locks. `put` knows the message's position and queue offset, encodes
it once, appends it to the log with one write, and applies it to the followers before it returns: nobody can
see half of it. Only `sync`, the `run` of a `QueueSync` and the `remove` of a `Swept` may run in another
thread meanwhile.

    {root}/lock  abort  checkpoint  commitlog/  consumequeue/  index/
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from pyromq.clock import Clock
from pyromq.config.settings import StoreSettings
from pyromq.errors import CorruptRecord, DiskFull, MessageTooLarge, StoreError, SyncFailed
from pyromq.store.abort import FILE_NAME as ABORT_FILE
from pyromq.store.abort import AbortFile, Stop
from pyromq.store.checkpoint import Checkpoint
from pyromq.store.consumequeue import ConsumeQueue
from pyromq.store.delay_levels import parse_delay_levels
from pyromq.store.files import FileLock, Files, SystemFiles
from pyromq.store.follower import KEPT_TOPICS, Follower, StoreFile, TopicFollower, entry_of, has_queue_entry
from pyromq.store.index import indexfile
from pyromq.store.messages import Draft, Placed, Queried, QueueEntry, encode_all, make_record
from pyromq.store.queue_sync import QueueSync
from pyromq.store.reading import GetStatus, Got
from pyromq.store.recovery import Recovered, Recovery
from pyromq.store.replica import Arriving, learn_copy, make_copies
from pyromq.store.retention import Swept, count_expired
from pyromq.store.stored import StoredMessages
from pyromq.wire.record import Record, encode_record

if TYPE_CHECKING:
    from pyromq._kernel.storage.plans import Plan

__all__ = ["Draft", "GetStatus", "Got", "MessageStore", "Placed", "Queried", "QueueEntry", "QueueSync"]
_log: Final = logging.getLogger(__name__)
#: Told of each message when the followers have it: topic, queue id, the queue's new end, tags code.
OnAppend = Callable[[str, int, int, int], None]


class MessageStore(StoredMessages):
    """Messages on disk, in RocketMQ's files; in memory until `commit` if it `is_buffered`."""

    def __init__(
        self,
        settings: StoreSettings,
        *,
        clock: Clock,
        files: Files | None = None,
        on_append: OnAppend | None = None,
        memory_bytes: int | None = None,
        is_buffered: bool = False,
    ) -> None:
        super().__init__(settings, clock=clock, files=files or SystemFiles(), memory_bytes=memory_bytes)
        self.on_append = on_append
        self.is_buffered = is_buffered
        #: With a write buffer, told up to where the log is committed: readers may have the messages then.
        self.on_committed: Callable[[int], None] = self._show
        self._log.on_committed = lambda position: self.on_committed(position)
        #: Told of copied messages when the followers have them: their queues, each with the first offset.
        self.on_grown: Callable[[Sequence[tuple[ConsumeQueue, int]]], None] = self._tell_each
        self._topic_followers: Mapping[str, TopicFollower] = {}
        #: Called before files of the log are closed, so that nobody keeps looking into them.
        self.on_files_gone: Callable[[], None] = lambda: None
        #: Asked before files of the log go that end at a position; returns up to where they may.
        self.may_go_before: Callable[[int], int] = lambda position: position
        self.delays_ms = parse_delay_levels(settings.message_delay_level)
        self._followers: tuple[Follower, ...] = (self._queues,)
        self._has_index = settings.message_index_enable
        if self._has_index:
            self._followers += (self._index,)
        self._arriving = Arriving(settings.mapped_file_size_commit_log)
        self._copies = make_copies(has_index=self._has_index)
        self._checkpoint = Checkpoint(self._files, self._root / "checkpoint")
        self._abort = AbortFile(self._files, self._root / ABORT_FILE)
        self._lock: FileLock | None = None
        self._last_stored_at_ms = 0
        self._log_sync_turn = threading.Lock()
        self._queues_synced_at = clock.monotonic()
        self._queue_sync: QueueSync | None = None
        #: Up to where the disk has what the followers made of the log.
        self._followers_synced = 0
        #: Why nothing is written: until a restart, or until there is room again.
        self._poison: str | None = "it is not open"
        self._full: str | None = None

    def follow_topics(self, followers: Mapping[str, TopicFollower]) -> None:
        """Tell of each message of certain topics that is put, by topic, and no others from now on."""
        self._topic_followers = followers
        self._queues.follow(followers.keys())

    # Opening and closing

    def open(self, cut_at: int | None = None) -> Recovered:
        """Lock the folder, bring the files into order, and take messages.

        With `cut_at`, everything at that position of the log or behind it goes, as if it had never been; a
        record must begin there. When that is interrupted, the next start has to be told again.

        Raises StoreLocked when another process has the store, StoreError when the files cannot be used.
        """
        self._files.make_folder(self._root)
        self._lock = self._files.lock(self._root / "lock")
        try:
            return self._open_locked(cut_at)
        except BaseException:
            self._close_files()
            raise

    def _open_locked(self, cut_at: int | None) -> Recovered:
        stop = self._abort.last_stop()
        self._files.make_folder(self._log.folder)
        recovery = Recovery(
            log=self._log,
            queues=self._queues,
            index=self._index if self._has_index else None,
            checkpoint=self._checkpoint,
            delays_ms=self.delays_ms,
            check_crc=self.settings.check_crc_on_recover,
        )
        recovered = recovery.run(stop)
        self._last_stored_at_ms = recovered.last_stored_at_ms
        self._followers_synced = recovered.start
        self._abort.make()
        self._poison = None
        if stop is not Stop.IN_ORDER or recovered.replayed or self._checkpoint.safe_position is None:
            self._begin_safely()
        if cut_at is not None:
            self._cut(recovery, recovered, cut_at)
        self.check_disk()
        if self.is_buffered:
            self._log.begin_buffering()
            self._show(self._log.committed)
        return recovered

    def _cut(self, recovery: Recovery, recovered: Recovered, position: int) -> None:
        end = self._log.end
        self.sync_queues()
        cut = recovery.cut(position)
        if cut is not None:
            recovered.find(f"the log was cut at {position}; {end - position} bytes went")
            recovered.end = position
            self._last_stored_at_ms = cut.last_stored_at_ms
            self.sync_queues()
        # Now that the disk has them empty: a power cut may bring them back.
        self._queues.remove_empty()

    def _begin_safely(self) -> None:
        """Sync everything that was found; on a full disk only the log, and the rest when there is room."""
        try:
            self.sync_queues()
        except DiskFull as full:
            _log.warning("the store can be read, but what follows the log waits for room: %s", full)
            self.sync()

    def close(self) -> None:
        """Sync everything and give the files back; the next start then finds nothing to do.

        A store that cannot be synced is left as after a crash, and the next start recovers it.
        """
        if self._lock is None:
            return
        try:
            if self._poison is None:
                self.sync_queues()
                self._abort.remove()
        except StoreError as error:
            _log.error("the store was not closed in order and is recovered at the next start: %s", error)
        finally:
            self._poison = "it is closed"
            self._close_files()

    def _close_files(self) -> None:
        self.on_files_gone()
        self._log.close()
        self._queues.close()
        self._index.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # Putting

    def put(self, draft: Draft) -> Placed:
        """Store a message and let the followers have it; it is safe after a sync.

        Raises DiskFull, SyncFailed when an earlier write or sync failed, and MessageTooLarge.
        """
        record = self._record(draft)
        log = self._log
        data = encode_record(record)
        if len(data) > log.room():
            self._roll(len(data))
            record.position = log.end
            data = encode_record(record)
        self._append(data)
        return self._follow(record, len(data))

    def put_batch(self, drafts: Iterable[Draft], *, is_for_room: bool = False) -> list[Placed]:
        """Store messages with one write, all or none of them; see `put`.

        Messages that make room, because the files they are stored in may go then, are taken by a disk that
        is too full for others.
        """
        records = [self._record(draft, is_for_room=is_for_room) for draft in drafts]
        if not records:
            return []
        next_offsets: dict[tuple[str, int], int] = {}
        for record in records:
            if has_queue_entry(record.sys_flag):
                queue = (record.topic, record.queue_id)
                record.queue_offset = next_offsets.get(queue, record.queue_offset)
                next_offsets[queue] = record.queue_offset + 1
        parts = encode_all(records, self._log.end)
        size = sum(map(len, parts))
        if size > self._log.room():
            self._roll(size)
            parts = encode_all(records, self._log.end)
        self._append(b"".join(parts))
        return [self._follow(record, len(part)) for record, part in zip(records, parts, strict=True)]

    def rooms(self) -> tuple[int, int, int]:
        """Return `max_position`, and the bytes and keys that the newest files of log and index take.

        The bytes are negative when the log takes none.
        """
        if self._poison is not None or self._full is not None or self._arriving.partial:
            return self.max_position, -1, 0
        log_room, index = self._log.room(), self._index.newest()
        return self._log.end, log_room, 0 if index is None else index.room

    def make_room(self, size: int) -> None:
        """Begin a new file of the log unless the current one takes `size` bytes; the store is writable."""
        if size > self._log.room():
            self._roll(size)

    def put_planned(self, plan: "Plan", stored_at_ms: int) -> list[tuple[ConsumeQueue, int]]:
        """Store messages that the kernel planned: with one write, all or none of them.

        Return the watched and followed queues that grew, each with its first new offset. Raises as `put`.
        """
        self._append(plan.records)
        self._last_stored_at_ms = stored_at_ms
        index = self._index.newest() if self._has_index else None
        full, grown = plan.apply(index, self._queues.held_bytes_max)
        if full or (index and index.holds_much(indexfile.HELD_ENTRIES_BYTES, indexfile.HELD_SLOTS_MAX)):
            self._settle_full(full, index)
        for queue, first in grown:
            if queue.followed:
                self._topic_followers[queue.topic].grew(queue.topic, queue.queue_id, first, queue.end)
        return grown

    def _settle_full(self, queues: list[ConsumeQueue], index: indexfile.IndexFile | None) -> None:
        try:
            for queue in queues:
                queue.settle()
            if index is not None:
                self._index.settle_much(index)
        except StoreError as error:
            # The log has the messages, and the followers have them in memory; only the next is refused.
            self._note_failure(error)

    def _record(self, draft: Draft, *, is_for_room: bool = False) -> Record:
        """Return the record of a draft that would be appended now."""
        if self._poison is not None or (self._full is not None and not is_for_room):
            self._refuse()
        if self._arriving.partial:
            raise StoreError("the log goes on with a record that is being copied from the master")
        topic = draft.topic
        topic_bytes = len(topic) if topic.isascii() else len(topic.encode())
        if len(draft.body) > self.settings.max_message_size or topic_bytes > draft.topic_bytes_max:
            raise MessageTooLarge(
                f"a message of {len(draft.body)} bytes to a topic of {topic_bytes}; the limits are "
                f"{self.settings.max_message_size} (maxMessageSize) and {draft.topic_bytes_max}"
            )
        queue = self._queues.get_or_make(topic, draft.queue_id)
        queue_offset = queue.end if has_queue_entry(draft.sys_flag) else 0
        return make_record(draft, queue_offset, self._log.end, self._clock.now_ms())

    def _roll(self, size: int) -> None:
        try:
            self._log.roll(size)
        except MessageTooLarge:
            raise
        except StoreError as error:
            self._note_failure(error)
            raise

    def _append(self, data: bytes | memoryview) -> None:
        try:
            self._log.append(data)
        except StoreError as error:
            self._forget_written(error)
            raise

    def commit(self) -> None:
        """Write what the write buffer has to its file; raises as `put` does, and nothing is lost then."""
        try:
            self._log.commit()
        except StoreError as error:
            self._forget_written(error)
            raise

    def _forget_written(self, error: StoreError) -> None:
        """Note why a write failed, and remove what it left."""
        self._note_failure(error)
        self._clear(self._log.wipe_tail)

    def _clear(self, clear: Callable[[], None]) -> None:
        """Remove what a failed write left: the next record must not be followed by the rest of another."""
        try:
            clear()
        except StoreError as error:
            self._note_failure(StoreError(str(error)))

    def _follow(self, record: Record, size: int) -> Placed:
        entry = entry_of(record, size, self.delays_ms)
        self._last_stored_at_ms = record.stored_at_ms
        for follower in self._followers:
            try:
                follower.apply(entry)
            except StoreError as error:
                # The log has the message, and the follower has it in memory; only the next put is refused.
                self._note_failure(error)
        if self.on_append is not None and has_queue_entry(record.sys_flag):
            self.on_append(record.topic, record.queue_id, record.queue_offset + 1, entry.tags_code)
        if record.topic in self._topic_followers:
            record.size = size
            self._topic_followers[record.topic].apply(record)
        return Placed(record.position, size, record.queue_id, record.queue_offset, record.stored_at_ms)

    # Copying another store's log

    @property
    def whole_position(self) -> int:
        """The end of the last whole record: up to there the log is written, to its files or the buffer."""
        return self._log.end

    @property
    def max_position(self) -> int:
        """The position of the next record; on a slave, the end of the bytes that came of the master's log."""
        return self._log.end + len(self._arriving.partial)

    def append_copied(self, *parts: bytes | memoryview) -> None:
        """Add bytes of the master's log that follow at `max_position`; they may be cut anywhere.

        What is whole is written and reaches the followers. Raises CorruptRecord when these bytes, with those
        before them, are no records: then nothing of them is added, and the beginning of the record that
        failed goes too, so that `max_position` goes back. Raises as `put` does, with nothing changed.
        """
        if self._poison is not None or self._full is not None:
            self._refuse()
        end = self._log.end
        try:
            arrived = self._arriving.take(parts, end, self._plan_copied)
        except CorruptRecord:
            self._arriving.forget()
            self._drop_plan()
            raise
        if arrived is None:
            return
        try:
            self._log.append_copied(arrived.whole)
        except StoreError as error:
            self._note_failure(error)
            self._clear(partial(self._log.take_back, end))
            self._drop_plan()
            raise
        self._arriving.keep(arrived)
        self._follow_plan()
        for record in arrived.records:
            self._follow(record, record.size)
            queue = self._queues.get(record.topic, record.queue_id)
            if self._copies is not None and queue is not None:
                learn_copy(self._copies, record, queue, self.delays_ms)

    def _tell_each(self, grown: Sequence[tuple[ConsumeQueue, int]]) -> None:
        tell = self.on_append or (lambda *_: None)
        for queue, first in grown:
            for offset, tags_code in self.tags_codes(queue, first):
                tell(queue.topic, queue.queue_id, offset + 1, tags_code)

    def _plan_copied(self, data: memoryview, room: int) -> int:
        copies = self._copies
        return 0 if copies is None else copies.plan(data, self._log.end, room, self._index.room())

    def _drop_plan(self) -> None:
        if self._copies is not None:
            self._copies.drop()

    def _follow_plan(self) -> None:
        """Let the followers have the records that the kernel planned, and the log has now."""
        if self._copies is None or not self._copies.message_count:
            return
        index = self._index.newest() if self._has_index else None
        full, grown, self._last_stored_at_ms = self._copies.apply(index, self._queues.held_bytes_max)
        self._settle_full(full, index)
        if grown:
            self.on_grown(grown)

    def forget_arriving(self) -> None:
        """Forget the beginning of a record whose rest has not come: another master may not have it."""
        self._arriving.forget()

    def begin_at(self, position: int) -> None:
        """Let a store that has no message begin at a position of the master's log, where a file begins."""
        if self._poison is not None:
            self._refuse()
        if position == self._log.end:
            return
        if self._log.end != self._log.min_position or position % self._log.segment_bytes:
            raise StoreError(
                f"a log from {self._log.min_position} to {self._log.end}, in files of "
                f"{self._log.segment_bytes} bytes (mappedFileSizeCommitLog), cannot begin at {position}"
            )
        self._checkpoint.safe_position = None
        self._checkpoint.save()
        self._log.begin_at(position)
        self.sync_queues()

    def _refuse(self) -> None:
        if self._poison is not None:
            raise SyncFailed(f"the store takes no messages: {self._poison}")
        raise DiskFull(f"the store takes no messages: {self._full}")

    def _note_failure(self, error: StoreError) -> None:
        """Stop writing: until there is room when the disk is full, until a restart after anything else."""
        if isinstance(error, DiskFull):
            self._full = str(error)
        elif self._poison is None:
            self._poison = f"{error}; restart the broker when the disk is well again"
            self._abort.doubt()

    @property
    def ailment(self) -> str | None:
        """The reason why nothing is written until a restart, or None; a full disk is none, it may pass."""
        return self._poison

    @property
    def is_writable(self) -> bool:
        """Whether a put would be taken now."""
        return self._poison is None and self._full is None

    @property
    def why_full(self) -> str | None:
        """The reason why no put is accepted until there is room again, None while there is room."""
        return self._full

    # Syncing

    @property
    def flushed_position(self) -> int:
        """Up to where the disk has the log."""
        return self._log.synced

    def sync(self) -> int:
        """Put the log on the disk and return up to where; may be called from another thread.

        Raises SyncFailed, and nothing is written from then on: what the disk has is unknown.
        """
        if self._poison is not None:
            raise SyncFailed(f"the log is not synced: {self._poison}")
        # Two threads may come: a sync of the queues begins with one of the log.
        with self._log_sync_turn:
            stored_at_ms = self._last_stored_at_ms
            try:
                synced = self._log.sync()
            except SyncFailed as error:
                self._note_failure(error)
                raise
            self._checkpoint.log_at_ms = stored_at_ms
        return synced

    def queue_sync(self) -> QueueSync:
        """Write what the followers hold in memory, and return what is left to do, which may take long.

        Raises DiskFull; the followers then still hold it.
        """
        queue_sync = self._begin_queue_sync()
        while not queue_sync.settle_some():
            pass
        return queue_sync

    def _begin_queue_sync(self) -> QueueSync:
        # The checkpoint speaks for the log up to its end.
        self.commit()
        self._queues_synced_at = self._clock.monotonic()
        last = self._queue_sync
        # One that failed, or was never run, has files that the next checkpoint speaks for too.
        files = [] if last is None or last.is_done else list(last.files)
        self._queue_sync = QueueSync(self, files, self._log.end, self._queues.reach, self._last_stored_at_ms)
        self._queues.begin_settling()
        self._index.begin_settling()
        return self._queue_sync

    def settle_some(self, queue_sync: QueueSync) -> None:
        """Do a part of a `QueueSync` that only the store's thread may do."""
        try:
            if self._queues.settle_some() and self._index.settle_some():
                queue_sync.files += self._queues.take_unsynced()
                written = self._index.take_unsynced()
                queue_sync.files += [file for file in written if file not in queue_sync.files]
                queue_sync.is_settled = True
        except StoreError as error:
            self._note_failure(error)
            raise

    def queue_sync_if_due(self) -> QueueSync | None:
        """Return a sync when there is something new, and it is much or waited long; None otherwise.

        When many queues have something new, the caller has to `settle_some` of it again and again.
        """
        waited_ms = (self._clock.monotonic() - self._queues_synced_at) * 1000
        is_late = waited_ms >= self.settings.flush_consume_queue_thorough_interval
        new_bytes = self.unsafe_bytes
        if self._poison is None and (
            new_bytes >= self._queues.bytes_between_syncs or (new_bytes and is_late)
        ):
            queue_sync = self._begin_queue_sync()
            queue_sync.settle_some()
            return queue_sync
        return None

    @property
    def unsafe_bytes(self) -> int:
        """The number of bytes of the log that a start after a crash would have to walk."""
        return self._log.end - (self._checkpoint.safe_position or 0)

    def sync_queues(self) -> None:
        """Put the log and all that follows it on the disk; only for the store's own thread."""
        self.queue_sync().run()

    def finish_queue_sync(self, queue_sync: QueueSync) -> None:
        """Do the part of a `QueueSync` that may run in another thread."""
        self.sync()
        try:
            for file in queue_sync.files:
                file.sync()
            self._checkpoint.queues_at_ms = self._checkpoint.index_at_ms = queue_sync.stored_at_ms
            self._checkpoint.safe_position = queue_sync.position
            self._checkpoint.reach = queue_sync.reach
            self._checkpoint.save()
            self._followers_synced = queue_sync.position
        except StoreError as error:
            self._note_failure(error)
            raise

    # Forgetting

    def delete_topic(self, topic: str) -> int:
        """Remove a topic's queues; its messages leave with their files. Return how many queues there were."""
        return self._queues.remove_topic(topic)

    def clean_unused(self, used_topics: Collection[str]) -> list[str]:
        """Remove the queues of topics that nobody knows any more, and return those topics."""
        unused = sorted(self._queues.topics - set(used_topics) - KEPT_TOPICS)
        for topic in unused:
            self._queues.remove_topic(topic)
        return unused

    def check_disk(self) -> None:
        """Refuse messages when the disk is too full, and take them again when it is not."""
        ratio, limit = self.disk_ratio, self.settings.disk_space_warning_level_ratio
        self._full = None
        if ratio > limit / 100:
            self._full = (
                f"the disk of {self._root} is {ratio:.0%} full, and over {limit} % "
                f"(diskSpaceWarningLevelRatio) nothing is stored; make room or lower fileReservedTime"
            )

    def sweep(self, *, at_any_hour: bool = False) -> Swept:
        """Let the oldest files go that may go now; call it every ten seconds.

        Those that are old enough usually wait for the hours of `deleteWhen`. Offsets move at once; the files
        themselves are removed by the result's `remove`, in any thread.
        """
        self.check_disk()
        count = count_expired(
            self._log,
            self.settings,
            safe_position=min(self._log.synced, self._followers_synced),
            disk_ratio=self.disk_ratio,
            now_ms=self._clock.now_ms(),
            may_go_before=self.may_go_before,
            at_any_hour=at_any_hour,
        )
        gone: list[StoreFile] = []
        if count:
            self.on_files_gone()
            gone += self._log.detach_first(count)
            for follower in self._followers:
                gone += follower.expire(self._log.min_position)
        self._log.forget_pages()
        self._index.forget_pages()
        return Swept(gone, count, self._files)
