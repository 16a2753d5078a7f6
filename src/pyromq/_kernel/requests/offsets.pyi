from collections.abc import Sequence

from pyromq._kernel.requests.signatures import Signatures
from pyromq.net.inlet import Inlet

class Offsets:
    def __init__(
        self,
        *,
        commit_parts: list[tuple[bytes, int]],
        commit_binary_parts: list[tuple[bytes, int]],
        query_parts: list[tuple[bytes, int]],
        query_binary_parts: list[tuple[bytes, int]],
        language: int,
        version: int,
    ) -> None: ...
    def guard(self, signatures: Signatures | None) -> None: ...
    def learn(
        self, key: bytes, offsets: dict[int, int], queue_id: int, name: str, *, takes_commits: bool
    ) -> None: ...
    def forget_all(self) -> None: ...
    @property
    def plan_count(self) -> int: ...
    def answer(self, inlets: Sequence[Inlet]) -> tuple[int, set[str]]: ...
