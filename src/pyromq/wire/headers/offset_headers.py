"""Offsets of queues and progress of groups: 14, 15, 29 to 32, and 220 and 221 from the broker."""

from pyromq.wire.header import GroupName, Header, Int32, Int64, ServerName, TopicName, Word


class QueryConsumerOffset(Header, kw_only=True):
    """14: how far a group got in a queue. `set_zero_if_not_found` is 5.x's."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class QueryConsumerOffsetAnswer(Header, kw_only=True):
    """The queue offset that the group reads next."""

    offset: Int64


class UpdateConsumerOffset(Header, kw_only=True):
    """15: how far a group got, to be remembered."""

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    commit_offset: Int64


class UpdateConsumerOffsetAnswer(Header, kw_only=True):
    """No fields; 4.9.8 sends an empty map of them."""


class SearchOffset(Header, kw_only=True):
    """29: the first queue offset at or after a time. `boundary_type` (lower, upper) is 5.x's."""

    topic: TopicName
    queue_id: Int32
    timestamp: Int64
    boundary_type: Word | None = None


class SearchOffsetAnswer(Header, kw_only=True):
    """The queue offset found."""

    offset: Int64


class GetMaxOffset(Header, kw_only=True):
    """30: one past the last message of a queue."""

    topic: TopicName
    queue_id: Int32
    committed: bool | None = None


class GetMaxOffsetAnswer(Header, kw_only=True):
    """The queue's end."""

    offset: Int64


class GetMinOffset(Header, kw_only=True):
    """31: the first message of a queue that is still there."""

    topic: TopicName
    queue_id: Int32


class GetMinOffsetAnswer(Header, kw_only=True):
    """The queue's begin."""

    offset: Int64


class GetEarliestMessageStoreTime(Header, kw_only=True):
    """32: when the first message of a queue was stored."""

    topic: TopicName
    queue_id: Int32


class GetEarliestMessageStoreTimeAnswer(Header, kw_only=True):
    """Milliseconds, or −1 when the queue is empty."""

    timestamp: Int64


class ResetConsumerClientOffset(Header, kw_only=True):
    """220: the broker tells a consumer where to go on; the table is the body."""

    topic: TopicName
    group: GroupName
    timestamp: Int64
    is_force: bool = True


class GetConsumerStatusFromClient(Header, kw_only=True):
    """221: the broker asks a consumer how far it got in each queue."""

    topic: TopicName
    group: GroupName
    client_addr: ServerName | None = None
