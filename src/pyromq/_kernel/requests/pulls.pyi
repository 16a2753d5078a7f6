from collections.abc import Sequence
from typing import Any

from pyromq._kernel.requests.holds import Holds
from pyromq._kernel.requests.reading import PullPlan, PullReader
from pyromq._kernel.requests.signatures import Signatures
from pyromq.net.inlet import Inlet
from pyromq.store.commitlog import CommitLog

class Pulls:
    reader: PullReader
    holds: Holds
    def __init__(self, reader: PullReader) -> None: ...
    def guard(self, signatures: Signatures | None) -> None: ...
    def learn(self, key: bytes, plan: PullPlan) -> None: ...
    def forget_all(self) -> None: ...
    def take_served(self) -> dict[Any, tuple[int, int, int]]: ...
    def take_missed(self) -> int: ...
    @property
    def plan_count(self) -> int: ...
    def answer(
        self,
        inlets: Sequence[Inlet],
        log: CommitLog,
        *,
        readable: int,
        disk_position: int,
        now_ms: int,
        hold_room: int,
        hold_ms: int,
        under_way_max: int,
    ) -> tuple[int, set[str], list[tuple[PullPlan, int]]]: ...
