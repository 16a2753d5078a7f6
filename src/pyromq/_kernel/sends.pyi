from pyromq.store.consumequeue import ConsumeQueue
from pyromq.store.index_tail import IndexTail
from pyromq.store.queue_tail import QueueTail

class Sends:
    count: int
    def __init__(
        self,
        *,
        store_host: bytes,
        cluster: bytes,
        answer_parts: list[tuple[bytes, int]],
        binary_parts: list[tuple[bytes, int]],
        diverting: tuple[bytes, ...],
        wait_matters: bool,
        has_index: bool,
        body_bytes_max: int,
        language: int,
        version: int,
    ) -> None: ...
    def learn(self, topic: bytes, queue_id: int, queue: QueueTail, sys_flag: int) -> None: ...
    def forget(self, topic: bytes) -> None: ...
    def forget_all(self) -> None: ...
    @property
    def topic_count(self) -> int: ...
    def plan(
        self,
        received: bytes | bytearray,
        start: int,
        *,
        now_ms: int,
        born_host: bytes,
        log_end: int,
        log_room: int,
        index_room: int,
        answer_bytes_max: int,
    ) -> int: ...
    def plan_units(
        self,
        units: bytes,
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
    def answers(self) -> bytes: ...
    @property
    def end(self) -> int: ...
    @property
    def message_count(self) -> int: ...
    def drop(self) -> None: ...
    def apply(
        self, index: IndexTail | None, held_bytes_max: int
    ) -> tuple[list[ConsumeQueue], list[tuple[ConsumeQueue, int]]]: ...

def measure_units(units: bytes, kinds: tuple[bytes, ...], more_bytes: int) -> tuple[int, int] | None: ...
