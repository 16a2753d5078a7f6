"""Sending messages: 10, 310, 320, 324, 325, and 326 from the broker to a requester."""

import msgspec

from pyromq.wire.header import GroupName, Header, Int32, Int64, ServerName, TopicName


class SendMessage(Header, kw_only=True):
    """A message to store; its body is the request's body, `properties` the property string."""

    producer_group: GroupName
    topic: str
    default_topic: TopicName
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    batch: bool = False
    max_reconsume_times: Int32 | None = None
    broker_name: ServerName | None = msgspec.field(default=None, name="bname")


class SendMessageV2(Header, kw_only=True):
    """The same under one-letter names, which is what Java, C++ and JavaScript send."""

    is_fast = True

    producer_group: GroupName = msgspec.field(name="a")
    topic: str = msgspec.field(name="b")
    default_topic: TopicName = msgspec.field(name="c")
    default_topic_queue_nums: Int32 = msgspec.field(name="d")
    queue_id: Int32 = msgspec.field(name="e")
    sys_flag: Int32 = msgspec.field(name="f")
    born_timestamp: Int64 = msgspec.field(name="g")
    flag: Int32 = msgspec.field(name="h")
    properties: str | None = msgspec.field(default=None, name="i")
    reconsume_times: Int32 | None = msgspec.field(default=None, name="j")
    unit_mode: bool = msgspec.field(default=False, name="k")
    max_reconsume_times: Int32 | None = msgspec.field(default=None, name="l")
    batch: bool = msgspec.field(default=False, name="m")
    broker_name: ServerName | None = msgspec.field(default=None, name="n")

    def to_v1(self) -> SendMessage:
        """Return the same fields under their long names."""
        return SendMessage(**{name: getattr(self, name) for name in self.__struct_fields__})

    @classmethod
    def from_v1(cls, header: SendMessage) -> "SendMessageV2":
        """Return the same fields under their one-letter names."""
        return cls(**{name: getattr(header, name) for name in header.__struct_fields__})


class SendMessageAnswer(Header, kw_only=True):
    """The place of the stored message. A batch's ids are joined by commas. 4.9 sends no transaction id."""

    is_fast = True

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = msgspec.field(default=None, name="MSG_REGION")
    trace_on: bool | None = msgspec.field(default=None, name="TRACE_ON")


class PushReplyMessage(Header, kw_only=True):
    """326: the reply to a request, pushed by the broker to whoever asked."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: Int64
