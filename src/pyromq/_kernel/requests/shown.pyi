from collections.abc import Iterable, Sequence

class ShownRecords:
    def __init__(self, hidden: Iterable[str]) -> None: ...
    def write(
        self,
        body: bytes,
        at: int,
        first: int,
        sizes: Sequence[int],
        offsets: Sequence[int],
        positions: Sequence[int],
        attempts: Sequence[int],
        handle_head: bytes,
        topic: bytes,
        bytes_max: int,
    ) -> tuple[bytes, int]: ...
