"""Offsets of queues, and a group's progress in them. Topics are named with their namespace or without."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from pyromq.client.client_session import Session
from pyromq.client.consumer.queue_progress import QueueProgress
from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.namespaces import unwrap_queue, wrap, wrap_queue
from pyromq.client.plans.broker_calls import asking_address, call_broker, stale_on_failure
from pyromq.client.plans.route_plans import fetch_route, subscribe_route
from pyromq.client.route_cache import read_queues
from pyromq.client.steps import Call, Deadline, Plan, Save, must_succeed, request
from pyromq.codes import RequestCode
from pyromq.errors import (
    NetworkError,
    NoRoute,
    PyroError,
    QueryNotFound,
    Refused,
    StoreError,
    TopicNotFound,
)
from pyromq.model import ConsumeFrom, MessageQueue
from pyromq.wire.bodies.offset_bodies import TopicOffset, decode_topic_stats
from pyromq.wire.command import Command
from pyromq.wire.header import Header, read_header
from pyromq.wire.headers.admin_headers import GetTopicStats
from pyromq.wire.headers.offset_headers import (
    GetEarliestMessageStoreTime,
    GetEarliestMessageStoreTimeAnswer,
    GetMaxOffset,
    GetMaxOffsetAnswer,
    GetMinOffset,
    GetMinOffsetAnswer,
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    SearchOffset,
    SearchOffsetAnswer,
    UpdateConsumerOffset,
)

_log = logging.getLogger("pyromq.client")


@dataclass(frozen=True, slots=True)
class GroupStart:
    """The place where a group begins in a queue that it has not read yet."""

    where: ConsumeFrom = ConsumeFrom.LAST_OFFSET
    at_ms: int = 0


def subscribe_queues(session: Session, topic: str, deadline: Deadline) -> Plan[list[MessageQueue]]:
    """Return the queues of a topic that can be read, of all brokers."""
    namespace = session.settings.namespace
    route = yield from subscribe_route(session, wrap(namespace, topic), deadline)
    return [unwrap_queue(namespace, queue) for queue in route.read_queues]


def fetch_queues(session: Session, topic: str, deadline: Deadline) -> Plan[list[MessageQueue]]:
    """Return the queues of a topic that can be read, as the name server says now; none without a route."""
    namespace = session.settings.namespace
    name = wrap(namespace, topic)
    try:
        route = yield from fetch_route(session, name, deadline)
    except TopicNotFound:
        return []
    session.routes.put(name, route)
    return [unwrap_queue(namespace, queue) for queue in read_queues(name, route)]


def committed(session: Session, queue: MessageQueue, deadline: Deadline) -> Plan[int | None]:
    """Return the queue offset that a group reads next, or None when it has not read the queue yet."""
    queue = wrap_queue(session.settings.namespace, queue)
    if session.local is not None:
        return session.local.get(queue)
    header = QueryConsumerOffset(consumer_group=session.group, topic=queue.topic, queue_id=queue.queue_id)
    try:
        answer = yield from _ask_broker(session, queue, RequestCode.QUERY_CONSUMER_OFFSET, header, deadline)
    except QueryNotFound:
        return None
    return read_header(QueryConsumerOffsetAnswer, answer.ext).offset


def starting_offset(session: Session, start: GroupStart, queue: MessageQueue) -> Plan[tuple[int, int | None]]:
    """Return the offset at which to begin in a queue, and the committed one if there is one.

    A retry topic is read from its first message, but by a group that begins at a time: then from its end.
    """
    deadline = session.deadline(None, session.settings.mq_client_api_timeout)
    known = yield from committed(session, queue, deadline)
    if known is not None:
        return known, known
    is_retry = queue.topic.startswith(RETRY_TOPIC_PREFIX)
    if start.where is ConsumeFrom.FIRST_OFFSET or (start.where is ConsumeFrom.LAST_OFFSET and is_retry):
        offset = yield from min_offset(session, queue, deadline)
    elif start.where is ConsumeFrom.TIMESTAMP and not is_retry:
        offset = yield from offset_by_time(session, queue, start.at_ms, deadline)
    else:
        offset = yield from max_offset(session, queue, deadline)
    return offset, None


def commit(session: Session, queue: MessageQueue, offset: int, deadline: Deadline) -> Plan[None]:
    """Let the broker remember the queue offset that a group reads next, and wait until it says so.

    Where a local file remembers it, it is written when this returns.
    """
    queue = wrap_queue(session.settings.namespace, queue)
    if session.local is not None:
        yield Save(session.local, {queue: offset})
        return
    header = UpdateConsumerOffset(
        consumer_group=session.group, topic=queue.topic, queue_id=queue.queue_id, commit_offset=offset
    )
    yield from _ask_broker(session, queue, RequestCode.UPDATE_CONSUMER_OFFSET, header, deadline)


def commit_all(session: Session, offsets: Mapping[MessageQueue, int]) -> Plan[dict[MessageQueue, PyroError]]:
    """Have offsets remembered, and return what failed, by queue; a failure is logged and stops no other."""
    failures: dict[MessageQueue, PyroError] = {}
    if session.local is not None and offsets:
        namespace = session.settings.namespace
        wrapped = {wrap_queue(namespace, queue): offset for queue, offset in offsets.items()}
        try:
            # Together: the file is written whole.
            yield Save(session.local, wrapped)
        except StoreError as error:
            _log.warning("progress of group %s was not saved: %s", session.group, error)
            failures.update(dict.fromkeys(offsets, error))
        return failures
    for queue, offset in offsets.items():
        deadline = session.deadline(None, session.settings.mq_client_api_timeout)
        try:
            yield from commit(session, queue, offset, deadline)
        except (NetworkError, NoRoute, Refused) as error:
            _log.warning("progress of group %s in %s was not committed: %s", session.group, queue, error)
            failures[queue] = error
    return failures


def commit_finished(session: Session, queues: Mapping[MessageQueue, QueueProgress]) -> Plan[PyroError | None]:
    """Commit what is finished in queues; return the first failure, which is tried again the next time."""
    due = {queue: at for queue, progress in queues.items() if (at := progress.due) is not None}
    failures = yield from commit_all(session, due)
    for queue, offset in due.items():
        if queue not in failures:
            queues[queue].note_committed(offset)
    return next(iter(failures.values()), None)


def min_offset(session: Session, queue: MessageQueue, deadline: Deadline) -> Plan[int]:
    """Return the offset of the first message that is still there."""
    queue = wrap_queue(session.settings.namespace, queue)
    header = GetMinOffset(topic=queue.topic, queue_id=queue.queue_id)
    answer = yield from _ask_broker(session, queue, RequestCode.GET_MIN_OFFSET, header, deadline)
    return read_header(GetMinOffsetAnswer, answer.ext).offset


def max_offset(session: Session, queue: MessageQueue, deadline: Deadline) -> Plan[int]:
    """Return the offset that the next message will get."""
    queue = wrap_queue(session.settings.namespace, queue)
    header = GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id)
    answer = yield from _ask_broker(session, queue, RequestCode.GET_MAX_OFFSET, header, deadline)
    return read_header(GetMaxOffsetAnswer, answer.ext).offset


def edges(
    session: Session, topic: str, broker_name: str, deadline: Deadline
) -> Plan[dict[MessageQueue, TopicOffset]]:
    """Return where all queues that a broker has of a topic begin and end, by one question."""
    namespace = session.settings.namespace
    any_queue = wrap_queue(namespace, MessageQueue(topic, broker_name, 0))
    header = GetTopicStats(topic=any_queue.topic)
    answer = yield from _ask_broker(session, any_queue, RequestCode.GET_TOPIC_STATS_INFO, header, deadline)
    return {unwrap_queue(namespace, queue): ends for queue, ends in decode_topic_stats(answer.body).items()}


def offset_by_time(session: Session, queue: MessageQueue, at_ms: int, deadline: Deadline) -> Plan[int]:
    """Return the offset of the first message stored at or after a time."""
    queue = wrap_queue(session.settings.namespace, queue)
    header = SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp=at_ms)
    answer = yield from _ask_broker(session, queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header, deadline)
    return read_header(SearchOffsetAnswer, answer.ext).offset


def earliest_time(session: Session, queue: MessageQueue, deadline: Deadline) -> Plan[int | None]:
    """Return when the first message that is still there was stored, or None when the queue is empty."""
    queue = wrap_queue(session.settings.namespace, queue)
    header = GetEarliestMessageStoreTime(topic=queue.topic, queue_id=queue.queue_id)
    answer = yield from _ask_broker(session, queue, RequestCode.GET_EARLIEST_MSG_STORETIME, header, deadline)
    at_ms = read_header(GetEarliestMessageStoreTimeAnswer, answer.ext).timestamp
    return at_ms if at_ms >= 0 else None


def _ask_broker(
    session: Session, queue: MessageQueue, code: RequestCode, header: Header, deadline: Deadline
) -> Plan[Command]:
    address = yield from asking_address(session, queue, deadline)
    call = Call(address, request(code, header), deadline.part_s(session.settings.mq_client_api_timeout))
    with stale_on_failure(session, queue):
        return must_succeed((yield from call_broker(session, queue.broker_name, call)))
