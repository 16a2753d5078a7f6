"""Topics for operators: where they are, how full, who reads them, and their end."""

from dataclasses import dataclass
from functools import partial

from pyromq.client.client_session import Session
from pyromq.client.namespaces import unwrap_queue, wrap
from pyromq.client.plans.admin.ordered_topics import ORDER_NAMESPACE
from pyromq.client.plans.admin.scaling_plans import ServerReply
from pyromq.client.plans.admin.targets import (
    Silence,
    ask_each,
    ask_lots,
    places,
    places_of,
    tell_each,
    timeout_s,
)
from pyromq.client.plans.route_plans import fetch_route
from pyromq.client.steps import Deadline, Plan, ask, must_succeed, request
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import Refused, TopicNotFound
from pyromq.model import MessageQueue, TopicType
from pyromq.wire.bodies.offset_bodies import TopicOffset, decode_topic_stats
from pyromq.wire.bodies.operation_bodies import Rates, decode_group_names, decode_rates
from pyromq.wire.bodies.topic_bodies import TopicConfigTable, decode_topic_table
from pyromq.wire.header import read_header
from pyromq.wire.headers.admin_headers import GetTopicStats
from pyromq.wire.headers.namesrv_headers import (
    DeleteKvConfig,
    DeleteTopicInNamesrv,
    GetKvConfig,
    GetKvConfigAnswer,
    PutKvConfig,
)
from pyromq.wire.headers.operation_headers import DeleteTopic, QueryTopicConsumeByWho, ViewBrokerStats
from pyromq.wire.headers.topic_headers import UpdateAndCreateTopic

#: What brokers count under a topic's name, and under `topic@group`.
TOPIC_IN = "TOPIC_PUT_NUMS"
GROUP_OUT = "GROUP_GET_NUMS"


@dataclass(frozen=True, slots=True)
class Flow:
    """The messages that went into a topic, or out of it to a group: a second, and in a day."""

    topic: str
    #: None: into the topic.
    group: str | None
    tps: float
    day_sum: int


def topic_status(
    session: Session, topic: str, deadline: Deadline, silence: Silence | None = None
) -> Plan[dict[MessageQueue, TopicOffset]]:
    """Return where each of a topic's queues begins and ends, and when its last message came.

    With `silence` the queues of brokers that do not answer are left out, and those are noted there.
    """
    namespace = session.settings.namespace
    wrapped = wrap(namespace, topic)
    route = yield from fetch_route(session, wrapped, deadline)
    found: dict[MessageQueue, TopicOffset] = {}
    header = GetTopicStats(topic=wrapped)
    answers = yield from ask_each(
        session, places_of(route), lambda: request(RequestCode.GET_TOPIC_STATS_INFO, header), silence
    )
    for answer in answers.values():
        found |= decode_topic_stats(answer.body)
    return {unwrap_queue(namespace, queue): found[queue] for queue in sorted(found)}


def topic_types(
    session: Session, topic: str, deadline: Deadline, silence: Silence | None = None
) -> Plan[dict[str, TopicType]]:
    """Return the type of a topic's messages on each of its brokers, by the broker's name.

    With `silence` brokers that do not say are left out, and noted there.
    """
    wrapped = wrap(session.settings.namespace, topic)
    route = yield from fetch_route(session, wrapped, deadline)
    # RocketMQ 4.9 has no question about one topic's settings.
    answers = yield from ask_each(
        session, places_of(route), lambda: request(RequestCode.GET_ALL_TOPIC_CONFIG), silence
    )
    found = {
        place.broker_name: decode_topic_table(answer.body).topic_config_table.get(wrapped)
        for place, answer in answers.items()
    }
    return {name: config.topic_type for name, config in found.items() if config is not None}


def topic_clusters(session: Session, topic: str, deadline: Deadline) -> Plan[list[str]]:
    """Return the clusters that have a topic."""
    route = yield from fetch_route(session, wrap(session.settings.namespace, topic), deadline)
    return sorted({broker.cluster for broker in route.broker_datas})


def topic_readers(
    session: Session, topic: str, deadline: Deadline, silence: Silence | None = None
) -> Plan[list[str]]:
    """Return the groups that subscribe to a topic or have progress in it, at any of its brokers."""
    wrapped = wrap(session.settings.namespace, topic)
    route = yield from fetch_route(session, wrapped, deadline)
    header = QueryTopicConsumeByWho(topic=wrapped)
    answers = yield from ask_each(
        session, places_of(route), lambda: request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header), silence
    )
    return sorted({name for answer in answers.values() for name in decode_group_names(answer.body)})


def topic_configs(session: Session, address: str) -> Plan[TopicConfigTable]:
    """Return all topics of one broker."""
    command = request(RequestCode.GET_ALL_TOPIC_CONFIG)
    return decode_topic_table(must_succeed((yield from ask(address, command, timeout_s(session)))).body)


def delete_topic(
    session: Session, topic: str, cluster_name: str | None, deadline: Deadline
) -> Plan[list[ServerReply]]:
    """Delete a topic on all masters of a cluster, and in all name servers, and return what each said.

    Without a cluster it goes wherever it is; raises TopicNotFound when it is nowhere then. While a broker
    still has it, name servers are not told: its clients would lose it, and its broker bring it back.
    """
    wrapped = wrap(session.settings.namespace, topic)
    if cluster_name is None:
        route = yield from fetch_route(session, wrapped, deadline)
        brokers = places_of(route)
    else:
        brokers = yield from places(session, deadline, cluster_name=cluster_name)
    told = yield from tell_each(
        session,
        [place.address for place in brokers],
        lambda: request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopic(topic=wrapped)),
    )
    if any(one.failure is not None for one in told):
        return told
    header = DeleteTopicInNamesrv(topic=wrapped, cluster_name=cluster_name)
    told += yield from tell_each(
        session,
        session.name_servers.addresses,
        lambda: request(RequestCode.DELETE_TOPIC_IN_NAMESRV, header),
    )
    return told


def set_topic_perm(
    session: Session,
    topic: str,
    perm: int,
    deadline: Deadline,
    *,
    cluster_name: str | None = None,
    address: str | None = None,
) -> Plan[list[tuple[ServerReply, int]]]:
    """Change what may be done with a topic on its brokers; return what each said, and what was allowed."""
    wrapped = wrap(session.settings.namespace, topic)
    route = yield from fetch_route(session, wrapped, deadline)
    queues = {part.broker_name: part for part in route.queue_datas}
    meant = [
        place
        for place in places_of(route)
        if address in (None, place.address) and cluster_name in (None, place.cluster)
    ]
    if not meant:
        there = ", ".join(f"{place.broker_name} at {place.address}" for place in places_of(route))
        raise TopicNotFound(
            ResponseCode.TOPIC_NOT_EXIST,
            f"topic {topic!r} is not on {address or cluster_name}; it is on {there}",
        )
    told = []
    for place in meant:
        part = queues[place.broker_name]
        header = UpdateAndCreateTopic(
            topic=wrapped,
            default_topic=session.settings.create_topic_key,
            read_queue_nums=part.read_queue_nums,
            write_queue_nums=part.write_queue_nums,
            perm=perm,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=part.topic_sys_flag,
            order=False,
        )
        (one,) = yield from tell_each(
            session, [place.address], partial(request, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        )
        told.append((one, part.perm))
    return told


def order_conf(session: Session, topic: str, deadline: Deadline) -> Plan[str | None]:
    """Return how many queues of an ordered topic each broker has, as the name server says; None: nothing."""
    key = GetKvConfig(namespace=ORDER_NAMESPACE, key=wrap(session.settings.namespace, topic))
    command = request(RequestCode.GET_KV_CONFIG, key)
    answer = yield from ask(session.name_servers.current, command, deadline.part_s(deadline.timeout_ms))
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return None
    return read_header(GetKvConfigAnswer, must_succeed(answer).ext).value


def set_order_conf(session: Session, topic: str, value: str | None) -> Plan[list[ServerReply]]:
    """Say at every name server how many queues of an ordered topic each broker has; None: nothing more."""
    key = wrap(session.settings.namespace, topic)
    if value is None:
        gone = DeleteKvConfig(namespace=ORDER_NAMESPACE, key=key)
        return (
            yield from tell_each(
                session,
                session.name_servers.addresses,
                lambda: request(RequestCode.DELETE_KV_CONFIG, gone),
            )
        )
    new = PutKvConfig(namespace=ORDER_NAMESPACE, key=key, value=value)
    return (
        yield from tell_each(
            session, session.name_servers.addresses, lambda: request(RequestCode.PUT_KV_CONFIG, new)
        )
    )


def topic_flows(
    session: Session, topic: str, deadline: Deadline, silence: Silence | None = None
) -> Plan[list[Flow]]:
    """Return how much goes into a topic, and out of it to each group, at all its masters together."""
    wrapped = wrap(session.settings.namespace, topic)
    route = yield from fetch_route(session, wrapped, deadline)
    groups: list[str | None] = [None, *(yield from topic_readers(session, topic, deadline, silence))]
    asked = [place for place in places_of(route) if silence is None or silence.of_gone(place) is None]
    flows = []
    for group in groups:
        tps, day_sum = 0.0, 0
        for place in asked:
            name, key = (TOPIC_IN, wrapped) if group is None else (GROUP_OUT, f"{wrapped}@{group}")
            rates = yield from broker_rates(session, place.address, name, key)
            if rates is not None:
                tps += rates.stats_minute.tps
                day_sum += _of_a_day(rates)
        flows.append(Flow(topic, group, tps, day_sum))
    return flows


def broker_rates(session: Session, address: str, name: str, key: str) -> Plan[Rates | None]:
    """Return what a broker counted of one thing; None: nothing yet."""
    header = ViewBrokerStats(stats_name=name, stats_key=key)
    (answer,) = yield from ask_lots(session, address, [request(RequestCode.VIEW_BROKER_STATS_DATA, header)])
    try:
        return decode_rates(must_succeed(answer).body)
    except Refused as error:
        # RocketMQ has no code of its own for "no such counter".
        if error.code == ResponseCode.SYSTEM_ERROR:
            return None
        raise


def _of_a_day(rates: Rates) -> int:
    """Return what was counted in the longest time that is known (mqadmin's rule)."""
    return rates.stats_day.sum or rates.stats_hour.sum or rates.stats_minute.sum
