from pyromq.store.queue_tail import QueueTail

class Diversion:
    name: bytes
    def __init__(
        self,
        *,
        name: bytes,
        topic: bytes,
        word: bytes | None,
        delays_ms: tuple[int, ...],
        unit_ms: int,
        delay_ms_max: int,
        due_name: bytes | None,
        excludes: tuple[bytes, ...],
        cleared: int,
        recalled_by: bytes | None,
    ) -> None: ...
    def learn(self, queue_id: int, queue: QueueTail) -> None: ...
