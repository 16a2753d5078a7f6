from collections.abc import Callable, Mapping

from pyromq._kernel.requests.again_frames import AgainFrames
from pyromq.store.commitlog import CommitLog

class Ends(AgainFrames):
    def __init__(
        self,
        look: Callable[[], tuple[CommitLog, bytearray, int, Mapping[str, int]] | None],
        *,
        half_topic: bytes,
        op_topic: bytes,
        op_properties: bytes,
        store_host: bytes,
        body_bytes_max: int,
        code: int,
        answer_parts: list[tuple[bytes, int]],
        binary_parts: list[tuple[bytes, int]],
        language: int,
        version: int,
    ) -> None: ...
    def take_ended(self) -> bytes: ...
