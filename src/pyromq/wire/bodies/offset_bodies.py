"""Tables of offsets: of groups (43, `consumerOffset.json`), delay levels (45), and of a client's queues.

43    {"offsetTable":{"topic@group":{0:12,1:3}}}
45    {"offsetTable":{3:1}}      in the file also "logPosition", which is ours and which RocketMQ passes over
220   {"offsetTable":{{"brokerName":…,"queueId":0,"topic":…}:12}}      for C++ a list of objects
221   {"messageQueueTable":{{…}:12}}
202   {"offsetTable":{{…}:{"lastUpdateTimestamp":…,"maxOffset":…,"minOffset":…}}}
208   {"consumeTps":0.0,"offsetTable":{{…}:{"brokerOffset":…,"consumerOffset":…,"lastTimestamp":…}}}
      of a group that pops also "pullOffset", which 5.x has, and "inFlight", which is ours
"""

from collections.abc import Mapping

from pyromq.model import MessageQueue
from pyromq.wire.bodies.body import Body, convert, read_int, read_map, read_object, read_queue
from pyromq.wire.bodies.table_text import TableText
from pyromq.wire.header import Int64
from pyromq.wire.java_hash import java_map_order, java_queue_order
from pyromq.wire.java_json import dumps

#: The broker's table is a `ConcurrentHashMap(512)`, which has 1,024 buckets.
TABLE_BUCKETS = 1024


class TopicOffset(Body, kw_only=True, frozen=True):
    """Begin and end of a queue, and when its last message was stored (0 when it is empty)."""

    min_offset: Int64 = 0
    max_offset: Int64 = 0
    last_update_timestamp: Int64 = 0


class GroupProgress(Body, kw_only=True, frozen=True):
    """The end of a queue, how far a group got, and when the message was stored that it consumed last."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    last_timestamp: Int64 = 0
    #: Of a group that pops: the offset that is handed out next, and what is in flight below it. The first
    #: of these is at `consumer_offset`; others between it and `pull_offset` are acknowledged already.
    pull_offset: Int64 | None = None
    in_flight: Int64 | None = None

    @property
    def behind(self) -> int:
        """The number of messages that the group has not finished."""
        if self.in_flight is None or self.pull_offset is None:
            return self.broker_offset - self.consumer_offset
        return self.broker_offset - self.pull_offset + self.in_flight

    @property
    def reached(self) -> int:
        """The offset that a group would be at that had finished as many messages in their order."""
        return self.broker_offset - self.behind


def encode_group_offsets(
    table: Mapping[str, Mapping[int, int]], *, pretty: bool = False, text: TableText | None = None
) -> bytes:
    """Return the JSON of all groups' progress; the outer keys are `topic@group`.

    `text` is what is kept of it.
    """
    if text is not None:
        return dumps({"offsetTable": text.text(table, depth=1, pretty=pretty)}, pretty=pretty)
    names = java_map_order(tuple(table), TABLE_BUCKETS)
    return dumps({"offsetTable": {name: table[name] for name in names}}, pretty=pretty)


def decode_group_offsets(data: bytes) -> dict[str, dict[int, int]]:
    """Return all groups' progress, by `topic@group` and queue id."""
    table = read_map(read_object(data).get("offsetTable", {}), "offsetTable")
    return {str(name): _numbers(read_map(offsets, str(name)), str(name)) for name, offsets in table.items()}


def encode_delay_offsets(
    offsets: Mapping[int, int], *, log_position: int | None = None, pretty: bool = False
) -> bytes:
    """Return the JSON of the progress of each delay level, and of where the log ended when it was so."""
    table: dict[str, object] = {"offsetTable": offsets}
    if log_position is not None:
        table["logPosition"] = log_position
    return dumps(table, pretty=pretty)


def decode_delay_offsets(data: bytes) -> dict[int, int]:
    """Return the progress of each delay level."""
    return _numbers(read_map(read_object(data).get("offsetTable", {}), "offsetTable"), "offsetTable")


def decode_delay_log_position(data: bytes) -> int | None:
    """Return where the log ended when the delay levels' progress was so; None when RocketMQ wrote it."""
    position = read_object(data).get("logPosition")
    return None if position is None else read_int(position, "logPosition")


def encode_reset_offsets(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Return the body of 220 for all clients but C++."""
    return dumps({"offsetTable": {queue: offsets[queue] for queue in java_queue_order(offsets)}})


def encode_reset_offsets_for_cpp(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Return the body of 220 for the C++ client, which reads no objects as keys."""
    rows = [
        {
            "brokerName": queue.broker_name,
            "offset": offset,
            "queueId": queue.queue_id,
            "topic": queue.topic,
        }
        for queue, offset in offsets.items()
    ]
    return dumps({"offsetTable": rows})


def decode_reset_offsets(data: bytes) -> dict[MessageQueue, int]:
    """Return where a client is told to go on, from either form."""
    table = read_object(data).get("offsetTable", {})
    if isinstance(table, list):
        return {
            read_queue(row): read_int(read_map(row, "offsetTable").get("offset"), "offset") for row in table
        }
    return _by_queue(read_map(table, "offsetTable"))


def encode_consumer_status(offsets: Mapping[MessageQueue, int]) -> bytes:
    """Return the answer to 221."""
    table = {queue: offsets[queue] for queue in java_queue_order(offsets)}
    return dumps({"consumerTable": {}, "messageQueueTable": table})


def decode_consumer_status(data: bytes) -> dict[MessageQueue, int]:
    """Return how far a client got in each of its queues."""
    return _by_queue(read_map(read_object(data).get("messageQueueTable", {}), "messageQueueTable"))


def encode_topic_stats(offsets: Mapping[MessageQueue, TopicOffset]) -> bytes:
    """Return the answer to 202."""
    return dumps({"offsetTable": {queue: offsets[queue] for queue in java_queue_order(offsets)}})


def decode_topic_stats(data: bytes) -> dict[MessageQueue, TopicOffset]:
    """Return begin and end of each of a topic's queues."""
    table = read_map(read_object(data).get("offsetTable", {}), "offsetTable")
    return {read_queue(queue): convert(TopicOffset, offset) for queue, offset in table.items()}


def decode_consume_stats(data: bytes) -> dict[MessageQueue, GroupProgress]:
    """Return how far a group got in each queue, from the answer to 208."""
    table = read_map(read_object(data).get("offsetTable", {}), "offsetTable")
    return {read_queue(queue): convert(GroupProgress, progress) for queue, progress in table.items()}


def _by_queue(table: dict[object, object]) -> dict[MessageQueue, int]:
    return {read_queue(queue): read_int(offset, "offset") for queue, offset in table.items()}


def _numbers(table: dict[object, object], name: str) -> dict[int, int]:
    return {read_int(key, name): read_int(value, name) for key, value in table.items()}
