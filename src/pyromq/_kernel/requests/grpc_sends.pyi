from collections.abc import Awaitable, Callable, Iterable

from pyromq._kernel.requests.grpc_signatures import GrpcSignatures
from pyromq.broker.live_settings import BrokerLiveSettings
from pyromq.broker.topics.topics import TopicTable
from pyromq.net.http2.grpc_calls import GrpcCall
from pyromq.net.inlet import TurnInlets

class GrpcSends:
    count: int
    answered: int
    def __init__(
        self,
        *,
        turn: TurnInlets,
        monotonic: Callable[[], float],
        now_ms: Callable[[], int],
        topics: TopicTable,
        live: BrokerLiveSettings,
        left: Callable[[GrpcCall, bytes], bytes | Awaitable[bytes] | None],
        do: Callable[[GrpcCall, bytes], None],
        refuse: Callable[[GrpcCall, bytes, bytes], None],
        reserved: frozenset[bytes],
        signatures: GrpcSignatures | None = None,
    ) -> None: ...
    def learn(self, topic: bytes, queue_count: int, kinds: Iterable[int], turn: int) -> None: ...
    def limit(
        self, *, body_bytes_max: int, property_bytes_max: int, group_bytes_max: int, delay_ms_max: int
    ) -> None: ...
    def forget_all(self) -> None: ...
    def drop(self, host: bytes) -> None: ...
    @property
    def inlet_count(self) -> int: ...
    @property
    def is_current(self) -> bool: ...
    def send(self, call: GrpcCall, data: bytes) -> bytes | Awaitable[bytes] | None: ...
    def take(self, call: GrpcCall, data: bytes) -> bool: ...
