"""The outlet of a push consumer that pops: messages go to the listener, and brokers are told what ended.

`pop_concurrent` and `pop_orderly` are its two kinds.

    pop ─► PoppedBatch ─► listener ─► done: BATCH_ACK    failed: again later    too often: a dead letter
               └─ takes long: renewed, up to consume_timeout
"""

import logging
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyromq.client.consumer.group_member import GroupMember
from pyromq.client.consumer.incoming import held_bytes
from pyromq.client.plans.pop_plans import PopQuery, pop, pop_deadline
from pyromq.client.plans.send_back import NEVER_AGAIN, send_back, send_to_retry_topic
from pyromq.client.pop.acknowledgements import Acknowledgements
from pyromq.client.pop.popped_batch import PoppedBatch
from pyromq.client.push.calling import ListenerCaller
from pyromq.client.push.consume_outcome import Work
from pyromq.client.push.consumption import Consumption
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.client.steps import Plan
from pyromq.errors import PyroError
from pyromq.model import ConsumeFrom, MessageQueue, PullResult, PullStatus, ReceivedMessage
from pyromq.wire.receipt_handle import MARK_TOPIC

_log = logging.getLogger("pyromq.client")

#: A batch is renewed when less than this part of its invisible time is left; one in so many looks finds it.
RENEW_PART: Final = 1 / 3
LOOKS: Final = 12
#: What is left at the end comes to other members after so long.
GIVE_BACK_MS: Final = 1_000
#: Seconds for telling brokers so.
GIVE_BACK_S: Final = 2.0


class PoppedWork(Work):
    """Popped messages for one call of the listener."""

    __slots__ = ("batch",)

    def __init__(self, batch: PoppedBatch, messages: list[ReceivedMessage], queue: MessageQueue) -> None:
        super().__init__(None, messages, queue)
        self.batch = batch

    @property
    def is_dropped(self) -> bool:
        """Whether the messages' time is over, so that others may have them."""
        return self.batch.is_dropped


@dataclass(frozen=True, slots=True)
class PoppedResult(PullResult):
    """The result of a pop, where that of a pull is expected; its offsets mean nothing."""

    batches: Sequence[PoppedBatch] = ()


class PopConsumption(Consumption):
    """Calls of the listener for messages that are popped."""

    def __init__(self, member: GroupMember[ProcessQueue], caller: ListenerCaller) -> None:
        super().__init__(member, caller)
        self._acknowledgements = Acknowledgements(member)
        #: Batches of which something is left, and whose queue counts it.
        self._live: dict[PoppedBatch, ProcessQueue] = {}
        self._is_closing = False

    @abstractmethod
    def consume_batch(self, batch: PoppedBatch, messages: list[ReceivedMessage]) -> None:
        """Have the listener called with messages of one queue."""

    @abstractmethod
    async def settle_works(self, grace_s: float) -> None:
        """Wait for what follows the last calls, but not longer than that; then give it up."""

    # The outlet ---------------------------------------------------------------------------------------

    def new_queue(self, queue: MessageQueue, now_ms: int) -> ProcessQueue:
        """Return the state of a queue that is popped."""
        state = ProcessQueue(queue, now_ms)
        # Where to pop is the broker's to know.
        state.progress.place(0, finished=None, committed=None)
        return state

    def pull(self, state: ProcessQueue) -> Plan[PullResult]:
        """Return the plan of a queue's next pop."""
        return self._pop(state)

    def _pop(self, state: ProcessQueue) -> Plan[PullResult]:
        member, settings = self._member, self._member.session.settings
        wanted = PopQuery(
            queue=state.queue,
            subscription=member.subscriptions[state.queue.topic],
            count=settings.pop_batch_nums,
            invisible_ms=settings.pop_invisible_time,
            wait_ms=settings.push_suspend_max_time_millis,
            from_min=member.terms.start.where is ConsumeFrom.FIRST_OFFSET,
            is_fifo=member.is_orderly,
            attempt_id=self.attempt_id(state),
        )
        popped = yield from pop(member.session, wanted, pop_deadline(member.session))
        messages = popped.messages
        status = PullStatus.FOUND if messages else PullStatus.NO_NEW_MESSAGE
        return PoppedResult(status, 0, 0, 0, messages, batches=popped.batches)

    def attempt_id(self, _state: ProcessQueue) -> str | None:
        """Return the name of a queue's next pop, if pops have one."""
        return None

    def pulled(self, state: ProcessQueue, result: PullResult) -> None:
        """Take what a pop brought."""
        assert isinstance(result, PoppedResult), "what is pulled here was popped"
        for batch in result.batches:
            messages, batch.messages = batch.messages, []
            self._live[batch] = state
            state.count += len(messages)
            state.bytes += sum(map(held_bytes, messages))
            if self._is_closing:
                self._give_back(batch)
            else:
                self.consume_batch(batch, messages)

    async def close(self) -> None:
        """Wait for calls that run and for what follows them, and give the rest back to the group."""
        self._is_closing = True
        await super().close()

    async def settle(self, grace_s: float) -> None:
        """Tell brokers what has ended and what has not; then give it up."""
        await self.settle_works(grace_s)
        for batch in tuple(self._live):
            self._give_back(batch)
        await self._acknowledgements.settle(min(grace_s, GIVE_BACK_S) or GIVE_BACK_S)

    def _give_back(self, batch: PoppedBatch) -> None:
        for offset in batch.offsets:
            if batch.has_left(offset):
                self._acknowledgements.again(batch, offset, GIVE_BACK_MS)
        self._live.pop(batch, None)

    # What ends ----------------------------------------------------------------------------------------

    def finish(self, batch: PoppedBatch, messages: Sequence[ReceivedMessage]) -> None:
        """Have messages acknowledged."""
        batch.finish(batch.bits(messages))
        if batch.done:
            self._acknowledgements.done(batch)
        self.release(batch)

    def retry(self, batch: PoppedBatch, message: ReceivedMessage, delay_ms: int) -> None:
        """Have a message come again after so long, if it is this consumer's still."""
        if batch.has_left(message.queue_offset):
            self._acknowledgements.again(batch, message.queue_offset, delay_ms)
        self.release(batch)

    def uncount(self, batch: PoppedBatch, messages: Sequence[ReceivedMessage]) -> None:
        """Make room for others: messages left the listener."""
        state = self._live.get(batch)
        if state is not None:
            state.count -= len(messages)
            state.bytes = state.bytes - sum(map(held_bytes, messages)) if state.count else 0
            self._member.has_room.set()

    def release(self, batch: PoppedBatch) -> None:
        """Forget a batch of which nothing is left."""
        if not batch.left:
            self._live.pop(batch, None)

    async def bury(self, batch: PoppedBatch, message: ReceivedMessage) -> bool:
        """Make a message a dead letter of the group, and end it; return whether that worked."""
        try:
            await self._member.driver.run(self._burial(batch, message))
        except PyroError as error:
            _log.warning("message %s did not get to the dead letters: %s", message.message_id, error)
            return False
        self.finish(batch, [message])
        return True

    def _burial(self, batch: PoppedBatch, message: ReceivedMessage) -> Plan[None]:
        session = self._member.session
        if batch.mark == MARK_TOPIC:
            return send_back(session, message, NEVER_AGAIN, self.times_max)
        # The broker would note the retry topic as the message's own.
        return send_to_retry_topic(session, message, message.reconsume_times, gives_up=True)

    # Time ---------------------------------------------------------------------------------------------

    @property
    def renewal_s(self) -> float:
        """Seconds between two looks for messages that take long."""
        return self._member.session.settings.pop_invisible_time / 1_000 / LOOKS

    async def renew(self) -> None:
        """Have messages stay invisible that listeners have, or that wait for one; but not for ever."""
        session = self._member.session
        longest_s = session.settings.consume_timeout * 60.0
        now_s = session.clock.monotonic()
        for batch in tuple(self._live):
            if batch.rest_s > batch.invisible_ms / 1_000 * RENEW_PART:
                continue
            if batch.is_dropped:
                _log.warning("%d messages of %s come again: their time is over", batch.count, batch.topic)
                batch.forget(batch.left)
                self._live.pop(batch)
            elif now_s - batch.popped_s < longest_s:
                self._acknowledgements.longer(batch)
