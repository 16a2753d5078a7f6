"""Plain acknowledgements and changes of gRPC clients: the compiled kernel reads and answers their bytes.

    AckMessage ─► GrpcAcks.ack ─► the messages end in POP's columns, and the response is there
                     │ a queue that the kernel was not told of, a handle that is over, a wait for a disk
                     ▼
                  read_ack ─► Pop.ack ─► all is well: the response that the kernel wrote; the queues are told
                     │ anything that is not plain, or a group and topic that nobody looked at yet
                     ▼
                  AckHandlers

    ChangeInvisibleDuration ─► GrpcAcks.change ─► Pop.move, and the response with the new handle is there
                                  │ the same
                                  ▼
                               AckHandlers, after which the kernel is told of the queue

A group and a topic are looked at once, until a topic changes. With access control the kernel looks at each
signature, and answers only what Python let in before (`GrpcAccess`).
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Final

from pyromq._kernel.requests.grpc_acks import GrpcAcks, read_ack
from pyromq.broker.grpc.consuming.consume_acks import AckHandlers
from pyromq.broker.grpc.grpc_access import GrpcAccess
from pyromq.broker.grpc.grpc_callers import client_id_of
from pyromq.broker.grpc.grpc_needs import need_of_names
from pyromq.broker.grpc.grpc_rooms import GrpcRooms
from pyromq.broker.grpc.grpc_table import GrpcTable
from pyromq.broker.pop.pop_asks import AckResult, Done
from pyromq.errors import Refused
from pyromq.net.http2.grpc_calls import GrpcCall
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.receipt_handle import ReceiptHandle

ACK: Final = "AckMessage"
CHANGE: Final = "ChangeInvisibleDuration"
#: Groups and topics that are remembered; more are looked at again.
_KNOWN_MAX: Final = 10_000
Unary = Callable[[GrpcCall, bytes], bytes | Awaitable[bytes] | None]


class PlainAcks:
    """Answers acknowledgements that are plain, and hands on the others."""

    def __init__(self, rooms: GrpcRooms, acks: AckHandlers, table: GrpcTable, access: GrpcAccess) -> None:
        self._pop = rooms.pop
        self._acks = acks
        self._table = table
        self._topics = rooms.topics
        self._broker_name = rooms.settings.broker.broker_name
        self._broker = self._broker_name.encode()
        self._access = access
        self._unary = _unary_of(table, ACK)
        self._known: set[tuple[str, str]] = set()
        self._revision = -1
        self.kernel = GrpcAcks(
            broker=self._broker,
            topics=rooms.topics,
            changes=rooms.pop.changes,
            turn_of=rooms.pop.answers_in_this_turn,
            left=self._ack,
            left_change=_unary_of(table, CHANGE),
            now_ms=rooms.clock.now_ms,
            settings=rooms.settings.grpc,
            signatures=access.signatures,
        )
        #: Answer a request now, or later.
        self.ack: Unary = self.kernel.ack
        self.change: Unary = self.kernel.change
        acks.on_changed = self._learn_change

    def _ack(self, call: GrpcCall, data: bytes) -> bytes | Awaitable[bytes] | None:
        """Answer what the kernel left."""
        began = perf_counter()
        read = read_ack(data, self._broker, self._broker_name)
        if read is None:
            return self._unary(call, data)
        group, topic, handles, response = read
        try:
            client_id_of(call)
            if self._access.is_wanted:
                self._access.admit(call, need_of_names(group, topic))
        except GrpcRefused as refusal:
            return self._table.refused(ACK, refusal, call, began)
        try:
            self._check(group, topic)
            self._table.waiting.check()
            acking = self._pop.ack(group, topic, handles)
        except (GrpcRefused, Refused):
            return self._unary(call, data)
        if isinstance(acking, Done):
            self._learn(group, topic, handles, acking.value)
            return self._answer(data, acking.value, response, began)
        later = self._answer_later(call, data, acking, response, began)
        return self._table.waiting.own(later, len(data) + len(response))

    def _learn_change(self, group: str, topic: str, handle: ReceiptHandle) -> None:
        """Tell the kernel of a queue in which a message was given another time."""
        if handle.is_fifo:
            return
        real_topic = handle.real_topic(group, topic)
        ending = self._pop.ending(group, real_topic, handle.queue_id)
        if ending is not None:
            move = partial(self._pop.move, group, real_topic, handle.queue_id)
            self.kernel.learn_change(
                group.encode(), topic.encode(), handle.mark, handle.queue_id, ending, move
            )

    def _check(self, group: str, topic: str) -> None:
        """Raise GrpcRefused for names that may not be, or a topic that is not here."""
        if self._revision != self._topics.revision or len(self._known) > _KNOWN_MAX:
            self._known.clear()
            self._revision = self._topics.revision
        if (group, topic) not in self._known:
            self._acks.check(group, topic)
            self._known.add((group, topic))

    def _learn(
        self, group: str, topic: str, handles: Sequence[ReceiptHandle], results: Sequence[AckResult]
    ) -> None:
        """Tell the kernel of the queues in which messages were acknowledged."""
        places = {
            (handle.mark, handle.queue_id): handle
            for handle, result in zip(handles, results, strict=True)
            if result is AckResult.OK and not handle.is_fifo
        }
        for (mark, queue_id), handle in places.items():
            ending = self._pop.ending(group, handle.real_topic(group, topic), queue_id)
            if ending is not None:
                self.kernel.learn(group.encode(), topic.encode(), mark, queue_id, ending)

    def _answer(self, data: bytes, results: Sequence[AckResult], response: bytes, began: float) -> bytes:
        if all(result is AckResult.OK for result in results):
            self._table.done(ACK, GrpcCode.OK, began)
            return response
        answered = self._acks.respond(data, results)
        self._table.done(ACK, answered.status.code, began)
        return answered.SerializeToString()

    async def _answer_later(
        self,
        call: GrpcCall,
        data: bytes,
        acking: Awaitable[Sequence[AckResult]],
        response: bytes,
        began: float,
    ) -> bytes:
        try:
            results = await acking
        except Refused as refusal:
            return self._table.refused(ACK, refusal, call, began)
        return self._answer(data, results, response, began)


def _unary_of(table: GrpcTable, name: str) -> Unary:
    """Return what answers an RPC without the kernel."""
    unary = table.methods[table.path(name)].unary
    assert unary is not None
    return unary
