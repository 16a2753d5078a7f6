"""A consumer's running state (307), and the result of a message that it was told to consume (309).

307   {"mqTable":{{"brokerName":…,"queueId":0,"topic":…}:{…}},"properties":{…},"statusTable":{…},
       "subscriptionSet":[…],"jstack":"…"}
309   {"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":3}
"""

from enum import StrEnum

import msgspec

from pyromq.model import MessageQueue
from pyromq.wire.bodies.body import Body, convert, read_body, read_map, read_object, read_queue
from pyromq.wire.bodies.heartbeat_bodies import Subscription
from pyromq.wire.header import Int32, Int64
from pyromq.wire.java_json import dumps


class QueueState(Body, kw_only=True, frozen=True):
    """A consumer's state of one queue; `transaction_…` counts messages that are consumed in order."""

    commit_offset: Int64 = -1
    cached_msg_min_offset: Int64 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_count: Int32 = 0
    cached_msg_size_in_mib: Int32 = msgspec.field(default=0, name="cachedMsgSizeInMiB")
    transaction_msg_min_offset: Int64 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_count: Int32 = 0
    locked: bool = False
    try_unlock_times: Int64 = 0
    last_lock_timestamp: Int64 = 0
    droped: bool = False
    last_pull_timestamp: Int64 = 0
    last_consume_timestamp: Int64 = 0


class TopicStatus(Body, kw_only=True, frozen=True):
    """A topic's figures: milliseconds (RT) and messages a second (TPS)."""

    pull_rt: float = msgspec.field(default=0.0, name="pullRT")
    pull_tps: float = msgspec.field(default=0.0, name="pullTPS")
    consume_rt: float = msgspec.field(default=0.0, name="consumeRT")
    consume_ok_tps: float = msgspec.field(default=0.0, name="consumeOKTPS")
    consume_failed_tps: float = msgspec.field(default=0.0, name="consumeFailedTPS")
    consume_failed_msgs: Int64 = 0


class RunningState(Body, kw_only=True, frozen=True):
    """The answer to 307."""

    properties: dict[str, str]
    subscriptions: list[Subscription]
    queues: dict[MessageQueue, QueueState]
    topics: dict[str, TopicStatus]
    stacks: str | None = None


class DirectResult(StrEnum):
    """The result of a message that a consumer was told to consume."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    RETURN_NULL = "CR_RETURN_NULL"


class DirectConsumption(Body, kw_only=True, frozen=True):
    """The answer to 309."""

    order: bool = False
    auto_commit: bool = True
    consume_result: DirectResult | None = None
    remark: str | None = None
    spent_time_mills: Int64 = 0


class _RunningFields(Body, kw_only=True, frozen=True):
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    subscriptions: list[Subscription] = msgspec.field(default_factory=list, name="subscriptionSet")
    topics: dict[str, TopicStatus] = msgspec.field(default_factory=dict, name="statusTable")
    stacks: str | None = msgspec.field(default=None, name="jstack")


def encode_running_state(state: RunningState) -> bytes:
    """Return the JSON of 307's answer."""
    fields = {
        "mqTable": {queue: state.queues[queue] for queue in sorted(state.queues)},
        "properties": state.properties,
        "statusTable": {topic: state.topics[topic] for topic in sorted(state.topics)},
        "subscriptionSet": sorted(state.subscriptions, key=lambda wanted: wanted.topic),
    }
    if state.stacks is not None:
        fields["jstack"] = state.stacks
    return dumps(fields)


def decode_running_state(data: bytes) -> RunningState:
    """Return what 307's answer says, from a consumer in any language."""
    fields = read_object(data)
    known = convert(_RunningFields, {name: value for name, value in fields.items() if name != "mqTable"})
    table = read_map(fields.get("mqTable", {}), "mqTable")
    return RunningState(
        properties=known.properties,
        subscriptions=known.subscriptions,
        queues={read_queue(queue): convert(QueueState, state) for queue, state in table.items()},
        topics=known.topics,
        stacks=known.stacks,
    )


def encode_direct_consumption(consumption: DirectConsumption) -> bytes:
    """Return the JSON of 309's answer."""
    return dumps(consumption)


def decode_direct_consumption(data: bytes) -> DirectConsumption:
    """Return what 309's answer says."""
    return read_body(DirectConsumption, data)
