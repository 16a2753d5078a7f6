"""The presence of a client: fresh routes; a producer's heartbeats and its farewell."""

import logging
import math
from collections.abc import Callable

from pyromq.client.client_session import Session
from pyromq.client.plans.patience import awaited_route
from pyromq.client.plans.route_plans import fetch_route, refresh_name_servers, refresh_routes
from pyromq.client.producer.groups_in_use import release_group
from pyromq.client.steps import Alone, Deadline, Pause, Plan, ask, must_succeed, request
from pyromq.codes import RequestCode
from pyromq.errors import NetworkError, Refused
from pyromq.wire.bodies.heartbeat_bodies import Heartbeat, ProducerPart, encode_heartbeat
from pyromq.wire.headers.group_headers import UnregisterClient

_log = logging.getLogger("pyromq.client")
#: Seconds from the start to the first heartbeat, as RocketMQ's.
FIRST_HEARTBEAT_S = 1.0
#: Replies go to the topic of this name behind the cluster's.
REPLY_TOPIC_SUFFIX = "_REPLY_TOPIC"


def keep_producer_known(session: Session) -> Plan[None]:
    """Go on for as long as a producer is started: refresh routes and send heartbeats at their intervals."""
    settings, clock = session.settings, session.clock
    poll_s = settings.poll_name_server_interval / 1_000
    beat_s = settings.heartbeat_broker_interval / 1_000
    poll_at = clock.monotonic() + poll_s
    beat_at = clock.monotonic() + FIRST_HEARTBEAT_S
    while True:
        now = clock.monotonic()
        yield Pause(max(0.0, min(poll_at - now, beat_at - now, search_s(session))))
        yield from refresh_name_servers(session)
        if clock.monotonic() >= poll_at:
            yield from refresh_routes(session)
            poll_at = clock.monotonic() + poll_s
            if _strangers(session):
                # A new master may have a reason to ask: transactions that its predecessor did not end.
                beat_at = clock.monotonic()
        if clock.monotonic() >= beat_at:
            yield from heartbeat(session)
            beat_at = clock.monotonic() + beat_s


def keep_routes_fresh(session: Session, on_refreshed: Callable[[], None] | None = None) -> Plan[None]:
    """Go on for as long as a consumer is started: refresh routes at their interval.

    It sends no heartbeats. A consumer that takes the queues it is told to is no member of its group, or the
    group's other members would leave queues to it.
    """
    clock, poll_s = session.clock, session.settings.poll_name_server_interval / 1_000
    poll_at = clock.monotonic() + poll_s
    while True:
        yield Pause(max(0.0, min(poll_at - clock.monotonic(), search_s(session))))
        yield from refresh_name_servers(session)
        if clock.monotonic() >= poll_at:
            yield from refresh_routes(session)
            poll_at = clock.monotonic() + poll_s
            if on_refreshed is not None:
                on_refreshed()


def follow_name_servers(session: Session) -> Plan[None]:
    """Go on for as long as a client is started to which an HTTP address tells its name servers: ask that."""
    while True:
        yield Pause(max(0.0, search_s(session)))
        yield from refresh_name_servers(session)


def heartbeat(session: Session) -> Plan[None]:
    """Tell every known master that this producer is there; failures wait for the next time."""
    for address in session.routes.master_addresses():
        session.greeted.add(address)
        yield from _beat(session, address, session.settings.mq_client_api_timeout / 1_000)


def greet(session: Session, topic: str, deadline: Deadline, *, with_replies: bool = False) -> Plan[None]:
    """See to it that a topic's masters know this producer, before they have a reason to ask or tell it.

    `with_replies` those are greeted too that take the cluster's replies: a reply may go to any of them. A
    master that is away is greeted once; the next heartbeat is its next chance.
    """
    route = yield from awaited_route(session, topic, deadline)
    clusters = {broker.cluster for broker in route.route.broker_datas} if with_replies else set()
    if not _strangers(session) and all(_reply_topic(cluster) in session.greeted for cluster in clusters):
        return

    def begin() -> Plan[None]:
        for cluster in sorted(clusters):
            if _reply_topic(cluster) not in session.greeted:
                session.greeted.add(_reply_topic(cluster))
                yield from _find_repliers(session, cluster, deadline)
        for address in _strangers(session):
            session.greeted.add(address)
            yield from _beat(session, address, deadline.part_s(session.settings.mq_client_api_timeout))

    yield Alone("greeting brokers", begin, deadline.part_s(deadline.timeout_ms))


def _find_repliers(session: Session, cluster: str, deadline: Deadline) -> Plan[None]:
    topic = _reply_topic(cluster)
    try:
        session.routes.put(topic, (yield from fetch_route(session, topic, deadline)))
    except (Refused, NetworkError) as error:
        _log.info("no route for replies of cluster %s: %s", cluster, error)


def _strangers(session: Session) -> list[str]:
    return [address for address in session.routes.master_addresses() if address not in session.greeted]


def _reply_topic(cluster: str) -> str:
    return cluster + REPLY_TOPIC_SUFFIX


def search_s(session: Session) -> float:
    """Return the seconds until the name servers' HTTP address is asked again, if there is one."""
    if session.name_servers.source is None:
        return math.inf
    return (session.name_servers_due_ms - session.clock.now_ms()) / 1_000


def _beat(session: Session, address: str, timeout_s: float) -> Plan[None]:
    body = encode_heartbeat(
        Heartbeat(client_id=session.identity.client_id, producers=[ProducerPart(group_name=session.group)])
    )
    try:
        must_succeed((yield from ask(address, request(RequestCode.HEART_BEAT, body=body), timeout_s)))
    except (NetworkError, Refused) as error:
        _log.warning("no heartbeat at broker %s: %s", address, error)


def leave(session: Session) -> Plan[None]:
    """Let another producer have the group, and tell every known master."""
    release_group(session)
    yield from farewell(session)


def leave_silently(session: Session) -> Plan[None]:
    """Let another producer have the group; the brokers do not know this one."""
    release_group(session)
    yield from ()


def farewell(session: Session) -> Plan[None]:
    """Tell every known master that this producer leaves."""
    header = UnregisterClient(client_id=session.identity.client_id, producer_group=session.group)
    timeout_s = session.settings.mq_client_api_timeout / 1_000
    for address in session.routes.master_addresses():
        try:
            must_succeed((yield from ask(address, request(RequestCode.UNREGISTER_CLIENT, header), timeout_s)))
        except (NetworkError, Refused) as error:
            # A broker that is away forgets us by itself; leaving must not fail because of it.
            _log.info("no farewell at broker %s: %s", address, error)
