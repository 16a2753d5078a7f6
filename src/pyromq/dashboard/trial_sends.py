"""Sends a test message that somebody wrote on a page, and tells where it went."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from pyromq.client.aio.asking import Asker
from pyromq.client.client_session import Session
from pyromq.client.names import check_sendable_topic
from pyromq.client.plans import send_plans
from pyromq.client.producer.outgoing import compressed, prepare_plain
from pyromq.client.steps import Deadline, Plan, compute
from pyromq.dashboard.changes import text_of, whole
from pyromq.dashboard.picture import NameKind, Picture
from pyromq.errors import ConfigError
from pyromq.model import Message, MessageQueue, SendResult, SendStatus

#: Properties that a message may be given here.
PROPERTIES_MAX: Final = 100
#: The highest delay level of RocketMQ.
LEVEL_MAX: Final = 18
#: Seconds that a message may be delayed; the limit of brokers (timerMaxDelaySec) is lower.
DELAY_S_MAX: Final = 10 * 365 * 86_400
#: Milliseconds that a send may take, further tries included.
_SEND_MS: Final = 6_000
#: What a status other than SEND_OK means.
_MEANINGS: Final = {
    SendStatus.FLUSH_DISK_TIMEOUT: "stored, and not on the disk yet: a power cut now could lose it",
    SendStatus.FLUSH_SLAVE_TIMEOUT: "stored on the master; its slave did not say in time that it has it too",
    SendStatus.SLAVE_NOT_AVAILABLE: "stored on the master only: no slave is there, or near enough",
}

Order = Mapping[str, Any]
Shown = dict[str, Any]


async def send(asker: Asker, picture: Picture, order: Order) -> Shown:
    """Send a message as an order says it, and return its status, its place and its ids."""
    message = _message(order)
    await _check_there(asker, picture, message.topic)
    target = send_plans.target_of(_queue(picture, message.topic, order), None)
    sent = await asker.run(_send, message, target, timeout_ms=_SEND_MS)
    return {
        "status": sent.status,
        "meaning": _MEANINGS.get(sent.status),
        "topic": message.topic,
        "broker": sent.queue.broker_name,
        "queue": sent.queue.queue_id,
        "offset": sent.queue_offset,
        "id": sent.message_id,
        "placeId": sent.offset_message_id,
        "isDelayed": message.is_delayed,
    }


def _send(
    session: Session, message: Message, target: send_plans.SendTarget, deadline: Deadline
) -> Plan[SendResult]:
    outgoing = prepare_plain(message, session.next_message_id(), session.settings)
    outgoing = yield from compute(partial(compressed, outgoing, session.settings))
    return (yield from send_plans.send(session, outgoing, target, send_plans.sync_rule(session), deadline))


def _message(order: Order) -> Message:
    body = order.get("body")
    if not isinstance(body, str) or not body:
        raise ConfigError("the body is empty; RocketMQ takes no message without one")
    level, delay_s = _delay(order)
    return Message(
        text_of(order, "topic"),
        _whole_characters("the body", body).encode(),
        tags=_text(order, "tag") or None,
        keys=_text(order, "keys"),
        properties=_properties(order),
        delay_level=level,
        delay=delay_s,
    )


def _text(order: Order, name: str) -> str:
    value = order.get(name) or ""
    if not isinstance(value, str):
        raise ConfigError(f"{name} is a text, not {value!r}")
    return _whole_characters(name, value).strip()


def _whole_characters(what: str, text: str) -> str:
    """Return a text; JSON can have half a character, which no message can."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{what} has half a character at {error.start}: {text[error.start]!a}") from None
    return text


def _properties(order: Order) -> dict[str, str]:
    given = order.get("properties") or {}
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise ConfigError("properties are texts by their names")
    if len(given) > PROPERTIES_MAX:
        raise ConfigError(f"{len(given)} properties are more than the {PROPERTIES_MAX} of one message here")
    for name, value in given.items():
        if not name.strip():
            raise ConfigError(f"a property has no name; its value is {value!r}")
        _whole_characters(f"property {name!a}", name + value)
    return {name.strip(): value for name, value in given.items()}


def _delay(order: Order) -> tuple[int, float | None]:
    """Return the delay level (0: none) and the seconds (None: none) that an order asks for."""
    seconds = order.get("delaySeconds")
    level = 0 if order.get("delayLevel") is None else whole(order, "delayLevel", 0, 1, LEVEL_MAX)
    if seconds is None:
        return level, None
    if level:
        raise ConfigError("a message has a delay level or a time, not both")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= DELAY_S_MAX:
        raise ConfigError(f"delaySeconds is a number above 0, up to {DELAY_S_MAX:,}, not {seconds!r}")
    return level, float(seconds)


async def _check_there(asker: Asker, picture: Picture, topic: str) -> None:
    """Refuse a topic that is not there, which a send might create, and one that is no application's."""
    check_sendable_topic(topic)
    if picture.kind_of_topic(topic) is not NameKind.NORMAL:
        raise ConfigError(f"{topic} is no topic of an application: brokers fill it; send to another one")
    if topic not in picture.topics:
        # It may be newer than the last look at the tables; TopicNotFound if not.
        await asker.admin.route(topic)


def _queue(picture: Picture, topic: str, order: Order) -> MessageQueue | None:
    broker = _text(order, "broker")
    if not broker:
        if order.get("queue") is not None:
            raise ConfigError("say the broker whose queue it is, or leave the choice to the producer's turn")
        return None
    known = picture.topics.get(topic)
    configs = {} if known is None else known.configs
    if broker not in configs:
        raise ConfigError(
            f"{topic} is not on {broker!r}; it is on {', '.join(sorted(configs)) or 'no broker'}"
        )
    return MessageQueue(topic, broker, whole(order, "queue", 0, 0, configs[broker].write_queue_nums - 1))
