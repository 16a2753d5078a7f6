"""Plain acknowledgements of gRPC clients: their bytes are read and answered by the compiled kernel.

    AckMessage ─► GrpcAcks.ack ─► the messages end in POP's columns, and the response is there
                     │ a queue that the kernel was not told of, a handle that is over, a wait for a disk
                     ▼
                  read_ack ─► Pop.ack ─► all is well: the response that the kernel wrote; the queues are told
                     │ anything that is not plain, or a group and topic that nobody looked at yet
                     ▼
                  AckHandlers

A group and a topic are looked at once, until a topic changes. With access control every request is Python's.
"""

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Final

from pyromq._kernel.requests.grpc_acks import GrpcAcks, read_ack
from pyromq.broker.grpc.consuming.consume_acks import AckHandlers
from pyromq.broker.grpc.grpc_callers import client_id_of
from pyromq.broker.grpc.grpc_table import GrpcTable
from pyromq.broker.pop.pop_asks import AckResult, Done
from pyromq.broker.pop.pop_door import Pop
from pyromq.broker.topics.topics import TopicTable
from pyromq.errors import Refused
from pyromq.net.http2.grpc_calls import GrpcCall
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.receipt_handle import ReceiptHandle

ACK: Final = "AckMessage"
#: Groups and topics that are remembered; more are looked at again.
_KNOWN_MAX: Final = 10_000
Unary = Callable[[GrpcCall, bytes], bytes | Awaitable[bytes] | None]


class PlainAcks:
    """Answers acknowledgements that are plain, and hands on the others."""

    def __init__(
        self, pop: Pop, acks: AckHandlers, table: GrpcTable, topics: TopicTable, *, broker_name: str
    ) -> None:
        self._pop = pop
        self._acks = acks
        self._table = table
        self._topics = topics
        self._broker_name = broker_name
        self._broker = broker_name.encode()
        unary = table.methods[table.path(ACK)].unary
        assert unary is not None
        self._unary: Unary = unary
        self._known: set[tuple[str, str]] = set()
        self._revision = -1
        self.kernel = GrpcAcks(
            broker=self._broker,
            topics=topics,
            changes=pop.changes,
            turn_of=pop.answers_in_this_turn,
            left=self._ack,
        )
        #: Answers a request now, or later.
        self.ack: Unary = self.kernel.ack

    def _ack(self, call: GrpcCall, data: bytes) -> bytes | Awaitable[bytes] | None:
        """Answer what the kernel left."""
        began = perf_counter()
        read = read_ack(data, self._broker, self._broker_name)
        if read is None:
            return self._unary(call, data)
        group, topic, handles, response = read
        try:
            client_id_of(call)
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
