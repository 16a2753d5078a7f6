"""Subscription groups on a broker: their configs and the table of them (`subscriptionGroup.json`, 201)."""

import msgspec

from pyromq.wire.bodies.body import Body, read_body
from pyromq.wire.bodies.retry_policy import DEFAULT_RETRY_POLICY, GroupRetryPolicy
from pyromq.wire.bodies.table_text import TableText
from pyromq.wire.bodies.topic_bodies import DataVersion
from pyromq.wire.header import Expression, Int32, Int64, TopicName, Word
from pyromq.wire.java_hash import java_map_order
from pyromq.wire.java_json import dumps

#: `ConcurrentHashMap(1024)` has 2,048 buckets.
TABLE_BUCKETS = 2048


class SimpleSubscription(Body, kw_only=True, frozen=True):
    """A subscription that an operator fixed for a group."""

    topic: TopicName
    expression_type: Word | None = None
    expression: Expression | None = None
    version: Int64 = 0


class SubscriptionGroupConfig(Body, kw_only=True, frozen=True):
    """A consumer group on one broker.

    The fields from `consume_message_orderly` on are 5.x's; None is its default, and travels as nothing.
    """

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: Int32 = 1
    retry_max_times: Int32 = 16
    broker_id: Int64 = 0
    which_broker_when_consume_slowly: Int64 = 1
    notify_consumer_ids_changed_enable: bool = True
    consume_message_orderly: bool | None = None
    group_retry_policy: GroupRetryPolicy | None = None
    group_sys_flag: Int32 | None = None
    consume_timeout_minute: Int32 | None = None
    subscription_data_set: list[SimpleSubscription] | None = None
    #: In a table their names have no sign; in requests `+` or `-` says what becomes of each.
    attributes: dict[str, str] | None = None

    @property
    def is_fifo(self) -> bool:
        """Whether its members get the messages of a queue one after the other."""
        return bool(self.consume_message_orderly)

    @property
    def retry_policy(self) -> GroupRetryPolicy:
        """The pauses before its messages are delivered once more."""
        return self.group_retry_policy or DEFAULT_RETRY_POLICY


class SubscriptionGroupTable(Body, kw_only=True, frozen=True):
    """All groups of a broker, by name."""

    data_version: DataVersion = DataVersion()
    subscription_group_table: dict[str, SubscriptionGroupConfig] = msgspec.field(default_factory=dict)
    #: 5.x's: what groups may not do with topics, as bits; left out when empty, as 4.9 has it not.
    forbidden_table: dict[str, dict[str, Int32]] = msgspec.field(default_factory=dict)


def encode_group(config: SubscriptionGroupConfig) -> bytes:
    """Return a group's JSON, as 200 carries it."""
    return dumps(config)


def decode_group(data: bytes) -> SubscriptionGroupConfig:
    """Return the group that JSON says."""
    return read_body(SubscriptionGroupConfig, data)


def encode_group_table(
    table: SubscriptionGroupTable, *, pretty: bool = False, text: TableText | None = None
) -> bytes:
    """Return the table's JSON; `pretty` as in `subscriptionGroup.json`. `text` is what is kept of it."""
    groups = table.subscription_group_table
    if text is not None:
        shown: object = text.text(groups, depth=1, pretty=pretty)
    else:
        shown = {name: groups[name] for name in java_map_order(tuple(groups), TABLE_BUCKETS)}
    forbidden = {"forbiddenTable": table.forbidden_table} if table.forbidden_table else {}
    return dumps(
        {"dataVersion": table.data_version, **forbidden, "subscriptionGroupTable": shown}, pretty=pretty
    )


def decode_group_table(data: bytes) -> SubscriptionGroupTable:
    """Return the table that JSON says, from the wire or from a file of 4.9 or 5.x."""
    return read_body(SubscriptionGroupTable, data)
