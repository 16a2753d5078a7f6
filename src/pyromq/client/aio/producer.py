"""The awaitable producer."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

from pyromq.client.aio.awaitable_face import AwaitableFace
from pyromq.client.hooks import SendHook
from pyromq.client.operations.declaration import BackgroundCall, Callback
from pyromq.client.operations.producer_operations import ProducerOperations
from pyromq.client.plans.send_plans import IN_FLIGHT_MAX
from pyromq.client.producer.callbacks import call_back
from pyromq.client.producer.request_reply import OpenRequests
from pyromq.clock import SystemClock
from pyromq.config.settings import ClientSettings
from pyromq.errors import TooManyInFlight
from pyromq.net.routes import Route

T = TypeVar("T")


class Producer(ProducerOperations, AwaitableFace):
    """Sends messages. Many tasks of one loop may use it at once.

        async with Producer("orders-service", name_server="127.0.0.1:9876") as producer:
            await producer.send(Message("orders", b"...", tags="paid", keys=["42"]))

    Without `name_server` the environment's NAMESRV_ADDR is taken; several are separated by semicolons. The
    `hooks` are called around every try of a send.
    """

    def __init__(
        self,
        group: str,
        name_server: str | None = None,
        settings: ClientSettings | None = None,
        *,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        self._requests = OpenRequests(SystemClock())
        self._in_flight: set[asyncio.Task[Any]] = set()
        super().__init__(group, name_server, settings, hooks=hooks)

    async def close(self) -> None:
        """Wait for asynchronous sends in flight, tell the brokers, and close the connections."""
        if self._in_flight:
            await asyncio.wait(self._in_flight)
        try:
            await self._runner.close(self._farewell)
        finally:
            if self._tracer is not None:
                await asyncio.to_thread(self._tracer.close)

    def _answers(self) -> Sequence[Route[Any]]:
        return self._requests.routes

    def _begin(self, call: BackgroundCall[T]) -> "asyncio.Task[T]":
        if len(self._in_flight) >= IN_FLIGHT_MAX:
            raise TooManyInFlight(f"{IN_FLIGHT_MAX} asynchronous sends are under way; wait for some to end")
        task = super()._begin(call)
        self._in_flight.add(task)
        task.add_done_callback(self._in_flight.discard)
        if call.callback is not None:
            task.add_done_callback(partial(report, call.callback))
        return task


def report(callback: Callback[T], task: "asyncio.Task[T]") -> None:
    """Give the result of a finished send to its callback."""
    if task.cancelled():
        return
    error = task.exception()
    call_back(callback, None if error else task.result(), error)
