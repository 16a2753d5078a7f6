from array import array
from collections.abc import Collection, Sequence
from typing import Any

from pyromq._kernel.requests.signatures import Signatures
from pyromq.net.inlet import Inlet
from pyromq.store.commitlog import CommitLog
from pyromq.store.queue_tail import QueueTail

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

class Pulls:
    def __init__(
        self,
        limits: Limits,
        *,
        answer_parts: list[tuple[bytes, int]],
        binary_parts: list[tuple[bytes, int]],
        language: int,
        version: int,
    ) -> None: ...
    def guard(self, signatures: Signatures | None) -> None: ...
    def learn(
        self,
        key: bytes,
        queue: QueueTail,
        topic: bytes,
        queue_id: int,
        codes: Collection[int] | None,
        who: Any,
        reached: array[int],
    ) -> None: ...
    def forget_all(self) -> None: ...
    def take_served(self) -> dict[Any, tuple[int, int, int]]: ...
    @property
    def plan_count(self) -> int: ...
    def release(self) -> None: ...
    def answer(
        self, inlets: Sequence[Inlet], *, log: CommitLog, disk_position: int
    ) -> tuple[int, list[tuple[Any, int]]]: ...
