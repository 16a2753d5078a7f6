"""The engine of a blocking consumer: the awaitable one, on a loop of its own.

Pulling ahead, heartbeats and requests of brokers need a loop.
"""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from pyromq.client.consumer.poll_outlet import PollOutlet
from pyromq.client.consumer.pull_terms import PullTerms
from pyromq.client.sync.hosted import HostedLoop
from pyromq.errors import ClientClosed

T = TypeVar("T")


class StartedEngine(Protocol):
    """An engine that is started on its loop."""

    async def start(self) -> None:
        """Begin."""
        ...


E = TypeVar("E", bound=StartedEngine)


class HostedEngine(Generic[E]):
    """An engine behind calls that block."""

    def __init__(self, name: str, engine: E) -> None:
        self._name = name
        self.engine = engine
        self._loop = HostedLoop(name)

    @property
    def is_running(self) -> bool:
        """Whether the engine is started in this process and not closed."""
        return self._loop.is_running

    def start(self) -> None:
        """Start the loop and the engine; after a failure it may be tried again."""
        self._loop.start()
        try:
            self._loop.run(self.engine.start())
        except BaseException:
            self._loop.close()
            self._loop = HostedLoop(self._name)
            raise

    def call(self, function: Callable[[E], T]) -> T:
        """Call a plain method of the engine: on its loop, or here before there is one."""
        if not self._loop.is_started:
            # One that must be started says so in the words of an awaitable client: the loop has better ones.
            with suppress(ClientClosed):
                return function(self.engine)

        async def calling(engine: E) -> T:
            return function(engine)

        return self.run(calling)

    def run(self, function: Callable[[E], Coroutine[Any, Any, T]]) -> T:
        """Wait for a method of the engine; raise ClientClosed before the start and after the end."""
        return self._loop.run(function(self.engine))

    def close(self, end: Callable[[E], Coroutine[Any, Any, None]]) -> None:
        """End the engine, if it is running, and the loop."""
        try:
            if self._loop.is_running:
                self._loop.run(end(self.engine))
        finally:
            self._loop.close()


class HostedOutlet(HostedEngine[PollOutlet]):
    """The engine of a pull consumer, started when it is needed.

    The thread and the connections begin with the first subscription of a started consumer; one that only
    pulls has neither.
    """

    def __init__(self, terms: PullTerms) -> None:
        super().__init__(terms.name, PollOutlet(terms, on_threads=True))
        self._may_start = False

    def start(self) -> None:
        """Begin, if something was subscribed or assigned before."""
        self._may_start = True
        if self.engine.is_needed:
            self._begin()

    def call(self, function: Callable[[PollOutlet], T]) -> T:
        """Call a plain method of the engine: on its loop, once the consumer is started."""
        self._begin()
        return super().call(function)

    def run(self, function: Callable[[PollOutlet], Coroutine[Any, Any, T]]) -> T:
        """Wait for a method of the engine; raise ClientClosed before the start and after the end."""
        self._begin()
        return super().run(function)

    def _begin(self) -> None:
        if self._may_start:
            self._may_start = False
            super().start()
