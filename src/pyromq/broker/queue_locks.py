"""Which member of a group may read which queue in order, and until when.

An orderly consumer locks a queue before it reads it, and renews the lock every 20 s. A lock that was not
renewed for 60 s is anyone's.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pyromq.clock import Clock
from pyromq.model import MessageQueue

#: RebalanceLockManager's default life of a lock.
LOCK_LIFE_MS = 60_000


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_at_ms: int


class QueueLocks:
    """The locks of all groups. They live in memory only: after a restart members lock anew."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._locks: dict[str, dict[MessageQueue, _Lock]] = {}

    def lock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> list[MessageQueue]:
        """Lock or renew what nobody else holds, and return the queues that the client now holds."""
        now_ms = self._clock.now_ms()
        held = self._locks.setdefault(group, {})
        locked = []
        for queue in queues:
            lock = held.get(queue)
            is_others = lock is not None and lock.client_id != client_id
            if lock is not None and is_others and now_ms - lock.renewed_at_ms <= LOCK_LIFE_MS:
                continue
            held[queue] = _Lock(client_id, now_ms)
            locked.append(queue)
        return locked

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Give up what the client holds; the locks of others stay."""
        held = self._locks.get(group, {})
        for queue in queues:
            lock = held.get(queue)
            if lock is not None and lock.client_id == client_id:
                del held[queue]
        if not held:
            self._locks.pop(group, None)
