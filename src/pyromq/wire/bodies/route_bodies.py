"""The route of a topic, the answer to 105, and the brokers of the cluster, the answer to 106.

Clients before 4.9.4 get broker ids without quotes, `{0:"127.0.0.1:10911"}`; later ones, and whoever asks
for standard JSON, get them quoted. There is never whitespace: the Go client cuts the text by hand. Clients of
5.x also get `enableActingMaster`, which some of them (Rust's) cannot do without.
"""

from typing import Any

import msgspec

from pyromq.wire.bodies.body import Body, convert, read_int, read_map, read_object
from pyromq.wire.header import Int32
from pyromq.wire.java_hash import java_map_order
from pyromq.wire.java_json import dumps


class BrokerQueues(Body, kw_only=True, frozen=True):
    """RocketMQ's QueueData: how many queues a topic has on one broker, and what may be done with them."""

    broker_name: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_sys_flag: Int32 = 0


class BrokerData(Body, kw_only=True, frozen=True):
    """RocketMQ's BrokerData: where a broker's master (id 0) and its slaves are."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str]


class TopicRoute(Body, kw_only=True, frozen=True):
    """A topic's queues and the brokers that have them."""

    queue_datas: list[BrokerQueues] = msgspec.field(default_factory=list)
    broker_datas: list[BrokerData] = msgspec.field(default_factory=list)
    order_topic_conf: str | None = None
    filter_server_table: dict[str, list[str]] = msgspec.field(default_factory=dict)


class ClusterTable(Body, kw_only=True, frozen=True):
    """All brokers by name, and the brokers of each cluster."""

    broker_addr_table: dict[str, BrokerData] = msgspec.field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = msgspec.field(default_factory=dict)


def encode_route(route: TopicRoute, *, quoted_keys: bool, is_5: bool = False) -> bytes:
    """Return the route's JSON in the flavour that the asking client understands."""
    return dumps(
        {
            "brokerDatas": [_ordered(broker, is_5=is_5) for broker in route.broker_datas],
            "filterServerTable": route.filter_server_table,
            "orderTopicConf": route.order_topic_conf,
            "queueDatas": route.queue_datas,
        },
        ascii_only=quoted_keys,
    )


def decode_route(data: bytes) -> TopicRoute:
    """Return the route that JSON says, in either flavour."""
    fields = read_object(data)
    for queues in _dicts(fields.get("queueDatas")):
        # The field's name before 4.9: QueueData.java, 4.8.
        if "topicSynFlag" in queues:
            queues.setdefault("topicSysFlag", queues["topicSynFlag"])
    for broker in _dicts(fields.get("brokerDatas")):
        _number_broker_ids(broker)
    return convert(TopicRoute, fields)


def encode_cluster(table: ClusterTable, *, is_5: bool = False) -> bytes:
    """Return the cluster's JSON; broker ids have no quotes, whoever asks."""
    brokers = table.broker_addr_table
    return dumps(
        {
            "brokerAddrTable": {
                name: _ordered(brokers[name], is_5=is_5) for name in java_map_order(tuple(brokers))
            },
            "clusterAddrTable": table.cluster_addr_table,
        }
    )


def decode_cluster(data: bytes) -> ClusterTable:
    """Return the cluster that JSON says."""
    fields = read_object(data)
    for broker in read_map(fields.get("brokerAddrTable", {}), "brokerAddrTable").values():
        _number_broker_ids(read_map(broker, "brokerAddrTable"))
    return convert(ClusterTable, fields)


def _ordered(broker: BrokerData, *, is_5: bool) -> dict[str, object]:
    """Return the fields with the ids in the order in which Java lists small numbers."""
    addresses = broker.broker_addrs
    fields: dict[str, object] = {
        "brokerAddrs": {broker_id: addresses[broker_id] for broker_id in sorted(addresses)},
        "brokerName": broker.broker_name,
        "cluster": broker.cluster,
    }
    if is_5:
        # No slave of ours stands in for its master without being one (5.x: enableSlaveActingMaster).
        fields["enableActingMaster"] = False
    return fields


def _dicts(value: Any) -> list[dict[Any, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _number_broker_ids(broker: dict[Any, Any]) -> None:
    addresses = read_map(broker.get("brokerAddrs", {}), "brokerAddrs")
    broker["brokerAddrs"] = {read_int(key, "brokerAddrs"): address for key, address in addresses.items()}
