"""The pulls of a member: one task for each queue, with one pull in flight.

| answer                                | the next pull                                      |
| ------------------------------------- | -------------------------------------------------- |
| messages, or none                     | at once (`pull_interval` after messages)           |
| too much of the queue waits here      | when there is room, looked at every 50 ms          |
| consumer suspended, queue paused      | when it is resumed                                 |
| no lock (in order)                    | after 3 s                                          |
| no answer, or a master no more        | after 1 s, from where a fresh route says           |
| the broker does not know this member  | after 0.5 s, and a heartbeat                       |
| another refusal                       | after 3 s; a broker that is busy, 20 ms            |
| the offset is none of the queue's     | where the broker says: at once, a listener's in 10 s|
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic

from pyromq.client.consumer.flow_limits import BUSY_PAUSE_S, FLOW_PAUSE_S, SUSPENDED_PAUSE_S
from pyromq.client.consumer.group_member import ConsumerOutlet, GroupMember, Q
from pyromq.client.consumer.intervals import end, wait
from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.plans.progress_plans import starting_offset
from pyromq.codes import ResponseCode
from pyromq.errors import NetworkError, NoRoute, PyroError, Refused, ServiceNotAvailable, SystemBusy
from pyromq.model import PullResult, PullStatus

_log = logging.getLogger("pyromq.client")

#: Seconds from an offset that is none of the queue's to its correction: listeners may end meanwhile.
CORRECTION_S = 10.0
#: Seconds until the next pull when the broker is gone, and when it does not know this member yet.
GONE_PAUSE_S = 1.0
UNKNOWN_PAUSE_S = 0.5
#: Answers of a broker that has forgotten this member, or has not heard of its newest subscription.
_UNKNOWN_TO_BROKER = (
    ResponseCode.SUBSCRIPTION_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_NOT_LATEST,
)


class QueuePulls(Generic[Q]):
    """Pulls a member's queues for its outlet. `go_on` has a queue read from another offset."""

    def __init__(
        self,
        member: GroupMember[Q],
        outlet: ConsumerOutlet[Q],
        go_on: Callable[[Q, int], Awaitable[None]],
    ) -> None:
        self._member = member
        self._outlet = outlet
        self._go_on = go_on
        self._tasks: dict[Q, asyncio.Task[None]] = {}

    def start(self, state: Q) -> None:
        """Pull a queue until `stop`."""
        task = asyncio.create_task(self._keep_pulling(state), name="pyromq-pull")
        self._tasks[state] = task
        task.add_done_callback(lambda ended: self._ended(state, ended))

    def stop(self, state: Q) -> None:
        """Pull a queue no more."""
        task = self._tasks.pop(state, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def close(self) -> None:
        """Pull nothing more."""
        tasks = tuple(self._tasks.values())
        self._tasks.clear()
        await end(tasks)

    async def place(self, state: Q) -> None:
        """Learn where to begin with a queue: at the committed offset, or where a new group begins.

        A start that nobody reached is progress for whoever polls, and none for a listener, as in RocketMQ. A
        listener's progress is committed once in any case: a broker says 0 also of a new group that it has no
        offset of, and operators look for the group's queues.
        """
        member = self._member
        plan = starting_offset(member.session, member.terms.start, state.queue)
        offset, committed = await member.driver.run(plan)
        if member.terms.is_passive:
            state.progress.place(offset, finished=committed, committed=None)
        else:
            state.progress.place(offset, finished=offset, committed=committed)

    def _ended(self, state: Q, task: asyncio.Task[None]) -> None:
        if self._tasks.get(state) is task:
            del self._tasks[state]
        if not task.cancelled() and (error := task.exception()) is not None:
            # The next rebalance finds the queue idle and takes it anew.
            _log.error("%s is not pulled any more", state.queue, exc_info=error)

    async def _keep_pulling(self, state: Q) -> None:
        while not state.is_dropped:
            state.pulled_at_ms = self._member.now_ms()
            if await self._is_held_back(state):
                continue
            result = await self._pull(state)
            if result is None or state.is_dropped:
                continue
            if result.status is PullStatus.OFFSET_ILLEGAL and await self._is_given_up(state, result):
                return
            self._outlet.pulled(state, result)
            if result.messages:
                await asyncio.sleep(self._member.session.settings.pull_interval / 1_000)

    async def _is_held_back(self, state: Q) -> bool:
        """Wait for what stands against a pull, if anything does, and return whether it did."""
        member = self._member
        if not member.is_resumed.is_set():
            await wait(member.is_resumed, SUSPENDED_PAUSE_S)
            return True
        full = member.why_full(state)
        if full is not None or state.is_paused:
            _log.debug("%s is not pulled: %s", state.queue, full or "it is paused")
            member.has_room.clear()
            await wait(member.has_room, FLOW_PAUSE_S if full is not None else SUSPENDED_PAUSE_S)
            return True
        is_unlocked = member.has_locks and not state.is_locked
        is_unwanted = member.terms.is_passive and state.queue.topic not in member.subscriptions
        if is_unlocked or is_unwanted:
            await asyncio.sleep(self._error_pause_s)
            return True
        return False

    async def _pull(self, state: Q) -> PullResult | None:
        """Return the answer of a pull; after a failure wait, and return None."""
        member, queue = self._member, state.queue
        began_ms = member.now_ms()
        try:
            if not state.progress.is_placed:
                await self.place(state)
            result = await member.driver.run(self._outlet.pull(state))
        except PyroError as error:
            self._note_failure(state, error)
            await asyncio.sleep(self._pause_s(error))
            return None
        state.failure = None
        if result.messages:
            now_ms = member.now_ms()
            member.figures.pulled(queue.topic, len(result.messages), now_ms - began_ms, now_ms)
        return result

    def _note_failure(self, state: Q, error: PyroError) -> None:
        code = error.code if isinstance(error, Refused) else None
        if code in _UNKNOWN_TO_BROKER:
            self._member.is_unknown.set()
        is_news = str(error) != str(state.failure) and not state.queue.topic.startswith(RETRY_TOPIC_PREFIX)
        _log.log(logging.WARNING if is_news else logging.DEBUG, "%s was not pulled: %s", state.queue, error)
        state.failure = error
        self._outlet.note_failure()

    async def _is_given_up(self, state: Q, result: PullResult) -> bool:
        """Go on at the offset that the broker names; return whether another task does so."""
        member, offset = self._member, result.next_offset
        if not member.terms.is_passive:
            _log.warning(
                "%s has no offset %s; it is read from %s", state.queue, state.progress.next_offset, offset
            )
            if offset == state.progress.next_offset:
                await asyncio.sleep(GONE_PAUSE_S)
            return False
        _log.warning("%s has no such offset; it goes on at %d in %d s", state.queue, offset, CORRECTION_S)
        state.is_dropped = True
        await asyncio.sleep(CORRECTION_S)
        await self._go_on(state, offset)
        return True

    def _pause_s(self, error: PyroError) -> float:
        """Return how long to wait after a failed pull."""
        code = error.code if isinstance(error, Refused) else None
        if code == ResponseCode.FLOW_CONTROL or isinstance(error, SystemBusy):
            return BUSY_PAUSE_S
        if code in _UNKNOWN_TO_BROKER:
            return min(UNKNOWN_PAUSE_S, self._error_pause_s)
        is_gone = isinstance(error, NetworkError | NoRoute | ServiceNotAvailable)
        return min(GONE_PAUSE_S, self._error_pause_s) if is_gone else self._error_pause_s

    @property
    def _error_pause_s(self) -> float:
        return self._member.session.settings.pull_time_delay_mills_when_exception / 1_000
