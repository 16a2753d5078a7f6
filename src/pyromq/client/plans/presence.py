"""Being there: heartbeats to the brokers, fresh routes, and a farewell."""

import logging

from pyromq.client.plans.route import refresh_routes
from pyromq.client.session import Session
from pyromq.client.steps import Pause, Plan, ask, must_succeed, request
from pyromq.codes import RequestCode
from pyromq.errors import NetworkError, Refused
from pyromq.wire.bodies.heartbeat import Heartbeat, ProducerPart, encode_heartbeat
from pyromq.wire.headers.group import UnregisterClient

_log = logging.getLogger("pyromq.client")
#: Seconds from the start to the first heartbeat, as RocketMQ's.
FIRST_HEARTBEAT_S = 1.0


def keep_producer_known(session: Session) -> Plan[None]:
    """Go on for as long as a producer is started: refresh routes and send heartbeats at their intervals."""
    settings, clock = session.settings, session.clock
    poll_s = settings.poll_name_server_interval / 1_000
    beat_s = settings.heartbeat_broker_interval / 1_000
    poll_at = clock.monotonic() + poll_s
    beat_at = clock.monotonic() + FIRST_HEARTBEAT_S
    while True:
        yield Pause(max(0.0, min(poll_at, beat_at) - clock.monotonic()))
        if clock.monotonic() >= poll_at:
            yield from refresh_routes(session)
            poll_at = clock.monotonic() + poll_s
        if clock.monotonic() >= beat_at:
            yield from heartbeat(session)
            beat_at = clock.monotonic() + beat_s


def keep_routes_fresh(session: Session) -> Plan[None]:
    """Go on for as long as a pull consumer is started: refresh routes at their interval.

    It sends no heartbeats. A consumer that takes the queues it is told to is no member of its group, or the
    group's other members would leave queues to it.
    """
    while True:
        yield Pause(session.settings.poll_name_server_interval / 1_000)
        yield from refresh_routes(session)


def heartbeat(session: Session) -> Plan[None]:
    """Tell every known master that this producer is there; failures wait for the next time."""
    body = encode_heartbeat(
        Heartbeat(client_id=session.identity.client_id, producers=[ProducerPart(group_name=session.group)])
    )
    timeout_s = session.settings.mq_client_api_timeout / 1_000
    for address in session.routes.master_addresses():
        try:
            must_succeed((yield from ask(address, request(RequestCode.HEART_BEAT, body=body), timeout_s)))
        except (NetworkError, Refused) as error:
            _log.warning("no heartbeat at broker %s: %s", address, error)


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
