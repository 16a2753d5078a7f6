from collections.abc import Sequence

from pyromq._kernel.requests.reading import PullReader
from pyromq.net.inlet import Inlet
from pyromq.store.commitlog import CommitLog
from pyromq.store.consumequeue import ConsumeQueue
from pyromq.wire.headers.pull_headers import PullMessage

class HeldPull:
    inlet: Inlet
    header: PullMessage
    offset: int
    count_max: int
    bytes_max: int
    opaque: int
    is_json: bool
    def drop(self) -> None: ...

class Holds:
    count: int
    @property
    def has_grown(self) -> bool: ...
    def grew(self, grown: list[tuple[ConsumeQueue, int]]) -> list[ConsumeQueue]: ...
    def wake(
        self, reader: PullReader, log: CommitLog, *, readable: int, disk_position: int, now_ms: int
    ) -> tuple[int, int, Sequence[HeldPull]]: ...
    def sweep(
        self, reader: PullReader, log: CommitLog, *, readable: int, disk_position: int, now_ms: int
    ) -> tuple[int, int, Sequence[HeldPull]]: ...
    def take_all(self) -> Sequence[HeldPull]: ...
