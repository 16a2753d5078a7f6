"""Replaying a dead letter: look whether it was done before, store it once more, look where it went.

All three are asked of the broker that has the dead letter. So the copy is behind it in one log, and is found
as long as the dead letter itself is there.

What may be doubled: a message whose copy is stored and not yet in the broker's index of keys, when another
replay looks for it in that moment (Apache's brokers index some milliseconds later, ours at once).
"""

from dataclasses import dataclass
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.consumer.incoming import UnreadableMessage, received_messages
from pyromq.client.dead_letter import (
    DeadLetter,
    ReplayOutcome,
    ReplayResult,
    ReplayTo,
    dead_letter_topic,
    lookup_key,
    replay_of,
    replayed_properties,
    retry_topic,
)
from pyromq.client.namespaces import unwrap_queue, wrap
from pyromq.client.plans.broker_calls import call_broker, master_address
from pyromq.client.plans.route_plans import subscribe_route
from pyromq.client.plans.send_back import STORED
from pyromq.client.producer.compression import compress
from pyromq.client.steps import Call, Deadline, Pause, Plan, must_succeed, request
from pyromq.clock import Clock
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import (
    ClientClosed,
    ConfigError,
    MessageIllegal,
    NoRoute,
    PyroError,
    QueryNotFound,
    SendFailed,
    refusal,
)
from pyromq.model import MessageQueue, ReceivedMessage
from pyromq.wire import properties as names
from pyromq.wire.command import Command
from pyromq.wire.header import Header, read_header
from pyromq.wire.headers.query_headers import QueryMessage, ViewMessage
from pyromq.wire.headers.send_headers import SendMessageAnswer, SendMessageV2
from pyromq.wire.message_id import parse_offset_message_id
from pyromq.wire.record import PROPERTIES_BYTES_MAX

#: In whose name replayed messages are sent.
REPLAY_PRODUCER: Final = "DLQ_REPLAY_PRODUCER"
#: Milliseconds for one dead letter, besides the wait for its turn.
TIMEOUT_MS: Final = 10_000
#: Copies of a message that a broker shows at most; it shows the newest.
_COPIES_MAX: Final = 64
#: Copies are looked for from this long before the death: clocks may be set back.
_MARGIN_MS: Final = 60_000
_FOREVER_MS: Final = 2**63 - 1
#: A broker that makes a message a dead letter by its count must not do so with one that has not been tried.
_TIMES_MAX: Final = 16
#: How often, and how far apart, a broker is asked for what it has just stored.
_LOOKS: Final = 5
_LOOK_AGAIN_S: Final = 0.2


class Pace:
    """Lets one send after the other begin, no more than `rate` a second."""

    def __init__(self, rate: float | None, clock: Clock) -> None:
        if rate is not None and rate <= 0:
            raise ConfigError(f"a rate is more than nothing a second, not {rate}")
        self._interval_s = 0.0 if rate is None else 1.0 / rate
        self._clock = clock
        self._next_at = clock.monotonic()

    def take_turn(self) -> Plan[None]:
        """Wait until the next send may begin; what was not used does not add up."""
        now = self._clock.monotonic()
        wait_s = self._next_at - now
        self._next_at = max(now, self._next_at) + self._interval_s
        if wait_s > 0:
            yield Pause(wait_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRun:
    """The rules of a replay of dead letters: to whom, how fast, and whether again those replayed before."""

    to: ReplayTo
    pace: Pace
    is_repeated: bool = False
    is_rehearsal: bool = False


def replay(session: Session, letter: DeadLetter, run: ReplayRun) -> Plan[ReplayResult]:
    """Replay a dead letter, unless it was replayed before; what goes wrong with it is in the result."""
    destination = _destination(letter, run.to)
    try:
        if not run.is_repeated:
            earlier = yield from find_replay(session, letter)
            if earlier is not None:
                return _skipped(session, letter, destination, earlier)
        if destination is None:
            raise NoRoute(
                f"dead letter {letter.place_id} does not say which topic it was first sent to (it has no "
                "RETRY_TOPIC); replay it to its group"
            )
        if run.is_rehearsal:
            return ReplayResult(letter=letter, outcome=ReplayOutcome.WOULD_REPLAY, destination=destination)
        yield from run.pace.take_turn()
        return (yield from _send(session, letter, run.to, destination))
    except ClientClosed:
        raise
    except PyroError as error:
        return ReplayResult(
            letter=letter, outcome=ReplayOutcome.FAILED, destination=destination or "", error=error
        )


def find_replay(session: Session, letter: DeadLetter) -> Plan[ReceivedMessage | None]:
    """Return the copy of a dead letter that an earlier replay stored, wherever that went; None without one.

    Raises QueryNotFound when the broker does not find even the dead letter by its key: then nobody can tell.
    """
    deadline = session.deadline(None, TIMEOUT_MS)
    topics = [retry_topic(letter.group), letter.topic]
    for topic in dict.fromkeys(topic for topic in topics if topic is not None):
        found = replay_of(letter, (yield from _copies(session, letter, topic, deadline)))
        if found is not None:
            return found
    for look in range(_LOOKS):
        if look:
            yield Pause(_LOOK_AGAIN_S)
        # One that died again has a copy here, and its own dead letter is the one to replay.
        copies = yield from _copies(session, letter, dead_letter_topic(letter.group), deadline)
        found = replay_of(letter, copies)
        if found is not None:
            return found
        is_indexed = any(copy.offset_message_id == letter.place_id for copy in copies)
        if is_indexed or names.UNIQ_KEY not in letter.message.properties:
            return None
    raise QueryNotFound(
        ResponseCode.QUERY_NOT_FOUND,
        f"broker {letter.message.queue.broker_name} does not find dead letter {letter.place_id} by its key, "
        "so nobody can tell whether it was replayed before: does the broker keep an index of keys "
        "(messageIndexEnable)? `again` (--again) replays it all the same",
    )


def _copies(
    session: Session, letter: DeadLetter, topic: str, deadline: Deadline
) -> Plan[list[ReceivedMessage]]:
    header = QueryMessage(
        topic=wrap(session.settings.namespace, topic),
        key=lookup_key(letter),
        max_num=_COPIES_MAX,
        begin_timestamp=max(0, letter.died_at_ms - _MARGIN_MS),
        end_timestamp=_FOREVER_MS,
    )
    answer = yield from _ask(session, letter, RequestCode.QUERY_MESSAGE, header, deadline)
    if answer.code == ResponseCode.QUERY_NOT_FOUND:
        return []
    bytes_max = session.settings.decompressed_bytes_max
    broker_name = letter.message.queue.broker_name
    return received_messages(must_succeed(answer).body, broker_name, bytes_max=bytes_max)


def _send(session: Session, letter: DeadLetter, to: ReplayTo, destination: str) -> Plan[ReplayResult]:
    deadline = session.deadline(None, TIMEOUT_MS)
    queue = yield from _queue(session, letter, to, destination, deadline)
    command = _command(session, letter, to, queue)
    address = yield from master_address(session, letter.message.queue, deadline)
    timeout_s = deadline.part_s(session.settings.send_msg_timeout)
    answer = yield from call_broker(session, queue.broker_name, Call(address, command, timeout_s))
    if answer.code not in STORED:
        raise refusal(answer.code, answer.remark)
    sent = read_header(SendMessageAnswer, answer.ext)
    stored = yield from _stored(session, letter, sent.msg_id, deadline)
    if stored.topic != queue.topic:
        raise SendFailed(
            f"broker {queue.broker_name} stored it in {stored.topic} instead of {queue.topic}, as "
            f"{sent.msg_id}: brokers of 5.x make it a dead letter again at once while the group consumes "
            "orderly. Replay that one when the group has been stopped for a minute, or to its topic "
            "(--to-topic)",
            code=ResponseCode.SYSTEM_ERROR,
            brokers=(queue.broker_name,),
        )
    return ReplayResult(
        letter=letter,
        outcome=ReplayOutcome.REPLAYED,
        destination=destination,
        queue=unwrap_queue(session.settings.namespace, queue),
        queue_offset=sent.queue_offset,
        offset_message_id=sent.msg_id,
        stored_at_ms=stored.stored_at_ms,
    )


def _stored(
    session: Session, letter: DeadLetter, offset_message_id: str, deadline: Deadline
) -> Plan[ReceivedMessage]:
    """Return the message that the broker has just stored: its answer does not say in which topic."""
    header = ViewMessage(offset=parse_offset_message_id(offset_message_id).position)
    answer = yield from _ask(session, letter, RequestCode.VIEW_MESSAGE_BY_ID, header, deadline)
    bytes_max = session.settings.decompressed_bytes_max
    broker_name = letter.message.queue.broker_name
    return received_messages(must_succeed(answer).body, broker_name, bytes_max=bytes_max)[0]


def _queue(
    session: Session, letter: DeadLetter, to: ReplayTo, destination: str, deadline: Deadline
) -> Plan[MessageQueue]:
    """Choose a queue on the dead letter's own broker, which alone can tell later that it was replayed."""
    broker_name = letter.message.queue.broker_name
    topic = wrap(session.settings.namespace, destination)
    try:
        route = yield from subscribe_route(session, topic, deadline)
        queues = [queue for queue in route.write_queues if queue.broker_name == broker_name]
    except NoRoute:
        queues = []
    if queues:
        return session.turn(topic).choose(queues, avoid=None)
    if to is ReplayTo.GROUP:
        # A broker makes a group's retry topic itself when the first message comes.
        return MessageQueue(topic, broker_name, 0)
    raise NoRoute(
        f"topic {destination!r} has no queue on broker {broker_name} that may be written to, and that broker "
        "has the dead letter: create the topic there, or replay to the group"
    )


def _command(session: Session, letter: DeadLetter, to: ReplayTo, queue: MessageQueue) -> Command:
    settings, message = session.settings, letter.message
    properties = names.encode(replayed_properties(letter, to))
    size = len(properties.encode("utf-8", "replace"))
    if size > PROPERTIES_BYTES_MAX:
        raise MessageIllegal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"with the place it was replayed from, the properties have {size} bytes; {PROPERTIES_BYTES_MAX} "
            "are the limit",
        )
    body, sys_flag = _packed_body(settings, message)
    header = SendMessageV2(
        producer_group=REPLAY_PRODUCER,
        topic=queue.topic,
        default_topic=settings.create_topic_key,
        default_topic_queue_nums=settings.default_topic_queue_nums,
        queue_id=queue.queue_id,
        sys_flag=sys_flag,
        born_timestamp=message.born_at_ms,
        flag=message.flag,
        properties=properties,
        reconsume_times=0,
        unit_mode=settings.unit_mode,
        max_reconsume_times=_TIMES_MAX if to is ReplayTo.GROUP else None,
        broker_name=queue.broker_name,
    )
    return request(RequestCode.SEND_MESSAGE_V2, header, body)


def _packed_body(settings: ClientSettings, message: ReceivedMessage) -> tuple[bytes, int]:
    """Return a body as it travels, with its bits of the sysFlag."""
    if isinstance(message, UnreadableMessage):
        return message.packed, message.packing
    if len(message.body) < settings.compress_msg_body_over_howmuch:
        return message.body, 0
    return compress(message.body, settings.compress_type, settings.compress_level)


def _skipped(
    session: Session, letter: DeadLetter, destination: str | None, earlier: ReceivedMessage
) -> ReplayResult:
    return ReplayResult(
        letter=letter,
        outcome=ReplayOutcome.SKIPPED,
        destination=destination or "",
        queue=unwrap_queue(session.settings.namespace, earlier.queue),
        queue_offset=earlier.queue_offset,
        offset_message_id=earlier.offset_message_id,
        stored_at_ms=earlier.stored_at_ms,
    )


def _destination(letter: DeadLetter, to: ReplayTo) -> str | None:
    return retry_topic(letter.group) if to is ReplayTo.GROUP else letter.topic


def _ask(
    session: Session, letter: DeadLetter, code: RequestCode, header: Header, deadline: Deadline
) -> Plan[Command]:
    queue = letter.message.queue
    address = yield from master_address(session, queue, deadline)
    call = Call(address, request(code, header), deadline.part_s(deadline.timeout_ms))
    return (yield from call_broker(session, queue.broker_name, call))
