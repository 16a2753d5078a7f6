"""Popped messages as a follower of the log: a table of what is in flight, and its checkpoint.

What is in flight is said by the records of one topic of the broker's own (`journal_ops.py`) and by done
records: a message that is stored again in its group's retry topic, or among its dead letters, names the one
that was in flight. A master changes its table and appends a record a turn (`pop_changes.py`); a start and a
replica read the records (`pop_replay.py`). A replica that becomes master so knows the same handles.

The checkpoint is written when enough changed, and costs at most a twentieth of the time. Without one, the
table is made from all of the log.
"""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.kinds.checkpoint_file import CheckpointFile
from pyromq.broker.kinds.kind_follower import KindFollower
from pyromq.broker.kinds.stored_again import QUEUE_ID
from pyromq.broker.pop.pop_replay import Replay
from pyromq.broker.pop.pop_snapshot import (
    PopSnapshot,
    decode_snapshot,
    encode_snapshot,
    restore,
    take_snapshot,
)
from pyromq.broker.pop.pop_table import PopTable
from pyromq.clock import Clock
from pyromq.errors import BodyError
from pyromq.store.files import Files, SystemFiles
from pyromq.store.store import MessageStore
from pyromq.system_names import POP_JOURNAL
from pyromq.wire.record import Record

if TYPE_CHECKING:
    from pyromq.broker.pop.pop_door import Pop

log = logging.getLogger(__name__)

UPKEEP_S: Final = 1.0
#: A checkpoint is written after so much of the log, and else not before so many times what the last one took.
_LOG_BYTES_MAX: Final = 128 << 20
_PAUSE_FACTOR: Final = 20.0


class PoppedMessages(KindFollower):
    """The messages in flight of one broker."""

    name = "popped messages"
    topics = (POP_JOURNAL,)
    upkeep_s = UPKEEP_S

    def __init__(self, store: MessageStore, clock: Clock, *, path: Path, files: Files | None = None) -> None:
        super().__init__(store)
        self._clock = clock
        self._path = path
        self._files = files or SystemFiles()
        self._file = CheckpointFile(path, files=files)
        self.table = PopTable()
        #: The table knows the log before this position.
        self._position = 0
        self._saved_position = 0
        #: The number of the table's last change that is written down.
        self._saved_revision = 0
        #: Whether the table is ahead of its position, in the middle of a replay.
        self._is_replaying = False
        self._next_save_at = 0.0
        self._is_partial = False
        self._is_saving = False
        #: Who changes the table on a master that has an address.
        self.leader: Pop | None = None

    # The log

    def load(self) -> None:
        """Read the checkpoint, and take in what the log has behind it."""
        snapshot = next(self._snapshots(), None)
        if snapshot is not None:
            restore(snapshot, self.table)
            self._position, self._offsets[POP_JOURNAL] = snapshot.position, snapshot.journal_offset
            self._saved_position, self._saved_revision = snapshot.position, self.table.revision
        self._is_partial = snapshot is None and self._store.min_position > 0
        self.catch_up()
        if self._is_partial and self.table.count:
            log.warning(
                "%s is not there, and the log's beginning is gone: what was popped before may come again",
                self._path,
            )

    def _snapshots(self) -> Iterator[PopSnapshot]:
        """Yield what can be used of the file and its twin, the newer first."""
        for snapshot in self._readable():
            if self._is_of_this_log(snapshot):
                yield snapshot
            else:
                log.warning("%s is not of this log, and passed over", self._path)

    def _readable(self) -> Iterator[PopSnapshot]:
        for path in (self._path, self._path.with_name(f"{self._path.name}.bak")):
            data = self._files.read_all(path)
            try:
                if data is not None:
                    yield decode_snapshot(data)
            except BodyError as error:
                log.warning("%s is damaged (%s), and passed over", path, error)

    def _is_of_this_log(self, snapshot: PopSnapshot) -> bool:
        """Return whether the log has what the file speaks for, and the journal goes on where it says."""
        store, offset = self._store, snapshot.journal_offset
        if not store.min_position <= snapshot.position <= store.whole_position:
            return False
        if offset > store.max_offset(POP_JOURNAL, QUEUE_ID):
            return False
        before = store.entries(POP_JOURNAL, QUEUE_ID, offset - 1, 1) if offset else []
        behind = store.entries(POP_JOURNAL, QUEUE_ID, offset, 1)
        return all(one.position < snapshot.position for one in before) and all(
            one.position >= snapshot.position for one in behind
        )

    def apply(self, record: Record) -> None:
        """Know a record of the journal; who wrote it has changed the table."""
        self._offsets[POP_JOURNAL] = record.queue_offset + 1

    def catch_up(self) -> None:
        """Take in what the log has behind the checkpoint."""
        for _ in self._replay():
            pass

    def _replay(self) -> Iterator[None]:
        start = max(self._position, self._store.min_position)
        end = self._store.whole_position
        journal_end = self._store.max_offset(POP_JOURNAL, QUEUE_ID)
        journal = self._records(POP_JOURNAL, self._offsets[POP_JOURNAL], journal_end)
        self._is_replaying = True
        yield from Replay(self.table, self._store, is_partial=self._is_partial).run(journal, start, end)
        self._position, self._offsets[POP_JOURNAL] = end, journal_end
        self._is_replaying = False

    # The checkpoint

    async def save(self, durability: Durability) -> None:
        """Write the checkpoint if it is behind."""
        if self._is_saving or self._is_replaying:
            return
        self._is_saving = True
        try:
            await self._save(durability)
        finally:
            self._is_saving = False

    async def _save(self, durability: Durability) -> None:
        if self.leader is not None:
            self.leader.flush()
            self._position = self._store.whole_position
        revision, new_bytes = self.table.revision, self._position - self._saved_position
        if revision == self._saved_revision and not (self.table.count and new_bytes >= _LOG_BYTES_MAX):
            return
        started_at = self._clock.monotonic()
        snapshot = take_snapshot(self.table, self._position, self._offsets[POP_JOURNAL])
        await self._file.write(encode_snapshot(snapshot), durability)
        self._saved_position, self._saved_revision = snapshot.position, revision
        now = self._clock.monotonic()
        self._next_save_at = now + (now - started_at) * _PAUSE_FACTOR

    def forget_beyond(self, cut_at: int) -> None:
        """Remove a checkpoint that speaks of the log behind a position."""
        if any(snapshot.position > cut_at for snapshot in self._readable()):
            self._file.remove()

    # On a master

    def start(self, _durability: Durability) -> None:
        """Let what is due come again."""
        if self.leader is not None:
            self.leader.start()

    async def upkeep(self, durability: Durability) -> None:
        """Write the checkpoint when it is worth it."""
        if self.leader is not None:
            self.leader.sweep()
        new_bytes = self._store.whole_position - self._saved_position
        if new_bytes >= _LOG_BYTES_MAX or self._clock.monotonic() >= self._next_save_at:
            await self.save(durability)

    @property
    def next_due_ms(self) -> int | None:
        """The time at which the first time in flight ends."""
        return self.table.next_due_ms if self.leader is not None else None

    def stop(self) -> None:
        """Hand out and revive nothing any more."""
        if self.leader is not None:
            self.leader.stop()

    # On a replica

    async def follow(self, durability: Durability) -> None:
        """Take in what the log got by copying."""
        for _ in self._replay():
            await asyncio.sleep(0)
        await self.upkeep(durability)
