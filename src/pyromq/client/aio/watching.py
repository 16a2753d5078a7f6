"""Telling listeners when topics get other queues."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from pyromq.client.aio.runner import Runner
from pyromq.client.plans import progress
from pyromq.client.push.timers import Tasks, whenever
from pyromq.model import MessageQueue

#: Told a topic and its queues when they are others than before; may be a coroutine function.
QueuesChanged: TypeAlias = Callable[[str, list[MessageQueue]], Awaitable[None] | None]


class Watching:
    """Looks at the routes of topics, as often as routes are refreshed."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._listeners: dict[str, QueuesChanged] = {}
        self._seen: dict[str, list[MessageQueue]] = {}
        self._woken = asyncio.Event()
        self._tasks = Tasks("pyromq-watching")

    @property
    def is_needed(self) -> bool:
        """Whether somebody listens."""
        return bool(self._listeners)

    def listen(self, topic: str, listener: QueuesChanged) -> None:
        """Have a listener told; `begin` is to follow."""
        self._listeners[topic] = listener
        self._woken.set()

    def begin(self) -> None:
        """Start to look."""
        if self._listeners and not len(self._tasks):
            interval_s = self._runner.session.settings.poll_name_server_interval / 1_000
            self._tasks.start(whenever(self._woken, interval_s, self._look, what="the look for other queues"))

    async def stop(self) -> None:
        """Look no more."""
        await self._tasks.cancel()

    async def _look(self) -> None:
        session = self._runner.session
        for topic, listener in list(self._listeners.items()):
            deadline = session.deadline(None, session.settings.mq_client_api_timeout)
            queues = await self._runner.run(progress.fetch_queues(session, topic, deadline))
            before = self._seen.get(topic)
            self._seen[topic] = queues
            if before is not None and queues != before:
                told = listener(topic, queues)
                if inspect.isawaitable(told):
                    await told
