"""End a transaction: the half message becomes a real one, or nothing.

Producers send END_TRANSACTION oneway, so a refusal is seen by nobody but the log; a half that stays undecided
is asked about later.
"""

import logging

from pyromq.broker import topic_names
from pyromq.broker.half_messages import DONE_TAG, QUEUE_ID, HalfMessages, committed_draft
from pyromq.broker.intake import Intake
from pyromq.clock import Clock
from pyromq.codes import ResponseCode, SysFlag
from pyromq.config.settings import BrokerRole
from pyromq.errors import Refused, ServerFailed
from pyromq.net.routes import Answer, Request
from pyromq.store.store import Draft, MessageStore
from pyromq.wire import properties as names
from pyromq.wire.headers.transaction import EndTransaction
from pyromq.wire.record import Record

log = logging.getLogger(__name__)

FATES: dict[int, str] = {SysFlag.TRANSACTION_COMMIT: "commit", SysFlag.TRANSACTION_ROLLBACK: "roll back"}


class TransactionHandlers:
    """Answers END_TRANSACTION."""

    def __init__(
        self,
        *,
        store: MessageStore,
        intake: Intake,
        halves: HalfMessages,
        clock: Clock,
        role: BrokerRole,
        store_host: bytes,
    ) -> None:
        self._store = store
        self._intake = intake
        self._halves = halves
        self._clock = clock
        self._role = role
        self._store_host = store_host

    def end(self, request: Request[EndTransaction]) -> Answer | None:
        """Commit or roll back. A producer that does not know the fate yet gets no answer from RocketMQ."""
        header, peer = request.header, request.link.peer
        if self._role == BrokerRole.SLAVE:
            return Answer(ResponseCode.SLAVE_NOT_AVAILABLE)
        fate = FATES.get(header.commit_or_rollback)
        if fate is None:
            log.info(
                "%s of group %s does not know the fate of %s", peer, header.producer_group, header.msg_id
            )
            return None
        try:
            half = self._half(header)
            self._decide(half, is_commit=header.commit_or_rollback == SysFlag.TRANSACTION_COMMIT)
        except Refused as refusal:
            log.warning("%s may not %s the transaction of %s: %s", peer, fate, header.msg_id, refusal.remark)
            raise
        return Answer()

    def _half(self, header: EndTransaction) -> Record:
        half = self._store.record_at(header.commit_log_offset)
        if half is None or half.topic != topic_names.TRANSACTION_HALF:
            raise _wrong("Find prepared transaction message failed")
        if names.find_text(half.properties, names.PRODUCER_GROUP) != header.producer_group:
            raise _wrong("The producer group wrong")
        if half.queue_offset != header.tran_state_table_offset:
            raise _wrong("The transaction state table offset wrong")
        if half.position != header.commit_log_offset:
            raise _wrong("The commit log offset wrong")
        return half

    def _decide(self, half: Record, *, is_commit: bool) -> None:
        """Store the real message, then the op message: what a crash leaves undone is asked about again."""
        offset = self._halves.latest_offset(half)
        if self._halves.is_decided(offset):
            raise _wrong(
                "The transaction was already committed, rolled back or given up; "
                "the first decision holds and a second one changes nothing"
            )
        if is_commit:
            draft = committed_draft(half)
            if draft is None:
                raise _wrong("The prepared transaction message does not name its topic and queue")
            self._intake.put_as_is(draft)
        self._halves.decide(offset)
        try:
            self._intake.put_as_is(self._op(offset))
        except Refused as refusal:
            # The decision holds in this process; after a restart the producer is asked once more.
            log.warning("the end of the transaction at half offset %d was not stored: %s", offset, refusal)
        else:
            self._halves.op_stored(offset)

    def _op(self, offset: int) -> Draft:
        return Draft(
            topic=topic_names.TRANSACTION_OP_HALF,
            queue_id=QUEUE_ID,
            body=str(offset).encode(),
            properties=names.encode({names.TAGS: DONE_TAG, names.WAIT: "true"}),
            flag=0,
            sys_flag=0,
            born_at_ms=self._clock.now_ms(),
            born_host=self._store_host,
            store_host=self._store_host,
        )


def _wrong(remark: str) -> ServerFailed:
    return ServerFailed(ResponseCode.SYSTEM_ERROR, remark)
