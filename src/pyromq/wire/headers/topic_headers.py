"""Topics on a broker: 17."""

from pyromq.wire.header import Header, Int32, Text, TopicName, Word


class UpdateAndCreateTopic(Header, kw_only=True):
    """17: create a topic, or change it. `attributes` and `force` are 5.x's."""

    topic: str
    default_topic: TopicName
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: Word
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: Text | None = None
    force: bool | None = None
