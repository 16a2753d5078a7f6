"""Asking the name servers: who serves a topic, and which brokers there are.

The current name server is asked until it fails; then the others in turn, each with its share of what is left
of the time. The one that answers is kept. Where an HTTP address tells which name servers there are, it is
asked first, and again when that is due.
"""

import logging
from typing import Final

from msgspec.structs import replace

from pyromq.client.client_session import Session
from pyromq.client.route_cache import CachedRoute
from pyromq.client.steps import Alone, Deadline, Plan, ask, fetch, must_succeed, request
from pyromq.codes import ClientCode, RequestCode, ResponseCode
from pyromq.errors import (
    BodyError,
    NetworkError,
    NoMaster,
    NoNameServer,
    NoRoute,
    Refused,
    TopicNotFound,
    UnknownTopic,
)
from pyromq.net.discovery import REFRESH_MS, read_addresses
from pyromq.wire.bodies.route_bodies import ClusterTable, TopicRoute, decode_cluster, decode_route
from pyromq.wire.command import Command
from pyromq.wire.headers.namesrv_headers import GetRouteInfo

_log = logging.getLogger("pyromq.client")

#: What every name server answers, of whatever version.
_KNOWN_TO_ALL = frozenset(
    {
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    }
)


_NO_BROKER: Final = ", and no broker is registered there: start one, or correct its namesrvAddr"


def ask_name_servers(session: Session, command: Command, deadline: Deadline) -> Plan[Command]:
    """Return the answer of the first name server that gives one, whatever its code.

    Raises the last NetworkError when none does, with all their addresses.
    """
    servers = session.name_servers
    if not servers.addresses:
        yield from _find_name_servers(session, deadline)
    order = servers.in_order()
    failure: NetworkError | None = None
    for index, address in enumerate(order):
        share_ms = int(deadline.left_s * 1_000 / (len(order) - index)) or 1
        try:
            answer = yield from ask(address, command, deadline.part_s(share_ms))
        except NetworkError as error:
            failure = error
            if deadline.has_passed:
                break
        else:
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and command.code in _KNOWN_TO_ALL:
                raise NoNameServer(
                    answer.code,
                    f"{address} is no name server, it answers as a broker does; name_server, -n and "
                    "NAMESRV_ADDR take the address of a name server, which mostly has port 9876",
                )
            servers.use(address)
            return answer
    assert failure is not None, "a client has at least one name server"
    raise type(failure)(
        f"no name server answers ({servers}): {failure}; start one with `pyromq up` or `pyromq namesrv`, or "
        "correct name_server / NAMESRV_ADDR"
    ) from failure


def refresh_name_servers(session: Session) -> Plan[None]:
    """Ask the HTTP address again, if there is one and it is due; what fails waits for the next time."""
    source, now_ms = session.name_servers.source, session.clock.now_ms()
    if source is None or now_ms < session.name_servers_due_ms:
        return
    session.name_servers_due_ms = now_ms + REFRESH_MS
    try:
        text = yield from fetch(source, session.settings.mq_client_api_timeout / 1_000)
        is_changed = session.name_servers.replace(read_addresses(text, source))
    except NetworkError as error:
        _log.warning("the name servers are not known anew, the old ones stay: %s", error)
    else:
        if is_changed:
            _log.info("the name servers are now %s", session.name_servers)


def _find_name_servers(session: Session, deadline: Deadline) -> Plan[None]:
    """Learn the name servers from the HTTP address; one operation at a time asks it."""
    source = session.name_servers.source
    assert source is not None, "a client has name servers, or an address that tells them"

    def begin() -> Plan[None]:
        if session.name_servers.addresses:
            return
        timeout_s = deadline.part_s(session.settings.mq_client_api_timeout)
        try:
            text = yield from fetch(source, timeout_s)
            session.name_servers.replace(read_addresses(text, source))
        except NetworkError as error:
            failure = type(error)(
                f"no name server is known: {error}; is this the address that tells them (namesrv_domain, "
                "namesrv_domain_subgroup), and can this machine reach it?"
            )
            failure.code = ClientCode.NO_NAME_SERVER
            raise failure from error

    yield Alone(source, begin, deadline.part_s(session.settings.mq_client_api_timeout))


def fetch_route(session: Session, topic: str, deadline: Deadline) -> Plan[TopicRoute]:
    """Ask for a topic's route; raise TopicNotFound when it has none."""
    command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfo(topic=topic))
    answer = yield from ask_name_servers(session, command, deadline)
    return decode_route(must_succeed(answer).body)


def publish_route(session: Session, topic: str, deadline: Deadline) -> Plan[CachedRoute]:
    """Return the route to send a topic's messages by, asked for when it is not known or led nowhere.

    Raises NoRoute when there is no writable queue, not even after asking for the topic's template (TBW102),
    and NoMaster when there would be one if its broker had a master.
    """
    known = session.routes.get(topic)
    is_empty = known is None or (not known.write_queues and not session.routes.is_fresh(topic))
    if is_empty or session.routes.wants_refresh(topic):
        yield from _learn(session, topic, deadline, with_template=True)
        known = session.routes.get(topic)
    if known is None:
        raise (yield from _no_route(session, topic, deadline))
    if not known.write_queues:
        raise _no_writable_queue(session, topic, known, deadline)
    return known


def subscribe_route(session: Session, topic: str, deadline: Deadline) -> Plan[CachedRoute]:
    """Return the route to read a topic by; a topic that does not exist has none: NoRoute."""
    known = session.routes.get(topic)
    if known is None or not known.read_queues or session.routes.wants_refresh(topic):
        yield from _learn(session, topic, deadline, with_template=False)
        known = session.routes.get(topic)
    if known is None:
        raise (yield from _no_route(session, topic, deadline))
    if not known.read_queues:
        raise _no_readable_queue(session, topic, known)
    return known


def look_again(session: Session, topic: str, deadline: Deadline) -> Plan[None]:
    """Ask for a topic's route again, unless it was asked for just now.

    Raises NetworkError when no name server answers and the route that is known leads nowhere.
    """
    yield from _learn(session, topic, deadline, with_template=True, is_look=True)


def refresh_routes(session: Session) -> Plan[None]:
    """Ask again for every route that is known; what fails waits for the next time."""
    yield from refresh_name_servers(session)
    for topic in session.routes.topics():
        deadline = session.deadline(None, session.settings.mq_client_api_timeout)
        try:
            route = yield from fetch_route(session, topic, deadline)
        except TopicNotFound:
            # A topic from the template is not there until its first message; a deleted one keeps its route,
            # as in RocketMQ, and sends to it say what is wrong.
            continue
        except (NetworkError, Refused) as error:
            _log.warning("the route of topic %s was not refreshed: %s", topic, error)
            continue
        if session.routes.put(topic, route):
            _log.info("the route of topic %s changed", topic)


def _learn(
    session: Session, topic: str, deadline: Deadline, *, with_template: bool, is_look: bool = False
) -> Plan[None]:
    """Bring a topic's route into the cache, if there is one; one operation at a time asks for a topic.

    With `is_look` a route that seems good is asked for too.
    """

    def begin() -> Plan[None]:
        known = session.routes.get(topic)
        queues = known and (known.write_queues if with_template else known.read_queues)
        is_known = session.routes.is_fresh(topic) or (bool(queues) and not is_look)
        if is_known and not session.routes.wants_refresh(topic):
            return
        try:
            route = yield from fetch_route(session, topic, deadline)
        except (TopicNotFound, NetworkError) as error:
            # An old route is better than none: brokers work on while name servers are away or forget them.
            if known is not None and queues:
                session.routes.keep(topic)
            elif isinstance(error, NetworkError):
                raise
            elif with_template and known is None:
                yield from _guess(session, topic, deadline)
        else:
            session.routes.put(topic, route)

    yield Alone(topic, begin, deadline.part_s(session.settings.mq_client_api_timeout))


def _guess(session: Session, topic: str, deadline: Deadline) -> Plan[None]:
    """Take the template's route for a topic that its first message will create."""
    settings = session.settings
    if not settings.create_topic_key:
        return
    try:
        template = yield from fetch_route(session, settings.create_topic_key, deadline)
    except TopicNotFound:
        return
    queues = []
    for part in template.queue_datas:
        count = min(settings.default_topic_queue_nums, part.read_queue_nums)
        queues.append(replace(part, read_queue_nums=count, write_queue_nums=count))
    session.routes.put(topic, replace(template, queue_datas=queues))


def cluster(session: Session, deadline: Deadline) -> Plan[ClusterTable]:
    """Return all brokers by name, and the brokers of each cluster."""
    command = request(RequestCode.GET_BROKER_CLUSTER_INFO)
    answer = yield from ask_name_servers(session, command, deadline)
    return decode_cluster(must_succeed(answer).body)


def _no_route(session: Session, topic: str, deadline: Deadline) -> Plan[NoRoute]:
    brokers = yield from _brokers_there(session, deadline)
    return UnknownTopic(
        f"no route to topic {topic!r}: the name servers ({session.name_servers}) do not know it{brokers}. "
        "The first send creates it where a broker has autoCreateTopicEnable=true; else create it with "
        f"pyromq.Admin(...).create_topic({topic!r}) or mqadmin updateTopic. If it should be there, check "
        "that brokers and client use the same name servers",
        topic=topic,
        name_servers=";".join(session.name_servers.addresses),
        is_any_broker_known=brokers != _NO_BROKER,
    )


def _brokers_there(session: Session, deadline: Deadline) -> Plan[str]:
    """Return which brokers the name servers know, in words; none when there was no answer in time."""
    try:
        table = yield from cluster(session, deadline)
    except (NetworkError, Refused, BodyError):
        return ""
    if not table.broker_addr_table:
        return _NO_BROKER
    there = (
        f"{name} at {', '.join(sorted(broker.broker_addrs.values()))}"
        for name, broker in sorted(table.broker_addr_table.items())
    )
    return f"; they know these brokers: {'; '.join(there)}"


def _no_readable_queue(session: Session, topic: str, known: CachedRoute) -> NoRoute:
    brokers = ", ".join(known.broker_names) or "none"
    return NoRoute(
        f"no route to topic {topic!r}: the name servers ({session.name_servers}) know it on these brokers: "
        f"{brokers}, but none of them has a readable queue; give the topic read permission"
    )


def _no_writable_queue(session: Session, topic: str, known: CachedRoute, deadline: Deadline) -> NoRoute:
    brokers = ", ".join(known.broker_names) or "none"
    if known.has_lost_master:
        return no_master(session, f"topic {topic!r}", f"its brokers ({brokers})", deadline)
    return NoRoute(
        f"no route to topic {topic!r}: the name servers ({session.name_servers}) know it on these brokers: "
        f"{brokers}, but none of them has a master with a writable queue; give the topic write permission"
    )


def no_master(session: Session, what: str, brokers: str, deadline: Deadline) -> NoMaster:
    """Return the error for a topic or queue whose brokers are slaves only."""
    return NoMaster(
        f"{what} has no master now: the name servers ({session.name_servers}) know only slaves of {brokers}. "
        "With failover a lost master is replaced within some seconds: send again, or give the call more time "
        f"than the {deadline.timeout_ms} ms that it had (timeout_ms, send_msg_timeout). Without failover, "
        "start the master again, or a slave as master"
    )
