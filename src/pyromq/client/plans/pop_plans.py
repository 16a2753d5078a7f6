"""POP: taking messages of a topic from one broker, ending them, and having them come again later.

A pop names no offset. The broker hands out what nobody has, of all queues and of the group's retry topic, and
each message is invisible to others until it is acknowledged or its time is over. Then it comes again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.consumer.incoming import received_messages
from pyromq.client.namespaces import unwrap
from pyromq.client.plans.broker_calls import call_broker, master_address, stale_on_failure
from pyromq.client.plans.membership_plans import any_broker
from pyromq.client.pop.popped_batch import PoppedBatch, read_batches, read_counts
from pyromq.client.steps import Call, Deadline, Plan, ask_all, must_succeed, request
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import (
    HandleExpired,
    PopUnsupported,
    PyroError,
    Refused,
    RemoteProtocolError,
    refusal,
)
from pyromq.model import MessageQueue, ReceivedMessage
from pyromq.wire.bodies.heartbeat_bodies import Subscription
from pyromq.wire.bodies.pop_bodies import (
    AssignmentQuestion,
    BatchAckPart,
    QueueAssignment,
    decode_assignments,
    encode_assignment_question,
    encode_batch_ack,
)
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.pop_headers import (
    AckMessage,
    ChangeMessageInvisibleTime,
    ChangeMessageInvisibleTimeAnswer,
    PopMessage,
    PopMessageAnswer,
    PopNotification,
    PopNotificationAnswer,
)
from pyromq.wire.receipt_handle import ReceiptHandle

#: The most messages of one pop.
POP_COUNT_MAX: Final = 32
#: The id of a queue that stands for all of a broker's.
ALL_QUEUES: Final = -1
#: How long a message may be invisible, as RocketMQ 5 has it.
INVISIBLE_MS_MAX: Final = 12 * 3_600_000
#: Where a group begins that is new at a broker: with the oldest message, or with what comes from now on.
_FROM_MIN, _FROM_MAX = 0, 1
_EMPTY: Final = frozenset(
    {ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY}
)
#: Milliseconds that a held pop may take beyond the time that the broker may hold it, as in RocketMQ.
_BEYOND_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class PopQuery:
    """A pop. The queue's topic has its name on the wire; its id is −1 for all queues and the retry topic."""

    queue: MessageQueue
    subscription: Subscription
    count: int
    invisible_ms: int
    wait_ms: int
    from_min: bool = False
    is_fifo: bool = False
    attempt_id: str | None = None


@dataclass(frozen=True, slots=True)
class PopHaul:
    """The messages of one pop: those of its batches, one behind the other."""

    batches: Sequence[PoppedBatch]

    @property
    def messages(self) -> list[ReceivedMessage]:
        """All messages."""
        return list(chain.from_iterable(batch.messages for batch in self.batches))


def pop(session: Session, wanted: PopQuery, deadline: Deadline) -> Plan[PopHaul]:
    """Take messages; there may be none. The broker holds the question for `wait_ms` if there is nothing."""
    queue = wanted.queue
    header = PopMessage(
        consumer_group=session.group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        max_msg_nums=wanted.count,
        invisible_time=wanted.invisible_ms,
        poll_time=wanted.wait_ms,
        # Not this clock's time: to a broker whose clock is ahead, the question would be over before it came.
        born_time=0,
        init_mode=_FROM_MIN if wanted.from_min else _FROM_MAX,
        exp_type=wanted.subscription.expression_type,
        exp=wanted.subscription.sub_string,
        order=wanted.is_fifo,
        attempt_id=wanted.attempt_id,
        broker_name=queue.broker_name,
    )
    with stale_on_failure(session, queue):
        address = yield from master_address(session, queue, deadline)
        timeout_s = (wanted.wait_ms + _BEYOND_MS) / 1_000
        call = Call(address, request(RequestCode.POP_MESSAGE, header), timeout_s)
        answer = yield from call_broker(session, queue.broker_name, call)
        if answer.code in _EMPTY:
            return PopHaul(())
        batches = read_pop(session, wanted, _supported(session, queue.broker_name, answer))
    strangers = _without_strangers(session, wanted, batches)
    if strangers:
        # The broker compares hashes of tags; what has another tag with the same hash is nobody's here.
        yield from ack(session, queue, strangers)
    return PopHaul([batch for batch in batches if batch.messages])


def pop_deadline(session: Session) -> Deadline:
    """Start the time budget for finding the broker of a pop."""
    return session.deadline(None, session.settings.mq_client_api_timeout)


def read_pop(session: Session, wanted: PopQuery, answer: Command) -> list[PoppedBatch]:
    """Return what the answer to a pop says; raise the error for a code that says no."""
    header = read_header(PopMessageAnswer, must_succeed(answer).ext)
    queue, namespace = wanted.queue, session.settings.namespace
    batches = read_batches(header, queue, session.clock)
    counts = read_counts(header) if header.order_count_info else {}
    messages = received_messages(
        answer.body, queue.broker_name, bytes_max=session.settings.decompressed_bytes_max
    )
    if len(messages) != sum(len(batch.offsets) for batch in batches):
        raise RemoteProtocolError(
            f"broker {queue.broker_name} answered a pop with {len(messages)} messages, and named "
            f"{sum(len(batch.offsets) for batch in batches)}"
        )
    topic = unwrap(namespace, queue.topic)
    at = 0
    for batch in batches:
        batch.messages = messages[at : at + len(batch.offsets)]
        at += len(batch.offsets)
        shown = MessageQueue(topic, queue.broker_name, batch.queue_id)
        for message, offset in zip(batch.messages, batch.offsets, strict=True):
            message.queue_offset = offset
            if batch.mark or namespace:
                message.topic, message.queue = topic, shown
            if counts:
                message.reconsume_times = counts.get((batch.mark, batch.queue_id, offset), 0)
    return batches


def _without_strangers(session: Session, wanted: PopQuery, batches: list[PoppedBatch]) -> list[BatchAckPart]:
    """Take messages with other tags out of batches, and return what acknowledges them."""
    tags = frozenset(wanted.subscription.tags)
    parts: list[BatchAckPart] = []
    for batch in batches if tags else ():
        others = [message for message in batch.messages if message.tags not in tags]
        if others:
            batch.messages = [message for message in batch.messages if message.tags in tags]
            batch.finish(batch.bits(others))
            parts += batch.take_done(session.group)
    return parts


def notified(session: Session, wanted: PopQuery, deadline: Deadline) -> Plan[Call]:
    """Return the call that asks a broker to say when a pop would find something; nothing is taken."""
    queue = wanted.queue
    header = PopNotification(
        consumer_group=session.group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        poll_time=wanted.wait_ms,
        born_time=0,
        order=wanted.is_fifo,
        exp_type=wanted.subscription.expression_type,
        exp=wanted.subscription.sub_string,
        broker_name=queue.broker_name,
    )
    address = yield from master_address(session, queue, deadline)
    return Call(address, request(RequestCode.NOTIFICATION, header), (wanted.wait_ms + _BEYOND_MS) / 1_000)


def says_something(answer: Command) -> bool | None:
    """Return whether a broker that was asked to notify says that there is something; None: it cannot say."""
    if answer.code != ResponseCode.SUCCESS:
        return None
    header = read_header(PopNotificationAnswer, answer.ext)
    return None if header.polling_full else header.has_msg


# Ending --------------------------------------------------------------------------------------------------


def ack(session: Session, queue: MessageQueue, parts: Sequence[BatchAckPart]) -> Plan[None]:
    """End messages that came from a queue's broker, in one request.

    A broker answers SUCCESS to what it has forgotten, too: messages whose time was over come again.
    """
    deadline = session.deadline(None, session.settings.mq_client_api_timeout)
    body = encode_batch_ack(queue.broker_name, parts)
    with stale_on_failure(session, queue):
        address = yield from master_address(session, queue, deadline)
        call = Call(
            address,
            request(RequestCode.BATCH_ACK_MESSAGE, body=body),
            deadline.part_s(deadline.timeout_ms),
        )
        answer = yield from call_broker(session, queue.broker_name, call)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            # Of RocketMQ 5.0, which knows POP and no batches of acknowledgements.
            yield from _ack_each(session, queue, address, parts, deadline)
        elif answer.code != ResponseCode.NO_MESSAGE:
            must_succeed(answer)


def _ack_each(
    session: Session, queue: MessageQueue, address: str, parts: Iterable[BatchAckPart], deadline: Deadline
) -> Plan[None]:
    commands = []
    for part in parts:
        for handle in handles_of(part, queue.broker_name):
            header = AckMessage(
                consumer_group=session.group,
                topic=handle.real_topic(session.group, part.topic),
                queue_id=handle.queue_id,
                extra_info=handle.encode_short(),
                offset=handle.offset,
                broker_name=queue.broker_name,
            )
            commands.append(request(RequestCode.ACK_MESSAGE, header))
    answers = yield from ask_all(address, commands, deadline.part_s(deadline.timeout_ms))
    for answer in answers:
        if answer.code != ResponseCode.NO_MESSAGE:
            _supported(session, queue.broker_name, answer)


def handles_of(part: BatchAckPart, broker_name: str) -> list[ReceiptHandle]:
    """Return the handles of the messages that a part of a batch acknowledges."""
    bits = part.bits
    return [
        ReceiptHandle(
            part.start_offset,
            part.popped_at_ms,
            part.invisible_ms,
            part.revive_queue_id,
            int(part.mark),
            broker_name,
            part.queue_id,
            part.start_offset + index,
        )
        for index in range(bits.bit_length())
        if bits >> index & 1
    ]


@dataclass(frozen=True, slots=True)
class InvisibleChange:
    """A message that is to come again so many milliseconds from now, unless it is ended before."""

    handle: ReceiptHandle
    invisible_ms: int


def change_invisible(
    session: Session, queue: MessageQueue, changes: Sequence[InvisibleChange]
) -> Plan[list[ReceiptHandle | Refused]]:
    """Change how long messages are invisible; the answers, in order, are their new handles or refusals.

    The messages came from one topic of one broker. A message whose time was over is refused (NO_MESSAGE).
    """
    deadline = session.deadline(None, session.settings.mq_client_api_timeout)
    commands = [
        request(
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
            ChangeMessageInvisibleTime(
                consumer_group=session.group,
                topic=change.handle.real_topic(session.group, queue.topic),
                queue_id=change.handle.queue_id,
                extra_info=change.handle.encode_short(),
                offset=change.handle.offset,
                invisible_time=change.invisible_ms,
                broker_name=queue.broker_name,
            ),
        )
        for change in changes
    ]
    with stale_on_failure(session, queue):
        address = yield from master_address(session, queue, deadline)
        answers = yield from ask_all(address, commands, deadline.part_s(deadline.timeout_ms))
    return [_changed(change.handle, answer) for change, answer in zip(changes, answers, strict=True)]


def _changed(old: ReceiptHandle, answer: Command) -> ReceiptHandle | Refused:
    if answer.code == ResponseCode.NO_MESSAGE:
        return HandleExpired(
            answer.code,
            "the message is not this consumer's any more: its invisible time is over, or it was ended. If it "
            "is not done, it comes again; receive it with a longer invisible time",
        )
    if answer.code != ResponseCode.SUCCESS:
        return refusal(answer.code, answer.remark)
    header = read_header(ChangeMessageInvisibleTimeAnswer, answer.ext)
    return ReceiptHandle(
        old.offset,
        header.pop_time,
        header.invisible_time,
        header.revive_qid,
        old.mark,
        old.broker_name,
        old.queue_id,
        old.offset,
    )


# Assignments ---------------------------------------------------------------------------------------------


def assignments(session: Session, topic: str) -> Plan[list[QueueAssignment] | None]:
    """Ask one of a topic's brokers which queues this member is to read; None: those that it has."""
    broker_name, address = yield from any_broker(session, topic)
    body = encode_assignment_question(
        AssignmentQuestion(topic=topic, consumer_group=session.group, client_id=session.identity.client_id)
    )
    timeout_s = session.settings.mq_client_api_timeout / 1_000
    call = Call(address, request(RequestCode.QUERY_ASSIGNMENT, body=body), timeout_s)
    try:
        answer = yield from call_broker(session, broker_name, call)
    except PyroError:
        session.routes.mark_stale(topic)
        raise
    return decode_assignments(_supported(session, broker_name, answer).body)


def _supported(session: Session, broker_name: str, answer: Command) -> Command:
    """Return an answer that is a success; raise PopUnsupported when the broker does not know POP."""
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        raise PopUnsupported(
            answer.code,
            f"broker {broker_name} does not know POP, as RocketMQ 4 does not: use a PullConsumer, or a "
            f"PushConsumer without mode='pop', for group {session.group!r}; or brokers of PyroMQ or "
            "RocketMQ 5",
        )
    return must_succeed(answer)
