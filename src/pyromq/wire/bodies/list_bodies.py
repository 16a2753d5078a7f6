"""Lists of topics: 206, 224, 304, 305, 311 to 313."""

import msgspec

from pyromq.wire.bodies.body import Body, read_body
from pyromq.wire.java_json import dumps


class TopicList(Body, kw_only=True, frozen=True):
    """Topics by name, and for some questions one broker's address."""

    topic_list: list[str] = msgspec.field(default_factory=list)
    broker_addr: str | None = None


def encode_topic_list(topics: TopicList) -> bytes:
    """Return the list's JSON."""
    return dumps(topics)


def decode_topic_list(data: bytes) -> TopicList:
    """Return the list that JSON says."""
    return read_body(TopicList, data)
