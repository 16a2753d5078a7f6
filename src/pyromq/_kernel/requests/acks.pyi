from collections.abc import Callable, Sequence

from pyromq._kernel.requests.signatures import Signatures
from pyromq.net.inlet import Inlet

class Acks:
    def __init__(
        self,
        *,
        answer_parts: list[tuple[bytes, int]],
        binary_parts: list[tuple[bytes, int]],
        language: int,
        version: int,
    ) -> None: ...
    def guard(self, signatures: Signatures | None) -> None: ...
    def learn(self, key: bytes, end: Callable[[int, int], bool]) -> None: ...
    def forget_all(self) -> None: ...
    @property
    def plan_count(self) -> int: ...
    def answer(self, inlets: Sequence[Inlet]) -> int: ...
