"""Finding a broker and calling it; a connection that fails is explained."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyromq.client.client_session import Session
from pyromq.client.plans.route_plans import no_master, subscribe_route
from pyromq.client.route_cache import MASTER_ID
from pyromq.client.steps import Call, Deadline, Plan, ask
from pyromq.errors import (
    ConnectFailed,
    ConnectionLost,
    NetworkError,
    NoRoute,
    ServiceNotAvailable,
    TlsFailed,
)
from pyromq.model import MessageQueue
from pyromq.net.address import join_address, split_address
from pyromq.wire.command import Command

#: A broker's VIP port is its own minus this.
VIP_PORT_DISTANCE = 2


def call_broker(session: Session, broker_name: str, call: Call) -> Plan[Command]:
    """Return the answer of the broker at an address that the name server gave for `broker_name`."""
    try:
        return (yield from ask(call.address, call.command, call.timeout_s))
    except ConnectFailed as error:
        session.routes.note_away(call.address)
        raise explained(session, broker_name, error) from error
    except ConnectionLost:
        session.routes.note_away(call.address)
        raise


def explained(session: Session, broker_name: str, error: ConnectFailed) -> ConnectFailed:
    """Return the same failure with where the address came from, and what to do."""
    if isinstance(error, TlsFailed):
        # The broker is there, and the error says what to do.
        return error
    return ConnectFailed(
        f"{error}; this is the address that name server {session.name_servers.current} has for "
        f"{broker_name}: is the broker up, and can this machine reach the address? In a container or behind "
        "NAT a broker must be started with --advertise ADDRESS (brokerIP1)"
    )


def master_address(session: Session, queue: MessageQueue, deadline: Deadline) -> Plan[str]:
    """Return the address of a queue's master, asking the name server if it is not known or was wrong."""
    address = session.routes.master_address(queue.broker_name)
    if address is None or session.routes.wants_refresh(queue.topic):
        yield from subscribe_route(session, queue.topic, deadline)
        address = session.routes.master_address(queue.broker_name)
    if address is None:
        raise unknown_broker(session, queue, deadline)
    return address


def reading_place(session: Session, queue: MessageQueue, deadline: Deadline) -> Plan[tuple[int, str]]:
    """Return id and address of the broker to read a queue from: the suggested one, the master, or any."""
    routes = session.routes
    if routes.wants_refresh(queue.topic):
        yield from subscribe_route(session, queue.topic, deadline)
    place = routes.reading_address(queue.broker_name, session.reading_from.get(queue, MASTER_ID))
    if place is None:
        # The broker may have come back since the route was learnt.
        routes.mark_stale(queue.topic)
        yield from subscribe_route(session, queue.topic, deadline)
        place = routes.reading_address(queue.broker_name)
    if place is None:
        raise unknown_broker(session, queue, deadline)
    return place


def asking_address(session: Session, queue: MessageQueue, deadline: Deadline) -> Plan[str]:
    """Return where to ask for and to leave a queue's offsets: at its master; if there is none, at a slave.

    A slave tells the master what it was told, when that is back.
    """
    routes = session.routes
    if routes.master_address(queue.broker_name) is None or routes.wants_refresh(queue.topic):
        yield from subscribe_route(session, queue.topic, deadline)
    place = routes.reading_address(queue.broker_name)
    if place is None:
        raise unknown_broker(session, queue, deadline)
    return place[1]


@contextmanager
def stale_on_failure(session: Session, queue: MessageQueue) -> Iterator[None]:
    """Have the route asked for again after a failure that says that the broker is another by now."""
    try:
        yield
    except (NetworkError, ServiceNotAvailable):
        # The next pull starts at the master again, by a fresh route.
        session.reading_from.pop(queue, None)
        session.routes.mark_stale(queue.topic)
        raise


def unknown_broker(session: Session, queue: MessageQueue, deadline: Deadline) -> NoRoute:
    """Return the error for a queue whose broker no name server knows, or only slaves of it."""
    known = session.routes.get(queue.topic)
    brokers = ", ".join(known.broker_names) if known else ""
    what = f"queue {queue.queue_id} of topic {queue.topic!r}"
    if known is not None and queue.broker_name in known.broker_names:
        return no_master(session, what, f"its broker {queue.broker_name!r}", deadline)
    return NoRoute(
        f"no route to {what}: its broker {queue.broker_name!r} has no master (broker id {MASTER_ID}) at name "
        f"servers {session.name_servers}; brokers with the topic: {brokers or 'none'}"
    )


def vip_address(address: str) -> str:
    """Return the address of a broker's VIP port."""
    host, port = split_address(address)
    return join_address(host, port - VIP_PORT_DISTANCE)
