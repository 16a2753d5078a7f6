"""Requests that lock queues at their brokers: in order, a queue is read by the member that has its lock."""

from collections.abc import Sequence

from pyromq.client.client_session import Session
from pyromq.client.plans.broker_calls import call_broker, master_address
from pyromq.client.steps import Call, Plan, must_succeed, request, tell
from pyromq.codes import RequestCode
from pyromq.model import MessageQueue
from pyromq.wire.bodies.lock_bodies import LockBatch, decode_locked_queues, encode_lock_batch

#: Seconds that a broker has to lock or unlock, as RocketMQ's.
LOCK_S = 1.0


def lock(session: Session, queues: Sequence[MessageQueue]) -> Plan[set[MessageQueue]]:
    """Lock queues of one broker, or renew their locks, and return those that are now this member's."""
    address = yield from _address(session, queues)
    command = request(RequestCode.LOCK_BATCH_MQ, body=_body(session, queues))
    answer = yield from call_broker(session, queues[0].broker_name, Call(address, command, LOCK_S))
    return set(decode_locked_queues(must_succeed(answer).body))


def unlock(session: Session, queues: Sequence[MessageQueue], *, oneway: bool) -> Plan[None]:
    """Give locks of queues of one broker back."""
    address = yield from _address(session, queues)
    command = request(RequestCode.UNLOCK_BATCH_MQ, body=_body(session, queues))
    if oneway:
        yield from tell(address, command, LOCK_S)
        return
    must_succeed((yield from call_broker(session, queues[0].broker_name, Call(address, command, LOCK_S))))


def _address(session: Session, queues: Sequence[MessageQueue]) -> Plan[str]:
    deadline = session.deadline(None, session.settings.mq_client_api_timeout)
    return (yield from master_address(session, queues[0], deadline))


def _body(session: Session, queues: Sequence[MessageQueue]) -> bytes:
    return encode_lock_batch(
        LockBatch(consumer_group=session.group, client_id=session.identity.client_id, queues=sorted(queues))
    )
