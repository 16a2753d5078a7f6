"""The dead letter queue of a group: after how many retries a message goes there, and the move itself.

The same rules hold for a message that a consumer sends back, and for one that a client sends to the retry
topic itself because sending it back failed.
"""

from pyromq.broker.groups.groups import GroupTable
from pyromq.broker.topics import topic_names
from pyromq.broker.topics.intake import FAQ
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import ResponseCode
from pyromq.errors import Refused
from pyromq.store.store import Draft
from pyromq.wire import properties as names
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig

QUEUE_COUNT = 1
#: Clients before this version (V3_4_9) do not mean their `maxReconsumeTimes`.
VERSION_MAX_RECONSUME_TIMES = 121


def existing_group(groups: GroupTable, group: str) -> SubscriptionGroupConfig:
    """Return the group's configuration; raise Refused when it neither exists nor may be created."""
    config = groups.find(group)
    if config is None:
        raise Refused(
            ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group} {FAQ}"
        )
    return config


def times_max(config: SubscriptionGroupConfig, asked: int | None, version: int) -> int:
    """Return how often a message may be retried: as its consumer asks, else as the group is configured."""
    if asked is not None and version >= VERSION_MAX_RECONSUME_TIMES:
        return asked
    return config.retry_max_times


def bury(draft: Draft, properties: dict[str, str], group: str, topics: TopicTable) -> None:
    """Make a draft one of the group's dead letters; they are not delayed."""
    draft.topic = topic_names.dead_letter_topic(group)
    draft.queue_id = 0
    topics.ensure(draft.topic, queue_count=QUEUE_COUNT)
    properties[names.DELAY] = "0"
