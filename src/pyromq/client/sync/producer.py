"""The blocking producer."""

import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Self

from pyromq.client.aio import producer as aio
from pyromq.client.callbacks import call_back
from pyromq.client.groups_in_use import producer_session
from pyromq.client.hooks import SendHook
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.names import check_group
from pyromq.client.outgoing import Outgoing, SendCallback, prepare, prepare_batch, prepare_batches
from pyromq.client.plans import presence, send, timers
from pyromq.client.plans.send import IN_FLIGHT_MAX, Target, target_of
from pyromq.client.queue_choice import Selector
from pyromq.client.requests import ReplyCallback
from pyromq.client.steps import Deadline
from pyromq.client.sync.hosted_producer import HostedProducer, hosted_settings
from pyromq.client.sync.runner import Runner
from pyromq.client.trace import PRODUCE, traced, tracer_of
from pyromq.config.settings import ClientSettings
from pyromq.errors import ClientClosed, TooManyInFlight
from pyromq.model import Message, MessageQueue, ReceivedMessage, SendResult

#: Threads that carry out asynchronous sends.
SENDING_THREADS = 8


class Producer:
    """Sends messages. Safe to use from many threads, and in a child of `fork`.

        with Producer("orders-service", name_server="127.0.0.1:9876") as producer:
            producer.send(Message("orders", b"...", tags="paid", keys=["42"]))

    Without `name_server` the environment's NAMESRV_ADDR is taken; several are separated by semicolons. The
    `hooks` are called around every try of a send, on the thread that sends.
    """

    #: What goes on while a producer is started, and what ends it.
    _upkeep = staticmethod(presence.keep_producer_known)
    _farewell = staticmethod(presence.leave)

    def __init__(
        self,
        group: str,
        name_server: str | None = None,
        settings: ClientSettings | None = None,
        *,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        check_group(group)
        self.group = group
        settings = settings or ClientSettings()
        addresses = name_server_addresses(name_server, settings)
        self._tracer = tracer_of(group, name_server, settings, role=PRODUCE)
        own_hooks = traced(hooks, self._tracer)
        self._runner = Runner(
            f"producer {group}",
            partial(producer_session, group, addresses, settings, own_hooks),
            self._upkeep,
        )
        self._requester = HostedProducer(
            f"requests {group}",
            partial(aio.Producer, group, name_server, hosted_settings(settings), hooks=hooks),
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
        try:
            self._requester.close()
        finally:
            try:
                self._runner.close(self._farewell)
            finally:
                if self._tracer is not None:
                    self._tracer.close()

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
        target = target_of(queue, selector)
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

    def send_batches(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> list[SendResult]:
        """Send messages of one topic in as few batches as `max_message_size` allows, in their order.

        Each batch has `timeout_ms` to itself. When one fails, those before it stay stored, and a note at the
        error says how many messages that are.
        """
        session = self._runner.session
        ids = [session.next_message_id() for _ in messages]
        parts = prepare_batches(messages, ids, session.settings)
        return self._runner.run(send.send_parts(session, parts, Target(queue), timeout_ms))

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
        target = target_of(queue, selector)
        senders = self._senders.get(os.getpid()) or self._senders.setdefault(os.getpid(), Senders())
        return senders.submit(partial(self._send_now, outgoing, target, deadline), deadline.left_s, callback)

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

    def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> ReceivedMessage:
        """Send a message and return the reply that one of its consumers sends, by `reply_to`.

        Raises what `send_async` raises, and RequestTimeout when no reply comes within `timeout_ms` (3000),
        which covers the sending too. The first request starts a thread that takes the replies.
        """
        return self._hosted().run(_asking(message, queue, selector, timeout_ms))

    def request_async(
        self,
        message: Message,
        callback: ReplyCallback | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> "Future[ReceivedMessage]":
        """Send a request on another thread, and return at once what will be its reply.

        `callback` is called on a thread with the reply or the error. Raises TooManyInFlight as `send_async`
        does.
        """
        return self._hosted().submit(_asking(message, queue, selector, timeout_ms), callback)

    def recall(self, topic: str, recall_handle: str, *, timeout_ms: int | None = None) -> str:
        """Take back a message that waits for its time; return its unique id.

        The handle is the `recall_handle` of the send's result. Raises IllegalOperation when no such message
        waits any more: it was delivered, or taken back before. If it was sent more than once because an
        answer was lost, all copies are taken back, also those on the topic's other brokers. Apache's brokers
        (5.3 and newer, with recallMessageEnable=true) do not look, and say yes to any handle whose time has
        not come.
        """
        session = self._runner.session
        deadline = session.deadline(timeout_ms, session.settings.send_msg_timeout)
        return self._runner.run(timers.recall(session, topic, recall_handle, deadline))

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

    def _hosted(self) -> "HostedProducer[Any]":
        """Return the producer that takes replies; raise ClientClosed unless this one is started."""
        _ = self._runner.session
        return self._requester

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

    def submit(
        self, send_now: Callable[[], SendResult], timeout_s: float, callback: SendCallback | None = None
    ) -> "Future[SendResult]":
        """Carry out a send; wait for at most `timeout_s` until there are not too many under way."""
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
        """Wait for the sends under way."""
        self._pool.shutdown()


def _reported(send_now: Callable[[], SendResult], callback: SendCallback | None) -> SendResult:
    """Send, and give the end of it to the callback on this thread, whoever waits for the future."""
    if callback is None:
        return send_now()
    try:
        result = send_now()
    except Exception as error:
        call_back(callback, None, error)
        raise
    call_back(callback, result, None)
    return result


def _asking(
    message: Message, queue: MessageQueue | None, selector: Selector | None, timeout_ms: int | None
) -> Callable[[aio.Producer], Coroutine[Any, Any, ReceivedMessage]]:
    async def ask(producer: aio.Producer) -> ReceivedMessage:
        return await producer.request_async(message, queue=queue, selector=selector, timeout_ms=timeout_ms)

    return ask
