"""Topics on a broker: their configs, the table of them, and its version.

The table is what `topics.json` holds, what 21 answers, and what a broker registers.
"""

from collections.abc import Mapping

import msgspec

from pyromq.codes import Perm
from pyromq.model import TopicType
from pyromq.wire.bodies.body import Body, read_body
from pyromq.wire.bodies.table_text import TableText
from pyromq.wire.header import Int32, Int64
from pyromq.wire.java_hash import java_map_order
from pyromq.wire.java_json import dumps

#: The broker's tables are `ConcurrentHashMap(1024)`, which has 2,048 buckets.
TABLE_BUCKETS = 2048
#: The attribute that says the type of a topic.
MESSAGE_TYPE = "message.type"
_TYPES = frozenset(TopicType)


class DataVersion(Body, kw_only=True, frozen=True):
    """The version of a table: how often it changed, and when last. `state_version` is 5.x's."""

    timestamp: Int64 = 0
    counter: Int64 = 0
    state_version: Int64 | None = None

    def bumped(self, now_ms: int) -> "DataVersion":
        """Return the version after one more change."""
        return msgspec.structs.replace(self, timestamp=now_ms, counter=self.counter + 1)


class TopicConfig(Body, kw_only=True, frozen=True):
    """A topic on one broker. `attributes` are 5.x's; a table has their names without a sign."""

    topic_name: str
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = int(Perm.READ | Perm.WRITE)
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] | None = None

    @property
    def topic_type(self) -> TopicType:
        """The type of its messages: NORMAL if nobody said otherwise, UNSPECIFIED for one unknown here."""
        word = (self.attributes or {}).get(MESSAGE_TYPE, TopicType.NORMAL)
        return TopicType(word) if word in _TYPES else TopicType.UNSPECIFIED


class TopicConfigTable(Body, kw_only=True, frozen=True):
    """All topics of a broker, by name."""

    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = msgspec.field(default_factory=dict)


def encode_data_version(version: DataVersion) -> bytes:
    """Return a version's JSON."""
    return dumps(version)


def decode_data_version(data: bytes) -> DataVersion:
    """Return the version that JSON says."""
    return read_body(DataVersion, data)


def encode_topic_table(
    table: TopicConfigTable, *, pretty: bool = False, text: TableText | None = None
) -> bytes:
    """Return the table's JSON; `pretty` as in `topics.json`. `text` is what is kept of the topics' JSON."""
    return dumps(topic_table_fields(table, text, depth=1, pretty=pretty), pretty=pretty)


def decode_topic_table(data: bytes) -> TopicConfigTable:
    """Return the table that JSON says, from the wire or from a file of 4.9 or 5.x."""
    return read_body(TopicConfigTable, data)


def topic_table_fields(
    table: TopicConfigTable, text: TableText | None = None, *, depth: int = 0, pretty: bool = False
) -> Mapping[str, object]:
    """Return the table's fields with the topics in the order of Java's map.

    With `text` the topics are JSON already, that stands at a depth of the whole.
    """
    topics = table.topic_config_table
    if text is not None:
        shown: object = text.text(topics, depth=depth, pretty=pretty)
    else:
        shown = {name: topics[name] for name in java_map_order(tuple(topics), TABLE_BUCKETS)}
    return {"dataVersion": table.data_version, "topicConfigTable": shown}
