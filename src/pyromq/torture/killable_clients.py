"""Clients of a run, in this process, that can be killed: gone at once, without a farewell, as a process is.

Every task that a client starts, and every connection that it opens, belongs to its life, which a context
variable carries. When the life is over its connections are torn, and its tasks are not stepped any more: a
task that was cancelled instead would clean up, and tell the brokers that it leaves.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar, copy_context
from typing import Any
from weakref import WeakSet

#: How long the tasks of the dead have to end when nobody asks for them any more.
_REST_S_MAX = 5.0


class ClientLife:
    """The tasks and connections of one client."""

    def __init__(self) -> None:
        self.is_over = False
        self.tasks: set[asyncio.Task[Any]] = set()
        self.transports: WeakSet[asyncio.BaseTransport] = WeakSet()


_life: ContextVar[ClientLife | None] = ContextVar("life", default=None)


class LivesLoop(asyncio.SelectorEventLoop):
    """An event loop that knows which client a task and a connection belong to."""

    def __init__(self) -> None:
        super().__init__()
        self.set_task_factory(_new_task)  # type: ignore[arg-type]

    async def create_connection(self, *args: Any, **options: Any) -> Any:
        """Connect, and note whose connection it is."""
        transport, protocol = await super().create_connection(*args, **options)
        life = _life.get()
        if life is not None:
            life.transports.add(transport)
        return transport, protocol


class LivingClient:
    """A client that runs."""

    def __init__(self, name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.name = name
        self._life = ClientLife()
        context = copy_context()
        context.run(_life.set, self._life)
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._task = loop.create_task(main(), context=context)
        self._task.add_done_callback(self._end)

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return not self._ended.done()

    def kill(self) -> None:
        """End it at once: no goodbye to the servers, no progress saved."""
        self._life.is_over = True
        for transport in list(self._life.transports):
            transport.abort()  # type: ignore[attr-defined]
        if not self._ended.done():
            self._ended.set_result(None)

    async def wait(self) -> None:
        """Return when it has ended; raise what it raised."""
        await asyncio.shield(self._ended)

    async def bury(self) -> None:
        """Let what is left of it come to its end, when that does not matter any more."""
        self._life.is_over = False
        tasks = [task for task in self._life.tasks if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_REST_S_MAX)

    def _end(self, task: "asyncio.Task[None]") -> None:
        if self._ended.done():
            return
        if task.cancelled():
            self._ended.set_result(None)
        elif (error := task.exception()) is not None:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)


def _new_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
) -> "asyncio.Task[Any]":
    context = options.get("context")
    life = _life.get() if context is None else context.get(_life)
    if life is None:
        return asyncio.Task(coroutine, loop=loop, **options)
    task: asyncio.Task[Any] = asyncio.Task(_Mortal(coroutine, life), loop=loop, **options)
    life.tasks.add(task)
    task.add_done_callback(life.tasks.discard)
    return task


class _Mortal(Coroutine[Any, Any, Any]):
    """A coroutine that is not stepped any more when its client's life is over."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], life: ClientLife) -> None:
        self._coroutine = coroutine
        self._life = life

    def send(self, value: Any) -> Any:
        """Go on."""
        return _for_ever() if self._life.is_over else self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with an error."""
        return _for_ever() if self._life.is_over else self._coroutine.throw(*error)

    def close(self) -> None:
        """End."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()


def _for_ever() -> "asyncio.Future[None]":
    """Return what a task waits for that waits for nothing."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    # How a coroutine tells its task that it waits.
    future._asyncio_future_blocking = True
    return future
