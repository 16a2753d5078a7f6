"""Request and reply: an asker, and a consumer that answers."""

from pyromq.client.aio.producer import Producer
from pyromq.client.producer.request_reply import reply_to
from pyromq.errors import PyroError
from pyromq.model import ReceivedMessage
from pyromq.torture.workload.arrangement import ANSWERERS, REQUESTS
from pyromq.torture.workload.readers import push_consumer
from pyromq.torture.workload.scribe import NUMBER_DIGITS, Scribe, number_of, told
from pyromq.torture.workload.workload_plan import WorkloadKind

_TIMEOUT_MS = 5_000


class Correspondent:
    """A client that sends requests and waits for the replies, several at a time."""

    name = "asker"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe

    async def main(self) -> None:
        """Ask until the load ends."""
        scribe = self._scribe
        async with scribe.producer(self.name) as producer:
            while await scribe.pause(WorkloadKind.REQUEST):
                await self._ask(producer)
            await scribe.wait_for_end()

    async def _ask(self, producer: Producer) -> None:
        scribe = self._scribe
        draft = scribe.draft(WorkloadKind.REQUEST, REQUESTS)
        scribe.note_send(self.name, draft)
        try:
            reply = await producer.request(draft.message, timeout_ms=_TIMEOUT_MS)
        except PyroError as error:
            scribe.note_failure(self.name, draft.number, error)
        else:
            scribe.history.note("reply", self.name, number=draft.number, got=number_of(reply.body))


class Answerer:
    """A client that consumes requests and answers each with its number."""

    name = "answerer"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe
        self._producer: Producer | None = None

    async def main(self) -> None:
        """Answer until the run is over."""
        scribe = self._scribe
        consumer = push_consumer(scribe, self.name, ANSWERERS, self._listen)
        async with scribe.producer(self.name) as self._producer, consumer:
            consumer.subscribe(REQUESTS)
            await scribe.wait_for_end()

    async def _listen(self, message: ReceivedMessage) -> None:
        scribe, number = self._scribe, number_of(message.body)
        scribe.note_delivery(self.name, ANSWERERS, message)
        assert self._producer is not None
        answer = reply_to(message, b"%0*d answer" % (NUMBER_DIGITS, number))
        try:
            await self._producer.send(answer)
        except PyroError as error:
            # The asker may be gone, or has given up waiting.
            scribe.history.note("unanswered", self.name, number=number, error=told(error))
        else:
            scribe.history.note("answered", self.name, number=number)
