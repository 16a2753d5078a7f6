"""Sending: which queue, which errors are tried again, and when to give up.

The rules are those of RocketMQ 4.9.8 (DefaultMQProducerImpl.sendDefaultImpl, MQClientAPIImpl):

| call       | tries | tried again on                                                        |
| ---------- | ----- | --------------------------------------------------------------------- |
| send       | 1 + 2 | no answer; codes 1, 14, 16, 17, 204, 205; on request, a status not OK |
| send_async | 1 + 2 | no answer                                                             |
| oneway, a given queue, a selector | 1 | never                                              |

A further try keeps away from the broker that just failed, and all tries share one time budget. Hooks are
called around every try.

While a group of brokers replaces its master, RocketMQ's client gives up after those tries, within
milliseconds. Here a send then waits for the new master until its time is over, whatever its target. That rule
begins only when the route or the broker says that the master is being replaced (`patience.py`); a dead broker
gets no further try.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import msgspec

from pyromq.client.client_session import Session
from pyromq.client.hooks import Sending, after_send, before_send, kind_of
from pyromq.client.namespaces import unwrap_queue, wrap, wrap_queue
from pyromq.client.plans.broker_calls import explained, unknown_broker, vip_address
from pyromq.client.plans.patience import Switch, awaited_route
from pyromq.client.plans.route_plans import publish_route
from pyromq.client.plans.timer_plans import must_know_timers
from pyromq.client.producer.outgoing import Outgoing
from pyromq.client.producer.queue_choice import Selector
from pyromq.client.route_cache import CachedRoute
from pyromq.client.steps import Deadline, Plan, ask, tell
from pyromq.codes import ClientCode, Language, RequestCode, ResponseCode
from pyromq.errors import (
    ConnectFailed,
    MessageIllegal,
    NetworkError,
    NoRoute,
    PyroError,
    Refused,
    RequestTimeout,
    SendFailed,
    refusal,
)
from pyromq.model import CommunicationMode, MessageQueue, SendResult, SendStatus
from pyromq.wire import properties as names
from pyromq.wire.command import Command
from pyromq.wire.header import read_header, write_header
from pyromq.wire.headers.send_headers import SendMessageAnswer, SendMessageV2

#: Asynchronous sends of one producer that may be under way, RocketMQ's clientAsyncSemaphoreValue.
IN_FLIGHT_MAX: Final = 65_535
_STATUSES: Final[dict[int, SendStatus]] = {
    ResponseCode.SUCCESS: SendStatus.SEND_OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
}
DEFAULT_REGION: Final = "DefaultRegion"
#: Tries of which all brokers are named.
_BROKERS_TOLD: Final = 5
#: The fields of SendMessageV2 in which messages to one queue differ, by their names on the wire.
_SYS_FLAG, BORN_FIELD, FLAG_FIELD, _PROPERTIES = "f", "g", "h", "i"


@dataclass(frozen=True, slots=True)
class RetryRule:
    """The retry rule of a send: how often it is tried, and whether after a refusal or a poor status."""

    tries: int
    on_refusal: bool = False
    on_status_not_ok: bool = False
    mode: CommunicationMode = CommunicationMode.SYNC

    def allows(self, error: PyroError) -> bool:
        """Return whether another broker may do what this failure says one did not."""
        if isinstance(error, Refused):
            return self.on_refusal and error.retriable
        return isinstance(error, NetworkError | NoRoute)


@dataclass(frozen=True, slots=True)
class SendTarget:
    """The target of a send: a given queue, the one that a selector picks, or the next in turn."""

    queue: MessageQueue | None = None
    selector: Selector | None = None

    def __post_init__(self) -> None:
        if self.queue is not None and self.selector is not None:
            raise TypeError("give a queue or a selector, not both")


NEXT_IN_TURN: Final = SendTarget()


@dataclass(slots=True)
class Attempt:
    """One try of a send to the next queue in turn, and the address that it went to once that is known.

    A first try that was made without the plan has its outcome: the answer, or the failure.
    """

    queue: MessageQueue
    address: str | None = None
    outcome: Command | PyroError | None = None


def target_of(queue: MessageQueue | None, selector: Selector | None) -> SendTarget:
    """Return where a message is to go; most may go anywhere, and need no target of their own."""
    return NEXT_IN_TURN if queue is None and selector is None else SendTarget(queue, selector)


def sync_rule(session: Session) -> RetryRule:
    """Return the rule of a send whose result the caller waits for."""
    settings = session.settings
    return _rule(
        1 + settings.retry_times_when_send_failed,
        on_refusal=True,
        on_status_not_ok=settings.retry_another_broker_when_not_store_ok,
    )


def async_rule(session: Session) -> RetryRule:
    """Return the rule of a send whose result goes to a callback."""
    tries = 1 + session.settings.retry_times_when_send_async_failed
    return _rule(tries, mode=CommunicationMode.ASYNC)


#: Rules are few, and every send needs one.
_rule = lru_cache(maxsize=64)(RetryRule)


def send(
    session: Session, outgoing: Outgoing, target: SendTarget, rule: RetryRule, deadline: Deadline
) -> Plan[SendResult]:
    """Send to where the target says; only a message that may go anywhere is tried again, by the rule."""
    if target.queue is not None or target.selector is not None:
        return (yield from _send_to_chosen(session, outgoing, target, rule, deadline))
    return (yield from _send_in_turn(session, outgoing, rule, deadline))


def _send_to_chosen(
    session: Session, outgoing: Outgoing, target: SendTarget, rule: RetryRule, deadline: Deadline
) -> Plan[SendResult]:
    """Send to the chosen queue, once; only a master that is being replaced is waited for."""
    if target.selector is not None:
        # A selector needs queues to choose from.
        yield from awaited_route(session, outgoing.topic, deadline, is_wanted=rule.tries > 1)
    queue = yield from _chosen_queue(session, outgoing, target, deadline)
    assert queue is not None, "a target that is not in turn has a queue or a selector"
    switch: Switch | None = None
    while True:
        address: str | None = None
        try:
            address = yield from _address(session, queue, deadline)
            return (yield from _send_at(session, outgoing, queue, address, deadline, rule.mode))
        except PyroError as error:
            if error.stale_route:
                session.routes.mark_stale(outgoing.topic)
            switch = switch or Switch(session, outgoing.topic, deadline, is_wanted=rule.tries > 1)
            if not (yield from switch.goes_on(queue.broker_name, address, error)):
                raise


def go_on(
    session: Session, outgoing: Outgoing, first: Attempt, rule: RetryRule, deadline: Deadline
) -> Plan[SendResult]:
    """Go on with a send whose first queue was chosen, and perhaps tried, without the plan."""
    return _send_in_turn(session, outgoing, rule, deadline, first)


def send_oneway(session: Session, outgoing: Outgoing, target: SendTarget, deadline: Deadline) -> Plan[None]:
    """Send without waiting for an answer, and never again."""
    queue = yield from _chosen_queue(session, outgoing, target, deadline)
    if queue is None:
        route = yield from publish_route(session, outgoing.topic, deadline)
        queue = _next_queue(session, route.write_queues, avoid=None)
    address = called_at(session, (yield from _address(session, queue, deadline)))
    if outgoing.is_timed:
        yield from must_know_timers(session, queue.broker_name, address, deadline)
    sending = _sending(session, outgoing, queue, address, CommunicationMode.ONEWAY)
    before_send(session.send_hooks, sending)
    command = command_of(session, _with_properties(outgoing, sending), queue)
    try:
        yield from tell(address, command, deadline.part_s(deadline.timeout_ms))
    except ConnectFailed as error:
        sending.error = error
        session.routes.mark_stale(outgoing.topic)
        raise explained(session, queue.broker_name, error) from error
    finally:
        after_send(session.send_hooks, sending)


def send_once(
    session: Session, outgoing: Outgoing, queue: MessageQueue, deadline: Deadline
) -> Plan[SendResult]:
    """Send to one queue, once, with the hooks around it."""
    address = yield from _address(session, queue, deadline)
    return (yield from _send_at(session, outgoing, queue, address, deadline, CommunicationMode.SYNC))


def _send_at(
    session: Session,
    outgoing: Outgoing,
    queue: MessageQueue,
    address: str,
    deadline: Deadline,
    mode: CommunicationMode,
) -> Plan[SendResult]:
    """Send to one queue of the master at an address, once, with the hooks around it."""
    address = called_at(session, address)
    if outgoing.is_timed:
        yield from must_know_timers(session, queue.broker_name, address, deadline)
    if not session.send_hooks:
        return (yield from _send_to(session, outgoing, queue, address, deadline))
    sending = _sending(session, outgoing, queue, address, mode)
    before_send(session.send_hooks, sending)
    outgoing = _with_properties(outgoing, sending)
    try:
        sending.result = yield from _send_to(session, outgoing, queue, address, deadline)
    except PyroError as error:
        sending.error = error
        raise
    finally:
        after_send(session.send_hooks, sending)
    return sending.result


def _send_to(
    session: Session, outgoing: Outgoing, queue: MessageQueue, address: str, deadline: Deadline
) -> Plan[SendResult]:
    command = command_of(session, outgoing, queue)
    try:
        answer = yield from ask(address, command, deadline.part_s(deadline.timeout_ms))
    except ConnectFailed as error:
        raise explained(session, queue.broker_name, error) from error
    return _result(session, outgoing, queue, answer)


def _sending(
    session: Session, outgoing: Outgoing, queue: MessageQueue, address: str, mode: CommunicationMode
) -> Sending:
    return Sending(
        group=session.group,
        message=outgoing.message,
        topic=outgoing.topic,
        queue=queue,
        broker_address=address,
        is_batch=outgoing.is_batch,
        kind=kind_of(outgoing.message),
        mode=mode,
        namespace=session.settings.namespace,
    )


def _with_properties(outgoing: Outgoing, sending: Sending) -> Outgoing:
    """Return what travels, with what hooks put to it; the messages of a batch are packed already."""
    if not sending.properties or outgoing.is_batch:
        return outgoing
    added = names.encode(sending.properties)
    properties = names.PROPERTY_SEPARATOR.join(filter(None, (outgoing.properties, added)))
    return msgspec.structs.replace(outgoing, properties=properties)


def _send_in_turn(
    session: Session,
    outgoing: Outgoing,
    rule: RetryRule,
    deadline: Deadline,
    attempt: Attempt | None = None,
) -> Plan[SendResult]:
    """Send to the next queue in turn, and after a failure to another broker's."""
    route: CachedRoute | None = None
    switch: Switch | None = None
    brokers: list[str] = []
    failure: PyroError | None = None
    not_ok: SendResult | None = None
    while not (brokers and deadline.has_passed):
        if attempt is None:
            route = route or (
                yield from awaited_route(session, outgoing.topic, deadline, is_wanted=rule.tries > 1)
            )
            attempt = Attempt(
                _next_queue(session, route.write_queues, avoid=brokers[-1] if brokers else None)
            )
        this, attempt = attempt, None
        brokers.append(this.queue.broker_name)
        try:
            result = yield from _try(session, outgoing, this, deadline, rule.mode)
        except PyroError as error:
            if error.stale_route:
                session.routes.mark_stale(outgoing.topic)
            failure = error
            if rule.allows(error) and len(brokers) < rule.tries:
                continue
            switch = switch or Switch(session, outgoing.topic, deadline, is_wanted=rule.tries > 1)
            route = yield from switch.next_route(this.queue.broker_name, this.address, error)
            if route is None:
                break
            continue
        if result.status is SendStatus.SEND_OK or not rule.on_status_not_ok:
            return result
        not_ok = result
        if len(brokers) >= rule.tries:
            break
    if not_ok is not None:
        return not_ok
    assert failure is not None, "a rule has at least one try"
    raise _gave_up(outgoing.topic, brokers, failure, deadline) if rule.allows(failure) else failure


def _try(
    session: Session, outgoing: Outgoing, attempt: Attempt, deadline: Deadline, mode: CommunicationMode
) -> Plan[SendResult]:
    """Make one try, or return what came of one that was made; note how it went where a setting wants it."""
    queue = attempt.queue
    if isinstance(attempt.outcome, PyroError):
        raise attempt.outcome
    if attempt.outcome is not None:
        return _result(session, outgoing, queue, attempt.outcome)
    settings = session.settings
    is_measured = settings.send_latency_fault_enable or settings.send_least_latency_enable
    began = session.clock.monotonic() if is_measured else 0.0
    is_failure = True
    try:
        attempt.address = yield from _address(session, queue, deadline)
        result = yield from _send_at(session, outgoing, queue, attempt.address, deadline, mode)
        is_failure = False
    finally:
        if is_measured:
            took_ms = round((session.clock.monotonic() - began) * 1_000)
            session.faults.note(queue.broker_name, took_ms, is_failure=is_failure)
            session.latencies.note(queue, took_ms, is_failure=is_failure)
    return result


def _next_queue(session: Session, queues: Sequence[MessageQueue], *, avoid: str | None) -> MessageQueue:
    """Return the queue for the next try: in turn, unless a setting wants slow brokers or queues avoided."""
    settings, turn = session.settings, session.turn(queues[0].topic)
    if settings.send_latency_fault_enable:
        # A broker that failed is out of the choice already.
        return session.faults.choose(turn, queues)
    if settings.send_least_latency_enable:
        return session.latencies.choose(turn, queues, avoid=avoid)
    return turn.choose(queues, avoid=avoid)


def send_parts(
    session: Session, parts: Sequence[Outgoing], target: SendTarget, timeout_ms: int | None
) -> Plan[list[SendResult]]:
    """Send batches one behind the other, each with the whole time; a failure says what is stored already."""
    results: list[SendResult] = []
    for part in parts:
        deadline = session.deadline(timeout_ms, session.settings.send_msg_timeout)
        try:
            result = yield from send(session, part, target, sync_rule(session), deadline)
        except PyroError as error:
            stored = sum(1 + result.message_id.count(",") for result in results)
            error.add_note(
                f"the first {stored} messages are stored, in {len(results)} of {len(parts)} batches"
            )
            raise
        results.append(result)
    return results


def publish_queues(session: Session, topic: str, deadline: Deadline) -> Plan[list[MessageQueue]]:
    """Return the queues that a topic's messages may be sent to."""
    namespace = session.settings.namespace
    route = yield from publish_route(session, wrap(namespace, topic), deadline)
    return [unwrap_queue(namespace, queue) for queue in route.write_queues]


def _chosen_queue(
    session: Session, outgoing: Outgoing, target: SendTarget, deadline: Deadline
) -> Plan[MessageQueue | None]:
    queue, namespace = target.queue, session.settings.namespace
    if target.selector is not None:
        route = yield from publish_route(session, outgoing.topic, deadline)
        # An application sees its own names, whatever they are on the wire.
        queues = route.write_queues
        if namespace:
            queues = tuple(unwrap_queue(namespace, queue) for queue in queues)
        queue = target.selector(queues, outgoing.message)
        if not isinstance(queue, MessageQueue):
            raise MessageIllegal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the selector returned {queue!r} for topic {outgoing.topic!r}; it must return one of the "
                f"{len(queues)} queues that it is given",
            )
    if queue is not None:
        queue = wrap_queue(namespace, queue)
    if queue is not None and queue.topic != outgoing.topic:
        raise MessageIllegal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message is for topic {outgoing.topic!r}, the queue is one of {queue.topic!r}; take one of "
            "Producer.queues(topic)",
        )
    return queue


def _address(session: Session, queue: MessageQueue, deadline: Deadline) -> Plan[str]:
    address = session.routes.master_address(queue.broker_name)
    if address is None or session.routes.wants_refresh(queue.topic):
        yield from publish_route(session, queue.topic, deadline)
        address = session.routes.master_address(queue.broker_name)
    if address is None:
        raise unknown_broker(session, queue, deadline)
    return address


def called_at(session: Session, address: str) -> str:
    """Return the address to call the broker at that the route has at this one."""
    return vip_address(address) if session.settings.vip_channel_enabled else address


def command_of(session: Session, outgoing: Outgoing, queue: MessageQueue) -> Command:
    """Return the request that sends a message to a queue."""
    if outgoing.reconsume_times or outgoing.max_reconsume_times is not None:
        ext = write_header(_header(session, outgoing, queue))
        return Command(_code_of(outgoing), ext=ext, body=outgoing.body, language=Language.PYTHON)
    key = (outgoing.topic, queue.broker_name, queue.queue_id, outgoing.is_batch)
    fields = session.send_fields.get(key)
    if fields is None:
        fields = session.send_fields[key] = write_header(_header(session, outgoing, queue))
    ext = fields.copy()
    # The order of the fields is theirs already.
    ext[_SYS_FLAG] = str(outgoing.sys_flag)
    ext[BORN_FIELD] = str(session.clock.now_ms())
    ext[FLAG_FIELD] = str(outgoing.flag)
    ext[_PROPERTIES] = outgoing.properties
    return Command(_code_of(outgoing), ext=ext, body=outgoing.body, language=Language.PYTHON)


def _header(session: Session, outgoing: Outgoing, queue: MessageQueue) -> SendMessageV2:
    settings = session.settings
    return SendMessageV2(
        producer_group=session.group,
        topic=outgoing.topic,
        default_topic=settings.create_topic_key,
        default_topic_queue_nums=settings.default_topic_queue_nums,
        queue_id=queue.queue_id,
        sys_flag=outgoing.sys_flag,
        born_timestamp=session.clock.now_ms(),
        flag=outgoing.flag,
        properties=outgoing.properties,
        reconsume_times=outgoing.reconsume_times,
        unit_mode=settings.unit_mode,
        max_reconsume_times=outgoing.max_reconsume_times,
        batch=outgoing.is_batch,
        broker_name=queue.broker_name,
    )


def header_of(command: Command) -> SendMessageV2:
    """Return the header of a request that `command_of` made."""
    return read_header(SendMessageV2, command.ext)


def _code_of(outgoing: Outgoing) -> RequestCode:
    if outgoing.is_batch:
        return RequestCode.SEND_BATCH_MESSAGE
    return RequestCode.SEND_REPLY_MESSAGE_V2 if outgoing.is_reply else RequestCode.SEND_MESSAGE_V2


def _result(session: Session, outgoing: Outgoing, queue: MessageQueue, answer: Command) -> SendResult:
    status = _STATUSES.get(answer.code)
    if status is None:
        raise refusal(answer.code, answer.remark)
    header = read_header(SendMessageAnswer, answer.ext)
    if header.queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, header.queue_id)
    return SendResult(
        status=status,
        message_id=outgoing.message_id,
        offset_message_id=header.msg_id,
        queue=unwrap_queue(session.settings.namespace, queue),
        queue_offset=header.queue_offset,
        transaction_id=header.transaction_id,
        recall_handle=header.recall_handle,
        region_id=header.msg_region or DEFAULT_REGION,
        is_trace_on=header.trace_on is not False,
    )


def _gave_up(topic: str, brokers: list[str], failure: PyroError, deadline: Deadline) -> PyroError:
    times = f"{len(brokers)} time{'s' if len(brokers) > 1 else ''}"
    # Many tries at few brokers are waiting; which broker it was each time is of no interest then.
    names = brokers if len(brokers) <= _BROKERS_TOLD else list(dict.fromkeys(brokers))
    took_ms = deadline.timeout_ms - round(deadline.left_s * 1_000)
    story = (
        f"a send to topic {topic!r} failed {times} in {took_ms} ms, on {', '.join(names)}; the last failure: "
        f"{failure}"
    )
    error: PyroError = (
        RequestTimeout(f"{story}; the {deadline.timeout_ms} ms for this send are used up")
        if deadline.has_passed
        else SendFailed(story, code=_code(failure), brokers=tuple(brokers))
    )
    error.__cause__ = failure
    return error


def _code(failure: PyroError) -> int:
    """Return the number that RocketMQ's clients put on such a failure of the last try."""
    if isinstance(failure, Refused | NetworkError):
        return failure.code
    # A queue whose broker no name server knows; the topic has a route.
    return ClientCode.BROKER_UNKNOWN
