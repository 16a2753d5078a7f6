"""Messages that are encoded already, sent until a broker says that it has them.

For senders that may send twice and must not send less than once: what failed is sent again, to the same queue
and in the same bytes, for as long as the deadline allows. Its ids tell a consumer that has it twice.
"""

from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.namespaces import wrap
from pyromq.client.plans.route_plans import publish_route
from pyromq.client.plans.send_plans import send_once
from pyromq.client.producer.outgoing import Outgoing
from pyromq.client.steps import Deadline, Pause, Plan
from pyromq.errors import NoRoute, PyroError
from pyromq.model import Message, MessageQueue, SendResult
from pyromq.wire import properties as names
from pyromq.wire.batch import BatchUnit

_PAUSE_S: Final = 0.2


def send_units(session: Session, queue: MessageQueue, units: bytes, deadline: Deadline) -> Plan[SendResult]:
    """Send a batch, as `pyromq.wire.batch` encodes it, in one request: all of it is stored, or nothing."""
    outgoing = Outgoing(
        message=Message(queue.topic, b""),
        topic=wrap(session.settings.namespace, queue.topic),
        body=units,
        properties=names.encode({names.WAIT: "true"}),
        message_id="",
        is_batch=True,
    )
    return (yield from _send(session, queue, outgoing, deadline))


def send_unit(session: Session, queue: MessageQueue, unit: BatchUnit, deadline: Deadline) -> Plan[SendResult]:
    """Send one message by itself, as one must be that is delivered later."""
    pairs = names.decode(unit.properties)
    outgoing = Outgoing(
        message=Message(queue.topic, unit.body),
        topic=wrap(session.settings.namespace, queue.topic),
        body=unit.body,
        properties=unit.properties,
        message_id=pairs.get(names.UNIQ_KEY, ""),
        flag=unit.flag,
        is_timed=names.TIMER_DELAY_MS in pairs or names.TIMER_DELIVER_MS in pairs,
    )
    return (yield from _send(session, queue, outgoing, deadline))


def _send(session: Session, queue: MessageQueue, outgoing: Outgoing, deadline: Deadline) -> Plan[SendResult]:
    while True:
        try:
            # A broker that is started again may have another address.
            yield from publish_route(session, outgoing.topic, deadline)
            return (yield from send_once(session, outgoing, _on_the_wire(session, queue), deadline))
        except PyroError as error:
            if error.stale_route:
                session.routes.mark_stale(outgoing.topic)
            # A broker that restarts is not registered for a moment, and its topics have no route.
            can_pass = error.retriable or isinstance(error, NoRoute)
            if not can_pass or deadline.left_s <= _PAUSE_S:
                raise
        yield Pause(_PAUSE_S)


def _on_the_wire(session: Session, queue: MessageQueue) -> MessageQueue:
    return MessageQueue(wrap(session.settings.namespace, queue.topic), queue.broker_name, queue.queue_id)
