from collections.abc import Callable

from pyromq._kernel.requests.again_frames import AgainFrames
from pyromq._kernel.storage.diversions import Diversion
from pyromq.store.commitlog import CommitLog

class SendBacks(AgainFrames):
    def __init__(
        self,
        look: Callable[[], CommitLog | None],
        delayed: Diversion,
        *,
        first_level: int,
        excludes: tuple[bytes, ...],
        max_times_from: int,
        body_bytes_max: int,
        code: int,
        answer_parts: list[tuple[bytes, int]],
        binary_parts: list[tuple[bytes, int]],
        language: int,
        version: int,
    ) -> None: ...
    def learn_group(
        self, group: bytes, retry_topic: bytes, *, queue_count: int, first_queue: int, times_max: int
    ) -> None: ...
