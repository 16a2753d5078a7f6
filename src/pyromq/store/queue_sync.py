"""The sync of queues and index: one part runs on the store's thread, the other on any thread."""

from dataclasses import dataclass
from typing import Protocol

from pyromq.store.follower import StoreFile


class SyncsQueues(Protocol):
    """The store, as its own syncs see it."""

    def settle_some(self, queue_sync: "QueueSync") -> None:
        """Do a part of what only the store's thread may do."""
        ...

    def finish_queue_sync(self, queue_sync: "QueueSync") -> None:
        """Do what may be done in another thread."""
        ...


@dataclass(slots=True)
class QueueSync:
    """One sync of everything that follows the log, prepared by the store's thread and run in any.

    `position` is where the log ended when it began: what was put since may be synced by it or not.
    """

    store: SyncsQueues
    files: list[StoreFile]
    position: int
    reach: int
    stored_at_ms: int
    is_settled: bool = False
    is_done: bool = False

    def settle_some(self) -> bool:
        """Write some of what the followers hold in memory, and return whether all of it is written.

        Only for the store's thread. Raises DiskFull; it may be tried again then.
        """
        if not self.is_settled:
            self.store.settle_some(self)
        return self.is_settled

    def run(self) -> None:
        """Sync the log, the queues and the index, and write the checkpoint. Raises SyncFailed."""
        assert self.is_settled
        self.store.finish_queue_sync(self)
        self.is_done = True
