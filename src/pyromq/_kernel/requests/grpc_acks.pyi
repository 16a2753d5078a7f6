from collections.abc import Awaitable, Callable

from pyromq._kernel.requests.grpc_signatures import GrpcSignatures
from pyromq.broker.pop.in_flight import DeliveryEnding
from pyromq.broker.pop.pop_changes import PopChanges
from pyromq.broker.topics.topics import TopicTable
from pyromq.config.grpc_settings import GrpcSettings
from pyromq.net.http2.grpc_calls import GrpcCall
from pyromq.wire.receipt_handle import ReceiptHandle

def read_ack(
    data: bytes, broker: bytes, broker_name: str
) -> tuple[str, str, list[ReceiptHandle], bytes] | None: ...

class GrpcAcks:
    answered: int
    changed: int
    place_count: int

    def __init__(
        self,
        *,
        broker: bytes,
        topics: TopicTable,
        changes: PopChanges,
        turn_of: Callable[[], int | None],
        left: Callable[[GrpcCall, bytes], bytes | Awaitable[bytes] | None],
        left_change: Callable[[GrpcCall, bytes], bytes | Awaitable[bytes] | None],
        now_ms: Callable[[], int],
        settings: GrpcSettings,
        signatures: GrpcSignatures | None = None,
    ) -> None: ...
    def learn(self, group: bytes, topic: bytes, mark: int, queue_id: int, ending: DeliveryEnding) -> None: ...
    def learn_change(
        self,
        group: bytes,
        topic: bytes,
        mark: int,
        queue_id: int,
        ending: DeliveryEnding,
        move: Callable[[int, int, int], None],
    ) -> None: ...
    def change(self, call: GrpcCall, data: bytes) -> bytes | Awaitable[bytes] | None: ...
    def ack(self, call: GrpcCall, data: bytes) -> bytes | Awaitable[bytes] | None: ...
