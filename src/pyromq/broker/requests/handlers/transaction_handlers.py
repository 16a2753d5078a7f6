"""End a transaction: the half message becomes a real one, or nothing.

Producers send END_TRANSACTION oneway, so a refusal is seen by nobody but the log; a half that stays undecided
is asked about later. A transaction is decided once: a second end, whichever, is refused, and a crash at any
moment leaves the message and the note of its end both or neither (`half_messages.py`).
"""

import logging
from collections.abc import Awaitable, Callable

from pyromq import system_names
from pyromq.broker.durability.write_path import WritePath
from pyromq.broker.kinds.half_drafts import committed_draft, op_draft
from pyromq.broker.kinds.half_messages import HalfMessages
from pyromq.clock import Clock
from pyromq.codes import ResponseCode, SysFlag
from pyromq.config.choices import BrokerRole
from pyromq.errors import Refused, ServerFailed
from pyromq.net.routes import Answer, Request
from pyromq.store.store import MessageStore
from pyromq.wire import properties as names
from pyromq.wire.headers.transaction_headers import EndTransaction
from pyromq.wire.record import Record

log = logging.getLogger(__name__)

FATES: dict[int, str] = {SysFlag.TRANSACTION_COMMIT: "commit", SysFlag.TRANSACTION_ROLLBACK: "roll back"}


class TransactionHandlers:
    """Answers END_TRANSACTION."""

    def __init__(
        self,
        write: WritePath,
        *,
        store: MessageStore,
        halves: HalfMessages,
        clock: Clock,
        role: BrokerRole,
    ) -> None:
        self._intake = write.intake
        self._durability = write.durability
        self._store_host = write.addresses.store_host
        self._store = store
        self._halves = halves
        self._clock = clock
        self._role = role
        #: Told where the messages went that an end stored.
        self.learn: Callable[[str, int], None] | None = None

    def end(self, request: Request[EndTransaction]) -> Answer | Awaitable[Answer] | None:
        """Commit or roll back. A producer that does not know the fate yet gets no answer from RocketMQ.

        Whoever waits for an answer gets it when the disk has the decision, under synchronous flush.
        """
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
            end = self._decide(half, is_commit=header.commit_or_rollback == SysFlag.TRANSACTION_COMMIT)
        except Refused as refusal:
            log.warning("%s may not %s the transaction of %s: %s", peer, fate, header.msg_id, refusal.remark)
            raise
        return self._durability.acknowledge(end, Answer(), waits=not request.command.is_oneway)

    def _half(self, header: EndTransaction) -> Record:
        half = self._store.record_at(header.commit_log_offset)
        if half is None or half.topic != system_names.TRANSACTION_HALF:
            raise _wrong("Find prepared transaction message failed")
        if names.find_text(half.properties, names.PRODUCER_GROUP) != header.producer_group:
            raise _wrong("The producer group wrong")
        if half.queue_offset != header.tran_state_table_offset:
            raise _wrong("The transaction state table offset wrong")
        if half.position != header.commit_log_offset:
            raise _wrong("The commit log offset wrong")
        return half

    def _decide(self, half: Record, *, is_commit: bool) -> int:
        """Store the real message and the op message behind it with one write, or neither; return their end.

        What cannot be stored is not decided, and is asked about later.
        """
        offset = self._halves.latest_offset(half)
        if self._halves.is_decided(offset):
            raise _wrong(
                "The transaction was already committed, rolled back or given up; "
                "the first decision holds and a second one changes nothing"
            )
        drafts = [op_draft(offset, now_ms=self._clock.now_ms(), host=self._store_host)]
        if is_commit:
            draft = committed_draft(half)
            if draft is None:
                raise _wrong("The prepared transaction message does not name its topic and queue")
            drafts.insert(0, draft)
        end = self._intake.put_together(drafts)[-1].end
        if self.learn is not None:
            for draft in drafts:
                self.learn(draft.topic, draft.queue_id)
        return end


def _wrong(remark: str) -> ServerFailed:
    return ServerFailed(ResponseCode.SYSTEM_ERROR, remark)
