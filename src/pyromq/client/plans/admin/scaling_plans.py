"""Scaling of a cluster: topics copied onto brokers, write permission taken and given.

Each server is asked, whatever the others say, and what each said comes back: one that is down must not leave
the others as they were.
"""

from dataclasses import dataclass

from pyromq.client.client_session import Session
from pyromq.client.names import check_topic
from pyromq.client.namespaces import wrap
from pyromq.client.plans.admin.lookups import masters
from pyromq.client.plans.admin.ordered_topics import set_order
from pyromq.client.plans.route_plans import cluster
from pyromq.client.route_cache import MASTER_ID
from pyromq.client.steps import Deadline, Plan, ask, must_succeed, request
from pyromq.codes import Perm, RequestCode, ResponseCode
from pyromq.errors import ConfigError, NetworkError, NoRoute, ProtocolError, Refused
from pyromq.system_names import SELF_TEST
from pyromq.wire.bodies.registration_bodies import decode_key_values
from pyromq.wire.bodies.route_bodies import BrokerData, ClusterTable, decode_route
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.namesrv_headers import (
    AddWritePermOfBroker,
    AddWritePermOfBrokerAnswer,
    GetRouteInfo,
    WipeWritePermOfBroker,
    WipeWritePermOfBrokerAnswer,
)
from pyromq.wire.headers.topic_headers import UpdateAndCreateTopic


@dataclass(frozen=True, slots=True)
class ServerReply:
    """The answer of one server: the number of topics that it changed, or why it did not answer."""

    address: str
    topic_count: int = 0
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMember:
    """One broker of a cluster: a master (id 0) or a slave.

    `figures` are what it says of itself under RocketMQ's names; none when it does not know the question.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    figures: dict[str, str]
    #: Whether producers may choose it, as the name server has it; None when it does not say, and of slaves.
    is_writable: bool | None
    #: Why it did not answer.
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicUpdate:
    """A topic as it is to be, on brokers that have it and on those that do not."""

    topic: str
    read_queue_count: int = 8
    write_queue_count: int = 8
    perm: int = int(Perm.READ | Perm.WRITE)
    is_ordered: bool = False
    sys_flag: int = 0
    #: Changes of its attributes, as `+message.type=FIFO`, joined by commas; brokers before 5.0 ignore them.
    attributes: str | None = None


def update_topic(
    session: Session,
    update: TopicUpdate,
    *,
    cluster_name: str | None = None,
    address: str | None = None,
    deadline: Deadline,
) -> Plan[list[ServerReply]]:
    """Create or change a topic on every master of a cluster, or on the broker at an address."""
    topic = wrap(session.settings.namespace, update.topic)
    check_topic(update.topic)
    check_topic(topic)
    _check_counts(update)
    table = yield from cluster(session, deadline)
    brokers = [*masters(session, table, cluster_name, None)] if address is None else [_at(table, address)]
    header = UpdateAndCreateTopic(
        topic=topic,
        default_topic=session.settings.create_topic_key,
        read_queue_nums=update.read_queue_count,
        write_queue_nums=update.write_queue_count,
        perm=update.perm,
        topic_filter_type="SINGLE_TAG",
        topic_sys_flag=update.sys_flag,
        order=update.is_ordered,
        attributes=update.attributes,
    )
    told = []
    for broker in brokers:
        command = request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        told.append((yield from _tell(session, broker.broker_addrs[MASTER_ID], command))[0])
    if update.is_ordered:
        yield from set_order(
            session, topic, brokers, update.write_queue_count, is_whole=address is None, deadline=deadline
        )
    return told


def allow_writes(
    session: Session, broker_name: str, *, is_allowed: bool, deadline: Deadline
) -> Plan[list[ServerReply]]:
    """Let producers choose a broker, or not, at every name server."""
    broker_of((yield from cluster(session, deadline)), broker_name)
    told = []
    for address in session.name_servers.addresses:
        if is_allowed:
            command = request(
                RequestCode.ADD_WRITE_PERM_OF_BROKER, AddWritePermOfBroker(broker_name=broker_name)
            )
            one, answer = yield from _tell(session, address, command)
            if answer is not None:
                count = read_header(AddWritePermOfBrokerAnswer, answer.ext).add_topic_count
                one = ServerReply(address, count)
        else:
            command = request(
                RequestCode.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermOfBroker(broker_name=broker_name)
            )
            one, answer = yield from _tell(session, address, command)
            if answer is not None:
                count = read_header(WipeWritePermOfBrokerAnswer, answer.ext).wipe_topic_count
                one = ServerReply(address, count)
        told.append(one)
    return told


def writable_at(session: Session, broker_name: str) -> Plan[dict[str, bool | None]]:
    """Return for each name server whether it lets producers choose a broker; None when it does not say."""
    found: dict[str, bool | None] = {}
    for address in session.name_servers.addresses:
        command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfo(topic=SELF_TEST))
        _, answer = yield from _tell(session, address, command)
        found[address] = None if answer is None else _is_writable(answer, broker_name)
    return found


def members(session: Session, deadline: Deadline) -> Plan[list[ClusterMember]]:
    """Return all brokers by cluster, name and id, each asked for its figures."""
    table = yield from cluster(session, deadline)
    command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfo(topic=SELF_TEST))
    _, route = yield from _tell(session, session.name_servers.current, command)
    found = []
    for broker in sorted(table.broker_addr_table.values(), key=lambda one: (one.cluster, one.broker_name)):
        for broker_id, address in sorted(broker.broker_addrs.items()):
            figures, failure = yield from _figures(session, address)
            found.append(
                ClusterMember(
                    cluster=broker.cluster,
                    broker_name=broker.broker_name,
                    broker_id=broker_id,
                    address=address,
                    figures=figures,
                    is_writable=_is_writable(route, broker.broker_name)
                    if route is not None and broker_id == MASTER_ID
                    else None,
                    failure=failure,
                )
            )
    return found


def broker_of(table: ClusterTable, broker_name: str) -> BrokerData:
    """Return a broker that the name servers know; raise NoRoute, which says which there are."""
    found = table.broker_addr_table.get(broker_name)
    if found is None:
        there = ", ".join(sorted(table.broker_addr_table)) or "none"
        raise NoRoute(f"no broker has the name {broker_name!r}; the name servers know: {there}")
    return found


def _figures(session: Session, address: str) -> Plan[tuple[dict[str, str], str | None]]:
    timeout_s = session.settings.mq_client_api_timeout / 1_000
    try:
        answer = yield from ask(address, request(RequestCode.GET_BROKER_RUNTIME_INFO), timeout_s)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return {}, None
        return decode_key_values(must_succeed(answer).body).table, None
    except (NetworkError, Refused, ProtocolError) as error:
        return {}, str(error)


def _tell(session: Session, address: str, command: Command) -> Plan[tuple[ServerReply, Command | None]]:
    timeout_s = session.settings.mq_client_api_timeout / 1_000
    try:
        answer = must_succeed((yield from ask(address, command, timeout_s)))
    except (NetworkError, Refused, ProtocolError) as error:
        return ServerReply(address, failure=str(error)), None
    return ServerReply(address), answer


def _is_writable(answer: Command, broker_name: str) -> bool | None:
    for queues in decode_route(answer.body).queue_datas:
        if queues.broker_name == broker_name:
            return bool(queues.perm & Perm.WRITE)
    return None


def _at(table: ClusterTable, address: str) -> BrokerData:
    """Return the broker at an address; one that no name server knows has no name."""
    for broker in table.broker_addr_table.values():
        if address in broker.broker_addrs.values():
            return BrokerData(
                cluster=broker.cluster, broker_name=broker.broker_name, broker_addrs={MASTER_ID: address}
            )
    return BrokerData(cluster="", broker_name="", broker_addrs={MASTER_ID: address})


def _check_counts(update: TopicUpdate) -> None:
    if update.read_queue_count < 1 or update.write_queue_count < 1:
        raise ConfigError(
            f"a topic needs at least one queue to read and to write, not {update.read_queue_count} and "
            f"{update.write_queue_count}; take permission away instead"
        )
