"""An awaitable client on a thread with a loop, which takes the requests of brokers for a blocking client."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Generic, TypeVar

from pyromq.client.aio.awaitable_face import AwaitableFace
from pyromq.client.identity import DEFAULT_INSTANCE
from pyromq.client.operations.declaration import BackgroundCall
from pyromq.client.producer.callbacks import call_back
from pyromq.client.sync.hosted import HostedLoop
from pyromq.config.settings import ClientSettings

T = TypeVar("T")
C = TypeVar("C", bound=AwaitableFace)


def hosted_settings(settings: ClientSettings | None) -> ClientSettings:
    """Return the settings of a hosted client: beside the blocking client it needs a client id of its own."""
    settings = settings or ClientSettings()
    if settings.instance_name == DEFAULT_INSTANCE:
        return settings
    return replace(settings, instance_name=f"{settings.instance_name}#hosted")


class HostedClient(Generic[C]):
    """An awaitable client and its loop, started when they are needed first; one pair for each process."""

    def __init__(self, name: str, make: Callable[[], C]) -> None:
        self._name = name
        self._make = make
        self._locks: dict[int, threading.Lock] = {}
        self._running: dict[int, tuple[HostedLoop, C]] = {}

    def start(self) -> None:
        """Start the client of this process, unless it is started."""
        self._started()

    def run(self, begin: Callable[[C], Awaitable[T]]) -> T:
        """Begin something on the loop, wait for it, and return its result or raise its error."""
        loop, client = self._started()
        return loop.run(_begun(begin, client))

    def submit(self, begin: Callable[[C], BackgroundCall[T]]) -> "Future[T]":
        """Begin a call on the loop and return its future; its callback is called on a thread."""
        loop, client = self._started()
        return loop.submit(_with_callback(client, begin(client)))

    def close(self) -> None:
        """Close the client and the loop of this process."""
        loop, client = self._running.pop(os.getpid(), (None, None))
        if loop is None or client is None:
            return
        try:
            loop.run(client.close())
        finally:
            loop.close()

    def _started(self) -> tuple[HostedLoop, C]:
        running = self._running.get(os.getpid())
        if running is not None:
            return running
        with self._locks.setdefault(os.getpid(), threading.Lock()):
            running = self._running.get(os.getpid())
            if running is None:
                running = HostedLoop(self._name), self._make()
                running[0].start()
                try:
                    running[0].run(running[1].start())
                except BaseException:
                    running[0].close()
                    raise
                self._running[os.getpid()] = running
        return running


async def _begun(begin: Callable[[C], Awaitable[T]], client: C) -> T:
    return await begin(client)


async def _with_callback(client: AwaitableFace, call: BackgroundCall[T]) -> T:
    try:
        result = await client._begin(BackgroundCall(call.make))
    except Exception as error:
        if call.callback is not None:
            await asyncio.to_thread(call_back, call.callback, None, error)
        raise
    if call.callback is not None:
        await asyncio.to_thread(call_back, call.callback, result, None)
    return result
