from collections.abc import Sequence

from pyromq._kernel.requests.again_frames import AgainFrames
from pyromq._kernel.requests.signatures import Signatures
from pyromq._kernel.storage.diversions import Diversion
from pyromq._kernel.storage.plans import Plan
from pyromq.net.inlet import Inlet
from pyromq.store.queue_tail import QueueTail

class Sends(Plan):
    count: int
    def __init__(
        self,
        *,
        store_host: bytes,
        cluster: bytes,
        answers: list[tuple[list[tuple[bytes, int]], list[tuple[bytes, int]]]],
        transaction_id_from: int,
        diverting: tuple[bytes, ...],
        wait_matters: bool,
        has_index: bool,
        body_bytes_max: int,
        language: int,
        version: int,
    ) -> None: ...
    def guard(self, signatures: Signatures | None) -> None: ...
    def take_in(self, others: AgainFrames) -> None: ...
    def learn(self, topic: bytes, queue_id: int, queue: QueueTail, sys_flag: int) -> None: ...
    def learn_topic(self, topic: bytes, sys_flag: int, queue_count: int) -> None: ...
    def divert(self, diversion: Diversion) -> None: ...
    def forget(self, topic: bytes) -> None: ...
    def forget_all(self) -> None: ...
    @property
    def topic_count(self) -> int: ...
    def plan(
        self,
        inlets: Sequence[Inlet],
        first: int,
        *,
        under_way_max: int,
        now_ms: int,
        log_end: int,
        log_room: int,
        index_room: int,
    ) -> int: ...
    def hand_out(self) -> None: ...
    def take(self) -> list[tuple[Inlet, bytes, int]]: ...
