"""What RocketMQ 4.9.8's own classes write, we read, and write back to the same bytes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from route_listing import headers_by_code

from pyromq.codes import RequestCode, Serializer, SysFlag
from pyromq.wire import batch, message_id, properties, record
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
from pyromq.wire.command import Command, CommandReader, encode
from pyromq.wire.header import read_header, write_header
from pyromq.wire.java_hash import java_hash, java_queue_order
from pyromq.wire.java_json import dumps, loads

HEADERS = headers_by_code()
GOLDEN = {
    name: bytes.fromhex(value)
    for name, value in (
        line.split("\t")
        for line in (Path(__file__).parent / "golden" / "wire_4.9.8.tsv").read_text().splitlines()
    )
}


def read_command(frame: bytes) -> Command:
    reader = CommandReader()
    reader.feed(frame)
    command = reader.next_command()
    assert command is not None
    return command


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fastjson.compact", {}),
        ("fastjson.pretty", {"pretty": True}),
        ("fastjson.text", {}),
        ("fastjson.ascii", {"ascii_only": True}),
    ],
)
def test_json_is_written_as_fastjson_writes_it(name: str, options: dict[str, bool]) -> None:
    assert dumps(loads(GOLDEN[name]), **options) == GOLDEN[name]


def test_compact_and_pretty_json_read_alike() -> None:
    assert loads(GOLDEN["fastjson.pretty"]) == loads(GOLDEN["fastjson.compact"])


def pretty(encode_body: Callable[..., bytes]) -> Callable[[Any], bytes]:
    return lambda body: encode_body(body, pretty=True)


def unquoted(body: route_bodies.TopicRoute) -> bytes:
    return route_bodies.encode_route(body, quoted_keys=False)


def quoted(body: route_bodies.TopicRoute) -> bytes:
    return route_bodies.encode_route(body, quoted_keys=True)


@pytest.mark.row("NS-07", "SC-07")
@pytest.mark.parametrize(
    ("name", "decode", "encode_again"),
    [
        ("topics.compact", topic_bodies.decode_topic_table, topic_bodies.encode_topic_table),
        ("topics.pretty", topic_bodies.decode_topic_table, pretty(topic_bodies.encode_topic_table)),
        ("groups.compact", group_bodies.decode_group_table, group_bodies.encode_group_table),
        ("groups.pretty", group_bodies.decode_group_table, pretty(group_bodies.encode_group_table)),
        ("groupOffsets.compact", offset_bodies.decode_group_offsets, offset_bodies.encode_group_offsets),
        (
            "groupOffsets.pretty",
            offset_bodies.decode_group_offsets,
            pretty(offset_bodies.encode_group_offsets),
        ),
        ("delayOffsets.compact", offset_bodies.decode_delay_offsets, offset_bodies.encode_delay_offsets),
        (
            "delayOffsets.pretty",
            offset_bodies.decode_delay_offsets,
            pretty(offset_bodies.encode_delay_offsets),
        ),
        (
            "register.plain",
            registration_bodies.decode_register_broker,
            registration_bodies.encode_register_broker,
        ),
        ("keyValues", registration_bodies.decode_key_values, registration_bodies.encode_key_values),
        ("route.old", route_bodies.decode_route, unquoted),
        ("route.ordered", route_bodies.decode_route, unquoted),
        ("route.standard", route_bodies.decode_route, quoted),
        ("cluster", route_bodies.decode_cluster, route_bodies.encode_cluster),
        ("topicList", list_bodies.decode_topic_list, list_bodies.encode_topic_list),
        ("lock", lock_bodies.decode_lock_batch, lock_bodies.encode_lock_batch),
        ("resetOffsets", offset_bodies.decode_reset_offsets, offset_bodies.encode_reset_offsets),
        ("consumerStatus", offset_bodies.decode_consumer_status, offset_bodies.encode_consumer_status),
        ("topicStats", offset_bodies.decode_topic_stats, offset_bodies.encode_topic_stats),
        ("heartbeat", heartbeat_bodies.decode_heartbeat, heartbeat_bodies.encode_heartbeat),
        (
            "checkClient",
            heartbeat_bodies.decode_client_config_check,
            heartbeat_bodies.encode_client_config_check,
        ),
    ],
)
def test_a_body_is_read_and_written_back(
    name: str, decode: Callable[[bytes], Any], encode_again: Callable[[Any], bytes]
) -> None:
    assert encode_again(decode(GOLDEN[name])) == GOLDEN[name]


def test_tables_filled_in_another_order_are_listed_as_java_lists_them() -> None:
    table = topic_bodies.decode_topic_table(GOLDEN["topics.compact"])
    by_name = dict(sorted(table.topic_config_table.items()))

    shuffled = topic_bodies.TopicConfigTable(data_version=table.data_version, topic_config_table=by_name)

    assert topic_bodies.encode_topic_table(shuffled) == GOLDEN["topics.compact"]


def test_queues_in_another_order_are_listed_as_java_lists_them() -> None:
    queues = lock_bodies.decode_lock_batch(GOLDEN["lock"]).queues

    assert java_queue_order(sorted(queues, key=lambda queue: queue.queue_id)) == tuple(queues)


def test_a_compressed_registration_says_what_the_plain_one_says() -> None:
    data = GOLDEN["register.compressed"]
    crc32 = registration_bodies.body_crc32(data)

    compressed = registration_bodies.decode_register_broker(data, compressed=True, crc32=crc32)
    plain = registration_bodies.decode_register_broker(GOLDEN["register.plain"])

    # The compressed form carries neither the order flag nor the sysFlag: TopicConfig.java, encode.
    lossless = {name for name in plain.topics.topic_config_table if name != "TopicTest"}
    assert compressed.topics.data_version == plain.topics.data_version
    assert compressed.filter_servers == plain.filter_servers
    assert compressed.topics.topic_config_table.keys() == plain.topics.topic_config_table.keys()
    assert all(
        compressed.topics.topic_config_table[name] == plain.topics.topic_config_table[name]
        for name in lossless
    )


@pytest.mark.row("ST-07", "MM-01")
@pytest.mark.parametrize(("name", "flags"), [("recordV4", 0), ("recordV6", 0x30)])
def test_a_record_is_read_and_written_back(name: str, flags: int) -> None:
    decoded = record.decode_record(GOLDEN[name])

    assert decoded.body == b"hello"
    assert decoded.topic == "TopicTest"
    assert (decoded.queue_id, decoded.flag, decoded.reconsume_times) == (3, -9, 2)
    assert (decoded.queue_offset, decoded.position) == (12345678901, 98765432109)
    assert decoded.prepared_position == 77
    assert (decoded.born_at_ms, decoded.stored_at_ms) == (1794770446747, 1794770446748)
    assert decoded.sys_flag & (SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6) == flags
    assert properties.decode(decoded.properties)["TAGS"] == "标签"
    assert record.encode_record(decoded) == GOLDEN[name]


@pytest.mark.row("MM-04")
@pytest.mark.parametrize(("name", "host"), [("offsetIdV4", "10.1.2.3"), ("offsetIdV6", "2001:db8::1")])
def test_a_position_id_is_store_host_and_position(name: str, host: str) -> None:
    text = GOLDEN[name].decode()

    assert message_id.parse_offset_message_id(text) == (host, 10911, 98765432109)
    assert message_id.offset_message_id(record.encode_host(host, 10911), 98765432109) == text


@pytest.mark.parametrize("count", [1, 10, 11, 12, 30, 100])
def test_properties_are_listed_as_java_lists_them(count: int) -> None:
    pairs = {f"name{i * 7919}": f"value{i}" for i in range(count)}
    pairs |= {"KEYS": "k1 k2", "TAGS": "标签"}

    text = GOLDEN[f"properties{count}"].decode()

    assert properties.encode(pairs) == text
    assert properties.decode(text) == pairs


@pytest.mark.row("BA-01")
def test_a_batch_is_read_and_written_back() -> None:
    units = batch.decode_batch(GOLDEN["batch"])

    assert [unit.body for unit in units] == [b"body0", b"body1", b"body2"]
    assert [unit.flag for unit in units] == [0, 1, 2]
    assert properties.decode(units[2].properties) == {"KEYS": "key2", "TAGS": "Tag2", "WAIT": "true"}
    assert batch.encode_batch(units) == GOLDEN["batch"]


@pytest.mark.row("ST-10")
@pytest.mark.parametrize("text", [name[5:] for name in GOLDEN if name.startswith("hash:")])
def test_a_tag_hashes_as_in_java(text: str) -> None:
    assert java_hash(text) == int(GOLDEN[f"hash:{text}"])


REQUESTS = sorted({int(name.split(".")[1]) for name in GOLDEN if name.startswith("request.")})
ANSWERS = sorted({int(name.split(".")[1]) for name in GOLDEN if name.startswith("answer.")})


@pytest.mark.parametrize("serializer", list(Serializer))
@pytest.mark.parametrize("code", REQUESTS)
def test_a_request_through_its_typed_header_is_the_same_bytes(code: int, serializer: Serializer) -> None:
    command = read_command(GOLDEN[f"request.{code}.{serializer.name}"])
    header_type = HEADERS[RequestCode(code)].request
    assert command.ext is not None

    fields = write_header(read_header(header_type, command.ext))

    # Requests of 4.9.8 may name the broker, for proxies; most of ours do not keep it.
    if "bname" not in header_type.__struct_encode_fields__:
        command.ext.pop("bname", None)
    expected = encode(command)
    command.ext = fields
    assert command.code == code
    assert encode(command) == expected


@pytest.mark.parametrize("serializer", list(Serializer))
@pytest.mark.parametrize("code", ANSWERS)
def test_an_answer_through_its_typed_header_is_the_same_bytes(code: int, serializer: Serializer) -> None:
    frame = GOLDEN[f"answer.{code}.{serializer.name}"]
    command = read_command(frame)
    answer_type = HEADERS[RequestCode(code)].answer
    assert answer_type is not None

    command.ext = write_header(read_header(answer_type, command.ext))

    assert encode(command) == frame


@pytest.mark.parametrize("name", [name for name in GOLDEN if name.startswith(("request.", "answer."))])
def test_a_frame_is_decoded_and_encoded_to_the_same_bytes(name: str) -> None:
    assert encode(read_command(GOLDEN[name])) == GOLDEN[name]
