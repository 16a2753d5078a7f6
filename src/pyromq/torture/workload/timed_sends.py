"""Messages with a time of their own; some are sent twice under one id, and some are recalled.

A producer whose answer is lost sends again under the same id. Here that is done on purpose, so that both
copies are there for certain: a recall must take back both.
"""

from pyromq.client.aio.producer import Producer
from pyromq.clock import SystemClock
from pyromq.errors import IllegalOperation, PyroError
from pyromq.model import SendResult
from pyromq.torture.workload.arrangement import TIMED
from pyromq.torture.workload.scribe import MessageDraft, Scribe, told
from pyromq.torture.workload.workload_plan import WorkloadKind

_DELAYS_S = (1.0, 2.0, 4.0, 6.0)
_TWICE = 0.4
_RECALLED = 0.5


class TimedSends:
    """A client that sends timed messages, and takes some of them back."""

    name = "timer"

    def __init__(self, scribe: Scribe) -> None:
        self._scribe = scribe

    async def main(self) -> None:
        """Send until the load ends."""
        scribe = self._scribe
        async with scribe.producer(self.name) as producer:
            while await scribe.pause(WorkloadKind.TIMED):
                await self._send(producer)
            await scribe.wait_for_end()

    async def _send(self, producer: Producer) -> None:
        scribe, chance = self._scribe, self._scribe.chance
        delay_s = chance.choice(_DELAYS_S)
        draft = scribe.draft(WorkloadKind.TIMED, TIMED, delay_s=delay_s, is_delayed=True)
        draft.message.properties["UNIQ_KEY"] = f"7F000001{draft.number:024X}"
        if chance.random() < 0.5:
            # Both copies of a message that is sent again are then due together.
            draft.message.deliver_at = SystemClock().now_ms() + round(delay_s * 1_000)
        else:
            draft.message.delay = delay_s
        queue = chance.choice(scribe.queues[TIMED])
        result = await scribe.send(self.name, producer, draft, queue=queue)
        if chance.random() < _TWICE:
            result = await scribe.send(self.name, producer, draft, queue=queue) or result
        if result is not None and chance.random() < _RECALLED:
            await self._recall(producer, draft, result)

    async def _recall(self, producer: Producer, draft: MessageDraft, result: SendResult) -> None:
        scribe, history = self._scribe, self._scribe.history
        await scribe.wait(scribe.chance.uniform(0.0, 1.2))
        history.note("recall", self.name, number=draft.number)
        try:
            await producer.recall(TIMED, result.recall_handle or "")
        except IllegalOperation as error:
            history.note("recall_refused", self.name, number=draft.number, error=told(error))
        except PyroError as error:
            history.note("recall_failed", self.name, number=draft.number, error=told(error))
        else:
            history.note("recalled", self.name, number=draft.number)
