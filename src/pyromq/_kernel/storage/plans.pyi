from pyromq.store.consumequeue import ConsumeQueue
from pyromq.store.index.index_tail import IndexTail
from pyromq.store.queue_tail import QueueTail

class Plan:
    def __init__(self, *, store_host: bytes, has_index: bool) -> None: ...
    def plan_units(
        self,
        units: bytes | memoryview,
        start: int,
        *,
        topic: bytes,
        queue_id: int,
        queue: QueueTail,
        sys_flag: int,
        born_at_ms: int,
        born_host: bytes,
        prepared_position: int,
        more_properties: bytes,
        now_ms: int,
        log_end: int,
        log_room: int,
        index_room: int,
    ) -> int: ...
    @property
    def records(self) -> memoryview: ...
    @property
    def end(self) -> int: ...
    @property
    def message_count(self) -> int: ...
    def drop(self) -> None: ...
    def apply(
        self, index: IndexTail | None, held_bytes_max: int
    ) -> tuple[list[ConsumeQueue], list[tuple[ConsumeQueue, int]]]: ...

def measure_units(units: bytes, kinds: tuple[bytes, ...], more_bytes: int) -> tuple[int, int] | None: ...
