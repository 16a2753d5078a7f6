"""A stranger: an account that may see one topic only, and tries the doors of the others."""

from collections.abc import Awaitable, Callable

from pyromq.client.aio.admin import Admin
from pyromq.client.aio.producer import Producer
from pyromq.client.aio.pull_consumer import PullConsumer
from pyromq.client.aio.transaction_producer import TransactionProducer
from pyromq.client.producer.outgoing import REPLY
from pyromq.config.settings import ClientSettings
from pyromq.errors import NetworkError, PyroError
from pyromq.model import Message, MessageQueue, ReceivedMessage, TransactionState
from pyromq.torture.workload import transaction_sends
from pyromq.torture.workload.arrangement import OPEN_TOPIC, OUTSIDERS, PAID, PLAIN, PULLERS, STRANGER
from pyromq.torture.workload.scribe import Scribe, number_of, told
from pyromq.torture.workload.workload_plan import WorkloadKind
from pyromq.wire import properties as names

#: What makes a message a reply, which goes to the topic that it names.
_A_REPLY = {
    names.MSG_TYPE: REPLY,
    names.CORRELATION_ID: "none",
    names.REPLY_TO_CLIENT: "nobody",
    names.TTL: "3000",
}


class Stranger:
    """A client that must be refused, always."""

    name = "stranger"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe

    async def main(self) -> None:
        """Try until the load ends."""
        scribe, address = self._scribe, self._scribe.stage.namesrv_address
        async with (
            scribe.producer(self.name, account=STRANGER) as producer,
            PullConsumer(OUTSIDERS, address, self._settings(), auto_commit=False) as outsider,
            PullConsumer(PULLERS, address, self._settings(), auto_commit=False) as intruder,
            Admin(address, self._settings()) as admin,
            self._false_banker() as banker,
        ):
            doors: dict[str, Callable[[], Awaitable[object]]] = {
                "pull": lambda: outsider.pull(self._queue(), 0),
                "pull as a group": lambda: intruder.pull(self._queue(), 0),
                "commit as a group": lambda: intruder.commit(self._queue(), 1),
                "send": lambda: producer.send(Message(PLAIN, b"000000000000 of a stranger")),
                "query": lambda: admin.query_message(PLAIN, "n1"),
                "create": lambda: admin.create_topic("t-of-a-stranger", 1),
                "reply": lambda: producer.send(Message(PLAIN, b"of a stranger", properties=_A_REPLY)),
            }
            while await scribe.pause(WorkloadKind.STRANGERS):
                for door, knock in doors.items():
                    await self._knock(door, knock)
                await self._try_open_door(producer)
                if scribe.plan.has(WorkloadKind.TRANSACTION):
                    # Whether it is let in shows when it is asked about a transaction.
                    await self._knock("join the producers", lambda: banker.announce(PAID), is_told=False)
            await scribe.wait_for_end()

    def _settings(self) -> ClientSettings:
        return self._scribe.settings(self.name, STRANGER)

    def _queue(self) -> MessageQueue:
        return self._scribe.chance.choice(self._scribe.queues[PLAIN])

    def _false_banker(self) -> TransactionProducer:
        """Return a member of a producer group that is none of the stranger's."""

        async def execute(_message: Message, _arg: object) -> TransactionState:
            return TransactionState.UNKNOWN

        async def check(message: ReceivedMessage) -> TransactionState:
            number = number_of(message.body)
            self._scribe.history.note("let_in", self.name, door="be asked about a transaction", number=number)
            return TransactionState.UNKNOWN

        address = self._scribe.stage.namesrv_address
        settings = self._settings()
        return TransactionProducer(transaction_sends.GROUP, address, settings, execute=execute, check=check)

    async def _try_open_door(self, producer: Producer) -> None:
        """Send to the topic that is open to it."""
        await self._scribe.send(self.name, producer, self._scribe.draft(WorkloadKind.STRANGERS, OPEN_TOPIC))

    async def _knock(
        self, door: str, knock: Callable[[], Awaitable[object]], *, is_told: bool = True
    ) -> None:
        history = self._scribe.history
        try:
            await knock()
        except NetworkError:
            return
        except PyroError as error:
            history.note("kept_out", self.name, door=door, error=told(error))
        else:
            if is_told:
                history.note("let_in", self.name, door=door)
