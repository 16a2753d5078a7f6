"""Listeners that are told when topics get other queues."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from pyromq.client.aio.runner import Runner
from pyromq.client.consumer.intervals import OwnedTasks, whenever
from pyromq.client.plans import progress_plans
from pyromq.model import MessageQueue

#: Told a topic and its queues when they are others than before; may be a coroutine function.
QueuesChanged: TypeAlias = Callable[[str, list[MessageQueue]], Awaitable[None] | None]


class Watching:
    """Looks at the routes of topics, as often as routes are refreshed; may call listeners on threads."""

    def __init__(self, runner: Runner, *, on_threads: bool = False) -> None:
        self._runner = runner
        self._on_threads = on_threads
        self._listeners: dict[str, QueuesChanged] = {}
        self._seen: dict[str, list[MessageQueue]] = {}
        self._woken = asyncio.Event()
        self._tasks = OwnedTasks("pyromq-watching")

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
            queues = await self._runner.run(progress_plans.fetch_queues(session, topic, deadline))
            before = self._seen.get(topic)
            self._seen[topic] = queues
            if before is not None and queues != before:
                if self._on_threads:
                    await asyncio.to_thread(listener, topic, queues)
                elif inspect.isawaitable(told := listener(topic, queues)):
                    await told
