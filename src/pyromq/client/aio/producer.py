"""The awaitable producer."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from pyromq.client.aio.runner import Runner
from pyromq.client.callbacks import call_back
from pyromq.client.groups_in_use import producer_session
from pyromq.client.hooks import SendHook
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.names import check_group
from pyromq.client.outgoing import Outgoing, SendCallback, prepare, prepare_batch, prepare_batches
from pyromq.client.plans import presence, send, timers
from pyromq.client.plans.send import IN_FLIGHT_MAX, RetryRule, Target, target_of
from pyromq.client.queue_choice import Selector
from pyromq.client.requests import OpenRequests, ReplyCallback, no_reply, request_of
from pyromq.client.session import Session
from pyromq.client.steps import Deadline
from pyromq.client.trace import PRODUCE, traced, tracer_of
from pyromq.clock import SystemClock
from pyromq.config.settings import ClientSettings
from pyromq.errors import TooManyInFlight
from pyromq.model import Message, MessageQueue, ReceivedMessage, SendResult
from pyromq.net.routes import Route, RouteTable

T = TypeVar("T")

#: Bytes from which on a body is compressed on a thread, so that the loop does not stand still meanwhile.
LARGE_BODY_BYTES: Final = 128 * 1024


class Producer:
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
        check_group(group)
        self.group = group
        settings = settings or ClientSettings()
        addresses = name_server_addresses(name_server, settings)
        self._tracer = tracer_of(group, name_server, settings, role=PRODUCE)
        self._requests = OpenRequests(SystemClock())
        self._runner = Runner(
            f"producer {group}",
            partial(producer_session, group, addresses, settings, traced(hooks, self._tracer)),
            presence.keep_producer_known,
            handle=RouteTable(self._answers()),
        )
        self._under_way: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Begin; an `async with` block does it."""
        await self._runner.start()

    async def close(self) -> None:
        """Wait for asynchronous sends under way, tell the brokers, and close the connections."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        try:
            await self._runner.close(presence.leave)
        finally:
            if self._tracer is not None:
                await asyncio.to_thread(self._tracer.close)

    async def send(
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
        session = self._runner.session
        target, deadline = target_of(queue, selector), self._deadline(timeout_ms)
        if len(message.body) >= LARGE_BODY_BYTES:
            outgoing = await self._prepare(session, message)
        else:
            outgoing = prepare(message, session.next_message_id(), session.settings)
        return await self._runner.run(send.send(session, outgoing, target, send.sync_rule(session), deadline))

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send messages of one topic in one request; all are stored, or none.

        The result's ids are joined by commas, its offset is the first message's.
        """
        session, deadline = self._runner.session, self._deadline(timeout_ms)
        outgoing = prepare_batch(messages, [session.next_message_id() for _ in messages], session.settings)
        return await self._runner.run(
            send.send(session, outgoing, Target(queue), send.sync_rule(session), deadline)
        )

    async def send_batches(
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
        return await self._runner.run(send.send_parts(session, parts, Target(queue), timeout_ms))

    def send_async(
        self,
        message: Message,
        callback: SendCallback | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> "asyncio.Task[SendResult]":
        """Send in a task of its own, and return at once what will be the result.

        `callback` is called with the result or the error. Only a failure without an answer is tried again.
        Raises TooManyInFlight when 65,535 sends are under way.
        """
        session = self._runner.session
        target, deadline = target_of(queue, selector), self._deadline(timeout_ms)
        self._check_in_flight()
        return self._begin(self._send(session, message, target, send.async_rule(session), deadline), callback)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Send without an answer: fast, never tried again, and it may get lost."""
        session, deadline = self._runner.session, self._deadline(timeout_ms)
        outgoing = await self._prepare(session, message)
        await self._runner.run(send.send_oneway(session, outgoing, Target(queue, selector), deadline))

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> ReceivedMessage:
        """Send a message and return the reply that one of its consumers sends, by `reply_to`.

        Raises what `send_async` raises, and RequestTimeout when no reply comes within `timeout_ms` (3000),
        which covers the sending too.
        """
        session, deadline = self._runner.session, self._deadline(timeout_ms)
        correlation_id, asking = request_of(
            message, client_id=session.identity.client_id, timeout_ms=deadline.timeout_ms
        )
        outgoing = await self._prepare(session, asking)
        target, rule = Target(queue, selector), send.async_rule(session)
        await self._runner.run(presence.greet(session, outgoing.topic, deadline, with_replies=True))
        reply = self._requests.expect(correlation_id)
        try:
            sent = await self._runner.run(send.send(session, outgoing, target, rule, deadline))
            try:
                async with asyncio.timeout(deadline.left_s):
                    return await reply
            except TimeoutError as error:
                raise no_reply(message, sent, deadline.timeout_ms) from error
        finally:
            self._requests.forget(correlation_id)

    def request_async(
        self,
        message: Message,
        callback: ReplyCallback | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> "asyncio.Task[ReceivedMessage]":
        """Send a request in a task of its own, and return at once what will be its reply.

        `callback` is called with the reply or the error. Raises TooManyInFlight as `send_async` does.
        """
        self._check_in_flight()
        return self._begin(
            self.request(message, queue=queue, selector=selector, timeout_ms=timeout_ms), callback
        )

    async def recall(self, topic: str, recall_handle: str, *, timeout_ms: int | None = None) -> str:
        """Take back a message that waits for its time; return its unique id.

        The handle is the `recall_handle` of the send's result. Raises IllegalOperation when no such message
        waits any more: it was delivered, or taken back before. If it was sent more than once because an
        answer was lost, all copies are taken back, also those on the topic's other brokers. Apache's brokers
        (5.3 and newer, with recallMessageEnable=true) do not look, and say yes to any handle whose time has
        not come.
        """
        session = self._runner.session
        deadline = session.deadline(timeout_ms, session.settings.send_msg_timeout)
        return await self._runner.run(timers.recall(session, topic, recall_handle, deadline))

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that a topic's messages may be sent to."""
        session = self._runner.session
        deadline = session.deadline(None, session.settings.mq_client_api_timeout)
        return await self._runner.run(send.publish_queues(session, topic, deadline))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _send(
        self, session: Session, message: Message, target: Target, rule: RetryRule, deadline: Deadline
    ) -> SendResult:
        if len(message.body) >= LARGE_BODY_BYTES:
            outgoing = await self._prepare(session, message)
        else:
            outgoing = prepare(message, session.next_message_id(), session.settings)
        return await self._runner.run(send.send(session, outgoing, target, rule, deadline))

    async def _prepare(self, session: Session, message: Message) -> Outgoing:
        message_id = session.next_message_id()
        if len(message.body) >= LARGE_BODY_BYTES:
            return await asyncio.to_thread(prepare, message, message_id, session.settings)
        return prepare(message, message_id, session.settings)

    def _answers(self) -> list[Route[Any]]:
        """Return what brokers may ask of this producer."""
        return list(self._requests.routes)

    def _check_in_flight(self) -> None:
        if len(self._under_way) >= IN_FLIGHT_MAX:
            raise TooManyInFlight(f"{IN_FLIGHT_MAX} asynchronous sends are under way; wait for some to end")

    def _begin(
        self,
        sending: Coroutine[Any, Any, T],
        callback: Callable[[T | None, BaseException | None], None] | None,
    ) -> "asyncio.Task[T]":
        task = asyncio.create_task(sending, name="pyromq-send")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        if callback is not None:
            task.add_done_callback(partial(report, callback))
        return task

    def _deadline(self, timeout_ms: int | None) -> Deadline:
        session = self._runner.session
        return session.deadline(timeout_ms, session.settings.send_msg_timeout)


def report(callback: Callable[[T | None, BaseException | None], None], task: "asyncio.Task[T]") -> None:
    """Give a finished send to its callback."""
    if task.cancelled():
        return
    error = task.exception()
    call_back(callback, None if error else task.result(), error)
