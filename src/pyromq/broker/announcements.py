"""Tells held pulls of new messages once they may be read.

Under asynchronous flush that is at once. Under synchronous flush a master lets nobody read what its disk
does not have yet. With failover a master that waits for its slaves lets nobody read what they do not have
yet, and a slave what its master has not confirmed. With a write buffer a master lets nobody read what is
not committed to its file. If the power failed, or the master were lost, the same
offset would be given to another message, and who had read the first would never see the second.
"""

from collections import deque

from pyromq.broker.arrivals import Arrivals
from pyromq.store.store import MessageStore


class Announcements:
    """Announces what was stored, and holds back what may not be read yet."""

    def __init__(self, store: MessageStore, arrivals: Arrivals) -> None:
        self._store = store
        self._arrivals = arrivals
        self._held: deque[tuple[int, str, int, int, int]] = deque()
        #: Up to where messages may be read, by each of the reasons that matter here.
        self._limits: dict[str, int] = {}
        #: Where the log must be confirmed before an end is told: what stands before was told by others.
        self.ends_known_from = 0

    @property
    def are_held_back(self) -> bool:
        """Whether messages are announced later than they are stored, to pulls that may come meanwhile."""
        return self._store.readable_position is not None

    def stored(self, topic: str, queue_id: int, end: int, tags_code: int) -> None:
        """Announce a message that made its queue `end` long, now or when it may be read."""
        if self._is_readable():
            self._arrivals.announce(topic, queue_id, end, tags_code)
        else:
            self._held.append((self._store.max_position, topic, queue_id, end - 1, end))

    def grew(self, topic: str, queue_id: int, first: int, end: int) -> None:
        """Announce the messages from one offset of a queue up to another; see `stored`."""
        if self._is_readable():
            self._announce(topic, queue_id, first, end)
        else:
            self._held.append((self._store.max_position, topic, queue_id, first, end))

    def confirmed_up_to(self, position: int) -> None:
        """Let messages be read up to a position of the log, as far as the other replicas are concerned."""
        self._store.ends_are_unknown = position < self.ends_known_from
        self._limit("replicas", position)

    def flushed_up_to(self, position: int) -> None:
        """Let messages be read up to a position of the log, as far as the disk is concerned."""
        self._limit("disk", position)

    def committed_up_to(self, position: int) -> None:
        """Let messages be read up to a position of the log, as far as its files are concerned."""
        self._limit("files", position)

    def _is_readable(self) -> bool:
        """Return whether the newest message may be read: the write buffer may have been committed with it."""
        readable = self._store.readable_position
        return readable is None or readable >= self._store.max_position

    def _limit(self, reason: str, limit: int) -> None:
        self._limits[reason] = limit
        position = self._store.readable_position = min(self._limits.values())
        held = self._held
        while held and held[0][0] <= position:
            _, topic, queue_id, first, end = held.popleft()
            self._announce(topic, queue_id, first, end)

    def _announce(self, topic: str, queue_id: int, first: int, end: int) -> None:
        while first < end and self._arrivals.is_awaited(topic, queue_id):
            entries = self._store.entries(topic, queue_id, first, end - first)
            if not entries:
                return
            for entry in entries:
                first += 1
                self._arrivals.announce(topic, queue_id, first, entry.tags_code)
