"""Transactions: committed, rolled back, decided when the broker asks, and never decided."""

from enum import StrEnum

from pyromq.client.aio.transaction_producer import TransactionProducer
from pyromq.errors import PyroError
from pyromq.model import Message, ReceivedMessage, TransactionState
from pyromq.torture.workload.arrangement import PAID
from pyromq.torture.workload.scribe import MessageDraft, Scribe, number_of
from pyromq.torture.workload.workload_plan import WorkloadKind

GROUP = "p-banker"


class TransactionFate(StrEnum):
    """The fate of a local transaction."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    COMMIT_LATER = "commit-later"
    ROLLBACK_LATER = "rollback-later"
    NEVER = "never"


_AT_ONCE = {
    TransactionFate.COMMIT: TransactionState.COMMIT,
    TransactionFate.ROLLBACK: TransactionState.ROLLBACK,
}
_LATER = _AT_ONCE | {
    TransactionFate.COMMIT_LATER: TransactionState.COMMIT,
    TransactionFate.ROLLBACK_LATER: TransactionState.ROLLBACK,
}


class Transactions:
    """A client that sends half messages and decides them, at once or when it is asked."""

    name = "banker"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        #: The application's database: fates, and which of them were begun. It outlives the client.
        self._fates: dict[int, TransactionFate] = {}
        self._begun: dict[int, None] = {}

    async def main(self) -> None:
        """Send until the load ends, and answer until the run is over."""
        scribe = self._scribe
        producer = TransactionProducer(
            GROUP,
            scribe.stage.namesrv_address,
            scribe.settings(self.name),
            execute=self._execute,
            check=self._check,
            hooks=(scribe.hook(self.name),),
        )
        async with producer:
            await producer.announce(PAID)
            while await scribe.pause(WorkloadKind.TRANSACTION):
                await self._send(producer)
            await scribe.wait_for_end()

    async def _send(self, producer: TransactionProducer) -> None:
        scribe = self._scribe
        fate = scribe.chance.choice(tuple(TransactionFate))
        draft: MessageDraft = scribe.draft(WorkloadKind.TRANSACTION, PAID, fate=str(fate))
        self._fates[draft.number] = fate
        scribe.note_send(self.name, draft)
        try:
            result = await producer.send_in_transaction(draft.message)
        except PyroError as error:
            scribe.note_failure(self.name, draft.number, error)
        else:
            scribe.note_ack(self.name, draft.number, result)

    async def _execute(self, message: Message, _arg: object) -> TransactionState:
        number = number_of(message.body)
        self._begun[number] = None
        state = _AT_ONCE.get(self._fates[number], TransactionState.UNKNOWN)
        return self._decide(number, state)

    async def _check(self, message: ReceivedMessage) -> TransactionState:
        number = number_of(message.body)
        state = _LATER.get(self._fates[number], TransactionState.UNKNOWN)
        if number not in self._begun:
            # Nobody carried it out: its producer has not got the answer to the half message, and should it
            # come now, what was said here holds.
            self._fates[number] = TransactionFate.ROLLBACK
            state = TransactionState.ROLLBACK
        self._scribe.history.note("asked", self.name, number=number, state=str(state))
        return self._decide(number, state)

    def _decide(self, number: int, state: TransactionState) -> TransactionState:
        if state is not TransactionState.UNKNOWN:
            self._scribe.history.note("decide", self.name, number=number, state=str(state))
        return state
