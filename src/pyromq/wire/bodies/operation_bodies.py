"""The answers to what operators ask a broker, and the lists that they send it.

18    {"topicConfigList":[{…}]}
225   {"groupConfigList":[{…}]}
300   {"groupList":["readers"]}
303   {"consumeTimeSpanSet":[{"consumeTimeStamp":…,"delayTime":…,"maxTimeStamp":…,"messageQueue":{…},…}]}
308   {"correctionOffsets":{0:12}}
315   {"statsDay":{"avgpt":0.0,"sum":0,"tps":0.0},"statsHour":{…},"statsMinute":{…}}
317   {"brokerAddr":…,"consumeStatsList":[{"readers":[{"consumeTps":0.0,"offsetTable":{…}}]}],"totalDiff":0}
321   {"filterData":…,"maxQueueIndex":1,"minQueueIndex":0,"queueData":[{…}],"subscriptionData":{…}}
328   {"data":{"senders":[{"clientId":…,"language":"JAVA","lastUpdateTimestamp":…,"remoteIP":…,"version":…}]}}
345   {"group":…,"subscriptionData":{…},"topic":…}
353   {"group":…,"readable":true,"topic":…}
"""

from collections.abc import Mapping, Sequence

import msgspec

from pyromq.model import MessageQueue
from pyromq.wire.bodies.body import Body, convert, read_body, read_int, read_map, read_object, read_queue
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.heartbeat_bodies import Subscription
from pyromq.wire.bodies.offset_bodies import GroupProgress
from pyromq.wire.bodies.topic_bodies import TopicConfig
from pyromq.wire.header import Int32, Int64
from pyromq.wire.java_hash import java_map_order, java_queue_order
from pyromq.wire.java_json import dumps


class TopicConfigs(Body, kw_only=True, frozen=True):
    """The body of 18."""

    topic_config_list: list[TopicConfig] = msgspec.field(default_factory=list)


class GroupConfigs(Body, kw_only=True, frozen=True):
    """The body of 225."""

    group_config_list: list[SubscriptionGroupConfig] = msgspec.field(default_factory=list)


class GroupNames(Body, kw_only=True, frozen=True):
    """The answer to 300."""

    group_list: list[str] = msgspec.field(default_factory=list)


class TimeSpan(Body, kw_only=True, frozen=True):
    """The times at which a queue's oldest, newest and last consumed messages were stored, and the delay."""

    message_queue: MessageQueue
    min_time_stamp: Int64 = 0
    max_time_stamp: Int64 = 0
    consume_time_stamp: Int64 = 0
    delay_time: Int64 = 0


class Rate(Body, kw_only=True, frozen=True):
    """A statistic over a period: its sum, its rate a second, and its average a call."""

    sum: Int64 = 0
    tps: float = 0.0
    avgpt: float = 0.0


class Rates(Body, kw_only=True, frozen=True):
    """The answer to 315."""

    stats_minute: Rate = Rate()
    stats_hour: Rate = Rate()
    stats_day: Rate = Rate()


class GroupLag(Body, kw_only=True, frozen=True):
    """A group's progress in the queues of one topic, and its rate in messages a second."""

    offset_table: dict[MessageQueue, GroupProgress]
    consume_tps: float = 0.0

    @property
    def behind(self) -> int:
        """The number of messages that it has yet to read."""
        return sum(each.behind for each in self.offset_table.values())


class QueueRow(Body, kw_only=True, frozen=True):
    """One entry of a queue."""

    physic_offset: Int64
    physic_size: Int32
    tags_code: Int64
    eval: bool = False
    msg: str | None = None


class QueueRows(Body, kw_only=True, frozen=True):
    """The answer to 321."""

    max_queue_index: Int64 = 0
    min_queue_index: Int64 = 0
    queue_data: list[QueueRow] = msgspec.field(default_factory=list)
    filter_data: str | None = None
    subscription_data: Subscription | None = None


class ProducerClient(Body, kw_only=True, frozen=True):
    """A member of a producer group."""

    client_id: str
    remote_ip: str = msgspec.field(default="", name="remoteIP")
    language: str = ""
    version: Int32 = 0
    last_update_timestamp: Int64 = 0


class ProducerGroups(Body, kw_only=True, frozen=True):
    """The answer to 328."""

    data: dict[str, list[ProducerClient]] = msgspec.field(default_factory=dict)


class GroupSubscription(Body, kw_only=True, frozen=True):
    """The answer to 345."""

    group: str
    topic: str
    subscription_data: Subscription | None = None


class GroupForbidden(Body, kw_only=True, frozen=True):
    """The answer to 353."""

    group: str
    topic: str
    readable: bool = True


def decode_topic_configs(data: bytes) -> list[TopicConfig]:
    """Return the topics of 18."""
    return read_body(TopicConfigs, data).topic_config_list


def encode_topic_configs(topics: Sequence[TopicConfig]) -> bytes:
    """Return the body of 18."""
    return dumps(TopicConfigs(topic_config_list=list(topics)))


def decode_group_configs(data: bytes) -> list[SubscriptionGroupConfig]:
    """Return the groups of 225."""
    return read_body(GroupConfigs, data).group_config_list


def encode_group_configs(groups: Sequence[SubscriptionGroupConfig]) -> bytes:
    """Return the body of 225."""
    return dumps(GroupConfigs(group_config_list=list(groups)))


def encode_group_names(groups: Sequence[str]) -> bytes:
    """Return the answer to 300, in the order of a Java set."""
    return dumps(GroupNames(group_list=list(java_map_order(tuple(groups)))))


def decode_group_names(data: bytes) -> list[str]:
    """Return the groups of 300's answer."""
    return read_body(GroupNames, data).group_list


def encode_time_spans(spans: Sequence[TimeSpan]) -> bytes:
    """Return the answer to 303."""
    return dumps({"consumeTimeSpanSet": list(spans)})


def decode_time_spans(data: bytes) -> list[TimeSpan]:
    """Return what 303's answer says of each queue."""
    spans = read_object(data).get("consumeTimeSpanSet") or []
    return [
        TimeSpan(
            message_queue=read_queue(span.get("messageQueue")),
            min_time_stamp=read_int(span.get("minTimeStamp", 0), "minTimeStamp"),
            max_time_stamp=read_int(span.get("maxTimeStamp", 0), "maxTimeStamp"),
            consume_time_stamp=read_int(span.get("consumeTimeStamp", 0), "consumeTimeStamp"),
            delay_time=read_int(span.get("delayTime", 0), "delayTime"),
        )
        for span in (read_map(span, "consumeTimeSpanSet") for span in spans)
    ]


def encode_corrections(offsets: Mapping[int, int]) -> bytes:
    """Return the answer to 308."""
    return dumps({"correctionOffsets": {queue_id: offsets[queue_id] for queue_id in sorted(offsets)}})


def decode_corrections(data: bytes) -> dict[int, int]:
    """Return the offsets of 308's answer by queue id."""
    table = read_map(read_object(data).get("correctionOffsets", {}), "correctionOffsets")
    return {read_int(key, "queueId"): read_int(value, "offset") for key, value in table.items()}


def encode_rates(rates: Rates) -> bytes:
    """Return the answer to 315."""
    return dumps(rates)


def decode_rates(data: bytes) -> Rates:
    """Return what 315's answer says."""
    return read_body(Rates, data)


def encode_lags(address: str, groups: Mapping[str, Sequence[GroupLag]]) -> bytes:
    """Return the answer to 317: the topics of each group."""
    rows = [
        {group: [{"consumeTps": lag.consume_tps, "offsetTable": _in_order(lag)} for lag in lags]}
        for group, lags in groups.items()
    ]
    behind = sum(lag.behind for lags in groups.values() for lag in lags)
    return dumps({"brokerAddr": address, "consumeStatsList": rows, "totalDiff": behind})


def decode_lags(data: bytes) -> dict[str, list[GroupLag]]:
    """Return the lags of 317's answer, by group, one for each topic."""
    return {
        str(group): [
            GroupLag(
                offset_table={
                    read_queue(queue): convert(GroupProgress, progress)
                    for queue, progress in read_map(one.get("offsetTable", {}), "offsetTable").items()
                },
                consume_tps=float(one.get("consumeTps", 0.0)),
            )
            for one in lags
        ]
        for row in read_object(data).get("consumeStatsList") or []
        for group, lags in read_map(row, "consumeStatsList").items()
    }


def encode_lag(lag: GroupLag) -> bytes:
    """Return the answer to 208."""
    return dumps({"consumeTps": lag.consume_tps, "offsetTable": _in_order(lag)})


def _in_order(lag: GroupLag) -> dict[MessageQueue, GroupProgress]:
    return {queue: lag.offset_table[queue] for queue in java_queue_order(lag.offset_table)}


def encode_queue_rows(rows: QueueRows) -> bytes:
    """Return the answer to 321."""
    return dumps(rows)


def decode_queue_rows(data: bytes) -> QueueRows:
    """Return what 321's answer says."""
    return read_body(QueueRows, data)


def encode_producers(groups: Mapping[str, Sequence[ProducerClient]]) -> bytes:
    """Return the answer to 328."""
    return dumps({"data": {name: list(groups[name]) for name in java_map_order(tuple(groups))}})


def decode_producers(data: bytes) -> dict[str, list[ProducerClient]]:
    """Return the members of 328's answer by group."""
    return read_body(ProducerGroups, data).data
