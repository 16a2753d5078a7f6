"""Headers of operators' requests besides `admin`: topics, groups, progress, statistics, clean-up.

207, 215, 300, 303, 308, 314, 315, 317, 321, 323; and 5.x's 343, 345, 351 to 353.
"""

from pyromq.wire.header import GroupName, Header, Int32, Int64, Text, TopicName, Word


class GetBrokerConfigAnswer(Header, kw_only=True):
    """26: the version of the settings, as JSON."""

    version: str


class DeleteTopic(Header, kw_only=True):
    """215: forget a topic on one broker."""

    topic: TopicName


class DeleteSubscriptionGroup(Header, kw_only=True):
    """207: forget a group on one broker, and its progress too if that is wanted."""

    group_name: GroupName
    remove_offset: bool = False


class QueryTopicConsumeByWho(Header, kw_only=True):
    """300: which groups read a topic."""

    topic: TopicName


class QueryConsumeTimeSpan(Header, kw_only=True):
    """303: how old the messages are that a group reads."""

    topic: TopicName
    group: GroupName


class QueryCorrectionOffset(Header, kw_only=True):
    """308: how far the slowest group is in each queue, without those of a list joined by commas."""

    compare_group: Text
    topic: TopicName
    filter_groups: Text | None = None


class CloneGroupOffset(Header, kw_only=True):
    """314: let a group be where another is, in one topic or in all that this one reads."""

    src_group: GroupName
    dest_group: GroupName
    topic: TopicName | None = None
    offline: bool = False


class ViewBrokerStats(Header, kw_only=True):
    """315: the rates of one thing that is counted."""

    stats_name: Word
    stats_key: Word


class GetBrokerConsumeStats(Header, kw_only=True):
    """317: how far behind all groups are, or only in topics that are ordered."""

    is_order: bool


class QueryConsumeQueue(Header, kw_only=True):
    """321: entries of a queue; with a group, also what that subscribes to."""

    topic: TopicName
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: GroupName | None = None


class ResumeCheckHalfMessage(Header, kw_only=True):
    """323: ask again about a transaction that was given up."""

    msg_id: Word | None = None


class QueryTopicsByConsumer(Header, kw_only=True):
    """343: the topics that a group has progress in."""

    group: GroupName


class QuerySubscriptionByConsumer(Header, kw_only=True):
    """345: what the members of a group subscribe to in a topic."""

    group: GroupName
    topic: TopicName


class GetTopicConfig(Header, kw_only=True):
    """351: one topic."""

    topic: TopicName


class GetSubscriptionGroupConfig(Header, kw_only=True):
    """352: one group."""

    group: GroupName


class UpdateGroupForbidden(Header, kw_only=True):
    """353: whether a group may read a topic; without `readable` nothing changes."""

    group: GroupName
    topic: TopicName
    readable: bool | None = None
