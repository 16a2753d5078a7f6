"""An operator's requests: create a topic, find messages, see the cluster.

In a namespace topics are named without it, on their way out and back.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.consumer.incoming import received_messages
from pyromq.client.names import check_topic
from pyromq.client.namespaces import unwrap, unwrap_queue, wrap
from pyromq.client.plans.admin.ordered_topics import set_order
from pyromq.client.plans.broker_calls import call_broker
from pyromq.client.plans.route_plans import ask_name_servers, fetch_route, subscribe_route
from pyromq.client.plans.route_plans import cluster as cluster
from pyromq.client.route_cache import MASTER_ID
from pyromq.client.steps import Call, Deadline, Plan, ask, must_succeed, request
from pyromq.codes import Perm, RequestCode, ResponseCode, TopicSysFlag
from pyromq.errors import ConfigError, NoRoute, QueryNotFound, SearchIncomplete
from pyromq.model import ReceivedMessage
from pyromq.net.address import join_address
from pyromq.wire.bodies.list_bodies import decode_topic_list
from pyromq.wire.bodies.route_bodies import BrokerData, ClusterTable, TopicRoute
from pyromq.wire.headers.query_headers import QueryMessage, ViewMessage
from pyromq.wire.headers.topic_headers import UpdateAndCreateTopic
from pyromq.wire.message_id import parse_offset_message_id

#: The end of a query's time range when none is given: Java's largest number.
FOREVER_MS: Final = 2**63 - 1
#: The most that a broker finds for one query (RocketMQ's maxMsgsNumBatch).
QUERY_COUNT_MAX: Final = 64

#: A topic that has nothing to do with units.
NO_FLAG: Final = TopicSysFlag(0)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create, or to change if it is there."""

    topic: str
    queue_count: int = 8
    perm: Perm = Perm.READ | Perm.WRITE
    is_ordered: bool = False
    sys_flag: TopicSysFlag = NO_FLAG


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """A query for messages: of a topic, with a key, stored within a range of time."""

    topic: str
    key: str
    count: int = 32
    begin_ms: int = 0
    end_ms: int = FOREVER_MS


def topics(session: Session, deadline: Deadline) -> Plan[list[str]]:
    """Return the names of all topics that a name server knows, in the application's namespace, sorted."""
    command = request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    answer = yield from ask_name_servers(session, command, deadline)
    namespace = session.settings.namespace
    names = decode_topic_list(must_succeed(answer).body).topic_list
    return sorted(
        unwrap(namespace, name) for name in names if wrap(namespace, unwrap(namespace, name)) == name
    )


def route(session: Session, topic: str, deadline: Deadline) -> Plan[TopicRoute]:
    """Return a topic's route as the name server has it now."""
    return (yield from fetch_route(session, wrap(session.settings.namespace, topic), deadline))


def create_topic(
    session: Session, new: NewTopic, cluster_name: str | None, broker_name: str | None, deadline: Deadline
) -> Plan[None]:
    """Create a topic on every master of a cluster, on one broker, or on all that there are."""
    topic = wrap(session.settings.namespace, new.topic)
    check_topic(new.topic)
    check_topic(topic)
    if new.queue_count < 1:
        raise ConfigError(f"a topic needs at least one queue, not {new.queue_count}")
    table = yield from cluster(session, deadline)
    header = UpdateAndCreateTopic(
        topic=topic,
        default_topic=session.settings.create_topic_key,
        read_queue_nums=new.queue_count,
        write_queue_nums=new.queue_count,
        perm=int(new.perm),
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=int(new.sys_flag),
        order=new.is_ordered,
    )
    brokers = [*masters(session, table, cluster_name, broker_name)]
    for broker in brokers:
        command = request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        call = Call(broker.broker_addrs[MASTER_ID], command, deadline.part_s(deadline.timeout_ms))
        must_succeed((yield from call_broker(session, broker.broker_name, call)))
    if new.is_ordered:
        is_whole = broker_name is None
        yield from set_order(session, topic, brokers, new.queue_count, is_whole=is_whole, deadline=deadline)


def view_message(session: Session, offset_message_id: str, deadline: Deadline) -> Plan[ReceivedMessage]:
    """Return the message at a place in a broker's log; the id holds the broker's address."""
    place = parse_offset_message_id(offset_message_id)
    command = request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessage(offset=place.position))
    address = join_address(place.host, place.port)
    answer = must_succeed((yield from ask(address, command, deadline.part_s(deadline.timeout_ms))))
    broker_name = yield from _broker_name_at(session, address, deadline)
    return _unwrapped(session, _received(session, answer.body, broker_name))[0]


def query_message(session: Session, query: KeyQuery, deadline: Deadline) -> Plan[list[ReceivedMessage]]:
    """Return the messages with a key, of all brokers of the topic, oldest first."""
    found = yield from _query(session, query, deadline, by_unique_id=False)
    topic = unwrap(session.settings.namespace, query.topic)
    # The index goes by hash, so other keys may come along.
    matching = (message for message in found if query.key in message.keys and message.topic == topic)
    return sorted(matching, key=lambda message: message.stored_at_ms)[: query.count]


def query_all_messages(session: Session, query: KeyQuery, deadline: Deadline) -> Plan[list[ReceivedMessage]]:
    """Return all messages with a key, however many they are, oldest first.

    A broker gives the newest 64 at most; it is asked again for what is older, until nothing new comes. Its
    index knows seconds: raises SearchIncomplete when more than those were stored in one.
    """
    topic = wrap(session.settings.namespace, query.topic)
    known = yield from subscribe_route(session, topic, deadline)
    found: dict[str, ReceivedMessage] = {}
    for broker in known.route.broker_datas:
        end_ms, is_more = query.end_ms, True
        while is_more:
            header = _query_header(topic, replace(query, count=QUERY_COUNT_MAX, end_ms=end_ms))
            page = yield from _query_broker(session, broker.broker_name, header, deadline)
            before = len(found)
            found |= {f"{broker.broker_name} {one.offset_message_id}": one for one in page}
            is_more = len(page) >= QUERY_COUNT_MAX
            if is_more and len(found) == before:
                raise SearchIncomplete(
                    f"topic {query.topic!r} has more messages with the key {query.key!r} than the index of "
                    f"{broker.broker_name} tells apart: {QUERY_COUNT_MAX} of one second are the limit; read "
                    "the topic instead, and choose by the keys"
                )
            end_ms = min((one.stored_at_ms for one in page), default=0)
    matching = (one for one in found.values() if query.key in one.keys and one.topic == topic)
    return _unwrapped(session, sorted(matching, key=lambda message: message.stored_at_ms))


def find_message(session: Session, topic: str, message_id: str, deadline: Deadline) -> Plan[ReceivedMessage]:
    """Return the message with the unique id that its producer gave it, the first if it was sent twice."""
    return (yield from messages_by_id(session, topic, message_id, deadline))[0]


def messages_by_id(
    session: Session, topic: str, message_id: str, deadline: Deadline
) -> Plan[list[ReceivedMessage]]:
    """Return all messages with a unique id, oldest first; raise QueryNotFound when there is none."""
    query = KeyQuery(topic, message_id)
    found = yield from _query(session, query, deadline, by_unique_id=True)
    matching = [message for message in found if message.message_id == message_id]
    if not matching:
        raise QueryNotFound(
            ResponseCode.QUERY_NOT_FOUND,
            f"topic {topic!r} has no message with the id {message_id}; was it sent to this topic, and is it "
            "younger than the brokers' fileReservedTime?",
        )
    return sorted(matching, key=lambda message: message.stored_at_ms)


def _query(
    session: Session, query: KeyQuery, deadline: Deadline, *, by_unique_id: bool
) -> Plan[list[ReceivedMessage]]:
    topic = wrap(session.settings.namespace, query.topic)
    known = yield from subscribe_route(session, topic, deadline)
    header = _query_header(topic, query, by_unique_id=by_unique_id)
    found: list[ReceivedMessage] = []
    for broker in known.route.broker_datas:
        found += yield from _query_broker(session, broker.broker_name, header, deadline)
    return _unwrapped(session, found)


def _query_header(topic: str, query: KeyQuery, *, by_unique_id: bool = False) -> QueryMessage:
    return QueryMessage(
        topic=topic,
        key=query.key,
        max_num=query.count,
        begin_timestamp=query.begin_ms,
        end_timestamp=query.end_ms,
        unique_key_query=by_unique_id,
    )


def _query_broker(
    session: Session, broker_name: str, header: QueryMessage, deadline: Deadline
) -> Plan[list[ReceivedMessage]]:
    place = session.routes.reading_address(broker_name)
    if place is None:
        return []
    command = request(RequestCode.QUERY_MESSAGE, header)
    call = Call(place[1], command, deadline.part_s(deadline.timeout_ms))
    answer = yield from call_broker(session, broker_name, call)
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return []
    return _received(session, must_succeed(answer).body, broker_name)


def _received(session: Session, body: bytes, broker_name: str) -> list[ReceivedMessage]:
    return received_messages(body, broker_name, bytes_max=session.settings.decompressed_bytes_max)


def _unwrapped(session: Session, messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
    """Return messages with their topics' names in the application."""
    namespace = session.settings.namespace
    for message in messages if namespace else ():
        message.topic = unwrap(namespace, message.topic)
        message.queue = unwrap_queue(namespace, message.queue)
    return messages


def masters(
    session: Session, table: ClusterTable, cluster_name: str | None, broker_name: str | None
) -> Iterable[BrokerData]:
    """Return the brokers with a master, of one cluster or of all, by name; raise NoRoute when none has."""
    wanted = [
        broker
        for broker in table.broker_addr_table.values()
        if broker_name in (None, broker.broker_name)
        and cluster_name in (None, broker.cluster)
        and MASTER_ID in broker.broker_addrs
    ]
    if not wanted:
        there = ", ".join(
            f"{broker.broker_name} ({broker.cluster})" for broker in table.broker_addr_table.values()
        )
        raise NoRoute(
            f"no master to create the topic on (cluster {cluster_name or 'any'}, broker "
            f"{broker_name or 'any'}); brokers at {session.name_servers}: {there or 'none'}"
        )
    return sorted(wanted, key=lambda broker: broker.broker_name)


def _broker_name_at(session: Session, address: str, deadline: Deadline) -> Plan[str]:
    table = yield from cluster(session, deadline)
    for broker in table.broker_addr_table.values():
        if address in broker.broker_addrs.values():
            return broker.broker_name
    return ""
