from collections.abc import Callable

from pyromq.net.http2.grpc_calls import GrpcCall
from pyromq.net.routes import Caller
from pyromq.wire.signing_key import SigningKey

class GrpcSignatures:
    known_count: int

    def __init__(self, rules: Callable[[], object]) -> None: ...
    def learn(
        self, rules: object, access_key: bytes, key: SigningKey, need: bytes, caller: Caller
    ) -> None: ...
    def learn_host(self, rules: object, host: bytes, caller: Caller) -> None: ...
    def caller_of(self, call: GrpcCall, need: bytes) -> Caller | None: ...
