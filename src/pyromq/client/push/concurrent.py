"""The listener is called for many messages at once, in no order; a message that fails is sent back.

| a message that fails     | clustering                                                     | broadcasting |
| ------------------------ | -------------------------------------------------------------- | ------------ |
| is                       | sent back; its copy comes in the retry topic                   | given up     |
| cannot be sent back      | tried again here after five seconds                            |              |
| has a body that cannot be read here | the same, and its listener is not called            | given up     |
| keeps a listener too long| sent back, when it is the one that holds up the queue's progress | the same   |
"""

import asyncio
import logging
from collections.abc import Iterator

from pyromq.client.consumer.group_member import GroupMember
from pyromq.client.consumer.incoming import UnreadableMessage
from pyromq.client.consumer.intervals import OwnedTasks
from pyromq.client.plans.send_back import send_back
from pyromq.client.push.calling import ListenerCaller
from pyromq.client.push.consume_outcome import Work, split
from pyromq.client.push.consumption import PulledConsumption
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.errors import PyroError
from pyromq.model import ReceivedMessage

_log = logging.getLogger("pyromq.client")

#: Seconds until a message that could not be sent back is tried again here.
TRY_AGAIN_S = 5.0
#: Overdue messages of one queue that are sent back at one look, and the delay level they get.
OVERDUE_MAX = 16
OVERDUE_LEVEL = 3


class ConcurrentConsumption(PulledConsumption):
    """Hands pulled messages to the listener, as many at once as the caller takes."""

    def __init__(self, member: GroupMember[ProcessQueue], caller: ListenerCaller) -> None:
        super().__init__(member, caller)
        self._tasks = OwnedTasks("pyromq-send-back")
        #: Calls that ended in this turn of the loop.
        self._works: list[Work] = []

    def consume(self, state: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Have the listener called with what a pull brought."""
        self.restore_topics(messages)
        size = self._member.session.settings.consume_message_batch_max_size
        for batch in _batches(messages, size):
            self._caller.submit(Work(state, batch, state.queue), self._ended)

    async def send_overdue_back(self) -> None:
        """Send messages back that listeners have had for too long, so that their queues' progress goes on."""
        timeout_ms = self._member.session.settings.consume_timeout * 60_000
        for state in tuple(self._member.queues.values()):
            for _ in range(OVERDUE_MAX):
                message = state.overdue(self._member.now_ms(), timeout_ms)
                if message is None or not await self._send_back(message, OVERDUE_LEVEL):
                    break
                _log.warning("message %s took its listener too long and was sent back", message.message_id)
                self._finish(state, [message])

    async def settle(self, grace_s: float) -> None:
        """Wait for what is being sent back, but not longer than that; then give it up."""
        self._settle_works()
        await self._tasks.wait(grace_s)
        await self._tasks.cancel()

    def _ended(self, work: Work) -> None:
        # Many calls end in one turn of the loop; their queues hear of it once.
        self._works.append(work)
        if len(self._works) == 1:
            asyncio.get_running_loop().call_soon(self._settle_works)

    def _settle_works(self) -> None:
        works, self._works = self._works, []
        done: dict[ProcessQueue, list[ReceivedMessage]] = {}
        spent_ms: dict[ProcessQueue, int] = {}
        for work in works:
            state = work.state
            if state is None or work.is_skipped:
                continue
            if work.is_plain_success and not state.is_dropped:
                done.setdefault(state, []).extend(work.messages)
                spent_ms[state] = spent_ms.get(state, 0) + work.spent_ms
            else:
                self._settle(state, work)
        member = self._member
        for state, messages in done.items():
            member.figures.consumed(state.queue.topic, len(messages), 0, spent_ms[state], member.now_ms())
            self._finish(state, messages)

    def _settle(self, state: ProcessQueue, work: Work) -> None:
        member = self._member
        done, failed = split(work.messages, work.verdict, work.ack_index)
        member.figures.consumed(state.queue.topic, len(done), len(failed), work.spent_ms, member.now_ms())
        if state.is_dropped:
            _log.info("%s went to another member while a listener had messages of it", state.queue)
        elif failed and member.is_clustering:
            self._tasks.start(self._retry(state, done, failed, work.delivery.delay_level))
        else:
            for message in failed:
                _log.warning("message %s failed; in broadcasting it does not come again", message.message_id)
            self._finish(state, work.messages)

    async def _retry(
        self, state: ProcessQueue, done: list[ReceivedMessage], failed: list[ReceivedMessage], level: int
    ) -> None:
        stuck = [message for message in failed if not await self._send_back(message, level)]
        sent_back = [message for message in failed if message not in stuck]
        self._finish(state, done + sent_back)
        if not stuck:
            return
        for message in stuck:
            message.reconsume_times += 1
        await asyncio.sleep(TRY_AGAIN_S)
        if not state.is_dropped:
            self.consume(state, stuck)

    def _finish(self, state: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Let messages of a queue go, and the group's progress with them."""
        offset = state.remove(messages, self._member.now_ms())
        if offset is not None and not state.is_dropped:
            state.progress.finish_to(offset)
        self._member.has_room.set()

    async def _send_back(self, message: ReceivedMessage, level: int) -> bool:
        member = self._member
        try:
            await member.driver.run(send_back(member.session, message, level, self.times_max))
        except PyroError as error:
            _log.warning("message %s could not be sent back: %s", message.message_id, error)
            return False
        return True


def _batches(messages: list[ReceivedMessage], size: int) -> Iterator[list[ReceivedMessage]]:
    """Return messages in lists for one call each; one that cannot be read is alone, and fails alone."""
    batch: list[ReceivedMessage] = []
    for message in messages:
        if isinstance(message, UnreadableMessage):
            yield [message]
            continue
        batch.append(message)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
