"""Finding messages: 12 by key, 33 by position."""

import msgspec

from pyromq.wire.header import Header, Int32, Int64, TopicName, Word


class QueryMessage(Header, kw_only=True):
    """12: messages of a topic with a key, stored within a range of milliseconds."""

    topic: TopicName
    key: Word
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key_query: bool | None = msgspec.field(default=None, name="_UNIQUE_KEY_QUERY")


class QueryMessageAnswer(Header, kw_only=True):
    """The position of the index; the messages are the body."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessage(Header, kw_only=True):
    """33: the message at a position of the commit log."""

    offset: Int64
    topic: TopicName | None = None
