"""A push consumer's pull: held by the broker until there is something, with the group's progress on it.

The broker knows the subscription from heartbeats; the pull names its version only.
"""

from dataclasses import dataclass

from pyromq.client.plans.broker import call_broker, reading_place, stale_on_failure
from pyromq.client.plans.pull import read_answer
from pyromq.client.route_cache import MASTER_ID
from pyromq.client.session import Session
from pyromq.client.steps import Call, Plan, request
from pyromq.codes import PullFlag, RequestCode
from pyromq.model import MessageQueue, PullResult
from pyromq.wire.bodies.heartbeat import Subscription
from pyromq.wire.headers.pull import PullMessage


@dataclass(frozen=True, slots=True)
class HeldPull:
    """What to pull. `progress` is what the broker is told to remember on the way, if anything."""

    queue: MessageQueue
    offset: int
    subscription: Subscription
    progress: int | None = None


def held_pull(session: Session, wanted: HeldPull) -> Plan[PullResult]:
    """Return what a queue has from an offset on, from the broker that the queue's last answer suggested."""
    queue, settings = wanted.queue, session.settings
    deadline = session.deadline(None, settings.consumer_timeout_millis_when_suspend)
    broker_id, address = yield from reading_place(session, queue, deadline)
    header = _header(session, wanted, is_master=broker_id == MASTER_ID)
    call = Call(address, request(RequestCode.PULL_MESSAGE, header), deadline.part_s(deadline.timeout_ms))
    with stale_on_failure(session, queue):
        answer = yield from call_broker(session, queue.broker_name, call)
        result = read_answer(session, queue, frozenset(wanted.subscription.tags), answer)
    session.reading_from[queue] = result.suggested_broker_id
    return result


def _header(session: Session, wanted: HeldPull, *, is_master: bool) -> PullMessage:
    settings, subscription = session.settings, wanted.subscription
    flags = PullFlag.SUSPEND
    # A slave keeps no progress of its own.
    if wanted.progress is not None and wanted.progress > 0 and is_master:
        flags |= PullFlag.COMMIT_OFFSET
    expression = None
    if settings.post_subscription_when_pull:
        flags |= PullFlag.SUBSCRIPTION
        expression = subscription.sub_string
    return PullMessage(
        consumer_group=session.group,
        topic=wanted.queue.topic,
        queue_id=wanted.queue.queue_id,
        queue_offset=wanted.offset,
        max_msg_nums=settings.pull_batch_size,
        sys_flag=int(flags),
        commit_offset=max(wanted.progress or 0, 0),
        suspend_timeout_millis=settings.push_suspend_max_time_millis,
        subscription=expression,
        sub_version=subscription.sub_version,
        expression_type=subscription.expression_type,
        broker_name=wanted.queue.broker_name,
    )
