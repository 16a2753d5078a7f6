"""The methods of the producer."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.hooks import SendHook
from pyromq.client.name_servers import name_server_addresses
from pyromq.client.names import check_group
from pyromq.client.operations.declaration import (
    BackgroundCall,
    BackgroundOperation,
    ClientOperations,
    HostedBackgroundOperation,
    HostedOperation,
    Operation,
)
from pyromq.client.operations.plain_operation import PlainOperation
from pyromq.client.plans import presence_plans, send_plans, timer_plans
from pyromq.client.plans.send_plans import RetryRule, SendTarget, target_of
from pyromq.client.producer.groups_in_use import producer_session
from pyromq.client.producer.outgoing import (
    Outgoing,
    SendCallback,
    compressed,
    prepare,
    prepare_batch,
    prepare_batches,
    prepare_plain,
)
from pyromq.client.producer.queue_choice import Selector
from pyromq.client.producer.request_reply import OpenRequests, ReplyCallback, reply_within, request_of
from pyromq.client.steps import Deadline, Plan, awaited, compute
from pyromq.client.tracing.trace import PRODUCE, traced, tracer_of
from pyromq.config.settings import ClientSettings
from pyromq.model import Message, MessageQueue, ReceivedMessage, SendResult

#: Bytes from which on a body is compressed on a thread, so that a loop does not stand still meanwhile.
LARGE_BODY_BYTES: Final = 128 * 1024


class ProducerOperations(ClientOperations):
    """Sending, requests, and taking scheduled messages back."""

    #: The background work of a producer while it is started, and its last words to the brokers.
    _upkeep: Callable[[Session], Plan[None]] = staticmethod(presence_plans.keep_producer_known)
    _farewell: Callable[[Session], Plan[None]] = staticmethod(presence_plans.leave)
    #: The requests that wait for their replies; only an awaitable producer has some.
    _requests: OpenRequests

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
        make_session = partial(producer_session, group, addresses, settings, own_hooks)
        self._set_runner(f"producer {group}", make_session, self._upkeep)

    @PlainOperation
    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> Plan[SendResult]:
        """Send a message and return where it went, trying other brokers when one fails.

        To a given `queue`, or one picked by a `selector`, it is tried once. Raises MessageIllegal, NoRoute,
        Refused, SendFailed after the last try, RequestTimeout when `timeout_ms` (3000) are used up: the
        message may be stored even then.
        """
        session = self._runner.session
        deadline = session.deadline(timeout_ms, session.settings.send_msg_timeout)
        return _sending(session, message, target_of(queue, selector), send_plans.sync_rule(session), deadline)

    @Operation
    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> Plan[SendResult]:
        """Send messages of one topic in one request; all are stored, or none.

        The result's ids are joined by commas, its offset is the first message's.
        """
        session, deadline = self._session, self._deadline(timeout_ms)
        outgoing = prepare_batch(messages, [session.next_message_id() for _ in messages], session.settings)
        return send_plans.send(session, outgoing, SendTarget(queue), send_plans.sync_rule(session), deadline)

    @Operation
    def send_batches(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> Plan[list[SendResult]]:
        """Send messages of one topic in as few batches as `max_message_size` allows, in their order.

        Each batch has `timeout_ms` to itself. When one fails, those before it stay stored, and a note at the
        error says how many messages that are.
        """
        session = self._session
        ids = [session.next_message_id() for _ in messages]
        parts = prepare_batches(messages, ids, session.settings)
        return send_plans.send_parts(session, parts, SendTarget(queue), timeout_ms)

    @BackgroundOperation
    def send_async(
        self,
        message: Message,
        callback: SendCallback | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> BackgroundCall[SendResult]:
        """Send on another thread (`pyromq.aio`: in a task of its own), and return the future of the result.

        `callback` is called there with the result or the error. Only a failure without an answer is tried
        again. Raises TooManyInFlight when 65,535 sends are in flight; a thread waits until one ends, for no
        longer than the send may take.
        """
        session = self._runner.session
        deadline = session.deadline(timeout_ms, session.settings.send_msg_timeout)
        target, rule = target_of(queue, selector), send_plans.async_rule(session)
        return BackgroundCall(partial(_sending, session, message, target, rule, deadline), callback, deadline)

    @Operation
    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> Plan[None]:
        """Send without an answer: fast, never tried again, and it may get lost."""
        session, deadline = self._session, self._deadline(timeout_ms)
        outgoing = yield from prepared(session, message)
        yield from send_plans.send_oneway(session, outgoing, SendTarget(queue, selector), deadline)

    @HostedOperation
    def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> Plan[ReceivedMessage]:
        """Send a message and return the reply that one of its consumers sends, by `reply_to`.

        Raises what `send_async` raises, and RequestTimeout when no reply comes within `timeout_ms` (3000),
        which covers the sending too. The first request of a blocking producer starts a thread that takes the
        replies.
        """
        return self._requesting(message, queue, selector, timeout_ms)

    @HostedBackgroundOperation
    def request_async(
        self,
        message: Message,
        callback: ReplyCallback | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        timeout_ms: int | None = None,
    ) -> BackgroundCall[ReceivedMessage]:
        """Send a request on another thread (`pyromq.aio`: in a task), and return the future of the reply.

        `callback` is called with the reply or the error. Raises TooManyInFlight as `send_async` does.
        """
        return BackgroundCall(partial(self._requesting, message, queue, selector, timeout_ms), callback)

    @Operation
    def recall(self, topic: str, recall_handle: str, *, timeout_ms: int | None = None) -> Plan[str]:
        """Take back a scheduled message; return its unique id.

        The handle is the `recall_handle` of the send's result. Raises IllegalOperation when no such message
        waits any more: it was delivered, or taken back before. If it was sent more than once because an
        answer was lost, all copies are taken back, also those on the topic's other brokers. Apache's brokers
        (5.3 and newer, with recallMessageEnable=true) do not look, and say yes to any handle whose time has
        not come.
        """
        return timer_plans.recall(self._session, topic, recall_handle, self._deadline(timeout_ms))

    @Operation
    def queues(self, topic: str) -> Plan[list[MessageQueue]]:
        """Return the queues that a topic's messages may be sent to."""
        session = self._session
        deadline = session.deadline(None, session.settings.mq_client_api_timeout)
        return send_plans.publish_queues(session, topic, deadline)

    def _requesting(
        self, message: Message, queue: MessageQueue | None, selector: Selector | None, timeout_ms: int | None
    ) -> Plan[ReceivedMessage]:
        session, deadline = self._session, self._deadline(timeout_ms)
        correlation_id, request = request_of(
            message, client_id=session.identity.client_id, timeout_ms=deadline.timeout_ms
        )
        outgoing = yield from prepared(session, request)
        target, rule = SendTarget(queue, selector), send_plans.async_rule(session)
        yield from presence_plans.greet(session, outgoing.topic, deadline, with_replies=True)
        reply = self._requests.expect(correlation_id)
        try:
            sent = yield from send_plans.send(session, outgoing, target, rule, deadline)
            return (yield from awaited(partial(reply_within, reply, message, sent, deadline)))
        finally:
            self._requests.forget(correlation_id)

    def _deadline(self, timeout_ms: int | None) -> Deadline:
        session = self._session
        return session.deadline(timeout_ms, session.settings.send_msg_timeout)


def prepared(session: Session, message: Message) -> Plan[Outgoing]:
    """Return a message in the form that is sent; a loop is not held up while a large body is compressed."""
    if len(message.body) < LARGE_BODY_BYTES:
        return prepare(message, session.next_message_id(), session.settings)
    outgoing = prepare_plain(message, session.next_message_id(), session.settings)
    return (yield from compute(partial(compressed, outgoing, session.settings)))


def _sending(
    session: Session, message: Message, target: SendTarget, rule: RetryRule, deadline: Deadline
) -> Plan[SendResult]:
    """Return the plan of a send; raise at once when the message is illegal."""
    if len(message.body) < LARGE_BODY_BYTES:
        outgoing = prepare(message, session.next_message_id(), session.settings)
        return send_plans.send(session, outgoing, target, rule, deadline)
    outgoing = prepare_plain(message, session.next_message_id(), session.settings)
    return _sending_large(session, outgoing, target, rule, deadline)


def _sending_large(
    session: Session, outgoing: Outgoing, target: SendTarget, rule: RetryRule, deadline: Deadline
) -> Plan[SendResult]:
    outgoing = yield from compute(partial(compressed, outgoing, session.settings))
    return (yield from send_plans.send(session, outgoing, target, rule, deadline))
