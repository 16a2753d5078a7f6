"""Messages that wait for their time: 370 takes one back, 9001 (ours) lists them."""

import msgspec

from pyromq.wire.header import GroupName, Header, Int32, Int64, ServerName, TopicName, Word


class RecallMessage(Header, kw_only=True):
    """370: take back the message that a handle names."""

    producer_group: GroupName | None = None
    topic: TopicName
    recall_handle: Word
    broker_name: ServerName | None = msgspec.field(default=None, name="bname")


class RecallMessageAnswer(Header, kw_only=True):
    """The unique id of the message that is not delivered now."""

    msg_id: str
    msg_region: str | None = msgspec.field(default=None, name="MSG_REGION")


class ListWaiting(Header, kw_only=True):
    """9001: what waits, the earliest first, behind the message with that due time and position.

    `topic` is the one that a message will be delivered to, `key` one of its keys or its unique id; it is due
    from `begin_due_ms` to `end_due_ms`, both with it. `with_count` asks how many wait in all.
    """

    topic: TopicName | None = None
    key: Word | None = None
    begin_due_ms: Int64 = 0
    end_due_ms: Int64 = 2**63 - 1
    after_due_ms: Int64 = -1
    after_position: Int64 = -1
    max_num: Int32 = 32
    with_count: bool = False


class ListWaitingAnswer(Header, kw_only=True):
    """The messages are the body, as stored. What follows is asked for by the two `next_…`; the last has none.

    A broker looks at so many messages for one answer, so it may bring fewer than were asked for, even none,
    before the end. `waiting_count` comes where it was asked for, and counts what waits in all.
    """

    next_due_ms: Int64 | None = None
    next_position: Int64 | None = None
    waiting_count: Int64 | None = None
