"""Plain sends of gRPC clients, without a Python object for each message: the compiled kernel has them.

    SendMessage ─► GrpcSends.send ─► the plan of the turn ─► its answer ─► the response
                      │ anything that is not plain            │ left, or refused
                      ▼                                       ▼
                   SendRpcs, which makes the topic known when it took a message

Which messages a topic takes is decided in `send_rpcs.py`, for the first message; the kernel repeats it until
a topic's configuration or a live setting changes. With access control it looks at each signature, as
`grpc_access.py` says.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from pyromq.broker.grpc.grpc_access import GrpcAccess
from pyromq.broker.grpc.grpc_rooms import GrpcRooms
from pyromq.broker.grpc.grpc_table import GrpcTable
from pyromq.broker.grpc.route_rpcs import accepted_types
from pyromq.broker.grpc.send_rpcs import SendRpcs
from pyromq.net.http2.grpc_calls import GrpcCall
from pyromq.net.routes import Answer
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.command import CommandReader
from pyromq.wire.grpc.proto_numbers import MessageType
from pyromq.wire.grpc.reserved_names import RESERVED_NAMES
from pyromq.wire.record import TOPIC_BYTES_MAX_V1

#: What the kernel makes frames of; a half makes its sender a producer, which is Python's.
_PLAIN_KINDS: Final = (MessageType.NORMAL, MessageType.FIFO, MessageType.DELAY)

Unary = Callable[[GrpcCall, bytes], bytes | Awaitable[bytes] | None]


class PlainSendsDoor:
    """Offers sends to the kernel, and teaches it topics."""

    def __init__(
        self, rooms: GrpcRooms, table: GrpcTable, rpcs: SendRpcs, unary: Unary, access: GrpcAccess
    ) -> None:
        # Only now: without a compiler there is nothing to import.
        from pyromq._kernel.requests.grpc_sends import GrpcSends

        self._settings = rooms.settings
        self._table = table
        self._rpcs = rpcs
        self._unary = unary
        self.kernel: GrpcSends = GrpcSends(
            turn=rooms.turn,
            monotonic=rooms.clock.monotonic,
            now_ms=rooms.clock.now_ms,
            topics=rooms.topics,
            live=rooms.live,
            left=self._left,
            do=self._do,
            refuse=self._refuse,
            reserved=frozenset(name.encode() for name in RESERVED_NAMES),
            signatures=access.signatures,
        )
        #: Answers a request now, or when the turn of the loop ends, or later.
        self.send: Unary = self.kernel.send
        rpcs.learn = self._learn

    def _left(self, call: GrpcCall, data: bytes) -> bytes | Awaitable[bytes] | None:
        """Answer what the kernel left; when something changed, it begins anew."""
        if not self.kernel.is_current:
            self._forget()
        return self._unary(call, data)

    def _do(self, call: GrpcCall, data: bytes) -> None:
        """Do what the kernel took and the plan of the turn left."""
        answer = self._unary(call, data)
        assert answer is not None
        call.answer(answer)

    def _refuse(self, call: GrpcCall, message_id: bytes, frame: bytes) -> None:
        """Answer a request whose message was refused, or is not yet safe."""
        reader = CommandReader()
        reader.feed(frame)
        command = reader.next_command()
        assert command is not None
        answer = Answer(command.code, command.remark, ext=command.ext)
        call.answer(
            self._table.answer_with(
                "SendMessage", call, lambda: self._rpcs.answered(message_id.decode(), answer)
            )
        )

    def _learn(self, config: TopicConfig, turn: int) -> None:
        topic = config.topic_name
        if not topic.isascii() or len(topic) > TOPIC_BYTES_MAX_V1:
            return
        if not self.kernel.is_current:
            return
        kinds: Sequence[MessageType] = _PLAIN_KINDS
        if self._settings.grpc.enable_topic_message_type_check:
            kinds = [kind for kind in _PLAIN_KINDS if kind in accepted_types(config)]
        self.kernel.learn(topic.encode(), config.write_queue_nums, kinds, turn & 0xFFFFFFFF)

    def _forget(self) -> None:
        self.kernel.forget_all()
        limits = self._rpcs.limits
        self.kernel.limit(
            body_bytes_max=limits.body_bytes_max,
            property_bytes_max=limits.property_bytes_max,
            group_bytes_max=limits.group_bytes_max,
            delay_ms_max=limits.delay_ms_max,
        )
