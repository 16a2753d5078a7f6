"""Transactions: 37, and 39 from the broker. And 36: a message that could not be consumed."""

import msgspec

from pyromq.wire.header import GroupName, Header, Int32, Int64, ServerName, TopicName, Word


class EndTransaction(Header, kw_only=True):
    """37: the fate of a half message. `commit_or_rollback` is 8, 12 or 0 (not known)."""

    producer_group: GroupName
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    from_transaction_check: bool = False
    msg_id: Word
    transaction_id: Word | None = None
    topic: TopicName | None = None


class CheckTransactionState(Header, kw_only=True):
    """39: the broker asks a producer for the fate of a half message, which is the body."""

    topic: TopicName | None = None
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: Word | None = None
    transaction_id: Word | None = None
    offset_msg_id: Word | None = None
    broker_name: ServerName | None = msgspec.field(default=None, name="bname")


class ConsumerSendMessageBack(Header, kw_only=True):
    """36: a message to be consumed again later; `offset` is its position in the commit log."""

    offset: Int64
    group: GroupName
    delay_level: Int32
    origin_msg_id: Word | None = None
    origin_topic: TopicName | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
