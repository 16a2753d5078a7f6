"""The blocking producer."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from pyromq.client.aio import producer as aio
from pyromq.client.hooks import SendHook
from pyromq.client.operations.declaration import BackgroundCall
from pyromq.client.operations.producer_operations import ProducerOperations
from pyromq.client.plans.send_plans import IN_FLIGHT_MAX
from pyromq.client.producer.callbacks import call_back
from pyromq.client.producer.outgoing import SendCallback
from pyromq.client.sync.blocking_face import BlockingFace
from pyromq.client.sync.hosted_client import HostedClient, hosted_settings
from pyromq.config.settings import ClientSettings
from pyromq.errors import ClientClosed, TooManyInFlight
from pyromq.model import SendResult

#: Threads that carry out asynchronous sends.
SENDING_THREADS = 8


class Producer(ProducerOperations, BlockingFace):
    """Sends messages. Safe to use from many threads, and in a child of `fork`.

        with Producer("orders-service", name_server="127.0.0.1:9876") as producer:
            producer.send(Message("orders", b"...", tags="paid", keys=["42"]))

    Without `name_server` the environment's NAMESRV_ADDR is taken; several are separated by semicolons. The
    `hooks` are called around every try of a send, on the thread that sends.
    """

    def __init__(
        self,
        group: str,
        name_server: str | None = None,
        settings: ClientSettings | None = None,
        *,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        super().__init__(group, name_server, settings, hooks=hooks)
        self._requester = HostedClient(
            f"requests {group}",
            partial(aio.Producer, group, name_server, hosted_settings(settings), hooks=hooks),
        )
        # By process: threads and what they hold do not survive a fork.
        self._senders: dict[int, Senders] = {}

    def close(self) -> None:
        """Wait for asynchronous sends in flight, tell the brokers, and close the connections."""
        senders = self._senders.pop(os.getpid(), None)
        if senders is not None:
            senders.close()
        try:
            self._requester.close()
        finally:
            try:
                self._runner.close(self._farewell)
            finally:
                if self._tracer is not None:
                    self._tracer.close()

    def _begin(self, call: BackgroundCall[SendResult]) -> "Future[SendResult]":
        send_now = partial(self._runner.run, call.make())
        senders = self._senders.get(os.getpid()) or self._senders.setdefault(os.getpid(), Senders())
        return senders.submit(send_now, 0.0 if call.wait is None else call.wait.left_s, call.callback)

    def _hosted(self) -> "HostedClient[Any]":
        """Return the producer that takes replies; raise ClientClosed unless this one is started."""
        _ = self._runner.session
        return self._requester


class Senders:
    """The threads of one process that carry out asynchronous sends, started as they are needed."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(SENDING_THREADS, thread_name_prefix="pyromq-send")
        self._in_flight = threading.BoundedSemaphore(IN_FLIGHT_MAX)

    def submit(
        self, send_now: Callable[[], SendResult], timeout_s: float, callback: SendCallback | None = None
    ) -> "Future[SendResult]":
        """Carry out a send; wait for at most `timeout_s` until there are not too many in flight."""
        if not self._in_flight.acquire(timeout=timeout_s):
            raise TooManyInFlight(f"{IN_FLIGHT_MAX} asynchronous sends are under way; wait for some to end")
        try:
            future = self._pool.submit(_reported, send_now, callback)
        except RuntimeError as error:
            self._in_flight.release()
            raise ClientClosed("the producer is closed; make a new one") from error
        future.add_done_callback(lambda _: self._in_flight.release())
        return future

    def close(self) -> None:
        """Wait for the sends in flight."""
        self._pool.shutdown()


def _reported(send_now: Callable[[], SendResult], callback: SendCallback | None) -> SendResult:
    """Send, and give the result or the error to the callback on this thread."""
    if callback is None:
        return send_now()
    try:
        result = send_now()
    except Exception as error:
        call_back(callback, None, error)
        raise
    call_back(callback, result, None)
    return result
