"""Reading dead letters: which groups have any, and one group's in the order in which they died.

They are read in the name of TOOLS_CONSUMER, the group that every RocketMQ broker has for its own tools, so
neither the group's progress nor anyone's settings are touched.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from pyromq.client.client_session import Session, new_session
from pyromq.client.dead_letter import (
    DeadLetter,
    DeadLetterCount,
    DeadLetterFilter,
    dead_letter_of,
    dead_letter_topic,
)
from pyromq.client.namespaces import DEAD_LETTER_TOPIC_PREFIX, SEPARATOR, unwrap, wrap
from pyromq.client.plans import progress_plans
from pyromq.client.plans.broker_calls import call_broker, master_address
from pyromq.client.plans.pull_plans import PullQuery, pull_all, pull_deadline
from pyromq.client.plans.route_plans import ask_name_servers, fetch_route
from pyromq.client.route_cache import read_queues
from pyromq.client.steps import Call, Deadline, Pause, Plan, must_succeed, request
from pyromq.codes import Perm, RequestCode, ResponseCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import NoPermission, TopicNotFound
from pyromq.model import MessageQueue, PullStatus, ReceivedMessage
from pyromq.wire.bodies.list_bodies import decode_topic_list
from pyromq.wire.bodies.route_bodies import BrokerQueues, TopicRoute
from pyromq.wire.headers.topic_headers import UpdateAndCreateTopic

TOOLS_GROUP: Final = "TOOLS_CONSUMER"
#: Milliseconds that one question may take, as an operator's others.
TIMEOUT_MS: Final = 6_000
#: Between two looks whether a name server knows of a changed topic.
_LOOK_AGAIN_S: Final = 0.2
_READ_AND_WRITE: Final = Perm.READ | Perm.WRITE


def new_tools_session(addresses: tuple[str, ...], settings: ClientSettings) -> Session:
    """Return a session in the name of the tools' group, which belongs to no namespace."""
    session = new_session("", addresses, settings)
    session.group = TOOLS_GROUP
    return session


@dataclass(slots=True)
class LetterStretch:
    """The part of a queue that is still to be read, up to its end as it was at the start."""

    queue: MessageQueue
    next_offset: int
    end: int
    waiting: deque[ReceivedMessage] = field(default_factory=deque)

    def finish(self) -> None:
        """Read no more of it."""
        self.waiting.clear()
        self.next_offset = self.end


@dataclass(slots=True)
class LetterReading:
    """The progress of reading a group's dead letters. A message that dies after the start is not read."""

    group: str
    wanted: DeadLetterFilter
    stretches: list[LetterStretch]
    given: int = 0


def count_all(session: Session) -> Plan[list[DeadLetterCount]]:
    """Return how many dead letters each group has, by name."""
    answer = yield from ask_name_servers(
        session, request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), _deadline(session)
    )
    namespace = session.settings.namespace
    prefix = DEAD_LETTER_TOPIC_PREFIX + (namespace + SEPARATOR if namespace else "")
    counts = []
    for topic in sorted(decode_topic_list(must_succeed(answer).body).topic_list):
        if topic.startswith(prefix):
            counts.append((yield from _count(session, topic)))
    return counts


def open_reading(session: Session, group: str, wanted: DeadLetterFilter) -> Plan[LetterReading]:
    """Begin to read a group's dead letters; a group that never had one has none.

    Raises NoPermission when they may not be read, as those of brokers before 4.7 (permission 2).
    """
    topic = wrap(session.settings.namespace, dead_letter_topic(group))
    try:
        route = yield from fetch_route(session, topic, _deadline(session))
    except TopicNotFound:
        return LetterReading(group, wanted, [])
    _check_readable(group, topic, route)
    session.routes.put(topic, route)
    stretches = []
    for queue in read_queues(topic, route):
        stretches.append((yield from _stretch(session, queue, wanted.since_ms)))
    return LetterReading(group, wanted, stretches)


def next_letter(session: Session, reading: LetterReading) -> Plan[DeadLetter | None]:
    """Return the next dead letter, the one that died first; None at the end."""
    wanted = reading.wanted
    while wanted.limit is None or reading.given < wanted.limit:
        for stretch in reading.stretches:
            if not stretch.waiting:
                yield from _fill(session, stretch)
        ready = [stretch for stretch in reading.stretches if stretch.waiting]
        if not ready:
            return None
        oldest = min(ready, key=lambda stretch: stretch.waiting[0].stored_at_ms)
        message = oldest.waiting.popleft()
        if wanted.until_ms is not None and message.stored_at_ms >= wanted.until_ms:
            oldest.finish()
            continue
        letter = dead_letter_of(reading.group, message, session.settings.namespace)
        # RocketMQ's offset of a time may be that of the last message before it.
        if message.stored_at_ms >= wanted.since_ms and wanted.wants(letter):
            reading.given += 1
            return letter
    return None


def make_readable(session: Session, group: str) -> Plan[None]:
    """Give a group's dead letters the permission to be read, on every broker where they lack it.

    Returns when the name servers know it too.
    """
    topic = wrap(session.settings.namespace, dead_letter_topic(group))
    deadline = _deadline(session)
    try:
        route = yield from fetch_route(session, topic, deadline)
    except TopicNotFound:
        return
    session.routes.put(topic, route)
    for part in _unreadable(route):
        yield from _allow_reading(session, topic, part)
    while _unreadable(route):
        yield Pause(min(_LOOK_AGAIN_S, deadline.part_s(deadline.timeout_ms)))
        route = yield from fetch_route(session, topic, deadline)


def _allow_reading(session: Session, topic: str, part: BrokerQueues) -> Plan[None]:
    count = max(part.read_queue_nums, part.write_queue_nums)
    header = UpdateAndCreateTopic(
        topic=topic,
        default_topic=session.settings.create_topic_key,
        read_queue_nums=count,
        write_queue_nums=part.write_queue_nums,
        perm=part.perm | int(_READ_AND_WRITE),
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=part.topic_sys_flag,
        order=False,
    )
    deadline = _deadline(session)
    address = yield from master_address(session, MessageQueue(topic, part.broker_name, 0), deadline)
    command = request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
    call = Call(address, command, deadline.part_s(deadline.timeout_ms))
    must_succeed((yield from call_broker(session, part.broker_name, call)))


def _check_readable(group: str, topic: str, route: TopicRoute) -> None:
    closed = [part.broker_name for part in _unreadable(route)]
    if closed:
        raise NoPermission(
            ResponseCode.NO_PERMISSION,
            f"the dead letters of group {group!r} may not be read on {', '.join(closed)}: topic {topic} has "
            "not the permission 4 there, as brokers of old versions make it. Allow it by `pyromq dlq list "
            f"{group} --make-readable`, by DeadLetters.make_readable(group), or by `mqadmin updateTopicPerm "
            "-p 6`",
        )


def _unreadable(route: TopicRoute) -> list[BrokerQueues]:
    return [part for part in route.queue_datas if not part.perm & Perm.READ]


def _count(session: Session, topic: str) -> Plan[DeadLetterCount]:
    """Count by the ends of the queues, which may be asked for whatever the permissions are."""
    deadline = _deadline(session)
    count, times = 0, []
    route = yield from fetch_route(session, topic, deadline)
    session.routes.put(topic, route)
    for part in route.queue_datas:
        for queue_id in range(max(part.read_queue_nums, part.write_queue_nums)):
            queue = MessageQueue(topic, part.broker_name, queue_id)
            begin = yield from progress_plans.min_offset(session, queue, deadline)
            end = yield from progress_plans.max_offset(session, queue, deadline)
            if end > begin:
                count += end - begin
                times.append((yield from progress_plans.earliest_time(session, queue, deadline)))
    name = unwrap(session.settings.namespace, topic).removeprefix(DEAD_LETTER_TOPIC_PREFIX)
    return DeadLetterCount(name, count, min((time for time in times if time is not None), default=None))


def _stretch(session: Session, queue: MessageQueue, since_ms: int) -> Plan[LetterStretch]:
    deadline = _deadline(session)
    begin = yield from progress_plans.min_offset(session, queue, deadline)
    end = yield from progress_plans.max_offset(session, queue, deadline)
    if since_ms > 0 and end > begin:
        begin = max(begin, (yield from progress_plans.offset_by_time(session, queue, since_ms, deadline)))
    return LetterStretch(queue, begin, end)


def _fill(session: Session, stretch: LetterStretch) -> Plan[None]:
    while not stretch.waiting and stretch.next_offset < stretch.end:
        wanted = PullQuery(stretch.queue, stretch.next_offset)
        result = yield from pull_all(session, wanted, pull_deadline(session, 0, TIMEOUT_MS))
        if result.status is PullStatus.NO_NEW_MESSAGE or result.next_offset <= stretch.next_offset:
            stretch.finish()
            return
        stretch.waiting.extend(one for one in result.messages if one.queue_offset < stretch.end)
        stretch.next_offset = min(result.next_offset, stretch.end)


def _deadline(session: Session) -> Deadline:
    return session.deadline(None, TIMEOUT_MS)
