"""One task for each queue, with one pull under way: what it brings goes to the listener, then the next.

| what happens                          | the next pull                                   |
| ------------------------------------- | ----------------------------------------------- |
| messages, or none                     | at once (`pull_interval` after messages)        |
| too much of the queue waits here      | when there is room, looked at every 50 ms       |
| the consumer is suspended             | when it is resumed                              |
| no lock (in order)                    | after 3 s                                       |
| no answer, or a master no more        | after 1 s, from where a fresh route says        |
| the broker does not know this member  | after 0.5 s, and a heartbeat                    |
| another refusal                       | after 3 s; a broker that is busy, 20 ms         |
| the offset is none of the queue's     | never: the queue goes, and comes anew after 10 s|
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.plans.held_pull import HeldPull, held_pull
from pyromq.client.push.flow import BUSY_PAUSE_S, FLOW_PAUSE_S, SUSPENDED_PAUSE_S, why_full
from pyromq.client.push.member import Member
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.client.push.timers import end, wait
from pyromq.codes import ResponseCode
from pyromq.errors import NetworkError, NoRoute, PyroError, Refused, ServiceNotAvailable
from pyromq.model import MessageQueue, PullResult, PullStatus, ReceivedMessage

_log = logging.getLogger("pyromq.client")

#: Seconds from an offset that is none of the queue's to its correction: what is under way may end.
CORRECTION_S = 10.0
#: Seconds until the next pull when the broker is gone, and when it does not know this member yet.
GONE_PAUSE_S = 1.0
UNKNOWN_PAUSE_S = 0.5
#: Answers of a broker that has forgotten this member, or has not heard of its newest subscription.
_UNKNOWN_TO_BROKER = (
    ResponseCode.SUBSCRIPTION_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_NOT_LATEST,
)


class Consumption(Protocol):
    """Whoever hands pulled messages to the listener."""

    def pulled(self, state: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Take what a pull brought."""
        ...


class Pulling:
    """Pulls this member's queues. `let_go` gives a queue back, as a rebalance does."""

    def __init__(
        self,
        member: Member,
        consumption: Consumption,
        let_go: Callable[[MessageQueue], Awaitable[None]],
    ) -> None:
        self._member = member
        self._consumption = consumption
        self._let_go = let_go
        self._tasks: dict[ProcessQueue, asyncio.Task[None]] = {}

    def start(self, state: ProcessQueue, offset: int) -> None:
        """Pull a queue from an offset on, until `stop`."""
        task = asyncio.create_task(self._keep_pulling(state, offset), name="pyromq-pull")
        self._tasks[state] = task
        task.add_done_callback(lambda ended: self._ended(state, ended))

    def stop(self, state: ProcessQueue) -> None:
        """Pull a queue no more."""
        task = self._tasks.pop(state, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def close(self) -> None:
        """Pull nothing more."""
        tasks = tuple(self._tasks.values())
        self._tasks.clear()
        await end(tasks)

    def _ended(self, state: ProcessQueue, task: asyncio.Task[None]) -> None:
        if self._tasks.get(state) is task:
            del self._tasks[state]
        if not task.cancelled() and (error := task.exception()) is not None:
            # The next rebalance finds the queue idle and takes it anew.
            _log.error("%s is not pulled any more", state.queue, exc_info=error)

    async def _keep_pulling(self, state: ProcessQueue, offset: int) -> None:
        while not state.is_dropped:
            state.pulled_at_ms = self._member.now_ms()
            if await self._is_held_back(state):
                continue
            result = await self._pull(state, offset)
            if result is None or state.is_dropped:
                continue
            offset = result.next_offset
            if result.status is PullStatus.OFFSET_ILLEGAL:
                await self._correct(state, offset)
                return
            if result.messages:
                state.put(result.messages)
                self._consumption.pulled(state, result.messages)
                await asyncio.sleep(self._member.session.settings.pull_interval / 1_000)
            elif not state.count:
                # Filters took all there was: nothing before this offset is left to do.
                self._member.progress.offsets.rise(state.queue, offset)

    async def _is_held_back(self, state: ProcessQueue) -> bool:
        """Wait for what stands against a pull, if anything does, and return whether it did."""
        member = self._member
        if not member.is_resumed.is_set():
            await wait(member.is_resumed, SUSPENDED_PAUSE_S)
            return True
        full = why_full(state, member.limits, is_orderly=member.is_orderly)
        if full is not None:
            _log.debug("%s is not pulled: %s", state.queue, full)
            member.has_room.clear()
            await wait(member.has_room, FLOW_PAUSE_S)
            return True
        if member.is_orderly and member.is_clustering and not state.is_locked:
            await asyncio.sleep(self._error_pause_s)
            return True
        if state.queue.topic not in member.subscriptions:
            await asyncio.sleep(self._error_pause_s)
            return True
        return False

    async def _pull(self, state: ProcessQueue, offset: int) -> PullResult | None:
        """Return what a pull brought; after a failure wait, and return None."""
        member, queue = self._member, state.queue
        progress = member.progress.offsets.get(queue) if member.is_clustering else None
        wanted = HeldPull(queue, offset, member.subscriptions[queue.topic], progress)
        began_ms = member.now_ms()
        try:
            result = await member.driver.run(held_pull(member.session, wanted))
        except PyroError as error:
            code = error.code if isinstance(error, Refused) else None
            if code in _UNKNOWN_TO_BROKER:
                member.is_unknown.set()
            level = logging.DEBUG if queue.topic.startswith(RETRY_TOPIC_PREFIX) else logging.WARNING
            _log.log(level, "%s was not pulled: %s", queue, error)
            await asyncio.sleep(self._pause_s(error))
            return None
        if result.messages:
            now_ms = member.now_ms()
            member.figures.pulled(queue.topic, len(result.messages), now_ms - began_ms, now_ms)
        return result

    async def _correct(self, state: ProcessQueue, offset: int) -> None:
        """Go on at the offset that the broker named, after a pause in which listeners may end."""
        _log.warning("%s has no such offset; it goes on at %d in %d s", state.queue, offset, CORRECTION_S)
        state.is_dropped = True
        await asyncio.sleep(CORRECTION_S)
        self._member.progress.offsets.set(state.queue, offset)
        await self._let_go(state.queue)

    def _pause_s(self, error: PyroError) -> float:
        """Return how long to wait after a failed pull."""
        code = error.code if isinstance(error, Refused) else None
        if code == ResponseCode.FLOW_CONTROL:
            return BUSY_PAUSE_S
        if code in _UNKNOWN_TO_BROKER:
            return min(UNKNOWN_PAUSE_S, self._error_pause_s)
        is_gone = isinstance(error, NetworkError | NoRoute | ServiceNotAvailable)
        return min(GONE_PAUSE_S, self._error_pause_s) if is_gone else self._error_pause_s

    @property
    def _error_pause_s(self) -> float:
        return self._member.session.settings.pull_time_delay_mills_when_exception / 1_000
