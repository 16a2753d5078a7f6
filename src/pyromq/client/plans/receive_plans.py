"""Receiving: one look at all topics and brokers after the other, and waiting where there is nothing.

| there are                  | a receive                                                          |
| -------------------------- | ------------------------------------------------------------------ |
| one topic on one broker    | pops there, and lets the broker hold the question                  |
| several                    | pops at each in turn; when all are empty, asks all to notify it    |

A broker that is away is tried again until the time for the receive is over; then its error is raised, unless
another broker answered. What a broker refuses for good is raised at once.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.plans.membership_plans import heartbeat, leave
from pyromq.client.plans.pop_plans import (
    ALL_QUEUES,
    PopHaul,
    PopQuery,
    notified,
    pop,
    pop_deadline,
    says_something,
)
from pyromq.client.plans.presence_plans import search_s
from pyromq.client.plans.route_plans import refresh_name_servers, refresh_routes, subscribe_route
from pyromq.client.steps import Alone, Call, Deadline, Pause, Plan, ask_any
from pyromq.codes import ResponseCode
from pyromq.errors import (
    ConfigError,
    NetworkError,
    NoRoute,
    PyroError,
    Refused,
    ServiceNotAvailable,
    SystemBusy,
    TopicNotFound,
)
from pyromq.model import MessageQueue, ReceivedMessage
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, ConsumeType, Subscription
from pyromq.wire.properties import POP_CK

_log = logging.getLogger("pyromq.client")

#: The longest time that one question is held: a route may change meanwhile.
HELD_MS_MAX: Final = 15_000
#: The same of questions to several brokers; who answers last is not waited for, and holds them so long.
NOTIFIED_MS_MAX: Final = 5_000
#: Seconds until brokers are tried again of which none answered, and looked at again that cannot notify.
PAUSE_S: Final = 0.2
#: A question that came back sooner than this was not held.
SHORT_S: Final = 0.01
_PASSING: Final = (NetworkError, NoRoute, ServiceNotAvailable, SystemBusy, TopicNotFound)
#: Refusals that pass as well: too many questions are held, or the broker sheds load.
_PASSING_CODES: Final = frozenset({ResponseCode.POLLING_FULL, ResponseCode.FLOW_CONTROL})


@dataclass(slots=True)
class Receiving:
    """The wishes of a simple consumer: subscriptions by names on the wire, and whose turn it is."""

    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    from_min: bool = False
    is_fifo: bool = False
    turn: int = 0

    def part(self, session: Session) -> ConsumerPart:
        """Return what heartbeats say of this consumer."""
        return ConsumerPart(
            group_name=session.group,
            consume_type=ConsumeType.CONSUME_POP,
            subscriptions=sorted(self.subscriptions.values(), key=lambda one: one.topic),
            unit_mode=session.settings.unit_mode,
        )


@dataclass(frozen=True, slots=True)
class ReceiveTerms:
    """The terms of one receive."""

    count: int
    invisible_ms: int
    deadline: Deadline


def receive(session: Session, wants: Receiving, terms: ReceiveTerms) -> Plan[list[ReceivedMessage]]:
    """Return messages of one topic at one broker, each with its handle; none when none came in time."""
    if not wants.subscriptions:
        raise ConfigError("nothing to receive: subscribe to a topic first")
    while True:
        places, failure = yield from _places(session, wants)
        yield from _greet(session, wants)
        answered: list[MessageQueue] = []
        began_s = session.clock.monotonic()
        for place in places:
            is_only = len(places) == 1
            wait_ms = min(int(terms.deadline.left_s * 1_000), HELD_MS_MAX) if is_only else 0
            try:
                popped = yield from pop(session, _query(wants, terms, place, wait_ms), pop_deadline(session))
            except PyroError as error:
                _must_pass(error)
                _log.warning("%s at %s was not popped: %s", place.topic, place.broker_name, error)
                failure = error
                continue
            if popped.batches:
                wants.turn += 1
                return _stamped(popped)
            answered.append(place)
        if terms.deadline.has_passed:
            if failure is not None and not answered:
                raise failure
            return []
        if len(places) > 1:
            yield from _wait(session, wants, terms, answered)
        elif not answered or session.clock.monotonic() - began_s < SHORT_S:
            # The broker did not hold the question, or there is none.
            yield Pause(min(SHORT_S if answered else PAUSE_S, terms.deadline.left_s))


def _wait(
    session: Session, wants: Receiving, terms: ReceiveTerms, answered: Sequence[MessageQueue]
) -> Plan[None]:
    """Wait until one of the brokers that answered has something, or a while."""
    calls: list[Call] = []
    wait_ms = min(int(terms.deadline.left_s * 1_000), NOTIFIED_MS_MAX)
    for place in answered:
        try:
            query = _query(wants, terms, place, wait_ms)
            calls.append((yield from notified(session, query, pop_deadline(session))))
        except PyroError as error:
            _must_pass(error)
    has_something: bool | None = None
    if calls and wait_ms:
        try:
            answer = yield from ask_any(calls, calls[0].timeout_s)
            has_something = says_something(answer)
        except NetworkError as error:
            _log.info("no notification of messages: %s", error)
    if has_something is None:
        yield Pause(min(PAUSE_S, terms.deadline.left_s))


def _places(session: Session, wants: Receiving) -> Plan[tuple[list[MessageQueue], PyroError | None]]:
    """Return each topic at each of its brokers, beginning with the next in turn, and what hid a topic."""
    places: list[MessageQueue] = []
    failure: PyroError | None = None
    for topic in tuple(wants.subscriptions):
        try:
            route = yield from subscribe_route(session, topic, pop_deadline(session))
        except PyroError as error:
            _must_pass(error)
            failure = error
            continue
        names = dict.fromkeys(queue.broker_name for queue in route.read_queues)
        places += [MessageQueue(topic, name, ALL_QUEUES) for name in names]
    first = wants.turn % len(places) if places else 0
    return places[first:] + places[:first], failure


def _query(wants: Receiving, terms: ReceiveTerms, place: MessageQueue, wait_ms: int) -> PopQuery:
    subscription = wants.subscriptions.get(place.topic) or Subscription(topic=place.topic)
    return PopQuery(
        queue=place,
        subscription=subscription,
        count=terms.count,
        invisible_ms=terms.invisible_ms,
        wait_ms=wait_ms,
        from_min=wants.from_min,
        is_fifo=wants.is_fifo,
    )


def _stamped(popped: PopHaul) -> list[ReceivedMessage]:
    """Write each message's handle into its properties, where RocketMQ's clients have it."""
    messages: list[ReceivedMessage] = []
    for batch in popped.batches:
        prefix = batch.prefix
        for message in batch.messages:
            message.properties[POP_CK] = f"{prefix}{message.queue_offset}"
        messages += batch.messages
    return messages


def _must_pass(error: PyroError) -> None:
    """Raise an error that waiting does not mend."""
    if isinstance(error, Refused) and error.is_denied:
        raise error
    if not isinstance(error, _PASSING) and getattr(error, "code", None) not in _PASSING_CODES:
        raise error


# Membership ----------------------------------------------------------------------------------------------


def keep_receiver_known(session: Session, wants: Receiving) -> Plan[None]:
    """Go on for as long as a simple consumer is started: refresh routes, and send heartbeats."""
    clock, settings = session.clock, session.settings
    poll_s, beat_s = settings.poll_name_server_interval / 1_000, settings.heartbeat_broker_interval / 1_000
    poll_at, beat_at = clock.monotonic() + poll_s, clock.monotonic() + beat_s
    while True:
        now = clock.monotonic()
        yield Pause(max(0.0, min(poll_at - now, beat_at - now, search_s(session))))
        yield from refresh_name_servers(session)
        if clock.monotonic() >= poll_at:
            yield from refresh_routes(session)
            poll_at = clock.monotonic() + poll_s
        if clock.monotonic() >= beat_at:
            session.greeted.clear()
            yield from _greet(session, wants)
            beat_at = clock.monotonic() + beat_s


def _greet(session: Session, wants: Receiving) -> Plan[None]:
    """Make this consumer known to brokers that do not know it, or not what it wants now."""
    if session.greeted.issuperset(session.routes.master_addresses()):
        return

    def begin() -> Plan[None]:
        for address in session.routes.master_addresses():
            if address not in session.greeted:
                session.greeted.add(address)
                yield from heartbeat(session, wants.part(session), address)

    yield Alone("greeting brokers", begin, session.settings.mq_client_api_timeout / 1_000)


def leave_group(session: Session) -> Plan[None]:
    """Tell the brokers that know this consumer that it leaves."""
    for address in sorted(session.greeted):
        yield from leave(session, address)
