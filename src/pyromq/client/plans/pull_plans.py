"""Pulls: the messages of one queue from an offset on, held by the broker until there are some.

The filter travels with a pull of whoever polls. A push consumer's pull names the version of its subscription,
which the broker has from heartbeats, and carries the group's progress.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.consumer.incoming import AnswerTooLarge, first_unreadable, must_read, received_messages
from pyromq.client.namespaces import unwrap, wrap_queue
from pyromq.client.plans.broker_calls import call_broker, explained, reading_place, stale_on_failure
from pyromq.client.route_cache import MASTER_ID
from pyromq.client.steps import Call, Deadline, Plan, ask_all, request
from pyromq.codes import PullFlag, RequestCode, ResponseCode
from pyromq.errors import ConfigError, ConnectFailed, refusal
from pyromq.filter.tags import ALL, parse_tags, wants_all
from pyromq.model import MessageQueue, PullResult, PullStatus, ReceivedMessage
from pyromq.wire import properties as names
from pyromq.wire.bodies.heartbeat_bodies import Subscription
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.pull_headers import PullMessage, PullMessageAnswer

COUNT_MAX: Final = 1_024
#: The same for a pull that says how many bytes it takes.
BULK_COUNT_MAX: Final = 65_536
_STATUSES: Final[dict[int, PullStatus]] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW_MESSAGE,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED_MESSAGE,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


@dataclass(frozen=True, slots=True)
class PullQuery:
    """A pull: up to `count` messages with one of `tags`; the broker may hold it for `wait_ms`.

    With `sql` the broker chooses by properties instead of tags.
    """

    queue: MessageQueue
    offset: int
    count: int = 32
    tags: str = ALL
    wait_ms: int = 0
    sql: str | None = None
    #: Bytes that an answer may have. Brokers have limits of their own; with this, PyroMQ's go beyond them.
    bytes_max: int | None = None

    def __post_init__(self) -> None:
        if self.sql is not None and not wants_all(self.tags):
            raise ConfigError("choose messages by tags or by sql, not by both; in SQL, TAGS is a name too")
        most = COUNT_MAX if self.bytes_max is None else BULK_COUNT_MAX
        if not 1 <= self.count <= most:
            raise ConfigError(f"a pull may ask for 1 to {most} messages, not {self.count}")


@dataclass(frozen=True, slots=True)
class MemberPull:
    """A push consumer's pull. `progress` is what the broker is told to remember on the way, if anything."""

    queue: MessageQueue
    offset: int
    subscription: Subscription
    progress: int | None = None


@dataclass(frozen=True, slots=True)
class Pulled:
    """The answer to a pull; `records` are the messages as they are stored, one behind the other."""

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    records: bytes


def pull_deadline(session: Session, wait_ms: int, timeout_ms: int | None) -> Deadline:
    """Start a pull's time budget, which must be longer than the broker may hold the pull."""
    settings = session.settings
    if not wait_ms:
        return session.deadline(timeout_ms, settings.consumer_pull_timeout_millis)
    beyond_ms = settings.consumer_timeout_millis_when_suspend - settings.broker_suspend_max_time_millis
    # A broker looks at its held pulls every 5 s only, so an answer may be that late.
    return session.deadline(timeout_ms, wait_ms + max(beyond_ms, 6_000))


def pull(session: Session, wanted: PullQuery, deadline: Deadline) -> Plan[PullResult]:
    """Return what a queue has from an offset on, up to the first message that cannot be read.

    Raises why it cannot when it is the first one there; whoever asks goes on behind the offset it names.
    """
    result = yield from pull_all(session, wanted, deadline)
    found = first_unreadable(result.messages)
    if found is None:
        return result
    if found == 0:
        must_read(result.messages)
    return _up_to(result, found)


def pull_all(session: Session, wanted: PullQuery, deadline: Deadline) -> Plan[PullResult]:
    """Return what a queue has from an offset on, from the broker that the queue's last answer suggested.

    Messages that cannot be read are among the others, as `UnreadableMessage`.
    """
    namespace = session.settings.namespace
    queue = wrap_queue(namespace, wanted.queue)
    header = _header(session.group, queue.topic, wanted)
    result = yield from _ask(session, queue, lambda _broker_id: header, parse_tags(wanted.tags), deadline)
    if namespace:
        for message in result.messages:
            message.topic, message.queue = unwrap(namespace, message.topic), wanted.queue
    return result


def member_pull(session: Session, wanted: MemberPull) -> Plan[PullResult]:
    """Return what a queue has from an offset on, to a member that the broker knows from heartbeats."""
    deadline = session.deadline(None, session.settings.consumer_timeout_millis_when_suspend)
    tags = frozenset(wanted.subscription.tags)
    return _ask(session, wanted.queue, partial(_member_header, session, wanted), tags, deadline)


def _ask(
    session: Session,
    queue: MessageQueue,
    header_of: Callable[[int], PullMessage],
    tags: Set[str],
    deadline: Deadline,
) -> Plan[PullResult]:
    """Pull from the broker that the queue's last answer suggested; the header may depend on its id."""
    broker_id, address = yield from reading_place(session, queue, deadline)
    command = request(RequestCode.PULL_MESSAGE, header_of(broker_id))
    call = Call(address, command, deadline.part_s(deadline.timeout_ms))
    with stale_on_failure(session, queue):
        answer = yield from call_broker(session, queue.broker_name, call)
        result = read_answer(session, queue, tags, answer)
    session.reading_from[queue] = result.suggested_broker_id
    return result


def pull_records(session: Session, pulls: Sequence[PullQuery], deadline: Deadline) -> Plan[list[Pulled]]:
    """Return what several pulls from one queue give; they are on their way together.

    A reader that knows how many messages an answer has asks for the next ones before it has it.
    """
    queue = wrap_queue(session.settings.namespace, pulls[0].queue)
    _, address = yield from reading_place(session, queue, deadline)
    commands = [
        request(RequestCode.PULL_MESSAGE, _header(session.group, queue.topic, wanted)) for wanted in pulls
    ]
    with stale_on_failure(session, queue):
        try:
            answers = yield from ask_all(address, commands, deadline.part_s(deadline.timeout_ms))
        except ConnectFailed as error:
            session.routes.note_away(address)
            raise explained(session, queue.broker_name, error) from error
        pulled = [read_pulled(answer) for answer in answers]
    session.reading_from[queue] = pulled[-1].suggested_broker_id
    return pulled


def _header(group: str, topic: str, wanted: PullQuery) -> PullMessage:
    # SUBSCRIPTION: the filter travels with the pull, so the broker needs no heartbeat of a group member.
    flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wanted.wait_ms else PullFlag(0))
    return PullMessage(
        consumer_group=group,
        topic=topic,
        queue_id=wanted.queue.queue_id,
        queue_offset=wanted.offset,
        max_msg_nums=wanted.count,
        sys_flag=int(flags),
        commit_offset=0,
        suspend_timeout_millis=wanted.wait_ms,
        subscription=(wanted.tags or ALL) if wanted.sql is None else wanted.sql,
        sub_version=0,
        expression_type="TAG" if wanted.sql is None else "SQL92",
        max_msg_bytes=wanted.bytes_max,
        broker_name=wanted.queue.broker_name,
    )


def _member_header(session: Session, wanted: MemberPull, broker_id: int) -> PullMessage:
    settings, subscription = session.settings, wanted.subscription
    flags = PullFlag.SUSPEND
    # A slave keeps no progress of its own.
    if wanted.progress is not None and wanted.progress > 0 and broker_id == MASTER_ID:
        flags |= PullFlag.COMMIT_OFFSET
    expression = None
    if settings.post_subscription_when_pull:
        flags |= PullFlag.SUBSCRIPTION
        expression = subscription.sub_string
    return PullMessage(
        consumer_group=session.group,
        topic=wanted.queue.topic,
        queue_id=wanted.queue.queue_id,
        queue_offset=wanted.offset,
        max_msg_nums=settings.pull_batch_size,
        sys_flag=int(flags),
        commit_offset=max(wanted.progress or 0, 0),
        suspend_timeout_millis=settings.push_suspend_max_time_millis,
        subscription=expression,
        sub_version=subscription.sub_version,
        expression_type=subscription.expression_type,
        broker_name=wanted.queue.broker_name,
    )


def read_answer(session: Session, queue: MessageQueue, tags: Set[str], answer: Command) -> PullResult:
    """Return what the answer to a pull says; raise the error for a code that says no.

    Messages whose bodies are too large together are left for the next pull.
    """
    pulled = read_pulled(answer)
    messages: list[ReceivedMessage] = []
    if pulled.status is PullStatus.FOUND:
        ends = {names.MIN_OFFSET: str(pulled.min_offset), names.MAX_OFFSET: str(pulled.max_offset)}
        bytes_max = session.settings.decompressed_bytes_max
        messages = received_messages(pulled.records, queue.broker_name, ends, tags, bytes_max)
    result = PullResult(
        status=pulled.status,
        next_offset=pulled.next_offset,
        min_offset=pulled.min_offset,
        max_offset=pulled.max_offset,
        messages=messages,
        suggested_broker_id=pulled.suggested_broker_id,
    )
    beyond = first_unreadable(messages, AnswerTooLarge)
    return result if beyond is None else _up_to(result, beyond)


def _up_to(result: PullResult, index: int) -> PullResult:
    """Return a result without a message and those behind it: the next pull brings them."""
    messages = result.messages
    return replace(result, messages=messages[:index], next_offset=messages[index].queue_offset)


def read_pulled(answer: Command) -> Pulled:
    """Return what the answer to a pull says, its messages unread; raise the error for a code that says no."""
    status = _STATUSES.get(answer.code)
    if status is None:
        raise refusal(answer.code, answer.remark)
    header = read_header(PullMessageAnswer, answer.ext)
    return Pulled(
        status=status,
        next_offset=header.next_begin_offset,
        min_offset=header.min_offset,
        max_offset=header.max_offset,
        suggested_broker_id=header.suggest_which_broker_id,
        records=answer.body if status is PullStatus.FOUND else b"",
    )
