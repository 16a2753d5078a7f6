"""The one mechanism of everything that waits: a kind of message follows the log.

A message of some kinds waits in a topic of the broker's own before it goes on: in a delay level, for a timer,
as the half of a transaction, in a staged chunk. What is known of such a kind is made from the log, as consume
queues and key index are (`store/follower.py`), and can be made again:

    log        … │ waits │ plain │ waits │ plain │ done │ plain │ waits │ done │
                          ▲ checkpoint: a file, never ahead of the log's last sync
                          └────────── applied again at a start ─────────────────►

The log says two things of a message that waits. That it waits is said by a record in one of the kind's own
topics, and by nothing else. That it is done is said by a record too: one of the kind's own topics (an op
message), or one anywhere that names the waiting record or is the same message (`stored_again.py`). So one
write ends a wait, and there is no moment at which a crash makes a message come twice or not at all.

`apply` takes in a record of an own topic. The store calls it for a record that is stored now (on a master),
`catch_up` for what the log has behind the checkpoint (at a start), and `follow` for what was copied (on a
replica). Of records that the kernel planned the store says only which part of a queue is new (`grew`), once
for each queue and write: a kind that needs little of them reads the queue's entries, and no records.
`apply_done` takes in that a record of any topic ends a wait by naming it: `catch_up` finds those behind the
checkpoint; while the broker runs, a kind writes them itself.

A new kind is a subclass, and a field in the list of `kinds.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from operator import attrgetter
from typing import ClassVar, Final

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.kinds.done_names import walk_names
from pyromq.broker.kinds.stored_again import QUEUE_ID
from pyromq.broker.topics.intake import Diversion, PlainDiversion
from pyromq.store.store import MessageStore, QueueEntry
from pyromq.wire.record import Record

log = logging.getLogger(__name__)

_ENTRIES_READ: Final = 1_024
#: Records that are applied on a replica before other work of the loop gets its turn.
_TURN_RECORDS: Final = 64


class KindFollower:
    """The state of one kind of waiting messages, derived from a part of the log."""

    #: What its checkpoint holds, in the words of a log line.
    name: ClassVar[str]
    #: The topics whose records are of this kind and of no other.
    topics: ClassVar[tuple[str, ...]]
    #: Whether a replica keeps the checkpoint near the end of its log, so that it soon is a master.
    is_on_replicas: ClassVar[bool] = True

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        #: The next record of each own topic that `catch_up` applies.
        self._offsets = dict.fromkeys(self.topics, 0)

    # The log

    def load(self) -> None:
        """Read the checkpoint, and apply what the log has behind it; the store is open."""
        raise NotImplementedError

    def apply(self, record: Record) -> None:
        """Take in the next record of one of the own topics."""
        raise NotImplementedError

    def grew(self, topic: str, queue_id: int, first: int, end: int) -> None:
        """Take in what an own queue just got with one write: from offset `first` up to before `end`."""
        for record in self._records(topic, first, end, queue_id):
            self.apply(record)

    def apply_done(self, done_at: int, position: int) -> None:
        """Take in that the record at `done_at` names a waiting one, if at `position` is one of this kind."""
        raise NotImplementedError

    def catch_up(self) -> None:
        """Apply what is behind the checkpoint: the own topics in the order of the log, then the names."""
        for record in self._behind():
            self.apply(record)
        start, end = self._done_from(), self._store.max_position
        if start is not None:
            for step in walk_names(self._store.log, max(start, self._store.min_position), end):
                for done_at, position in step.names:
                    self.apply_done(done_at, position)

    def _done_from(self) -> int | None:
        """Return behind which position of the log records may end a wait by a name; None when none does."""
        return None

    def _behind(self) -> Iterator[Record]:
        ends = {topic: self._store.max_offset(topic, QUEUE_ID) for topic in self.topics}
        behind = (self._records(topic, self._offsets[topic], end) for topic, end in ends.items())
        for record in merge(*behind, key=attrgetter("position")):
            yield record
            self._offsets[record.topic] = record.queue_offset + 1
        self._offsets = ends

    def _records(self, topic: str, offset: int, end: int, queue_id: int = QUEUE_ID) -> Iterator[Record]:
        """Yield the records of an own topic that the store still has, from an offset to another."""
        offset = max(offset, self._store.min_offset(topic, queue_id))
        while offset < end:
            entries = self._store.entries(topic, queue_id, offset, min(_ENTRIES_READ, end - offset))
            for entry in entries:
                record = self._read(topic, entry)
                if record is not None:
                    yield record
                else:
                    log.error("the record at position %d, of %s, is lost", entry.position, topic)
            offset += max(len(entries), 1)

    def _read(self, _topic: str, entry: QueueEntry) -> Record | None:
        return self._store.record_at(entry.position)

    # The checkpoint

    async def save(self, durability: Durability) -> None:
        """Bring the checkpoint to the disk if it is behind, and before it the log that it speaks for."""

    def forget_beyond(self, cut_at: int) -> None:
        """Remove the checkpoint if it may speak of the log behind a position; it is about to be cut there."""

    # On a master

    def diversions(self, _broker_ip: str) -> Mapping[str, Diversion]:
        """Return what sends messages of this kind to its topics, by the properties that ask for it."""
        return {}

    def plain_diversions(self) -> Sequence[PlainDiversion]:
        """Return what the kernel may repeat of the diversions, as the settings are now."""
        return ()

    @property
    def upkeep_s(self) -> float | Callable[[], float]:
        """The number of seconds between two calls of `upkeep`."""
        raise NotImplementedError

    def start(self, durability: Durability) -> None:
        """Begin to let go on what waits; what came due while nobody did goes on now."""

    async def upkeep(self, durability: Durability) -> None:
        """Do what is to be done again and again."""
        await self.save(durability)

    @property
    def next_due_ms(self) -> int | None:
        """The wall time at which the next message goes on or is looked for; None when none is known to."""
        return None

    def stop(self) -> None:
        """Let nothing go on any more."""

    async def close(self) -> None:
        """Give back what was taken, after the last message was stored; can be called without a start."""

    # On a replica

    async def follow(self, durability: Durability) -> None:
        """Apply what the log got by copying, and bring the checkpoint to the disk."""
        for count, record in enumerate(self._behind(), 1):
            self.apply(record)
            if count % _TURN_RECORDS == 0:
                await asyncio.sleep(0)
        await self.save(durability)
