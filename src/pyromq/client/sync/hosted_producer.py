"""An awaitable producer on a thread, for what a blocking one cannot: take what brokers send by themselves."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Generic, TypeVar

from pyromq.client.aio.producer import Producer
from pyromq.client.callbacks import call_back
from pyromq.client.identity import DEFAULT_INSTANCE
from pyromq.client.sync.hosted import HostedLoop
from pyromq.config.settings import ClientSettings

T = TypeVar("T")
P = TypeVar("P", bound=Producer)


def hosted_settings(settings: ClientSettings | None) -> ClientSettings:
    """Return the settings of a hosted producer: beside a blocking one it needs a client id of its own."""
    settings = settings or ClientSettings()
    if settings.instance_name == DEFAULT_INSTANCE:
        return settings
    return replace(settings, instance_name=f"{settings.instance_name}#hosted")


class HostedProducer(Generic[P]):
    """A producer and its loop, started when they are needed first; one pair for each process."""

    def __init__(self, name: str, make: Callable[[], P]) -> None:
        self._name = name
        self._make = make
        self._locks: dict[int, threading.Lock] = {}
        self._running: dict[int, tuple[HostedLoop, P]] = {}

    def start(self) -> None:
        """Start the producer of this process, if it is not."""
        self._started()

    def run(self, begin: Callable[[P], Coroutine[Any, Any, T]]) -> T:
        """Wait for what the producer does, and return its result or raise its error."""
        loop, producer = self._started()
        return loop.run(begin(producer))

    def submit(
        self,
        begin: Callable[[P], Coroutine[Any, Any, T]],
        callback: Callable[[T | None, BaseException | None], None] | None,
    ) -> "Future[T]":
        """Return at once what will be the result; a callback gets it on a thread."""
        loop, producer = self._started()
        return loop.submit(_with_callback(begin(producer), callback))

    def close(self) -> None:
        """Close the producer and the loop of this process."""
        loop, producer = self._running.pop(os.getpid(), (None, None))
        if loop is None or producer is None:
            return
        try:
            loop.run(producer.close())
        finally:
            loop.close()

    def _started(self) -> tuple[HostedLoop, P]:
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


async def _with_callback(
    doing: Coroutine[Any, Any, T], callback: Callable[[T | None, BaseException | None], None] | None
) -> T:
    try:
        result = await doing
    except Exception as error:
        if callback is not None:
            await asyncio.to_thread(call_back, callback, None, error)
        raise
    if callback is not None:
        await asyncio.to_thread(call_back, callback, result, None)
    return result
