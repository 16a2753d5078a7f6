"""EndTransaction: a gRPC producer says whether its message is to be delivered.

The id that it got with its send says where the half is, so an end finds it whenever it comes. Producers of
other servers' ids may end theirs by the message id; that is looked up.
"""

from collections.abc import Awaitable
from typing import Any, Final

from pyromq import system_names
from pyromq.broker.grpc.grpc_callers import GrpcCaller
from pyromq.broker.grpc.grpc_needs import need_to_publish
from pyromq.broker.grpc.grpc_table import OK_STATUS, Rpc
from pyromq.broker.grpc.remoting_way import RemotingWay
from pyromq.broker.kinds.half_messages import HalfMessages
from pyromq.codes import RequestCode, ResponseCode, SysFlag
from pyromq.errors import CorruptRecord
from pyromq.net.routes import Answer
from pyromq.store.store import MessageStore
from pyromq.wire import properties as names
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused, code_of_remoting
from pyromq.wire.grpc.grpc_names import check_grpc_topic
from pyromq.wire.grpc.proto_numbers import Resolution
from pyromq.wire.grpc.transaction_ids import HalfPlace, decode_transaction_id
from pyromq.wire.headers.transaction_headers import EndTransaction
from pyromq.wire.record import Record, decode_record

#: Decisions that are remembered, so that a second end which says the same is no error.
DECISIONS_MAX: Final = 10_000
LOOKED_AT_MAX: Final = 32
_FATES: Final[dict[int, int]] = {
    Resolution.COMMIT: SysFlag.TRANSACTION_COMMIT,
    Resolution.ROLLBACK: SysFlag.TRANSACTION_ROLLBACK,
}


class TransactionRpcs:
    """Answers EndTransaction."""

    def __init__(self, way: RemotingWay, store: MessageStore, halves: HalfMessages) -> None:
        self._way = way
        self._store = store
        self._halves = halves
        #: The resolution of halves that ended here, by the offset that the half was decided by.
        self._decided: dict[int, int] = {}

    def rpcs(self) -> list[Rpc[Any, Any]]:
        """Return what is answered here."""
        return [
            Rpc(
                "EndTransaction",
                pb.EndTransactionRequest,
                pb.EndTransactionResponse,
                need_to_publish,
                self.end,
            )
        ]

    def end(
        self, caller: GrpcCaller, request: pb.EndTransactionRequest
    ) -> pb.EndTransactionResponse | Awaitable[pb.EndTransactionResponse]:
        """Commit or roll back. A producer that does not know yet is asked again later."""
        topic = request.topic.name
        check_grpc_topic(topic)
        if not request.transaction_id.strip():
            raise GrpcRefused(GrpcCode.INVALID_TRANSACTION_ID, "the transaction id is blank")
        half = self._half(request.transaction_id)
        fate = _FATES.get(request.resolution)
        if fate is None:
            return pb.EndTransactionResponse(status=OK_STATUS)
        if names.find_text(half.properties, names.REAL_TOPIC) != topic:
            raise GrpcRefused(GrpcCode.INTERNAL_SERVER_ERROR, f"the transaction is not one of topic {topic}")
        offset = self._halves.latest_offset(half)
        if self._halves.is_decided(offset):
            return self._second_end(offset, request.resolution)
        header = EndTransaction(
            producer_group=names.find_text(half.properties, names.PRODUCER_GROUP) or topic,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.position,
            commit_or_rollback=fate,
            msg_id=request.message_id[:1024],
            transaction_id=request.transaction_id,
            topic=topic,
        )
        answered = self._way.ask(RequestCode.END_TRANSACTION, header, caller)
        if isinstance(answered, Answer):
            return self._response(answered, offset, request.resolution)
        return self._later(answered, offset, request.resolution)

    async def _later(
        self, answered: Awaitable[Answer], offset: int, resolution: int
    ) -> pb.EndTransactionResponse:
        return self._response(await answered, offset, resolution)

    def _response(self, answer: Answer, offset: int, resolution: int) -> pb.EndTransactionResponse:
        if answer.code != ResponseCode.SUCCESS:
            code = code_of_remoting(answer.code)
            raise GrpcRefused(code, answer.remark or code.name)
        if len(self._decided) >= DECISIONS_MAX:
            del self._decided[next(iter(self._decided))]
        self._decided[offset] = resolution
        return pb.EndTransactionResponse(status=OK_STATUS)

    def _second_end(self, offset: int, resolution: int) -> pb.EndTransactionResponse:
        if self._decided.get(offset) == resolution:
            return pb.EndTransactionResponse(status=OK_STATUS)
        raise GrpcRefused(
            GrpcCode.INTERNAL_SERVER_ERROR,
            "the transaction was committed, rolled back or given up already; the first decision holds",
        )

    def _half(self, transaction_id: str) -> Record:
        place = decode_transaction_id(transaction_id)
        half = self._half_of(transaction_id) if place is None else self._half_at(place)
        if half is None:
            raise GrpcRefused(
                GrpcCode.INVALID_TRANSACTION_ID,
                "no message of a transaction has this id; it is the one that came with the answer to a send",
            )
        return half

    def _half_at(self, place: HalfPlace) -> Record | None:
        half = self._store.record_at(place.position)
        if half is None or half.topic != system_names.TRANSACTION_HALF:
            return None
        return half if half.queue_offset == place.queue_offset else None

    def _half_of(self, message_id: str) -> Record | None:
        """Return the half of a message id: the newest, where it was stored more than once."""
        found = self._store.query(
            system_names.TRANSACTION_HALF,
            message_id[:1024],
            count_max=LOOKED_AT_MAX,
            begin_ms=0,
            end_ms=2**63 - 1,
        )
        for data in found.records:
            try:
                record = decode_record(data, check_crc=False)
            except CorruptRecord:
                continue
            if names.find_text(record.properties, names.UNIQ_KEY) == message_id:
                return record
        return None
