"""The listener is called for many popped messages at once, in no order; one that fails comes again later.

| a message that fails                | comes                                                        |
| ----------------------------------- | ------------------------------------------------------------ |
| the first times                     | again to any member: after 10 s, 30 s, 1 minute … 2 hours    |
| for the last time                   | to the group's dead letters                                  |
| and its body cannot be read here    | the same way, and its listener is not called                 |
"""

import asyncio
import logging
from typing import Final

from pyromq.client.consumer.group_member import GroupMember
from pyromq.client.consumer.intervals import OwnedTasks
from pyromq.client.plans.send_back import FIRST_LEVEL, NEVER_AGAIN
from pyromq.client.pop.pop_consumption import PopConsumption, PoppedWork
from pyromq.client.pop.popped_batch import PoppedBatch
from pyromq.client.push.calling import ListenerCaller
from pyromq.client.push.consume_outcome import Work, split
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.model import ReceivedMessage

_log = logging.getLogger("pyromq.client")

#: Milliseconds of RocketMQ's delay levels 1 to 18.
DELAYS_MS: Final = tuple(
    1_000 * seconds
    for seconds in (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
)
#: A message that did not get to the dead letters is tried again after so long.
BURY_AGAIN_MS: Final = 5_000


class PopConcurrent(PopConsumption):
    """Hands popped messages to the listener, as many at once as the caller takes."""

    def __init__(self, member: GroupMember[ProcessQueue], caller: ListenerCaller) -> None:
        super().__init__(member, caller)
        self._tasks = OwnedTasks("pyromq-bury")
        #: Calls that ended in this turn of the loop.
        self._works: list[PoppedWork] = []

    def consume_batch(self, batch: PoppedBatch, messages: list[ReceivedMessage]) -> None:
        """Have the listener called with what a pop brought of one queue."""
        size = self._member.session.settings.consume_message_batch_max_size
        submit, ended, queue = self._caller.submit, self._ended, messages[0].queue
        if size == 1:
            for message in messages:
                submit(PoppedWork(batch, [message], queue), ended)
            return
        for begin in range(0, len(messages), size):
            submit(PoppedWork(batch, messages[begin : begin + size], queue), ended)

    async def settle_works(self, grace_s: float) -> None:
        """Note what the last calls ended with, and wait for burials."""
        self._settle_works()
        await self._tasks.wait(grace_s)
        await self._tasks.cancel()

    def _ended(self, work: Work) -> None:
        assert isinstance(work, PoppedWork), "what is called here was popped"
        # Many calls end in one turn of the loop; their brokers hear of them in one request.
        self._works.append(work)
        if len(self._works) == 1:
            asyncio.get_running_loop().call_soon(self._settle_works)

    def _settle_works(self) -> None:
        works, self._works = self._works, []
        done: dict[PoppedBatch, list[ReceivedMessage]] = {}
        spent_ms: dict[PoppedBatch, int] = {}
        for work in works:
            batch = work.batch
            if work.is_skipped:
                self._skipped(work)
            elif work.is_plain_success:
                done.setdefault(batch, []).extend(work.messages)
                spent_ms[batch] = spent_ms.get(batch, 0) + work.spent_ms
            else:
                self._settle(work)
        member = self._member
        for batch, messages in done.items():
            member.figures.consumed(batch.topic, len(messages), 0, spent_ms[batch], member.now_ms())
            self.uncount(batch, messages)
            self.finish(batch, messages)

    def _skipped(self, work: PoppedWork) -> None:
        self.uncount(work.batch, work.messages)
        if not self._is_closing:
            # Others have them by now.
            work.batch.forget(work.batch.bits(work.messages))
            self.release(work.batch)

    def _settle(self, work: PoppedWork) -> None:
        member, batch = self._member, work.batch
        done, failed = split(work.messages, work.verdict, work.ack_index)
        member.figures.consumed(batch.topic, len(done), len(failed), work.spent_ms, member.now_ms())
        self.uncount(batch, work.messages)
        if done:
            self.finish(batch, done)
        level = work.delivery.delay_level
        for message in failed:
            if level == NEVER_AGAIN or message.reconsume_times >= self.times_max:
                self._tasks.start(self._bury(batch, message))
            else:
                self.retry(batch, message, delay_ms(level, message.reconsume_times))

    async def _bury(self, batch: PoppedBatch, message: ReceivedMessage) -> None:
        if not await self.bury(batch, message):
            self.retry(batch, message, BURY_AGAIN_MS)


def delay_ms(level: int, times: int) -> int:
    """Return when a message comes again: at a delay level, or with 0 later each time, as in RocketMQ."""
    chosen = level if level > 0 else FIRST_LEVEL + times
    return DELAYS_MS[min(chosen, len(DELAYS_MS)) - 1]
