"""The listener is called for one popped message of a queue after the other; a failed one again first.

The broker hands out no more of a queue while a batch of it is not finished. So there is nothing to lock: one
task here consumes a batch, and the next batch of the queue is the one behind it, or the same one again.
"""

import asyncio
import logging
import secrets
from collections import deque

from pyromq.client.consumer.group_member import GroupMember
from pyromq.client.consumer.incoming import UnreadableMessage
from pyromq.client.consumer.intervals import OwnedTasks
from pyromq.client.plans.send_back import NEVER_AGAIN
from pyromq.client.pop.pop_consumption import PopConsumption, PoppedWork
from pyromq.client.pop.popped_batch import PoppedBatch
from pyromq.client.push.calling import ListenerCaller, call_now
from pyromq.client.push.consume_outcome import split, suspend_s
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.model import MessageQueue, PullResult, ReceivedMessage

_log = logging.getLogger("pyromq.client")

#: Seconds for what follows a listener's last answers at the end.
LAST_NOTES_S = 0.05


class PopOrderly(PopConsumption):
    """Hands a queue's messages to the listener, a few at a time."""

    def __init__(self, member: GroupMember[ProcessQueue], caller: ListenerCaller) -> None:
        super().__init__(member, caller)
        self._tasks = OwnedTasks("pyromq-pop-orderly")
        self._turns: dict[tuple[str, str, int, int], asyncio.Lock] = {}
        self._attempts: dict[MessageQueue, str] = {}

    def attempt_id(self, state: ProcessQueue) -> str:
        """Return the name of a queue's next pop: that of the last one until it is answered.

        A pop whose answer was lost is asked for again by the same name, and gets the same messages.
        """
        attempt = self._attempts.get(state.queue)
        if attempt is None:
            attempt = self._attempts[state.queue] = secrets.token_hex(16)
        return attempt

    def pulled(self, state: ProcessQueue, result: PullResult) -> None:
        """Take what a pop brought."""
        self._attempts.pop(state.queue, None)
        super().pulled(state, result)

    def consume_batch(self, batch: PoppedBatch, messages: list[ReceivedMessage]) -> None:
        """Have a queue's messages consumed, once what was popped of it before has ended."""
        self._tasks.start(self._consume(batch, deque(messages)))

    async def settle_works(self, _grace_s: float) -> None:
        """Stop consuming; the caller has ended its calls, and what came of the last ones is noted first."""
        await self._tasks.wait(LAST_NOTES_S)
        await self._tasks.cancel()

    async def _consume(self, batch: PoppedBatch, waiting: deque[ReceivedMessage]) -> None:
        key = batch.topic, batch.broker_name, batch.mark, batch.queue_id
        turn = self._turns.setdefault(key, asyncio.Lock())
        try:
            async with turn:
                while waiting and not batch.is_dropped and not self._is_closing:
                    pause_s = await self._consume_next(batch, waiting)
                    if pause_s:
                        await asyncio.sleep(pause_s)
        finally:
            self.uncount(batch, waiting)
            if not self._is_closing:
                batch.forget(batch.left)
                self.release(batch)

    async def _consume_next(self, batch: PoppedBatch, waiting: deque[ReceivedMessage]) -> float:
        """Consume the next messages; return the seconds to wait before those after them."""
        member = self._member
        size = member.session.settings.consume_message_batch_max_size
        messages = [waiting.popleft() for _ in range(min(size, len(waiting)))]
        work = PoppedWork(batch, messages, messages[0].queue)
        await call_now(self._caller, work)
        if work.is_skipped:
            waiting.extendleft(reversed(messages))
            return 0.0
        done, failed = split(messages, work.verdict, work.ack_index)
        member.figures.consumed(batch.topic, len(done), len(failed), work.spent_ms, member.now_ms())
        if done:
            self.uncount(batch, done)
            self.finish(batch, done)
        level = work.delivery.delay_level
        kept = [message for message in failed if await self._is_to_come_again(batch, message, level)]
        waiting.extendleft(reversed(kept))
        if not kept:
            return 0.0
        return suspend_s(work.delivery.suspend_ms, member.session.settings.suspend_current_queue_time_millis)

    async def _is_to_come_again(self, batch: PoppedBatch, message: ReceivedMessage, level: int) -> bool:
        """Count the try; a message that had enough, or is given up, goes to the dead letters."""
        # What cannot be read would hold up its queue for good.
        is_hopeless = level == NEVER_AGAIN or isinstance(message, UnreadableMessage)
        is_over = is_hopeless or message.reconsume_times >= self.times_max
        if is_over and await self.bury(batch, message):
            self.uncount(batch, [message])
            return False
        message.reconsume_times += 1
        return True
