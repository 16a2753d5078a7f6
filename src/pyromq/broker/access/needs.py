"""The permissions that requests need of their account: the words of the table in `broker_routes.py`.

Where RocketMQ 4.9.8 looks at a request (PlainAccessValidator, Permission.ADMIN_CODE), it is the same here. It
lets every account do the rest. Here that holds only for questions about how things are:

    administrator            orders to the broker: offsets reset or cloned, files removed, accounts changed
    Anybody(why)             any account, with the reason
    publishes, reads, …      what the fields of the request name
    reads_message_at, …      what the topic of the message at a position needs
    joins, locks             what its body names

`docs/decisions/0021-access-control.md` says why.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyromq.broker.access.accounts import Need
from pyromq.broker.topics.topic_names import RETRY_PREFIX, retry_topic
from pyromq.config.account_rules import Permission
from pyromq.wire.bodies.heartbeat_bodies import decode_heartbeat
from pyromq.wire.bodies.lock_bodies import decode_lock_batch
from pyromq.wire.bodies.pop_bodies import decode_assignment_question, decode_batch_ack
from pyromq.wire.command import Command

#: Returns the topic that the message at a position of the log is for, None when none is there, and nothing
#: when what is there is the broker's own business.
TopicAt = Callable[[int], str | None]

NOTHING: Final = Need()
_ADMIN: Final = Need(is_admin=True)


@dataclass(frozen=True, slots=True)
class AskedRequest:
    """A request, and where to look for the messages that it names by their position."""

    command: Command
    topic_at: TopicAt

    def field(self, name: str) -> str:
        """Return a field, empty if there is none: its handler refuses the request then."""
        return (self.command.ext or {}).get(name, "")

    def with_message_at(self, name: str, permission: Permission, *more: tuple[str, Permission]) -> Need:
        """Return what is needed for the message whose position a field gives, and for more."""
        try:
            topic = self.topic_at(int(self.field(name)))
        except ValueError:
            return _ADMIN
        if topic is None:
            return _resources(*more)
        return _resources((topic, permission), *more) if topic else _ADMIN


#: Returns what a request needs. Raises BodyError when only its body can tell, and that does not read.
Needs = Callable[[AskedRequest], Need]


@dataclass(frozen=True, slots=True)
class Anybody:
    """Any account will do; `why` says why that opens nothing."""

    why: str

    def __call__(self, _asked: AskedRequest) -> Need:
        """Return that nothing is needed."""
        return NOTHING


@dataclass(frozen=True, slots=True)
class Named:
    """The topics or groups that fields of a request name; its header must have them.

    With a `place` the topic of a message counts, too: of that at the position which this field gives. Nothing
    else is looked at: what is needed holds for each request with the same fields and such a message.
    """

    look: Callable[..., Need]
    fields: tuple[str, ...]
    place: str | None = None

    @property
    def all_fields(self) -> tuple[str, ...]:
        """All fields that are looked at."""
        return self.fields if self.place is None else (self.place, *self.fields)

    def __call__(self, asked: AskedRequest) -> Need:
        """Return what the fields of this request name."""
        return self.look(asked, *self.all_fields)


def looked_at(needs: Needs) -> tuple[tuple[str, ...], str | None] | None:
    """Return the fields and the place that say what a request needs; None where its body does."""
    if isinstance(needs, Anybody):
        return (), None
    return (needs.fields, needs.place) if isinstance(needs, Named) else None


def administrator(_asked: AskedRequest) -> Need:
    """Say that an administrator is needed."""
    return _ADMIN


def publishes(topic: str) -> Named:
    """PUB for the topic that a field names."""
    return Named(lambda asked, name: to_publish(asked.field(name)), (topic,))


def reads(topic: str) -> Named:
    """SUB for the topic that a field names."""
    return Named(lambda asked, name: _resources((asked.field(name), Permission.SUB)), (topic,))


def reads_or_administers(topic: str) -> Named:
    """SUB for the topic that a field names; without one, an administrator, for it is about all topics."""

    def look(asked: AskedRequest, name: str) -> Need:
        return _resources((asked.field(name), Permission.SUB)) if asked.field(name) else _ADMIN

    return Named(look, (topic,))


def reads_as(topic: str, group: str) -> Named:
    """SUB for the topic and for the group that two fields name."""

    def look(asked: AskedRequest, topic: str, group: str) -> Need:
        return _resources((asked.field(topic), Permission.SUB), (_group(asked.field(group)), Permission.SUB))

    return Named(look, (topic, group))


def pops(topic: str, group: str) -> Named:
    """SUB for the group that a field names, and for the topic; retries of a topic count as the topic."""

    def look(asked: AskedRequest, topic: str, group: str) -> Need:
        return _to_pop(asked.field(topic), asked.field(group))

    return Named(look, (topic, group))


def acknowledges(asked: AskedRequest) -> Need:
    """SUB for the groups and topics of all messages that a request acknowledges."""
    body = asked.command.body
    needs = [_to_pop(part.topic, part.group) for part in decode_batch_ack(body).acks] if body else []
    return Need(resources={name: need for each in needs for name, need in (each.resources or {}).items()})


def is_in(group: str) -> Named:
    """SUB for the group that a field names."""
    return Named(lambda asked, name: _resources((_group(asked.field(name)), Permission.SUB)), (group,))


def reads_message_at(position: str) -> Named:
    """SUB for the topic of the message at the position that a field gives."""
    return Named(lambda asked, name: asked.with_message_at(name, Permission.SUB), (), position)


def ends_message_at(position: str) -> Named:
    """PUB for the topic of the message at the position that a field gives."""
    return Named(lambda asked, name: asked.with_message_at(name, Permission.PUB), (), position)


def takes_back(position: str, group: str) -> Named:
    """SUB for the topic of the message at a position, and for the group that a field names."""

    def look(asked: AskedRequest, position: str, group: str) -> Need:
        return asked.with_message_at(position, Permission.SUB, (_group(asked.field(group)), Permission.SUB))

    return Named(look, (group,), position)


def joins(asked: AskedRequest) -> Need:
    """SUB for every consumer group of a heartbeat, and for every topic that it subscribes to.

    Producer groups need nothing: every client of RocketMQ is in one, consumers too (CLIENT_INNER_PRODUCER).
    What a member of one is sent is looked at when it is sent: `AccessControl.may_publish`.
    """
    resources = {}
    for consumer in decode_heartbeat(asked.command.body).consumers:
        resources[retry_topic(consumer.group_name)] = Permission.SUB
        for subscription in consumer.subscriptions:
            resources[subscription.topic] = Permission.SUB
    return Need(resources=resources)


def locks(asked: AskedRequest) -> Need:
    """SUB for the group that locks or unlocks queues."""
    return _resources((_group(decode_lock_batch(asked.command.body).consumer_group), Permission.SUB))


def asks_for_share(asked: AskedRequest) -> Need:
    """SUB for the group that asks for its share of a topic's queues, and for the topic."""
    query = decode_assignment_question(asked.command.body)
    return _resources((query.topic, Permission.SUB), (_group(query.consumer_group), Permission.SUB))


def to_publish(topic: str) -> Need:
    """Return what is needed to send to a topic."""
    # A retry topic is its group's, and only who reads for the group may put something there.
    return _resources((topic, Permission.SUB if topic.startswith(RETRY_PREFIX) else Permission.PUB))


def _resources(*pairs: tuple[str, Permission]) -> Need:
    return Need(resources={name: permission for name, permission in pairs if name})


def _to_pop(topic: str, group: str) -> Need:
    retries = retry_topic(group)
    at = len(retries)
    if topic.startswith(retries) and topic[at : at + 1] in ("_", "+"):
        # %RETRY%group_topic, and +topic: what of the topic the group did not finish.
        topic = topic[at + 1 :]
    return _resources((topic, Permission.SUB), (_group(group), Permission.SUB))


def _group(name: str) -> str:
    return retry_topic(name) if name else ""
