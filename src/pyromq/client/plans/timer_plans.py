"""Messages that wait for their time: may a broker have one, take one back, list what waits.

Brokers of 4.9 do not know such messages and deliver them at once, without a word. So a broker is asked before
it is sent the first one: ours know LIST_WAITING; Apache's do not, but say with their answer which version
they are, and those from 5.0 on know timed messages (or refuse them, where timerWheelEnable=false).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from pyromq.client.client_session import Session
from pyromq.client.consumer.incoming import received_messages
from pyromq.client.names import check_topic
from pyromq.client.namespaces import unwrap, wrap
from pyromq.client.plans.admin import lookups as admin
from pyromq.client.plans.broker_calls import call_broker
from pyromq.client.plans.route_plans import publish_route
from pyromq.client.route_cache import MASTER_ID
from pyromq.client.steps import Call, Deadline, Plan, must_succeed, request
from pyromq.codes import VERSION_TIMERS, RequestCode, ResponseCode
from pyromq.errors import HeaderError, MessageIllegal, NetworkError, NoRoute, Refused
from pyromq.model import MessageQueue, ReceivedMessage, WaitingMessage
from pyromq.wire import properties as names
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.timer_headers import (
    ListWaiting,
    ListWaitingAnswer,
    RecallMessage,
    RecallMessageAnswer,
)
from pyromq.wire.recall_handle import RecallHandle, decode_recall_handle

T = TypeVar("T")

#: The largest position and the latest time that there can be.
LAST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class WaitingQuery:
    """A query for scheduled messages: for a topic, with a key, due within a range of time, behind another."""

    topic: str | None = None
    key: str | None = None
    begin_ms: int = 0
    end_ms: int = LAST
    count: int = 32
    after: WaitingMessage | None = None


def must_know_timers(session: Session, broker_name: str, address: str, deadline: Deadline) -> Plan[None]:
    """Raise Refused if the broker at an address would deliver a timed message at once; it is asked once."""
    if address in session.knows_timers:
        return
    command = request(RequestCode.LIST_WAITING, ListWaiting(max_num=0))
    call = Call(address, command, deadline.part_s(deadline.timeout_ms))
    answer = yield from call_broker(session, broker_name, call)
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED and answer.version < VERSION_TIMERS:
        raise Refused(
            ResponseCode.VERSION_NOT_SUPPORTED,
            f"broker {broker_name} ({address}) is older than RocketMQ 5.0 and would deliver a message with "
            "delay= or deliver_at= at once; use delay_level=1…18 with it",
        )
    session.knows_timers.add(address)


def recall(session: Session, topic: str, handle: str, deadline: Deadline) -> Plan[str]:
    """Take back the message that a send's answer gave a handle for; return its unique id.

    The broker that the handle names decides. A send that was tried again may have left a copy on another one
    of the topic's brokers, so those that can be reached are asked too, whatever it says.
    """
    check_topic(topic)
    try:
        known = decode_recall_handle(handle)
    except HeaderError as error:
        raise _illegal(f"{handle!r} is no recall handle; SendResult.recall_handle is one") from error
    wire_topic = wrap(session.settings.namespace, topic)
    if known.topic != wire_topic:
        raise _illegal(f"the handle is of a message to topic {known.topic!r}, not to {wire_topic!r}")
    route = yield from publish_route(session, wire_topic, deadline)
    address = session.routes.master_address(known.broker_name)
    if address is None:
        raise NoRoute(
            f"the message waits on broker {known.broker_name!r}, which has no master at name servers "
            f"{session.name_servers} now; try again when it is back"
        )
    answer = yield from _recall_on(session, known.broker_name, address, wire_topic, handle, deadline)
    for broker_name in route.broker_names:
        other = session.routes.master_address(broker_name)
        if broker_name != known.broker_name and other is not None:
            its_handle = replace(known, broker_name=broker_name).encode()
            try:
                yield from _recall_on(session, broker_name, other, wire_topic, its_handle, deadline)
            except NetworkError:
                continue
    return read_header(RecallMessageAnswer, must_succeed(answer).ext).msg_id


def _recall_on(
    session: Session, broker_name: str, address: str, topic: str, handle: str, deadline: Deadline
) -> Plan[Command]:
    header = RecallMessage(
        producer_group=session.group, topic=topic, recall_handle=handle, broker_name=broker_name
    )
    command = request(RequestCode.RECALL_MESSAGE, header)
    call = Call(address, command, deadline.part_s(deadline.timeout_ms))
    return (yield from call_broker(session, broker_name, call))


def waiting(session: Session, query: WaitingQuery, deadline: Deadline) -> Plan[list[WaitingMessage]]:
    """Return what waits on all brokers together, the earliest first; of those due together by broker."""
    if query.count < 1:
        raise _illegal(f"at least one message is asked for, not {query.count}")

    def ask_one(broker_name: str, address: str) -> Plan[list[WaitingMessage]]:
        return (yield from _waiting_on(session, broker_name, address, query))

    found = yield from _of_all(session, ask_one, deadline)
    return sorted((one for some in found.values() for one in some), key=_order)[: query.count]


def count_waiting(session: Session, deadline: Deadline) -> Plan[dict[str, int]]:
    """Return how many messages wait on each broker that can say it."""

    def ask_one(broker_name: str, address: str) -> Plan[int]:
        header = ListWaiting(max_num=0, with_count=True)
        answer = yield from _list(session, broker_name, address, header)
        return read_header(ListWaitingAnswer, answer.ext).waiting_count or 0

    return (yield from _of_all(session, ask_one, deadline))


def _waiting_on(
    session: Session, broker_name: str, address: str, query: WaitingQuery
) -> Plan[list[WaitingMessage]]:
    """Return up to `count` messages of one broker, however often it must be asked for them."""
    due_ms, position = _behind(query.after, broker_name)
    found: list[WaitingMessage] = []
    while len(found) < query.count:
        header = ListWaiting(
            topic=None if query.topic is None else wrap(session.settings.namespace, query.topic),
            key=query.key,
            begin_due_ms=query.begin_ms,
            end_due_ms=query.end_ms,
            after_due_ms=due_ms,
            after_position=position,
            max_num=query.count - len(found),
        )
        answer = yield from _list(session, broker_name, address, header)
        bytes_max = session.settings.decompressed_bytes_max
        found += [
            _waiting_message(session, broker_name, message)
            for message in received_messages(answer.body, broker_name, bytes_max=bytes_max)
        ]
        page = read_header(ListWaitingAnswer, answer.ext)
        if page.next_due_ms is None or page.next_position is None:
            break
        due_ms, position = page.next_due_ms, page.next_position
    return found


def _behind(after: WaitingMessage | None, broker_name: str) -> tuple[int, int]:
    """Return from where on a broker's messages come behind one, in the order of all brokers."""
    if after is None:
        return -1, -1
    its_broker = after.message.queue.broker_name
    if broker_name == its_broker:
        return after.due_ms, after.message.position
    return after.due_ms, LAST if broker_name < its_broker else -1


def _order(one: WaitingMessage) -> tuple[int, str, int]:
    return one.due_ms, one.message.queue.broker_name, one.message.position


def _waiting_message(session: Session, broker_name: str, message: ReceivedMessage) -> WaitingMessage:
    """Return a stored message as it will be: in its own topic and queue."""
    properties = message.properties
    topic = properties.get(names.REAL_TOPIC, message.topic)
    due_ms = int(properties[names.TIMER_OUT_MS])
    message_id = properties.get(names.UNIQ_KEY)
    handle = message_id and RecallHandle(topic, broker_name, due_ms, message_id).encode()
    message.topic = unwrap(session.settings.namespace, topic)
    message.queue = MessageQueue(message.topic, broker_name, int(properties.get(names.REAL_QUEUE_ID, "0")))
    return WaitingMessage(due_ms, message, handle)


def _of_all(
    session: Session, ask_one: Callable[[str, str], Plan[T]], deadline: Deadline
) -> Plan[dict[str, T]]:
    """Ask each master that can list, by name and address; raise Refused when there are only others."""
    table = yield from admin.cluster(session, deadline)
    answers: dict[str, T] = {}
    refused: Refused | None = None
    for broker_name, broker in sorted(table.broker_addr_table.items()):
        if MASTER_ID not in broker.broker_addrs:
            continue
        try:
            answers[broker_name] = yield from ask_one(broker_name, broker.broker_addrs[MASTER_ID])
        except Refused as error:
            if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            refused = error
    if refused is not None and not answers:
        raise Refused(
            refused.code, "no broker here can list what waits: PyroMQ's can, Apache's have no such request"
        ) from refused
    return answers


def _list(session: Session, broker_name: str, address: str, header: ListWaiting) -> Plan[Command]:
    """Ask a broker, with the whole time of a call for each: a long list takes many."""
    command = request(RequestCode.LIST_WAITING, header)
    call = Call(address, command, session.settings.mq_client_api_timeout / 1_000)
    return must_succeed((yield from call_broker(session, broker_name, call)))


def _illegal(text: str) -> MessageIllegal:
    return MessageIllegal(ResponseCode.MESSAGE_ILLEGAL, text)
