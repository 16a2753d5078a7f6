"""Requests of a member of a consumer group: heartbeats, the other members, leaving."""

import logging
import random

from pyromq.client.client_session import Session
from pyromq.client.plans.broker_calls import call_broker
from pyromq.client.plans.route_plans import subscribe_route
from pyromq.client.route_cache import MASTER_ID
from pyromq.client.steps import Call, Plan, ask, must_succeed, request
from pyromq.codes import RequestCode
from pyromq.errors import NetworkError, NoPermission, Refused
from pyromq.wire.bodies.heartbeat_bodies import (
    ClientConfigCheck,
    ConsumerPart,
    Heartbeat,
    Subscription,
    encode_client_config_check,
    encode_heartbeat,
)
from pyromq.wire.bodies.lock_bodies import decode_consumer_ids
from pyromq.wire.headers.group_headers import GetConsumerListByGroup, UnregisterClient

_log = logging.getLogger("pyromq.client")


def heartbeat(session: Session, part: ConsumerPart, address: str) -> Plan[bool]:
    """Tell a broker what this member wants, and return whether it heard; a failure waits for the next.

    A broker of ours says in its answer when the group's members want different things, and may refuse one for
    it. Apache's brokers say nothing.
    """
    body = encode_heartbeat(Heartbeat(client_id=session.identity.client_id, consumers=[part]))
    timeout_s = session.settings.mq_client_api_timeout / 1_000
    try:
        answer = must_succeed(
            (yield from ask(address, request(RequestCode.HEART_BEAT, body=body), timeout_s))
        )
    except NoPermission as error:
        _note_conflict(session, address, error.remark)
        return False
    except (NetworkError, Refused) as error:
        _log.warning("group %s: no heartbeat at broker %s: %s", session.group, address, error)
        if isinstance(error, Refused) and error.is_denied:
            session.denials[address] = error
        return False
    session.denials.pop(address, None)
    _note_conflict(session, address, answer.remark)
    return True


def _note_conflict(session: Session, address: str, said: str | None) -> None:
    """Remember what a broker says of the group, and log it when it is something else than before."""
    if said == session.conflicts.get(address):
        return
    if said:
        session.conflicts[address] = said
        _log.warning("broker %s: %s", address, said)
    elif session.conflicts.pop(address, None):
        _log.info("broker %s: group %s has no conflict any more", address, session.group)


def leave(session: Session, address: str) -> Plan[None]:
    """Tell a broker that this member leaves its group."""
    header = UnregisterClient(client_id=session.identity.client_id, consumer_group=session.group)
    timeout_s = session.settings.mq_client_api_timeout / 1_000
    try:
        must_succeed((yield from ask(address, request(RequestCode.UNREGISTER_CLIENT, header), timeout_s)))
    except (NetworkError, Refused) as error:
        # A broker that is away forgets us by itself; leaving must not fail because of it.
        _log.info("group %s: no farewell at broker %s: %s", session.group, address, error)


def consumer_ids(session: Session, topic: str) -> Plan[list[str]]:
    """Return the client ids of the group's members, as one of the topic's brokers knows them."""
    broker_name, address = yield from any_broker(session, topic)
    command = request(
        RequestCode.GET_CONSUMER_LIST_BY_GROUP, GetConsumerListByGroup(consumer_group=session.group)
    )
    timeout_s = session.settings.mq_client_api_timeout / 1_000
    try:
        answer = yield from call_broker(session, broker_name, Call(address, command, timeout_s))
    except NetworkError:
        session.routes.mark_stale(topic)
        raise
    return decode_consumer_ids(must_succeed(answer).body)


def check_subscription(session: Session, wanted: Subscription) -> Plan[None]:
    """Have one of the topic's brokers say whether it can filter so; raise Refused when it cannot."""
    broker_name, address = yield from any_broker(session, wanted.topic)
    body = encode_client_config_check(
        ClientConfigCheck(client_id=session.identity.client_id, group=session.group, subscription=wanted)
    )
    call = Call(
        address,
        request(RequestCode.CHECK_CLIENT_CONFIG, body=body),
        session.settings.mq_client_api_timeout / 1_000,
    )
    must_succeed((yield from call_broker(session, broker_name, call)))


def any_broker(session: Session, topic: str) -> Plan[tuple[str, str]]:
    """Return name and address of one of a topic's brokers: its master, or a slave if it has none."""
    deadline = session.deadline(None, session.settings.mq_client_api_timeout)
    route = yield from subscribe_route(session, topic, deadline)
    broker = random.choice(route.route.broker_datas)
    addresses = broker.broker_addrs
    master = addresses.get(MASTER_ID)
    return broker.broker_name, master or random.choice(list(addresses.values()))
