from collections.abc import Iterable

from pyromq.store.consumequeue import ConsumeQueue
from pyromq.store.index.index_tail import IndexTail
from pyromq.store.queue_tail import QueueTail

class Copies:
    def __init__(self, *, has_index: bool) -> None: ...
    def learn(
        self,
        topic: bytes,
        queue_id: int,
        queue: QueueTail,
        due_name: bytes | None = None,
        delays_ms: Iterable[int] = (),
    ) -> None: ...
    @property
    def message_count(self) -> int: ...
    def plan(self, data: bytes | memoryview, position: int, room: int, index_room: int) -> int: ...
    def drop(self) -> None: ...
    def apply(
        self, index: IndexTail | None, held_bytes_max: int
    ) -> tuple[list[ConsumeQueue], list[tuple[ConsumeQueue, int]], int]: ...
