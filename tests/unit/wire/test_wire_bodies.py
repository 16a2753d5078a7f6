"""The JSON bodies: what clients and brokers of other versions and languages write, reads."""

import zlib
from collections.abc import Callable
from typing import Any

import pytest

from pyromq.errors import BodyError
from pyromq.model import MessageQueue
from pyromq.wire.bodies import (
    group_bodies,
    heartbeat_bodies,
    list_bodies,
    lock_bodies,
    offset_bodies,
    registration_bodies,
    route_bodies,
    topic_bodies,
)
from pyromq.wire.bodies.heartbeat_bodies import ConsumeFromWhere, ConsumeType, MessageModel

QUEUE = MessageQueue("T", "broker-a", 3)
TOPICS = topic_bodies.TopicConfigTable(
    data_version=topic_bodies.DataVersion(counter=3, timestamp=1794770446747),
    topic_config_table={
        "T": topic_bodies.TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=8),
        "标": topic_bodies.TopicConfig(topic_name="标", perm=4),
    },
)
ROUTE = route_bodies.TopicRoute(
    queue_datas=[
        route_bodies.BrokerQueues(broker_name="broker-a", read_queue_nums=4, write_queue_nums=4, perm=6),
    ],
    broker_datas=[
        route_bodies.BrokerData(
            cluster="DefaultCluster", broker_name="broker-a", broker_addrs={1: "h:2", 0: "h:1"}
        )
    ],
)


def test_a_route_for_old_clients_has_broker_ids_without_quotes() -> None:
    assert route_bodies.encode_route(ROUTE, quoted_keys=False) == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"h:1",1:"h:2"},"brokerName":"broker-a","cluster":"DefaultCluster"}],'
        b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,'
        b'"topicSysFlag":0,"writeQueueNums":4}]}'
    )


@pytest.mark.parametrize("quoted_keys", [False, True])
def test_a_route_comes_back_as_it_went_in_both_flavours(quoted_keys: bool) -> None:
    assert route_bodies.decode_route(route_bodies.encode_route(ROUTE, quoted_keys=quoted_keys)) == ROUTE


@pytest.mark.row("NS-07")
def test_the_old_spelling_of_the_topic_s_flag_reads() -> None:
    data = route_bodies.encode_route(ROUTE, quoted_keys=True).replace(
        b'"topicSysFlag":0', b'"topicSynFlag":1'
    )

    assert route_bodies.decode_route(data).queue_datas[0].topic_sys_flag == 1


def test_a_route_of_a_5x_name_server_reads() -> None:
    data = (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"h:1"},"brokerName":"b","cluster":"c","enableActingMaster":false}],'
        b'"filterServerTable":{},"queueDatas":[],"topicQueueMappingByBroker":null}'
    )

    assert route_bodies.decode_route(data).broker_datas[0].broker_addrs == {0: "h:1"}


def test_a_cluster_comes_back_as_it_went() -> None:
    cluster = route_bodies.ClusterTable(
        broker_addr_table={"broker-a": ROUTE.broker_datas[0]}, cluster_addr_table={"c": ["broker-a"]}
    )

    data = route_bodies.encode_cluster(cluster)

    assert b"{0:" in data
    assert route_bodies.decode_cluster(data) == cluster


@pytest.mark.parametrize(
    ("consumer", "expected"),
    [
        ('"consumeType":1,"messageModel":0,"consumeFromWhere":5', (1, 0, 5)),
        ('"consumeType":"2","messageModel":"1","consumeFromWhere":"4"', (2, 1, 4)),
        ('"consumeType":"CONSUME_POP","messageModel":"CLUSTERING"', (2, 1, 0)),
        ('"unitMode":false', (1, 1, 0)),
    ],
)
def test_enums_come_as_names_or_ordinals_or_not_at_all(consumer: str, expected: tuple[int, int, int]) -> None:
    data = '{"clientID":"c","consumerDataSet":[{"groupName":"g",%s}]}' % consumer  # noqa: UP031

    (part,) = heartbeat_bodies.decode_heartbeat(data.encode()).consumers

    assert part.consume_type is list(ConsumeType)[expected[0]]
    assert part.message_model is list(MessageModel)[expected[1]]
    assert part.consume_from_where is list(ConsumeFromWhere)[expected[2]]


def test_a_heartbeat_comes_back_as_it_went() -> None:
    beat = heartbeat_bodies.Heartbeat(
        client_id="c",
        producers=[heartbeat_bodies.ProducerPart(group_name="p")],
        consumers=[
            heartbeat_bodies.ConsumerPart(
                group_name="g",
                subscriptions=[
                    heartbeat_bodies.Subscription(topic="T", tags=["A"], tag_codes=[65], sub_version=1)
                ],
            )
        ],
    )

    assert heartbeat_bodies.decode_heartbeat(heartbeat_bodies.encode_heartbeat(beat)) == beat


def test_null_is_absent() -> None:
    data = b'{"clientID":"c","consumerDataSet":null,"producerDataSet":[{"groupName":"p","x":null}]}'

    assert heartbeat_bodies.decode_heartbeat(data).consumers == []


def test_a_client_s_config_check_comes_back_as_it_went() -> None:
    check = heartbeat_bodies.ClientConfigCheck(
        client_id="c",
        group="g",
        subscription=heartbeat_bodies.Subscription(topic="T", expression_type="SQL92"),
    )

    assert (
        heartbeat_bodies.decode_client_config_check(heartbeat_bodies.encode_client_config_check(check))
        == check
    )


@pytest.mark.parametrize("compressed", [False, True])
def test_a_registration_comes_back_as_it_went(compressed: bool) -> None:
    body = registration_bodies.RegisterBrokerBody(topics=TOPICS, filter_servers=["h:1"])

    data = registration_bodies.encode_register_broker(body, compressed=compressed)
    crc32 = registration_bodies.body_crc32(data)

    assert registration_bodies.decode_register_broker(data, compressed=compressed, crc32=crc32) == body


def test_a_broker_that_sends_no_body_registers_no_topics() -> None:
    assert registration_bodies.decode_register_broker(b"").topics == topic_bodies.TopicConfigTable()


def test_a_registration_with_a_wrong_checksum_is_refused() -> None:
    with pytest.raises(BodyError, match="crc32 not match"):
        registration_bodies.decode_register_broker(b"{}", crc32=1)


def test_a_compressed_registration_of_5x_reads_with_attributes_behind_the_topic() -> None:
    lines = [b'{"counter":1,"timestamp":2,"stateVersion":0}', b"T 4 4 6 SINGLE_TAG {}", b"[]", b"more"]
    parts = [len(line).to_bytes(4, "big") + line for line in lines]
    data = zlib.compress(parts[0] + (1).to_bytes(4, "big") + b"".join(parts[1:]))

    table = registration_bodies.decode_register_broker(data, compressed=True).topics

    assert table.data_version == topic_bodies.DataVersion(counter=1, timestamp=2, state_version=0)
    assert table.topic_config_table["T"].read_queue_nums == 4


def part(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


@pytest.mark.parametrize(
    "plain",
    [
        b"",
        b"\0\0\0",
        b"\xff\xff\xff\xff",
        b"\0\0\1\0",
        part(b"{}"),
        part(b"{}") + b"\0\0\0\1",
        part(b"{}") + b"\0\0\0\1" + part(b"T 4"),
        part(b"{}") + b"\0\0\0\1" + part(b"T x 4 6 SINGLE_TAG"),
        part(b"{}") + b"\0\0\0\0" + part(b"nonsense"),
        part(b"[]"),
        part(b"{}") + b"\x7f\xff\xff\xff",
    ],
)
def test_a_compressed_registration_that_lies_is_refused(plain: bytes) -> None:
    with pytest.raises(BodyError):
        registration_bodies.decode_register_broker(zlib.compress(plain), compressed=True)


def test_a_registration_that_is_not_compressed_as_it_says_is_refused() -> None:
    with pytest.raises(BodyError, match="compressed"):
        registration_bodies.decode_register_broker(b"nonsense", compressed=True)


def test_a_compressed_registration_may_not_grow_without_limit() -> None:
    bomb = zlib.compress(bytes(65 * 1024 * 1024))

    with pytest.raises(BodyError, match="larger than"):
        registration_bodies.decode_register_broker(bomb, compressed=True)


def test_a_version_counts_its_changes() -> None:
    assert topic_bodies.DataVersion(counter=3, timestamp=1).bumped(9) == topic_bodies.DataVersion(
        counter=4, timestamp=9
    )


def round_trips() -> list[Any]:
    group = group_bodies.SubscriptionGroupConfig(group_name="g", retry_max_times=3)
    lock = lock_bodies.LockBatch(consumer_group="g", client_id="c", queues=[QUEUE])
    stats = {QUEUE: offset_bodies.TopicOffset(max_offset=5)}
    return [
        pytest.param(TOPICS, topic_bodies.encode_topic_table, topic_bodies.decode_topic_table, id="topics"),
        pytest.param(
            TOPICS.data_version,
            topic_bodies.encode_data_version,
            topic_bodies.decode_data_version,
            id="version",
        ),
        pytest.param(group, group_bodies.encode_group, group_bodies.decode_group, id="group"),
        pytest.param(
            group_bodies.SubscriptionGroupTable(subscription_group_table={"g": group}),
            group_bodies.encode_group_table,
            group_bodies.decode_group_table,
            id="groups",
        ),
        pytest.param(
            registration_bodies.KeyValueTable(table={"a": "b"}),
            registration_bodies.encode_key_values,
            registration_bodies.decode_key_values,
            id="key values",
        ),
        pytest.param(
            list_bodies.TopicList(topic_list=["T"]),
            list_bodies.encode_topic_list,
            list_bodies.decode_topic_list,
            id="topic list",
        ),
        pytest.param(lock, lock_bodies.encode_lock_batch, lock_bodies.decode_lock_batch, id="lock"),
        pytest.param(
            [QUEUE], lock_bodies.encode_locked_queues, lock_bodies.decode_locked_queues, id="locked"
        ),
        pytest.param(
            {"g": {"a": [QUEUE]}},
            lock_bodies.encode_lock_table,
            lock_bodies.decode_lock_table,
            id="lock table",
        ),
        pytest.param(
            ["a", "b"], lock_bodies.encode_consumer_ids, lock_bodies.decode_consumer_ids, id="consumer ids"
        ),
        pytest.param(
            {"T@g": {0: 1}},
            offset_bodies.encode_group_offsets,
            offset_bodies.decode_group_offsets,
            id="group offsets",
        ),
        pytest.param(
            {3: 1}, offset_bodies.encode_delay_offsets, offset_bodies.decode_delay_offsets, id="delay offsets"
        ),
        pytest.param(
            {QUEUE: 7}, offset_bodies.encode_reset_offsets, offset_bodies.decode_reset_offsets, id="reset"
        ),
        pytest.param(
            {QUEUE: 7},
            offset_bodies.encode_reset_offsets_for_cpp,
            offset_bodies.decode_reset_offsets,
            id="reset for C++",
        ),
        pytest.param(
            {QUEUE: 7},
            offset_bodies.encode_consumer_status,
            offset_bodies.decode_consumer_status,
            id="status",
        ),
        pytest.param(stats, offset_bodies.encode_topic_stats, offset_bodies.decode_topic_stats, id="stats"),
    ]


@pytest.mark.parametrize(("body", "encode", "decode"), round_trips())
def test_a_body_comes_back_as_it_went(
    body: Any, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]
) -> None:
    assert decode(encode(body)) == body


DECODERS = [
    topic_bodies.decode_topic_table,
    group_bodies.decode_group_table,
    registration_bodies.decode_register_broker,
    registration_bodies.decode_key_values,
    list_bodies.decode_topic_list,
    lock_bodies.decode_lock_batch,
    lock_bodies.decode_lock_table,
    lock_bodies.decode_locked_queues,
    lock_bodies.decode_consumer_ids,
    offset_bodies.decode_group_offsets,
    offset_bodies.decode_delay_offsets,
    offset_bodies.decode_reset_offsets,
    offset_bodies.decode_consumer_status,
    offset_bodies.decode_topic_stats,
    route_bodies.decode_route,
    route_bodies.decode_cluster,
    heartbeat_bodies.decode_heartbeat,
    heartbeat_bodies.decode_client_config_check,
]


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("data", [b"nonsense", b"[]", b'"text"', b"1", b'{"a":' * 500 + b"1" + b"}" * 500])
def test_what_is_no_object_or_nested_too_deep_is_refused(decode: Callable[[bytes], Any], data: bytes) -> None:
    with pytest.raises(BodyError):
        decode(data)


@pytest.mark.parametrize(
    ("decode", "data", "named"),
    [
        (heartbeat_bodies.decode_heartbeat, "{}", "clientID"),
        (heartbeat_bodies.decode_heartbeat, '{"clientID":"c","consumerDataSet":[{}]}', "groupName"),
        (heartbeat_bodies.decode_heartbeat, '{"clientID":"c","consumerDataSet":[1]}', "consumerDataSet"),
        (
            heartbeat_bodies.decode_heartbeat,
            '{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":3}]}',
            "consumeType",
        ),
        (
            heartbeat_bodies.decode_heartbeat,
            '{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":"X"}]}',
            "messageModel",
        ),
        (
            route_bodies.decode_route,
            '{"brokerDatas":[{"cluster":"c","brokerName":"b","brokerAddrs":[]}]}',
            "brokerAddrs",
        ),
        (
            route_bodies.decode_route,
            '{"brokerDatas":[{"cluster":"c","brokerName":"b","brokerAddrs":{"x":"h"}}]}',
            "brokerAddrs",
        ),
        (route_bodies.decode_route, '{"brokerDatas":[{"cluster":"c","brokerAddrs":{}}]}', "brokerName"),
        (route_bodies.decode_cluster, '{"brokerAddrTable":[]}', "brokerAddrTable"),
        (lock_bodies.decode_lock_batch, '{"mqSet":{}}', "queues"),
        (lock_bodies.decode_lock_batch, '{"mqSet":[]}', "consumerGroup"),
        (lock_bodies.decode_lock_batch, '{"mqSet":[{"topic":"T","brokerName":"b"}]}', "queueId"),
        (offset_bodies.decode_group_offsets, '{"offsetTable":{"T@g":{"0":"x"}}}', "T@g"),
        (offset_bodies.decode_group_offsets, '{"offsetTable":{"T@g":1}}', "T@g"),
        (offset_bodies.decode_delay_offsets, '{"offsetTable":{"3":true}}', "offsetTable"),
        (
            offset_bodies.decode_reset_offsets,
            '{"offsetTable":[{"topic":"T","brokerName":"b","queueId":1}]}',
            "offset",
        ),
        (offset_bodies.decode_topic_stats, '{"offsetTable":{"x":{}}}', "QueueFields"),
        (topic_bodies.decode_topic_table, '{"topicConfigTable":{"T":{"topicName":"T","perm":1e30}}}', "perm"),
    ],
)
def test_a_field_that_is_missing_or_does_not_read_is_named(
    decode: Callable[[bytes], Any], data: str, named: str
) -> None:
    with pytest.raises(BodyError, match=named):
        decode(data.encode())


def test_offsets_may_come_as_text_under_quoted_keys() -> None:
    assert offset_bodies.decode_group_offsets(b'{"offsetTable":{"T@g":{"0":"12"}}}') == {"T@g": {0: 12}}


def test_a_reset_for_cpp_is_a_list() -> None:
    assert offset_bodies.encode_reset_offsets_for_cpp({QUEUE: 7}) == (
        b'{"offsetTable":[{"brokerName":"broker-a","offset":7,"queueId":3,"topic":"T"}]}'
    )


def test_tables_of_5x_read_without_what_is_new_in_them() -> None:
    data = (
        b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":2},"topicConfigTable":{"T":{"attributes":'
        b'{"+message.type":"NORMAL"},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG",'
        b'"topicName":"T","topicSysFlag":0,"writeQueueNums":4}},"topicQueueMappingDetailMap":{}}'
    )

    table = topic_bodies.decode_topic_table(data)

    assert table.topic_config_table["T"].attributes == {"+message.type": "NORMAL"}
