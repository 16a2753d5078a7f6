"""Headers of operators' requests to a broker: 202 to 204, 208, 222, 223."""

from pyromq.wire.header import GroupName, Header, Int64, ServerName, TopicName


class GetTopicStats(Header, kw_only=True):
    """202: first and last offset of each queue of a topic."""

    topic: TopicName


class GetConsumerConnectionList(Header, kw_only=True):
    """203: the members of a consumer group."""

    consumer_group: GroupName


class GetProducerConnectionList(Header, kw_only=True):
    """204: the members of a producer group."""

    producer_group: GroupName


class GetConsumeStats(Header, kw_only=True):
    """208: how far a group got, in one topic or in all."""

    consumer_group: GroupName
    topic: TopicName | None = None


class ResetOffset(Header, kw_only=True):
    """222: let a group go on at a time; −1 is the end."""

    topic: TopicName
    group: GroupName
    timestamp: Int64
    is_force: bool


class ResetGroupOffsets(Header, kw_only=True):
    """9301 (ours): let a group go on at offsets of a topic's queues; they are the body, as in 220."""

    topic: TopicName
    group: GroupName


class GetConsumerStatus(Header, kw_only=True):
    """223: how far the members of a group are; `client_addr` is the id of one of them."""

    topic: TopicName
    group: GroupName
    client_addr: ServerName | None = None
