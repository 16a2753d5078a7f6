"""The locks that members of a group hold on queues which they read in order: `queueLocks.json`.

    {"lockTable":{"group":{"client id":[{"brokerName":…,"queueId":0,"topic":…}]}}}

An orderly consumer locks a queue before it reads it, and renews the lock every 20 s. A lock that was not
renewed for 60 s is anyone's. A member that leaves its group has no locks from then on: its queues are free at
once, and a lock request that arrives after its goodbye gets none, until it joins again. With RocketMQ such a
queue is nobody's for a minute.

The file says who holds what, and is written before a member hears that a queue is its own. So members keep
their queues while the broker is away: with RocketMQ, whose locks live in memory only, the first member that
comes back takes queues that others are still busy with. When a lock was renewed is not in the file: one that
is read from it holds for as long as its member believes in it without a renewal, which is 30 s.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyromq.broker.json_table import JsonTable
from pyromq.clock import Clock
from pyromq.errors import CorruptRecord
from pyromq.model import MessageQueue
from pyromq.name_rules import why_no_stored_group
from pyromq.store.files import Files
from pyromq.wire.bodies.lock_bodies import decode_lock_table, encode_lock_table

log = logging.getLogger(__name__)

#: RebalanceLockManager's default life of a lock.
LOCK_LIFE_MS = 60_000
#: How long a member reads on without a renewal (ProcessQueue's REBALANCE_LOCK_MAX_LIVE_TIME).
BELIEVED_MS = 30_000
#: Members that left and are remembered, the last ones, each for the life of a lock.
LEFT_MAX = 10_000


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_at_ms: int


class QueueLocks:
    """The locks of all groups."""

    def __init__(self, path: Path, clock: Clock, *, files: Files | None = None) -> None:
        self._clock = clock
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}
        #: When members left their group, by group and client id, the oldest first.
        self._left: dict[tuple[str, str], int] = {}
        self._file = JsonTable(path, self._encode, files=files)

    def load(self) -> None:
        """Read the file; members have some seconds to renew what they hold.

        A file that does not read is no reason not to start: it is as with RocketMQ then.
        """
        try:
            table = self._file.load(decode_lock_table, field="lockTable") or {}
        except CorruptRecord as error:
            log.warning("nobody holds a queue after this start: %s", error)
            return
        self._take(table)

    def follow(self, master: bytes) -> None:
        """Know who holds what at a master, whose table this is as its file has it; saved as any change is.

        What is read so holds as if it had been read from our own file: for as long as members believe in it.
        """
        if master != self._encode():
            self._take(decode_lock_table(master))
            self._file.changed()

    @property
    def is_saved(self) -> bool:
        """Whether the file says who holds what."""
        return self._file.is_saved

    async def save(self) -> None:
        """Bring the table to the disk; raise StoreError when it cannot be written."""
        await self._file.save()

    def lock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """Lock or renew what nobody else holds, and return the queues that the client now holds."""
        now_ms = self._clock.now_ms()
        if self._left and now_ms - self._left.get((group, client_id), -LOCK_LIFE_MS) < LOCK_LIFE_MS:
            return []
        held = self._locks.setdefault(group, {})
        locked = []
        for queue in queues:
            lock = held.get(queue)
            is_others = lock is None or lock.client_id != client_id
            if lock is not None and is_others and now_ms - lock.renewed_at_ms <= LOCK_LIFE_MS:
                continue
            held[queue] = _Lock(client_id, now_ms)
            locked.append(queue)
            if is_others:
                self._file.changed()
        if not held:
            del self._locks[group]
        return locked

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Give up what the client holds; the locks of others stay."""
        held = self._locks.get(group, {})
        for queue in queues:
            lock = held.get(queue)
            if lock is not None and lock.client_id == client_id:
                del held[queue]
                self._file.changed()
        if not held:
            self._locks.pop(group, None)

    def joined(self, group: str, client_id: str) -> None:
        """Let a member have locks that may have left the group before."""
        if self._left:
            self._left.pop((group, client_id), None)

    def left(self, group: str, client_id: str) -> None:
        """Give up all that a member of the group holds, and whatever it still asks for."""
        held = self._locks.get(group, {})
        self.unlock(group, [queue for queue, lock in held.items() if lock.client_id == client_id], client_id)
        now_ms = self._clock.now_ms()
        self._left.pop((group, client_id), None)
        self._left[group, client_id] = now_ms
        while len(self._left) > LEFT_MAX or now_ms - next(iter(self._left.values())) >= LOCK_LIFE_MS:
            del self._left[next(iter(self._left))]

    def encode(self) -> bytes:
        """Return who holds what, as the file says it."""
        return self._encode()

    def _take(self, table: Mapping[str, Mapping[str, Iterable[MessageQueue]]]) -> None:
        as_if_ms = self._clock.now_ms() - LOCK_LIFE_MS + BELIEVED_MS
        self._locks = {
            group: {
                queue: _Lock(client_id, as_if_ms) for client_id, queues in holders.items() for queue in queues
            }
            for group, holders in table.items()
            if why_no_stored_group(group) is None
        }

    def _encode(self) -> bytes:
        """Return the table; locks whose life is over are forgotten."""
        since_ms = self._clock.now_ms() - LOCK_LIFE_MS
        table: dict[str, dict[str, list[MessageQueue]]] = {}
        for group, held in list(self._locks.items()):
            for queue, lock in list(held.items()):
                if lock.renewed_at_ms >= since_ms:
                    table.setdefault(group, {}).setdefault(lock.client_id, []).append(queue)
                else:
                    del held[queue]
            if not held:
                del self._locks[group]
        return encode_lock_table(table)
