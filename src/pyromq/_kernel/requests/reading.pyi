from array import array
from collections.abc import Collection

from pyromq.store.queue_tail import QueueTail
from pyromq.wire.headers.pull_headers import PullMessage

class PullPlan:
    header: PullMessage
    who: tuple[str, str, int]
    offsets: dict[int, int] | None
    name: str | None
    def __init__(
        self,
        queue: QueueTail,
        *,
        header: PullMessage,
        codes: Collection[int] | None,
        broker_ids: tuple[int, int],
        offsets: dict[int, int] | None,
        name: str | None,
        reached: array[int],
        revision: array[int],
    ) -> None: ...

class Limits:
    def __init__(
        self,
        *,
        bytes_in_memory: int,
        count_in_memory: int,
        bytes_on_disk: int,
        count_on_disk: int,
        bulk_bytes: int = 0,
    ) -> None: ...

class PullReader:
    limits: Limits
    def __init__(
        self,
        limits: Limits,
        *,
        answers: list[tuple[int, bytes, list[tuple[bytes, int]]]],
        binary_parts: list[tuple[bytes, int]],
        language: int,
        version: int,
    ) -> None: ...
    def release(self) -> None: ...
