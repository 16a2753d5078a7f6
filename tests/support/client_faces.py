"""One test body for both faces: the awaitable client, called as if it were the blocking one."""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyromq
from pyromq import aio

_S_MAX = 60.0


class Loop:
    """An asyncio loop on a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def wait_for(self, awaitable: Any) -> Any:
        async def waiting() -> Any:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(waiting(), self._loop).result(_S_MAX)

    def call(self, function: Callable[[], Any]) -> Any:
        async def calling() -> Any:
            return function()

        return self.wait_for(calling())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_S_MAX)
        self._loop.close()


class Awaited:
    """An awaitable client whose methods wait for their results."""

    def __init__(self, client: Any, loop: Loop) -> None:
        self._client, self._loop = client, loop

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not callable(method):
            return method

        def call(*args: Any, **kwargs: Any) -> Any:
            result = self._loop.call(lambda: method(*args, **kwargs))
            if inspect.isasyncgen(result):
                return self._iterate(result)
            return self._loop.wait_for(result) if inspect.isawaitable(result) else result

        return call

    def __iter__(self) -> Iterator[Any]:
        return self._iterate(self._client.__aiter__())

    def __enter__(self) -> "Awaited":
        self._loop.wait_for(self._client.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        self._loop.wait_for(self._client.__aexit__(*error))

    def _iterate(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._loop.wait_for(anext(items))
                except StopAsyncIteration:
                    return
        finally:
            self._loop.wait_for(items.aclose())  # type: ignore[attr-defined]


class Face:
    """The clients of one face."""

    def __init__(self, loop: Loop | None) -> None:
        self._loop = loop

    @property
    def is_blocking(self) -> bool:
        return self._loop is None

    def Producer(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802  stands for the class
        return self._made(pyromq.Producer, aio.Producer, args, kwargs)

    def TransactionProducer(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802  stands for the class
        return self._made(pyromq.TransactionProducer, aio.TransactionProducer, args, kwargs)

    def PullConsumer(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802  stands for the class
        return self._made(pyromq.PullConsumer, aio.PullConsumer, args, kwargs)

    def PushConsumer(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802  stands for the class
        return self._made(pyromq.PushConsumer, aio.PushConsumer, args, kwargs)

    def SimpleConsumer(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802  stands for the class
        return self._made(pyromq.SimpleConsumer, aio.SimpleConsumer, args, kwargs)

    def Admin(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802  stands for the class
        return self._made(pyromq.Admin, aio.Admin, args, kwargs)

    def DeadLetters(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802  stands for the class
        return self._made(pyromq.DeadLetters, aio.DeadLetters, args, kwargs)

    def _made(self, blocking: Any, awaitable: Any, args: Any, kwargs: Any) -> Any:
        if self._loop is None:
            return blocking(*args, **kwargs)
        return Awaited(awaitable(*args, **kwargs), self._loop)


@contextmanager
def face_of(kind: str) -> Iterator[Face]:
    """Give the «blocking» or the «asyncio» face."""
    if kind == "blocking":
        yield Face(None)
        return
    loop = Loop()
    try:
        yield Face(loop)
    finally:
        loop.close()
