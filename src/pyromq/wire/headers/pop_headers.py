"""POP over remoting: 200050 to 200055, 200151, 400 and 401. These codes fit the JSON header only."""

import msgspec

from pyromq.wire.header import Expression, GroupName, Header, Int32, Int64, ServerName, Text, TopicName, Word


class PopMessage(Header, kw_only=True):
    """Take up to `max_msg_nums` messages of a topic; `queue_id` −1 means all queues and the retry topic.

    Messages are invisible to other members for `invisible_time` ms. `init_mode` says where a new group
    begins: 0 at the queue's minimum, 1 at its end.
    """

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    max_msg_nums: Int32
    invisible_time: Int64
    poll_time: Int64
    born_time: Int64 = 0
    init_mode: Int32
    exp_type: Word | None = None
    exp: Expression | None = None
    order: bool | None = None
    attempt_id: Word | None = None
    broker_name: ServerName | None = msgspec.field(default=None, name="bname")


class PopMessageAnswer(Header, kw_only=True):
    """The receipt handles of what was taken, apart from the messages, in lists joined by semicolons.

    `start_offset_info` has `{mark} {queue} {start offset}`, `msg_offset_info` `{mark} {queue} {offset},…`,
    `order_count_info` the counts of earlier deliveries. The mark is 0 for the topic, 1 and 2 for its retry
    topics.
    """

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32
    rest_num: Int64
    start_offset_info: Text | None = None
    msg_offset_info: Text | None = None
    order_count_info: Text | None = None


class AckMessage(Header, kw_only=True):
    """End a message that was taken. `topic` is the one it lies in, `extra_info` its receipt handle."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    extra_info: Text
    offset: Int64
    broker_name: ServerName | None = msgspec.field(default=None, name="bname")


class ChangeMessageInvisibleTime(Header, kw_only=True):
    """Have a message that was taken come again `invisible_time` ms from now, under another handle."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    extra_info: Text
    offset: Int64
    invisible_time: Int64
    broker_name: ServerName | None = msgspec.field(default=None, name="bname")


class ChangeMessageInvisibleTimeAnswer(Header, kw_only=True):
    """The parts of the new receipt handle that are others than before."""

    pop_time: Int64
    invisible_time: Int64
    revive_qid: Int32


class PeekMessage(Header, kw_only=True):
    """Look at the next messages of a topic; nothing changes by it."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    max_msg_nums: Int32


class CountHeldPops(Header, kw_only=True):
    """Ask how many pops of a group wait for a topic, or for one of its queues."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32


class HeldPopCount(Header, kw_only=True):
    """The number of pops that wait."""

    polling_num: Int32


class PopNotification(Header, kw_only=True):
    """Ask to be told when a topic has a message to take; nothing is taken."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    poll_time: Int64
    born_time: Int64 = 0
    order: bool | None = None
    attempt_id: Word | None = None
    exp_type: Word | None = None
    exp: Expression | None = None
    broker_name: ServerName | None = msgspec.field(default=None, name="bname")


class PopNotificationAnswer(Header, kw_only=True):
    """Whether there is something to take."""

    has_msg: bool
    polling_full: bool = False
