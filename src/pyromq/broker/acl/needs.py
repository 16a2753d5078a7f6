"""What each request needs of the account that signed it: every code that the broker answers, on one page.

Where RocketMQ 4.9.8 looks at a request (PlainAccessValidator, Permission.ADMIN_CODE), it is the same here. It
lets every account do the rest. Here that holds only for questions about how things are:

    orders to the broker     need an administrator: offsets reset or cloned, files removed, accounts changed
    messages by position     need what the topic of the message there needs: read, sent back, committed
    batches, staged sends    need PUB as a send does
    locks                    need SUB as their group

A code that is not on this page needs an administrator. `docs/decisions/0021-access-control.md` says why.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyromq.broker.acl.accounts import Need, Permission
from pyromq.broker.topic_names import RETRY_PREFIX, retry_topic
from pyromq.codes import RequestCode as Code
from pyromq.wire.bodies.heartbeat import decode_heartbeat
from pyromq.wire.bodies.locks import decode_lock_batch
from pyromq.wire.command import Command

#: Returns the topic that the message at a position of the log is for, None when none is there, and nothing
#: when what is there is the broker's own business.
TopicAt = Callable[[int], str | None]

#: Any account will do.
ANYBODY: Final = Need()
ADMIN: Final = Need(is_admin=True)

#: Orders to the broker. RocketMQ asks for an administrator for 17, 25, 200, 207 and 215 only.
ADMIN_CODES: Final = frozenset(
    {
        Code.UPDATE_AND_CREATE_TOPIC,
        Code.UPDATE_AND_CREATE_TOPIC_LIST,
        Code.UPDATE_BROKER_CONFIG,
        Code.UPDATE_AND_CREATE_ACL_CONFIG,
        Code.DELETE_ACL_CONFIG,
        Code.GET_BROKER_CLUSTER_ACL_INFO,
        Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
        Code.GET_BROKER_CLUSTER_ACL_CONFIG,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
        Code.DELETE_SUBSCRIPTIONGROUP,
        Code.DELETE_TOPIC_IN_BROKER,
        Code.INVOKE_BROKER_TO_RESET_OFFSET,
        Code.CLEAN_EXPIRED_CONSUMEQUEUE,
        Code.CONSUME_MESSAGE_DIRECTLY,
        Code.CLONE_GROUP_OFFSET,
        Code.CLEAN_UNUSED_TOPIC,
        Code.RESUME_CHECK_HALF_MESSAGE,
        Code.DELETE_EXPIRED_COMMITLOG,
        Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
        Code.SWITCH_MASTER,
        Code.RESET_GROUP_OFFSETS,
    }
)
#: Questions about how things are, and steps that name no topic.
ANYBODY_CODES: Final = frozenset(
    {
        Code.QUERY_CONSUMER_OFFSET,
        Code.GET_ALL_TOPIC_CONFIG,
        Code.GET_BROKER_CONFIG,
        Code.GET_BROKER_RUNTIME_INFO,
        Code.SEARCH_OFFSET_BY_TIMESTAMP,
        Code.GET_MAX_OFFSET,
        Code.GET_MIN_OFFSET,
        Code.GET_EARLIEST_MSG_STORETIME,
        Code.GET_ALL_CONSUMER_OFFSET,
        Code.GET_ALL_DELAY_OFFSET,
        Code.CHECK_CLIENT_CONFIG,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        Code.GET_TOPIC_STATS_INFO,
        Code.GET_CONSUMER_CONNECTION_LIST,
        Code.GET_PRODUCER_CONNECTION_LIST,
        Code.GET_CONSUME_STATS,
        Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        Code.QUERY_TOPIC_CONSUME_BY_WHO,
        Code.QUERY_CONSUME_TIME_SPAN,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
        Code.GET_CONSUMER_RUNNING_INFO,
        Code.QUERY_CORRECTION_OFFSET,
        Code.VIEW_BROKER_STATS_DATA,
        Code.GET_BROKER_CONSUME_STATS,
        Code.QUERY_CONSUME_QUEUE,
        Code.SEND_REPLY_MESSAGE,
        Code.SEND_REPLY_MESSAGE_V2,
        Code.GET_ALL_PRODUCER_INFO,
        Code.QUERY_TOPICS_BY_CONSUMER,
        Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
        Code.GET_TOPIC_CONFIG,
        Code.GET_SUBSCRIPTIONGROUP_CONFIG,
        Code.OPEN_STAGED_BATCH,
        Code.PUBLISH_STAGED,
        Code.ABORT_STAGED,
        Code.STAGED_STATUS,
        Code.GET_QUEUE_LOCKS,
        Code.LIST_REPLICAS,
    }
)


@dataclass(frozen=True, slots=True)
class Asked:
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
            return ADMIN
        if topic is None:
            return _resources(*more)
        return _resources((topic, permission), *more) if topic else ADMIN


def need_of(command: Command, topic_at: TopicAt) -> Need:
    """Return what a request needs. Raises BodyError when only its body can tell, and that does not read."""
    code = command.code
    if code in ANYBODY_CODES:
        return ANYBODY
    look = _LOOKS.get(code)
    if look is None:
        return ADMIN
    return look(Asked(command, topic_at))


def _resources(*pairs: tuple[str, Permission]) -> Need:
    return Need(resources={name: permission for name, permission in pairs if name})


def _group(name: str) -> str:
    return retry_topic(name) if name else ""


def _send(topic: str) -> Need:
    # A retry topic is its group's, and only who reads for the group may put something there.
    return _resources((topic, Permission.SUB if topic.startswith(RETRY_PREFIX) else Permission.PUB))


def _pull(asked: Asked) -> Need:
    return _resources(
        (asked.field("topic"), Permission.SUB),
        (_group(asked.field("consumerGroup")), Permission.SUB),
    )


def _send_back(asked: Asked) -> Need:
    return asked.with_message_at("offset", Permission.SUB, (_group(asked.field("group")), Permission.SUB))


def _heartbeat(asked: Asked) -> Need:
    resources = {}
    for consumer in decode_heartbeat(asked.command.body).consumers:
        resources[retry_topic(consumer.group_name)] = Permission.SUB
        for subscription in consumer.subscriptions:
            resources[subscription.topic] = Permission.SUB
    return Need(resources=resources)


def _lock(asked: Asked) -> Need:
    return _resources((_group(decode_lock_batch(asked.command.body).consumer_group), Permission.SUB))


def _list_waiting(asked: Asked) -> Need:
    topic = asked.field("topic")
    return _resources((topic, Permission.SUB)) if topic else ADMIN


_LOOKS: Mapping[int, Callable[[Asked], Need]] = {
    Code.SEND_MESSAGE: lambda asked: _send(asked.field("topic")),
    Code.SEND_MESSAGE_V2: lambda asked: _send(asked.field("b")),
    Code.SEND_BATCH_MESSAGE: lambda asked: _send(asked.field("b")),
    Code.STAGE_MESSAGES: lambda asked: _send(asked.field("topic")),
    Code.RECALL_MESSAGE: lambda asked: _send(asked.field("topic")),
    Code.CONSUMER_SEND_MSG_BACK: _send_back,
    Code.END_TRANSACTION: lambda asked: asked.with_message_at("commitLogOffset", Permission.PUB),
    Code.PULL_MESSAGE: _pull,
    Code.LITE_PULL_MESSAGE: _pull,
    Code.QUERY_MESSAGE: lambda asked: _resources((asked.field("topic"), Permission.SUB)),
    Code.VIEW_MESSAGE_BY_ID: lambda asked: asked.with_message_at("offset", Permission.SUB),
    Code.HEART_BEAT: _heartbeat,
    Code.UNREGISTER_CLIENT: lambda asked: _resources((_group(asked.field("consumerGroup")), Permission.SUB)),
    Code.GET_CONSUMER_LIST_BY_GROUP: lambda asked: _resources(
        (_group(asked.field("consumerGroup")), Permission.SUB)
    ),
    Code.UPDATE_CONSUMER_OFFSET: _pull,
    Code.LOCK_BATCH_MQ: _lock,
    Code.UNLOCK_BATCH_MQ: _lock,
    Code.LIST_WAITING: _list_waiting,
    **{code: lambda _asked: ADMIN for code in ADMIN_CODES},
}
#: The codes whose needs are written down here.
KNOWN_CODES: Final = ANYBODY_CODES | frozenset(_LOOKS)
