"""The listener is called for one message of a queue after the other; a failed one is tried again first.

A queue is consumed by the member that holds its lock at the broker, and here by one task. So between two
members there is no moment when both consume: the one that lets a queue go finishes its message first.
"""

import asyncio
import logging

from pyromq.client.consumer.group_member import GroupMember
from pyromq.client.consumer.incoming import UnreadableMessage
from pyromq.client.consumer.intervals import OwnedTasks
from pyromq.client.plans.lock_plans import lock
from pyromq.client.plans.send_back import NEVER_AGAIN, send_back, send_to_retry_topic
from pyromq.client.push.calling import ListenerCaller, call_now
from pyromq.client.push.consume_outcome import Work, suspend_s
from pyromq.client.push.consumption import PulledConsumption
from pyromq.client.push.delivery import ConsumeResult
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.client.steps import Plan
from pyromq.errors import PyroError
from pyromq.model import MessageQueue, ReceivedMessage

_log = logging.getLogger("pyromq.client")

#: Seconds until a queue whose lock was lost is looked at again: locked again, or not.
LOCKED_PAUSE_S = 0.01
UNLOCKED_PAUSE_S = 3.0
#: Seconds for what follows a listener's last answers at the end; queues that pause take all of it.
LAST_NOTES_S = 0.05
#: Seconds that a rebalance waits for the message a queue's listener has.
LISTENER_WAIT_S = 1.0


class OrderlyConsumption(PulledConsumption):
    """Hands a queue's messages to the listener, a batch at a time."""

    def __init__(self, member: GroupMember[ProcessQueue], caller: ListenerCaller) -> None:
        super().__init__(member, caller)
        self._tasks = OwnedTasks("pyromq-orderly")
        self._turns: dict[MessageQueue, asyncio.Lock] = {}

    def consume(self, state: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Have a queue's messages consumed, unless somebody is at it."""
        self.restore_topics(messages)
        if not state.is_consuming:
            state.is_consuming = True
            self._tasks.start(self._consume(state))

    async def let_go(self, state: ProcessQueue) -> bool:
        """Wait until the listener has nothing of a queue any more; return False when it takes too long."""
        turn = self._turn(state)
        try:
            async with asyncio.timeout(LISTENER_WAIT_S), turn:
                pass
        except TimeoutError:
            state.unlock_tries += 1
            _log.warning("%s is still being consumed; it is let go later", state.queue)
            return False
        self._turns.pop(state.queue, None)
        return True

    async def settle(self, _grace_s: float) -> None:
        """Stop consuming; the caller has ended its calls, and what came of the last ones is noted first."""
        for state in self._member.queues.values():
            state.is_dropped = state.is_leaving = True
        await self._tasks.wait(LAST_NOTES_S)
        await self._tasks.cancel()

    async def _consume(self, state: ProcessQueue) -> None:
        try:
            while not state.is_dropped:
                if not await self._is_locked(state):
                    continue
                async with self._turn(state):
                    pause_s = await self._consume_next(state)
                if pause_s is None:
                    return
                if pause_s:
                    await asyncio.sleep(pause_s)
        finally:
            state.is_consuming = False

    async def _is_locked(self, state: ProcessQueue) -> bool:
        member = self._member
        life_ms = member.session.settings.rebalance_lock_max_live_time
        if not member.is_clustering or state.holds_lock(member.now_ms(), life_ms):
            return True
        is_locked = await self._lock(state)
        await asyncio.sleep(LOCKED_PAUSE_S if is_locked else UNLOCKED_PAUSE_S)
        return False

    async def _lock(self, state: ProcessQueue) -> bool:
        member = self._member
        try:
            locked = await member.driver.run(lock(member.session, [state.queue]))
        except PyroError as error:
            _log.warning("%s could not be locked: %s", state.queue, error)
            return False
        if state.queue in locked:
            state.lock(member.now_ms())
        return state.queue in locked

    async def _consume_next(self, state: ProcessQueue) -> float | None:
        """Consume the next batch; return the seconds to wait before the one after it, None for no more."""
        member = self._member
        if state.is_dropped:
            return None
        size = member.session.settings.consume_message_batch_max_size
        messages = state.take(size, member.now_ms())
        if not messages:
            return None
        work = Work(state, messages, state.queue)
        await call_now(self._caller, work)
        if work.is_skipped:
            state.put_back(messages)
            return None
        return await self._ended(state, work)

    async def _ended(self, state: ProcessQueue, work: Work) -> float | None:
        member, delivery, verdict = self._member, work.delivery, work.verdict
        is_failed = verdict in (ConsumeResult.RECONSUME_LATER, ConsumeResult.ROLLBACK)
        count = len(work.messages)
        member.figures.consumed(
            state.queue.topic,
            0 if is_failed else count,
            count if is_failed else 0,
            work.spent_ms,
            member.now_ms(),
        )
        pause_s = suspend_s(delivery.suspend_ms, member.session.settings.suspend_current_queue_time_millis)
        if verdict is ConsumeResult.RECONSUME_LATER:
            if await self._are_to_come_again(state, work.messages, delivery.delay_level):
                state.put_back(work.messages)  # without those that were buried
                return pause_s
            if delivery.auto_commit:
                self._commit(state)
            return 0.0
        if verdict is ConsumeResult.ROLLBACK and not delivery.auto_commit:
            state.put_back()
            return pause_s
        # RocketMQ takes a ROLLBACK that commits by itself for a success, and so do we.
        if delivery.auto_commit or verdict is ConsumeResult.COMMIT:
            self._commit(state)
        return 0.0

    def _commit(self, state: ProcessQueue) -> None:
        offset = state.commit()
        # A queue that is being let go is this member's until its lock is given back.
        if offset is not None and (not state.is_dropped or state.is_leaving):
            state.progress.finish_to(offset)
        self._member.has_room.set()

    async def _are_to_come_again(
        self, state: ProcessQueue, messages: list[ReceivedMessage], level: int
    ) -> bool:
        """Count the try; messages that had enough, or that the listener gives up, go to the dead letters."""
        buried = []
        for message in messages:
            # What cannot be read would hold up its queue for good.
            is_hopeless = level == NEVER_AGAIN or isinstance(message, UnreadableMessage)
            is_over = is_hopeless or message.reconsume_times >= self.times_max
            if is_over and await self._bury(message):
                buried.append(message)
            else:
                message.reconsume_times += 1
        if len(buried) == len(messages):
            return False
        state.forget(buried)
        return True

    async def _bury(self, message: ReceivedMessage) -> bool:
        member = self._member
        if not member.is_clustering:
            _log.warning("message %s failed too often and is given up", message.message_id)
            return True
        try:
            await member.driver.run(self._burial(message))
        except PyroError as error:
            _log.warning("message %s did not get to the dead letters: %s", message.message_id, error)
            return False
        return True

    def _burial(self, message: ReceivedMessage) -> Plan[None]:
        session = self._member.session
        if isinstance(message, UnreadableMessage):
            return send_back(session, message, NEVER_AGAIN, self.times_max)
        return send_to_retry_topic(session, message, message.reconsume_times, gives_up=True)

    def _turn(self, state: ProcessQueue) -> asyncio.Lock:
        turn = self._turns.get(state.queue)
        return turn if turn is not None else self._turns.setdefault(state.queue, asyncio.Lock())
