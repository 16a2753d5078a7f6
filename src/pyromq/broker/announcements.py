"""Tells of new messages once they may be read.

Usually that is at once. A master with failover that waits for its slaves lets nobody read what they do not
have yet, and a slave what its master has not confirmed: if the master were lost, the next one would give the
same offset to another message, and who had read the first would never see the second.
"""

from collections import deque
from collections.abc import Callable

from pyromq.store.store import MessageStore

#: Told of a message: topic, queue id, the queue's end behind it, its tags code.
Announce = Callable[[str, int, int, int], None]


class Announcements:
    """Holds what was stored and may not be read yet."""

    def __init__(self, store: MessageStore, announce: Announce) -> None:
        self._store = store
        self._announce = announce
        self._held: deque[tuple[int, str, int, int, int]] = deque()

    def stored(self, topic: str, queue_id: int, end: int, tags_code: int) -> None:
        """Announce a message that the queues have, now or when it may be read."""
        if self._store.readable_position is None:
            self._announce(topic, queue_id, end, tags_code)
        else:
            self._held.append((self._store.max_position, topic, queue_id, end, tags_code))

    def readable_up_to(self, position: int) -> None:
        """Let messages be read up to a position of the log."""
        self._store.readable_position = position
        held = self._held
        while held and held[0][0] <= position:
            _, topic, queue_id, end, tags_code = held.popleft()
            self._announce(topic, queue_id, end, tags_code)
