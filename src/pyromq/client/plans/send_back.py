"""A message that failed comes again: its broker stores it once more for later.

When its broker cannot, the message itself is sent to the group's retry topic, to any broker.
"""

import logging

from pyromq.client.client_session import Session
from pyromq.client.consumer.incoming import UnreadableMessage
from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.namespaces import wrap
from pyromq.client.plans.broker_calls import call_broker
from pyromq.client.plans.route_plans import publish_route
from pyromq.client.steps import Call, Plan, must_succeed, request
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import NetworkError, NoRoute, PyroError, Refused
from pyromq.model import ReceivedMessage
from pyromq.wire import properties as names
from pyromq.wire.command import Command
from pyromq.wire.headers.send_headers import SendMessageV2
from pyromq.wire.headers.transaction_headers import ConsumerSendMessageBack

_log = logging.getLogger("pyromq.client")

#: The group in whose name clients send of their own accord.
INNER_PRODUCER = "CLIENT_INNER_PRODUCER"
SEND_BACK_S = 5.0
#: Tries of the second way, each at another queue.
TRIES = 3
#: The delay level of the first retry; each further one is one level later.
FIRST_LEVEL = 3
#: The delay level that makes a message a dead letter at once.
NEVER_AGAIN = -1
#: Answers that mean that the message is stored.
STORED = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)
#: What a pull or a pop wrote into the properties; it is not the message's.
_PULLS_OWN = (
    names.MIN_OFFSET,
    names.MAX_OFFSET,
    names.CONSUME_START_TIME,
    names.POP_CK,
    names.FIRST_POP_TIME,
)


def send_back(session: Session, message: ReceivedMessage, level: int, times_max: int) -> Plan[None]:
    """Have a message come again at a delay level: 0 for later each time, −1 for never.

    Raises the second way's error when both ways fail.
    """
    try:
        yield from _send_back(session, message, level, times_max)
    except (NetworkError, NoRoute, Refused) as error:
        session.routes.mark_stale(RETRY_TOPIC_PREFIX + session.group)
        _log.warning(
            "message %s was not sent back to its broker (%s); it is sent to the retry topic",
            message.message_id,
            error,
        )
        gives_up = level < 0 or message.reconsume_times >= times_max
        yield from send_to_retry_topic(session, message, message.reconsume_times + 1, gives_up=gives_up)


def send_to_retry_topic(
    session: Session, message: ReceivedMessage, reconsume_times: int, *, gives_up: bool
) -> Plan[None]:
    """Send a message to the group's retry topic, for one more try or, given up, as a dead letter.

    The broker decides by the two counts of the request. They are written so that every broker decides as this
    consumer did: 4.9's compares the count *with* this failure (`>=`), and so would bury a message one try
    before CONSUMER_SEND_MSG_BACK does; 5.x's compares with `>`.
    """
    topic = RETRY_TOPIC_PREFIX + session.group
    deadline = session.deadline(None, session.settings.send_msg_timeout)
    route = yield from publish_route(session, topic, deadline)
    # A body that this client cannot unpack goes as it came.
    packed = message if isinstance(message, UnreadableMessage) else None
    body, sys_flag = (message.body, 0) if packed is None else (packed.packed, packed.packing)
    failure: PyroError | None = None
    avoid: str | None = None
    for _ in range(TRIES):
        queue = session.turn(topic).choose(route.write_queues, avoid=avoid)
        avoid = queue.broker_name
        address = session.routes.master_address(queue.broker_name)
        if address is None:
            continue
        header = SendMessageV2(
            producer_group=INNER_PRODUCER,
            topic=topic,
            default_topic=session.settings.create_topic_key,
            default_topic_queue_nums=session.settings.default_topic_queue_nums,
            queue_id=queue.queue_id,
            sys_flag=sys_flag,
            born_timestamp=session.clock.now_ms(),
            flag=message.flag,
            properties=names.encode(_retried_properties(session, message)),
            reconsume_times=reconsume_times,
            unit_mode=session.settings.unit_mode,
            max_reconsume_times=0 if gives_up else reconsume_times + 1,
            broker_name=queue.broker_name,
        )
        command = request(RequestCode.SEND_MESSAGE_V2, header, body)
        try:
            answer = yield from call_broker(
                session, queue.broker_name, Call(address, command, deadline.part_s(deadline.timeout_ms))
            )
            _must_be_stored(answer)
        except (NetworkError, Refused) as error:
            failure = error
        else:
            return
    raise failure or NoRoute(f"no broker of topic {topic!r} has a master to send a message back to")


def _send_back(session: Session, message: ReceivedMessage, level: int, times_max: int) -> Plan[None]:
    header = ConsumerSendMessageBack(
        offset=message.position,
        group=session.group,
        delay_level=level,
        origin_msg_id=message.message_id,
        origin_topic=wrap(session.settings.namespace, message.topic),
        unit_mode=session.settings.unit_mode,
        max_reconsume_times=times_max,
    )
    broker_name = message.queue.broker_name
    address = session.routes.master_address(broker_name) or message.store_host
    call = Call(address, request(RequestCode.CONSUMER_SEND_MSG_BACK, header), SEND_BACK_S)
    _must_be_stored((yield from call_broker(session, broker_name, call)))


def _must_be_stored(answer: Command) -> None:
    """Raise the error for an answer's code if the broker does not have the message.

    One that took it and waited in vain for a disk or a slave has it: to send it once more makes it two.
    """
    if answer.code not in STORED:
        must_succeed(answer)


def _retried_properties(session: Session, message: ReceivedMessage) -> dict[str, str]:
    properties = dict(message.properties)
    for name in (*_PULLS_OWN, names.TRANSACTION_PREPARED):
        properties.pop(name, None)
    if not properties.get(names.ORIGIN_MESSAGE_ID):
        properties[names.ORIGIN_MESSAGE_ID] = message.message_id
    properties[names.RETRY_TOPIC] = wrap(session.settings.namespace, message.topic)
    properties[names.DELAY] = str(FIRST_LEVEL + message.reconsume_times)
    return properties
