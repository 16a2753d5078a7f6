"""The base of awaitable clients."""

import asyncio
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from pyromq.client.aio.runner import Runner
from pyromq.client.background_work import Upkeep
from pyromq.client.client_session import Session
from pyromq.client.operations.declaration import AwaitableMethods, BackgroundCall, ClientOperations
from pyromq.net.routes import RequestTable, Route

T = TypeVar("T")


class AwaitableFace(ClientOperations, AwaitableMethods):
    """A client on one asyncio loop: each declared method is a coroutine function."""

    _runner: Runner

    async def start(self) -> None:
        """Begin; an `async with` block does it."""
        await self._runner.start()

    async def close(self) -> None:
        """Close the connections."""
        await self._runner.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _set_runner(
        self, name: str, new_session: Callable[[], Session], upkeep: Upkeep | None = None
    ) -> None:
        self._runner = Runner(name, new_session, upkeep, handle=RequestTable(self._answers()))

    def _answers(self) -> Sequence[Route[Any]]:
        """Return the requests of brokers that this client answers."""
        return ()

    def _begin(self, call: BackgroundCall[T]) -> "asyncio.Task[T]":
        """Begin a call in a task of its own."""
        return asyncio.create_task(self._carry_out(call), name="pyromq-call")

    async def _carry_out(self, call: BackgroundCall[T]) -> T:
        return await self._runner.run(call.make())
