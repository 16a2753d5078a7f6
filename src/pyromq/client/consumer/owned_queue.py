"""A queue that this member has: its progress, its lock, and whether it may be pulled and handed out."""

from abc import ABC, abstractmethod

from pyromq.client.consumer.queue_progress import QueueProgress
from pyromq.config.settings import MIB
from pyromq.errors import PyroError
from pyromq.model import MessageQueue
from pyromq.wire.bodies.running_info import QueueState


class OwnedQueue(ABC):
    """One queue, from when it is taken to when it is let go or begun anew. Its name is the one on the wire.

    Nothing of a dropped queue is handed out. If it is leaving, work that already runs may still be finished.
    """

    __slots__ = (
        "bytes",
        "count",
        "failure",
        "is_dropped",
        "is_leaving",
        "is_locked",
        "is_paused",
        "locked_at_ms",
        "progress",
        "pulled_at_ms",
        "queue",
        "unlock_tries",
    )

    def __init__(self, queue: MessageQueue, now_ms: int) -> None:
        self.queue = queue
        self.progress = QueueProgress()
        #: Messages that wait here, and their bytes: flow control looks at them.
        self.count = 0
        self.bytes = 0
        self.is_dropped = False
        #: Whether it is being let go, so that it must be before it can come anew.
        self.is_leaving = False
        self.is_paused = False
        self.is_locked = False
        self.locked_at_ms = self.pulled_at_ms = now_ms
        self.unlock_tries = 0
        #: The error of the last pull, if it failed.
        self.failure: PyroError | None = None

    @property
    @abstractmethod
    def first_offset(self) -> int | None:
        """The smallest offset that waits, if any does."""

    @property
    @abstractmethod
    def last_offset(self) -> int | None:
        """The largest offset that waits, if any does."""

    @property
    def span(self) -> int:
        """The distance from the smallest waiting offset to the largest."""
        first, last = self.first_offset, self.last_offset
        return 0 if first is None or last is None else last - first

    def is_pull_idle(self, now_ms: int, idle_ms: int) -> bool:
        """Whether nobody has pulled for longer than that."""
        return now_ms - self.pulled_at_ms > idle_ms

    def holds_lock(self, now_ms: int, life_ms: int) -> bool:
        """Whether the broker's lock is this member's, as far as it can know."""
        return self.is_locked and now_ms - self.locked_at_ms <= life_ms

    def lock(self, now_ms: int) -> None:
        """Note that the broker gave the lock, or renewed it."""
        self.is_locked, self.locked_at_ms = True, now_ms

    def follow(self, old: "OwnedQueue", offset: int) -> None:
        """Take the place of the same queue, read from another offset, which is to be committed."""
        self.is_paused, self.is_locked, self.locked_at_ms = old.is_paused, old.is_locked, old.locked_at_ms
        self.progress.place(offset, finished=offset, committed=None)

    def shown(self) -> QueueState:
        """Return the state that operators are shown (`mqadmin consumerStatus`)."""
        finished = self.progress.finished
        return QueueState(
            commit_offset=-1 if finished is None else finished,
            cached_msg_min_offset=self.first_offset or 0,
            cached_msg_max_offset=self.last_offset or 0,
            cached_msg_count=self.count,
            cached_msg_size_in_mib=self.bytes // MIB,
            locked=self.is_locked,
            try_unlock_times=self.unlock_tries,
            last_lock_timestamp=self.locked_at_ms,
            droped=self.is_dropped,
            last_pull_timestamp=self.pulled_at_ms,
        )
