"""The blocking producer."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Self

from pyromq.client.name_servers import name_server_addresses
from pyromq.client.names import check_group
from pyromq.client.outgoing import Outgoing, SendCallback, prepare, prepare_batch
from pyromq.client.plans import presence, send
from pyromq.client.plans.send import IN_FLIGHT_MAX, Target
from pyromq.client.queue_choice import Selector
from pyromq.client.session import new_session
from pyromq.client.steps import Deadline
from pyromq.client.sync.runner import Runner
from pyromq.config.settings import ClientSettings
from pyromq.errors import ClientClosed, TooManyInFlight
from pyromq.model import Message, MessageQueue, SendResult

#: Threads that carry out asynchronous sends.
SENDING_THREADS = 8


class Producer:
    """Sends messages. Safe to use from many threads, and in a child of `fork`.

        with Producer("orders-service", name_server="127.0.0.1:9876") as producer:
            producer.send(Message("orders", b"...", tags="paid", keys=["42"]))

    Without `name_server` the environment's NAMESRV_ADDR is taken; several are separated by semicolons.
    """

    def __init__(
        self, group: str, name_server: str | None = None, settings: ClientSettings | None = None
    ) -> None:
        check_group(group)
        self.group = group
        addresses = name_server_addresses(name_server)
        self._runner = Runner(
            f"producer {group}",
            partial(new_session, group, addresses, settings or ClientSettings()),
            presence.keep_producer_known,
        )
        # By process: threads and what they hold do not survive a fork.
        self._senders: dict[int, Senders] = {}

    def start(self) -> None:
        """Begin; a `with` block does it."""
        self._runner.start()

    def close(self) -> None:
        """Wait for asynchronous sends under way, tell the brokers, and close the connections."""
        senders = self._senders.pop(os.getpid(), None)
        if senders is not None:
            senders.close()
        self._runner.close(presence.farewell)

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send a message and return where it went, trying other brokers when one fails.

        To a given `queue`, or one picked by a `selector`, it is tried once. Raises MessageIllegal, NoRoute,
        Refused, SendFailed after the last try, RequestTimeout when `timeout_ms` (3000) are used up: the
        message may be stored even then.
        """
        outgoing, deadline = self._prepare(message, timeout_ms)
        session = self._runner.session
        target = Target(queue, selector)
        return self._runner.run(send.send(session, outgoing, target, send.sync_rule(session), deadline))

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send messages of one topic in one request; all are stored, or none.

        The result's ids are joined by commas, its offset is the first message's.
        """
        session = self._runner.session
        deadline = session.deadline(timeout_ms, session.settings.send_msg_timeout)
        outgoing = prepare_batch(messages, [session.next_message_id() for _ in messages], session.settings)
        target = Target(queue)
        return self._runner.run(send.send(session, outgoing, target, send.sync_rule(session), deadline))

    def send_async(
        self,
        message: Message,
        callback: SendCallback | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> "Future[SendResult]":
        """Send on another thread, and return at once what will be the result.

        `callback` is called on that thread with the result or the error. Only a failure without an answer is
        tried again. Raises TooManyInFlight when 65,535 sends are under way and none ends in time.
        """
        outgoing, deadline = self._prepare(message, timeout_ms)
        target = Target(queue, selector)
        senders = self._senders.get(os.getpid()) or self._senders.setdefault(os.getpid(), Senders())
        future = senders.submit(partial(self._send_now, outgoing, target, deadline), deadline.left_s)
        if callback is not None:
            future.add_done_callback(partial(report, callback))
        return future

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Send without an answer: fast, never tried again, and it may get lost."""
        outgoing, deadline = self._prepare(message, timeout_ms)
        self._runner.run(send.send_oneway(self._runner.session, outgoing, Target(queue, selector), deadline))

    def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that a topic's messages may be sent to."""
        session = self._runner.session
        deadline = session.deadline(None, session.settings.mq_client_api_timeout)
        return self._runner.run(send.publish_queues(session, topic, deadline))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self, message: Message, timeout_ms: int | None) -> tuple[Outgoing, Deadline]:
        session = self._runner.session
        deadline = session.deadline(timeout_ms, session.settings.send_msg_timeout)
        return prepare(message, session.next_message_id(), session.settings), deadline

    def _send_now(self, outgoing: Outgoing, target: Target, deadline: Deadline) -> SendResult:
        session = self._runner.session
        return self._runner.run(send.send(session, outgoing, target, send.async_rule(session), deadline))


class Senders:
    """The threads of one process that carry out asynchronous sends, started as they are needed."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(SENDING_THREADS, thread_name_prefix="pyromq-send")
        self._in_flight = threading.BoundedSemaphore(IN_FLIGHT_MAX)

    def submit(self, send_now: Callable[[], SendResult], timeout_s: float) -> "Future[SendResult]":
        """Carry out a send; wait for at most `timeout_s` until there are not too many under way."""
        if not self._in_flight.acquire(timeout=timeout_s):
            raise TooManyInFlight(f"{IN_FLIGHT_MAX} asynchronous sends are under way; wait for some to end")
        try:
            future = self._pool.submit(send_now)
        except RuntimeError as error:
            self._in_flight.release()
            raise ClientClosed("the producer is closed; make a new one") from error
        future.add_done_callback(lambda _: self._in_flight.release())
        return future

    def close(self) -> None:
        """Wait for the sends under way."""
        self._pool.shutdown()


def report(callback: SendCallback, future: "Future[SendResult]") -> None:
    """Give a finished send to its callback."""
    if future.cancelled():
        return
    error = future.exception()
    callback(None if error else future.result(), error)
