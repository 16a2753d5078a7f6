"""What a blocking pull consumer that subscribes or assigns stands on: the awaitable engine, on its own loop.

Reading ahead, heartbeats and being told that members came or went need a loop. The thread and the connections
begin with the first subscription of a started consumer; who only pulls has neither.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pyromq.client.aio.reading import Reading, new_reading
from pyromq.client.aio.sharing import Terms
from pyromq.client.session import Session
from pyromq.client.sync.hosted import HostedLoop

T = TypeVar("T")


class HostedReader:
    """The engine behind calls that block."""

    def __init__(self, name: str, new_session: Callable[[], Session], terms: Terms) -> None:
        self._runner, self._reading = new_reading(name, new_session, terms)
        self._loop = HostedLoop(name)
        self._is_started = False
        self._is_open = False

    @property
    def is_running(self) -> bool:
        """Whether the loop was needed so far."""
        return self._loop.is_running

    def start(self) -> None:
        """Begin, if something was subscribed or assigned before."""
        self._is_started = True
        if self._reading.is_needed:
            self._begin()

    def call(self, function: Callable[[Reading], T]) -> T:
        """Call a plain method of the engine: on its loop, once the consumer is started."""
        if not self._is_started:
            return function(self._reading)

        async def calling(reading: Reading) -> T:
            return function(reading)

        return self.run(calling)

    def run(self, function: Callable[[Reading], Coroutine[Any, Any, T]]) -> T:
        """Wait for a method of the engine; raise ClientClosed before the start and after the end."""
        if self._is_started and not self._is_open:
            self._begin()
        return self._loop.run(function(self._reading))

    def close(self, *, is_finished: bool) -> None:
        """End; what was handed out last counts as finished, or not."""
        if self._loop.is_running:
            self._loop.run(self._end(is_finished=is_finished))
        self._loop.close()

    def _begin(self) -> None:
        self._is_open = True
        self._loop.start()
        self._loop.run(self._open())

    async def _open(self) -> None:
        await self._runner.start()
        self._reading.start()

    async def _end(self, *, is_finished: bool) -> None:
        if is_finished:
            self._reading.finish()
        await self._reading.stop()
        await self._runner.close(self._reading.farewell)
