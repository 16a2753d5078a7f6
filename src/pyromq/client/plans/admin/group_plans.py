"""Consumer and producer groups for operators: who they are, who is in them, how far behind."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from pyromq.client.client_session import Session
from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.namespaces import DEAD_LETTER_TOPIC_PREFIX, unwrap_queue, wrap
from pyromq.client.plans.admin.scaling_plans import ServerReply
from pyromq.client.plans.admin.targets import (
    BrokerPlace,
    Silence,
    ask_each,
    places,
    places_of,
    tell_each,
    timeout_s,
)
from pyromq.client.plans.admin.topic_plans import delete_topic
from pyromq.client.plans.route_plans import fetch_route
from pyromq.client.route_cache import MASTER_ID
from pyromq.client.steps import Deadline, Plan, ask, must_succeed, request
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import NetworkError, ProtocolError, Refused, TopicNotFound
from pyromq.model import MessageQueue
from pyromq.wire.bodies.body import read_map, read_object, read_queue
from pyromq.wire.bodies.connection_bodies import (
    ConsumerConnections,
    MemberConnection,
    decode_consumer_connections,
)
from pyromq.wire.bodies.group_bodies import (
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
    decode_group_table,
    encode_group,
)
from pyromq.wire.bodies.offset_bodies import GroupProgress, decode_consume_stats
from pyromq.wire.bodies.operation_bodies import GroupLag, ProducerClient, decode_lags, decode_producers
from pyromq.wire.bodies.request_mode_bodies import RequestModeSetting, encode_request_mode
from pyromq.wire.headers.admin_headers import (
    GetConsumerConnectionList,
    GetConsumerStatus,
    GetConsumeStats,
    GetProducerConnectionList,
)
from pyromq.wire.headers.operation_headers import DeleteSubscriptionGroup, GetBrokerConsumeStats


@dataclass(frozen=True, slots=True)
class ConsumeProgress:
    """The progress of a group in each queue, and its rate in messages a second."""

    group: str
    queues: Mapping[MessageQueue, GroupProgress]
    tps: float = 0.0
    #: Brokers that did not answer, and why.
    silent: Mapping[str, str] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        """The number of messages that it has yet to read."""
        return sum(one.behind for one in self.queues.values())


@dataclass(frozen=True, slots=True)
class GroupOverview:
    """A group in one line; without members the type and the model are not known."""

    group: str
    member_count: int
    consume_type: str
    message_model: str
    version: int
    tps: float
    lag: int


def group_configs(session: Session, address: str) -> Plan[SubscriptionGroupTable]:
    """Return all consumer groups of one broker."""
    command = request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    return decode_group_table(must_succeed((yield from ask(address, command, timeout_s(session)))).body)


def all_group_configs(
    session: Session, deadline: Deadline, silence: Silence | None = None
) -> Plan[dict[BrokerPlace, SubscriptionGroupTable]]:
    """Return the consumer groups of each master; with `silence`, of each that answers."""
    masters = yield from places(session, deadline)
    answers = yield from ask_each(
        session, masters, lambda: request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG), silence
    )
    return {place: decode_group_table(answer.body) for place, answer in answers.items()}


def update_group(
    session: Session,
    config: SubscriptionGroupConfig,
    deadline: Deadline,
    *,
    cluster_name: str | None = None,
    address: str | None = None,
) -> Plan[list[ServerReply]]:
    """Create or change a group on one broker, or on all masters of a cluster."""
    config = msgspec.structs.replace(config, group_name=wrap(session.settings.namespace, config.group_name))
    meant = yield from places(session, deadline, cluster_name=cluster_name, address=address)
    body = encode_group(config)
    return (
        yield from tell_each(
            session,
            [place.address for place in meant],
            lambda: request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body),
        )
    )


def set_request_mode(
    session: Session,
    setting: RequestModeSetting,
    deadline: Deadline,
    *,
    cluster_name: str | None = None,
    address: str | None = None,
) -> Plan[list[ServerReply]]:
    """Say how the members of a group consume a topic, on one broker or on all masters of a cluster."""
    namespace = session.settings.namespace
    named = msgspec.structs.replace(
        setting,
        topic=wrap(namespace, setting.topic),
        consumer_group=wrap(namespace, setting.consumer_group),
    )
    meant = yield from places(session, deadline, cluster_name=cluster_name, address=address)
    return (
        yield from tell_each(
            session,
            [place.address for place in meant],
            lambda: request(RequestCode.SET_MESSAGE_REQUEST_MODE, body=encode_request_mode(named)),
        )
    )


def delete_group(
    session: Session,
    group: str,
    deadline: Deadline,
    *,
    cluster_name: str | None = None,
    address: str | None = None,
    removes_offsets: bool = False,
    keeps_topics: bool = False,
) -> Plan[list[ServerReply]]:
    """Delete a group on one broker, or on all masters of a cluster or of all.

    With a cluster or all, its retry and dead-letter topics go too unless they are kept.
    """
    group = wrap(session.settings.namespace, group)
    meant = yield from places(session, deadline, cluster_name=cluster_name, address=address)
    header = DeleteSubscriptionGroup(group_name=group, remove_offset=removes_offsets)
    told = yield from tell_each(
        session,
        [place.address for place in meant],
        lambda: request(RequestCode.DELETE_SUBSCRIPTIONGROUP, header),
    )
    if address is None and not keeps_topics:
        for prefix in (RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX):
            try:
                yield from fetch_route(session, prefix + group, deadline)
            except TopicNotFound:
                continue
            told += yield from delete_topic(session, prefix + group, cluster_name, deadline)
    return told


def group_places(session: Session, group: str, deadline: Deadline) -> Plan[list[BrokerPlace]]:
    """Return the brokers that know a group: those of its retry topic; all, if it has none."""
    try:
        route = yield from fetch_route(session, RETRY_TOPIC_PREFIX + group, deadline)
    except TopicNotFound:
        return (yield from places(session, deadline))
    return places_of(route)


def group_progress(
    session: Session, group: str, topic: str | None, deadline: Deadline, silence: Silence | None = None
) -> Plan[ConsumeProgress]:
    """Return how far a group got, in one topic or in all; a broker that is silent is named.

    Raises the first broker's failure when none answered.
    """
    namespace = session.settings.namespace
    wrapped = wrap(namespace, group)
    header = GetConsumeStats(consumer_group=wrapped, topic=None if topic is None else wrap(namespace, topic))
    brokers = yield from group_places(session, wrapped, deadline)
    silence = Silence() if silence is None else silence
    answers = yield from ask_each(
        session, brokers, lambda: request(RequestCode.GET_CONSUME_STATS, header), silence
    )
    found: dict[MessageQueue, GroupProgress] = {}
    tps = 0.0
    for answer in answers.values():
        found |= decode_consume_stats(answer.body)
        tps += float(read_object(answer.body).get("consumeTps", 0.0))
    queues = {unwrap_queue(namespace, queue): found[queue] for queue in sorted(found)}
    silent = {place.broker_name: silence.why[place] for place in brokers if place not in answers}
    return ConsumeProgress(group, queues, tps, silent)


def consumer_connections(
    session: Session, group: str, address: str | None, deadline: Deadline, silence: Silence | None = None
) -> Plan[ConsumerConnections]:
    """Return who is in a consumer group, as all its brokers see it that answer, or as one does.

    Raises Refused (CONSUMER_NOT_ONLINE) when nobody is; NetworkError, if that is not sure because a broker
    did not answer.
    """
    group = wrap(session.settings.namespace, group)
    if address is None:
        asked = yield from group_places(session, group, deadline)
    else:
        asked = [BrokerPlace("", address, MASTER_ID, address)]
    silence = Silence() if silence is None else silence
    merged: ConsumerConnections | None = None
    failure: NetworkError | Refused | None = None
    for place in asked:
        try:
            merged = _merged(merged, (yield from _connections(session, group, place, silence)))
        except Refused as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                silence.note(place, error)
                failure = error
        except NetworkError as error:
            silence.note(place, error)
            failure = error
    if merged is not None:
        return merged
    if failure is not None:
        raise failure
    raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, f"no consumer of group {group} is connected")


def _connections(
    session: Session, group: str, place: BrokerPlace, silence: Silence
) -> Plan[ConsumerConnections]:
    if (before := silence.of_gone(place)) is not None:
        raise before
    header = GetConsumerConnectionList(consumer_group=group)
    command = request(RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
    answer = must_succeed((yield from ask(place.address, command, timeout_s(session))))
    return decode_consumer_connections(answer.body)


def producer_connections(
    session: Session, group: str, topic: str, deadline: Deadline
) -> Plan[list[MemberConnection]]:
    """Return the members of a producer group that are connected to a broker of a topic."""
    namespace = session.settings.namespace
    route = yield from fetch_route(session, wrap(namespace, topic), deadline)
    found: dict[str, MemberConnection] = {}
    header = GetProducerConnectionList(producer_group=wrap(namespace, group))
    for place in places_of(route):
        command = request(RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
        answer = yield from ask(place.address, command, timeout_s(session))
        if answer.code == ResponseCode.SYSTEM_ERROR:
            # RocketMQ's code for a group that no producer of this broker has.
            continue
        body = decode_consumer_connections(must_succeed(answer).body)
        found |= {one.client_id: one for one in body.connections}
    return [found[client_id] for client_id in sorted(found)]


def broker_producers(session: Session, address: str) -> Plan[dict[str, list[ProducerClient]]]:
    """Return all producers that are connected to a broker, by group."""
    command = request(RequestCode.GET_ALL_PRODUCER_INFO)
    return decode_producers(must_succeed((yield from ask(address, command, timeout_s(session)))).body)


def broker_lags(
    session: Session, address: str, *, only_ordered: bool = False, timeout_ms: int | None = None
) -> Plan[dict[str, list[GroupLag]]]:
    """Return how far behind all groups of a broker are, by group."""
    header = GetBrokerConsumeStats(is_order=only_ordered)
    command = request(RequestCode.GET_BROKER_CONSUME_STATS, header)
    seconds = timeout_s(session) if timeout_ms is None else timeout_ms / 1_000
    answer = must_succeed((yield from ask(address, command, seconds)))
    return decode_lags(answer.body)


def group_overview(
    session: Session, group: str, deadline: Deadline, silence: Silence | None = None
) -> Plan[GroupOverview]:
    """Return a group in one line; what a broker does not say is left empty, and who it is, noted."""
    silence = Silence() if silence is None else silence
    tps, lag, members = 0.0, 0, ConsumerConnections()
    with suppress(Refused, NetworkError, ProtocolError):
        progress = yield from group_progress(session, group, None, deadline, silence)
        tps, lag = progress.tps, progress.lag
    with suppress(Refused, NetworkError, ProtocolError):
        members = yield from consumer_connections(session, group, None, deadline, silence)
    return GroupOverview(
        group=group,
        member_count=len(members.connections),
        consume_type=members.consume_type if members.connections else "",
        message_model=members.message_model if members.connections else "",
        version=min((one.version for one in members.connections), default=0),
        tps=tps,
        lag=lag,
    )


def client_offsets(
    session: Session, group: str, topic: str, client_id: str, deadline: Deadline
) -> Plan[dict[str, dict[MessageQueue, int]]]:
    """Return how far each member of a group says that it is in its queues of a topic."""
    namespace = session.settings.namespace
    wrapped = wrap(namespace, topic)
    route = yield from fetch_route(session, wrapped, deadline)
    found: dict[str, dict[MessageQueue, int]] = {}
    for place in places_of(route)[:1]:
        header = GetConsumerStatus(topic=wrapped, group=wrap(namespace, group), client_addr=client_id or None)
        command = request(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)
        answer = must_succeed((yield from ask(place.address, command, timeout_s(session) * 4)))
        table = read_map(read_object(answer.body).get("consumerTable", {}), "consumerTable")
        found = {
            str(client): {
                read_queue(queue): int(offset) for queue, offset in read_map(queues, "queues").items()
            }
            for client, queues in table.items()
        }
    return found


def _merged(before: ConsumerConnections | None, more: ConsumerConnections) -> ConsumerConnections:
    if before is None:
        return more
    known = {one.client_id for one in before.connections}
    connections = [*before.connections, *(one for one in more.connections if one.client_id not in known)]
    return msgspec.structs.replace(
        before,
        connections=connections,
        subscriptions=before.subscriptions | more.subscriptions,
        conflict=before.conflict or more.conflict,
    )
