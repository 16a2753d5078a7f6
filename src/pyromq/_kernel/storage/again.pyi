from array import array

from pyromq._kernel.storage.plans import Plan
from pyromq.store.commitlog import CommitLog
from pyromq.store.queue_tail import QueueTail

class DuePlan(Plan):
    def __init__(self, *, store_host: bytes, has_index: bool, body_bytes_max: int) -> None: ...
    def learn(self, topic: bytes, queue_id: int, queue: QueueTail) -> None: ...
    def forget_all(self) -> None: ...
    @property
    def topic_count(self) -> int: ...
    def plan_due(
        self,
        positions: bytes | array[int],
        *,
        log: CommitLog,
        timed_topic: bytes | None,
        now_ms: int,
        log_end: int,
        log_room: int,
        index_room: int,
    ) -> int: ...
    @property
    def positions(self) -> bytes: ...
    @staticmethod
    def positions_due(entries: bytes, now_ms: int, due_ms_max: int) -> bytes: ...
