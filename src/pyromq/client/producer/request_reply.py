"""Requests and their replies: a message that waits for another one.

    requester ── request: CORRELATION_ID, REPLY_TO_CLIENT, TTL ──► topic ──► a consumer
    requester ◄── 326, pushed by a broker ◄── reply: MSG_TYPE=reply ── its producer

A request is an ordinary message with three properties. Whoever consumes it sends `reply_to(message, body)`;
the broker pushes that to the requester by its client id, on the connection that the requester's heartbeats
come from. So the requester must be known at every broker that may get the reply (`plans/presence_plans.py`:
greet).
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from pyromq.client.consumer.incoming import Unpacking, must_read
from pyromq.client.plans.presence_plans import REPLY_TOPIC_SUFFIX
from pyromq.client.producer.compression import BODY_BYTES_MAX
from pyromq.client.producer.outgoing import REPLY
from pyromq.client.steps import Deadline
from pyromq.clock import Clock
from pyromq.codes import ClientCode, RequestCode
from pyromq.errors import MessageIllegal, NoReply, PyroError
from pyromq.model import Message, MessageQueue, ReceivedMessage, SendResult
from pyromq.net.routes import Answer, Request, Route
from pyromq.wire import properties as names
from pyromq.wire.headers.send_headers import PushReplyMessage

_log = logging.getLogger("pyromq.client")

#: Takes the reply to an asynchronous request, or the error that ended it.
ReplyCallback: TypeAlias = Callable[[ReceivedMessage | None, BaseException | None], None]

_CARRIED_OVER: Final = (names.CORRELATION_ID, names.REPLY_TO_CLIENT, names.TTL)


def request_of(message: Message, *, client_id: str, timeout_ms: int) -> tuple[str, Message]:
    """Return a new correlation id, and the message as a request that carries it."""
    correlation_id = str(uuid.uuid4())
    marks = {
        names.CORRELATION_ID: correlation_id,
        names.REPLY_TO_CLIENT: client_id,
        names.TTL: str(timeout_ms),
    }
    return correlation_id, replace(message, properties=message.properties | marks)


def reply_to(message: ReceivedMessage, body: bytes) -> Message:
    """Return the reply to a request, to be sent by any producer.

    Raises MessageIllegal when the message is no request, or did not come through a broker.
    """
    missing = [name for name in (names.CLUSTER, *_CARRIED_OVER) if name not in message.properties]
    if missing:
        raise MessageIllegal(
            ClientCode.NOT_A_REQUEST,
            f"message {message.message_id} is no request, it has no property {', '.join(missing)}; only what "
            "was sent by Producer.request can be replied to",
        )
    marks = {name: message.properties[name] for name in _CARRIED_OVER}
    return Message(
        message.properties[names.CLUSTER] + REPLY_TOPIC_SUFFIX,
        body,
        properties=marks | {names.MSG_TYPE: REPLY},
    )


def no_reply(message: Message, sent: SendResult, timeout_ms: int) -> NoReply:
    """Return the error for a request that was stored and got no reply."""
    return NoReply(
        f"no reply to the request within {timeout_ms} ms: it is stored in topic {message.topic!r} (message "
        f"{sent.message_id}, queue {sent.queue.queue_id} of {sent.queue.broker_name}). Does a consumer read "
        "the topic, and does it send reply_to(message, body)?"
    )


async def reply_within(
    reply: "asyncio.Future[ReceivedMessage]", message: Message, sent: SendResult, deadline: Deadline
) -> ReceivedMessage:
    """Wait for the reply to a request that is stored; raise NoReply when its time is up."""
    try:
        async with asyncio.timeout(deadline.left_s):
            return await reply
    except TimeoutError as error:
        raise no_reply(message, sent, deadline.timeout_ms) from error


class OpenRequests:
    """The requests of one client that wait for their replies, on one loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}

    @property
    def routes(self) -> list[Route[PushReplyMessage]]:
        """The routes of the replies that brokers push to this client."""
        return [Route(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._take, PushReplyMessage)]

    def expect(self, correlation_id: str) -> "asyncio.Future[ReceivedMessage]":
        """Return what will be the reply; `forget` it when nobody waits any more."""
        future: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        return future

    def forget(self, correlation_id: str) -> None:
        """Wait no more for a reply; should it come, it is only logged."""
        self._waiting.pop(correlation_id, None)

    def _take(self, request: Request[PushReplyMessage]) -> Answer:
        reply = reply_message(request.header, request.body, self._clock.now_ms())
        correlation_id = reply.properties.get(names.CORRELATION_ID, "")
        future = self._waiting.pop(correlation_id, None)
        if future is None:
            _log.warning(
                "a reply of %s is for no request that waits here: %s", reply.born_host, correlation_id
            )
        elif not future.done():
            _settle(future, reply)
        return Answer()


def _settle(future: "asyncio.Future[ReceivedMessage]", reply: ReceivedMessage) -> None:
    """Hand a reply over, or why it cannot be read."""
    try:
        must_read([reply])
    except PyroError as error:
        future.set_exception(error)
    else:
        future.set_result(reply)


def reply_message(header: PushReplyMessage, body: bytes, arrived_at_ms: int) -> ReceivedMessage:
    """Return the message that a broker pushed; it has no place in a queue, and no broker's name."""
    properties = names.decode(header.properties or "")
    properties[names.ARRIVE_TIME] = str(arrived_at_ms)
    message_id = properties.get(names.UNIQ_KEY, "")
    others = {
        "topic": header.topic,
        "queue": MessageQueue(header.topic, "", header.queue_id),
        "queue_offset": 0,
        "position": 0,
        "message_id": message_id,
        "offset_message_id": "",
        "properties": properties,
        "flag": header.flag,
        "sys_flag": header.sys_flag,
        "born_at_ms": header.born_timestamp,
        "born_host": header.born_host,
        "stored_at_ms": header.store_timestamp,
        "store_host": header.store_host,
        "reconsume_times": header.reconsume_times or 0,
        "prepared_position": 0,
        "body_crc": 0,
        "size": 0,
    }
    return Unpacking(BODY_BYTES_MAX).message(body, message_id, others)
