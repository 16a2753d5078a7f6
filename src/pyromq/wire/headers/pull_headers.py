"""Pulling messages: 11 and 361."""

import msgspec

from pyromq.wire.header import Expression, GroupName, Header, Int32, Int64, ServerName, TopicName, Word


class PullMessage(Header, kw_only=True):
    """Ask for messages of one queue from `queue_offset` on; `sys_flag` is a `PullFlag`."""

    is_fast = True

    consumer_group: GroupName
    topic: TopicName
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64
    subscription: Expression | None = None
    sub_version: Int64
    expression_type: Word | None = None
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None
    broker_name: ServerName | None = msgspec.field(default=None, name="bname")


class PullMessageAnswer(Header, kw_only=True):
    """The offset of the next pull; the messages are the body, and the remark is the store's status."""

    is_fast = True

    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None
