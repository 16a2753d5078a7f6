"""Any bytes, in any cut, give values or a protocol error: no crash, no hang, no memory without limit."""

import struct
import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from effort import times
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from route_listing import headers_by_code

from pyromq.codes import Language, Serializer
from pyromq.errors import BodyError, CorruptRecord, HeaderError, RemoteProtocolError
from pyromq.model import MessageQueue
from pyromq.wire import properties
from pyromq.wire.batch import BatchUnit, decode_batch, encode_batch
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
from pyromq.wire.command import Command, CommandReader, decode_header, encode
from pyromq.wire.header import read_header, write_header
from pyromq.wire.headers.send_headers import SendMessageV2
from pyromq.wire.java_json import ObjectKey, dumps, loads
from pyromq.wire.message_id import offset_message_id, parse_offset_message_id
from pyromq.wire.record import Record, decode_host, decode_record, encode_record, iter_records

HEADERS = headers_by_code()
FRAME_BYTES_MAX = 4096

fuzzed = settings(
    max_examples=times(100), deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)

commands = st.builds(
    Command,
    st.integers(-0x8000, 0x7FFF),
    opaque=int32s,
    flag=int32s,
    remark=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    ext=st.none() | st.dictionaries(texts, texts, min_size=1, max_size=20),
    body=st.binary(max_size=100),
    language=st.sampled_from([int(language) for language in Language]),
    version=st.integers(0, 0x7FFF),
    serializer=st.sampled_from(Serializer),
)


def drain(reader: CommandReader) -> list[Command]:
    out = []
    while command := reader.next_command():
        out.append(command)
    return out


def cut(data: bytes, places: list[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(borders)]


@fuzzed
@given(st.lists(commands, max_size=5), st.lists(st.integers(0, 10_000), max_size=10))
def test_commands_come_back_as_they_went_in_any_cut(sent: list[Command], places: list[int]) -> None:
    reader = CommandReader()
    received = []
    for piece in cut(b"".join(encode(command) for command in sent), places):
        reader.feed(piece)
        received += drain(reader)

    assert received == sent
    assert reader.pending_bytes == 0


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes that were right once: some are changed, some are cut away."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(0, 4))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))]) if draw(st.booleans()) else bytes(data)


lying_frames = st.builds(
    lambda length, mark, rest: struct.pack(">iI", length, mark) + rest,
    st.integers(-10, 200) | int32s,
    st.integers(0, 200) | st.integers(0, 2**32 - 1),
    st.binary(max_size=300),
)
headers_in_json = st.recursive(
    st.none() | st.booleans() | int64s | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
).map(lambda value: {"code": 1, "extFields": value, "opaque": value, "remark": value, "flag": 0})


@fuzzed
@given(
    st.lists(st.binary(max_size=200) | lying_frames | damaged(commands.map(encode)), max_size=5).map(
        b"".join
    ),
    st.lists(st.integers(0, 10_000), max_size=10),
)
def test_any_bytes_in_any_cut_give_commands_or_a_protocol_error(data: bytes, places: list[int]) -> None:
    reader = CommandReader(FRAME_BYTES_MAX)
    try:
        for piece in cut(data, places):
            reader.feed(piece)
            drain(reader)
            assert reader.pending_bytes <= FRAME_BYTES_MAX
    except RemoteProtocolError:
        return


@fuzzed
@given(st.binary(max_size=300) | headers_in_json.map(dumps), st.integers(0, 3))
def test_any_header_gives_a_command_or_a_protocol_error(header: bytes, serializer: int) -> None:
    try:
        command = decode_header(header, serializer)
    except RemoteProtocolError:
        return
    command.body = b""
    assert isinstance(encode(command), bytes)


HEADER_TYPES = sorted({headers.request for headers in HEADERS.values()}, key=lambda header: header.__name__)


@fuzzed
@given(st.data())
def test_any_fields_give_a_header_or_an_error(data: st.DataObject) -> None:
    header_type = data.draw(st.sampled_from(HEADER_TYPES))
    names = st.sampled_from(header_type.__struct_encode_fields__) if header_type.__struct_fields__ else texts
    values = (
        texts | int64s.map(str) | st.sampled_from(["true", "false", "1", "0", "TRUE", "nan", "1e9", "9" * 50])
    )
    ext = data.draw(st.dictionaries(names, values, max_size=15))
    try:
        header = read_header(header_type, ext)
    except HeaderError:
        return
    assert read_header(header_type, write_header(header)) == header


@fuzzed
@given(
    st.builds(
        SendMessageV2,
        producer_group=texts,
        topic=texts,
        default_topic=texts,
        default_topic_queue_nums=int32s,
        queue_id=int32s,
        sys_flag=int32s,
        born_timestamp=int64s,
        flag=int32s,
        properties=st.none() | texts,
        reconsume_times=st.none() | int32s,
        unit_mode=st.booleans(),
        batch=st.booleans(),
    )
)
def test_a_send_header_comes_back_as_it_went(header: SendMessageV2) -> None:
    assert read_header(SendMessageV2, write_header(header)) == header
    assert SendMessageV2.from_v1(header.to_v1()) == header


records = st.builds(
    Record,
    topic=st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    body=st.binary(max_size=200),
    queue_id=int32s,
    properties=st.text(st.characters(exclude_categories=["Cs"]), max_size=200),
    flag=int32s,
    sys_flag=int32s,
    queue_offset=int64s,
    position=int64s,
    born_at_ms=int64s,
    born_host=hosts,
    stored_at_ms=int64s,
    store_host=hosts,
    reconsume_times=int32s,
    prepared_position=int64s,
)


@fuzzed
@given(records, st.binary(max_size=10))
def test_a_record_comes_back_as_it_went(record: Record, before: bytes) -> None:
    data = encode_record(record)

    read = decode_record(before + data + b"behind", len(before))

    flags = 0x10 * (len(record.born_host) == 20) | 0x20 * (len(record.store_host) == 20)
    expected = msgspec.structs.replace(
        record, sys_flag=record.sys_flag & ~0x30 | flags, size=len(data), body_crc=read.body_crc
    )
    assert read == expected
    assert encode_record(read) == data
    decode_host(read.born_host)


@fuzzed
@given(st.binary(max_size=400) | damaged(records.map(encode_record)), st.integers(-5, 500), st.booleans())
def test_any_bytes_give_a_record_or_corrupt(data: bytes, at: int, check_crc: bool) -> None:
    try:
        record = decode_record(data, at, check_crc=check_crc)
    except CorruptRecord:
        return
    assert 0 < record.size <= len(data) - at


@fuzzed
@given(damaged(st.lists(records, max_size=4).map(lambda some: b"".join(encode_record(one) for one in some))))
def test_any_pull_s_body_gives_records_or_corrupt(data: bytes) -> None:
    try:
        assert sum(record.size for record in iter_records(data)) == len(data)
    except CorruptRecord:
        return


units = st.builds(BatchUnit, int32s, st.binary(max_size=50), texts)


@fuzzed
@given(st.lists(units, max_size=5))
def test_a_batch_comes_back_as_it_went(batch: list[BatchUnit]) -> None:
    assert decode_batch(encode_batch(batch)) == batch


@fuzzed
@given(st.binary(max_size=200) | damaged(st.lists(units, min_size=1, max_size=4).map(encode_batch)))
def test_any_bytes_give_a_batch_or_an_error(data: bytes) -> None:
    try:
        assert encode_batch(decode_batch(data)) is not None
    except HeaderError:
        return


words = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=10
)


@fuzzed
@given(st.dictionaries(words, words, max_size=20))
def test_properties_come_back_as_they_went(pairs: dict[str, str]) -> None:
    assert properties.decode(properties.encode(pairs)) == pairs
    assert properties.decode(properties.encode(pairs) + "\x02") == pairs


@fuzzed
@given(
    st.text(st.sampled_from("ab\x01\x02é"), max_size=30),
    st.text(st.sampled_from("abé"), min_size=1, max_size=2),
)
def test_one_property_is_found_as_if_all_were_read(text: str, name: str) -> None:
    expected = properties.decode(text).get(name)

    assert properties.find_text(text, name) == expected
    assert properties.finder(name.encode())(text.encode()) == (expected and expected.encode())


json_keys = (
    texts
    | int64s
    | st.builds(
        lambda fields: ObjectKey(tuple(sorted(fields.items()))),
        st.dictionaries(texts, texts | int64s, max_size=3),
    )
)
json_values = st.recursive(
    st.booleans() | int64s | texts | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(json_keys, inner, max_size=4),
    max_leaves=20,
)


@fuzzed
@given(json_values, st.booleans())
def test_json_comes_back_as_it_went(value: Any, pretty: bool) -> None:
    assert loads(dumps(value, pretty=pretty)) == value


json_like = st.lists(
    st.sampled_from(
        ["{", "}", "[", "]", ":", ",", '"', "'", "\\", "\\u", "d83d", "0", "-", "1.5", "e9", "true"]
    )
    | texts,
    max_size=30,
).map("".join)


@fuzzed
@given(st.binary(max_size=100) | json_like | json_like.map(str.encode))
def test_any_text_gives_json_or_an_error(data: bytes | str) -> None:
    try:
        dumps(loads(data))
    except BodyError:
        return


@pytest.mark.parametrize("opening", ["[", "{", '{"a":', "{0:", "{{0:", "['", '{"a":[{0:'])
@pytest.mark.parametrize("count", [50, 500, 5000, 500_000])
def test_no_depth_of_nesting_breaks_the_reader(opening: str, count: int) -> None:
    with pytest.raises(BodyError):
        loads(opening * count)


@pytest.mark.parametrize(
    "text", ["9" * 1_000_000, "{0:" + "9" * 1_000_000 + "}", "{0:1e999999999}", "-" * 100_000]
)
def test_no_number_is_too_long_to_be_refused_or_read(text: str) -> None:
    try:
        assert loads(text) == {0: float("inf")}
    except BodyError:
        return


queues = st.builds(MessageQueue, texts, texts, int32s)
SEEDS: list[tuple[Callable[[bytes], Any], bytes]] = [
    (
        heartbeat_bodies.decode_heartbeat,
        heartbeat_bodies.encode_heartbeat(
            heartbeat_bodies.Heartbeat(
                client_id="c",
                producers=[heartbeat_bodies.ProducerPart(group_name="p")],
                consumers=[
                    heartbeat_bodies.ConsumerPart(
                        group_name="g",
                        subscriptions=[heartbeat_bodies.Subscription(topic="T", tags=["A"], tag_codes=[1])],
                    )
                ],
            )
        ),
    ),
    (
        route_bodies.decode_route,
        route_bodies.encode_route(
            route_bodies.TopicRoute(
                queue_datas=[
                    route_bodies.BrokerQueues(broker_name="b", read_queue_nums=4, write_queue_nums=4, perm=6)
                ],
                broker_datas=[route_bodies.BrokerData(cluster="c", broker_name="b", broker_addrs={0: "h:1"})],
            ),
            quoted_keys=False,
        ),
    ),
    (
        route_bodies.decode_cluster,
        b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"h"},"brokerName":"b","cluster":"c"}}}',
    ),
    (
        topic_bodies.decode_topic_table,
        b'{"dataVersion":{"counter":1},"topicConfigTable":{"T":{"topicName":"T"}}}',
    ),
    (group_bodies.decode_group_table, b'{"subscriptionGroupTable":{"g":{"groupName":"g","brokerId":0}}}'),
    (
        lock_bodies.decode_lock_batch,
        b'{"clientId":"c","consumerGroup":"g","mqSet":[{"topic":"T","brokerName":"b","queueId":1}]}',
    ),
    (lock_bodies.decode_consumer_ids, b'{"consumerIdList":["a","b"]}'),
    (list_bodies.decode_topic_list, b'{"topicList":["a","b"]}'),
    (offset_bodies.decode_group_offsets, b'{"offsetTable":{"T@g":{0:1,"2":"3"}}}'),
    (offset_bodies.decode_delay_offsets, b'{"offsetTable":{3:1}}'),
    (offset_bodies.decode_reset_offsets, b'{"offsetTable":{{"topic":"T","brokerName":"b","queueId":1}:5}}'),
    (
        offset_bodies.decode_reset_offsets,
        b'{"offsetTable":[{"topic":"T","brokerName":"b","queueId":1,"offset":5}]}',
    ),
    (
        offset_bodies.decode_topic_stats,
        b'{"offsetTable":{{"topic":"T","brokerName":"b","queueId":1}:{"maxOffset":5}}}',
    ),
    (registration_bodies.decode_key_values, b'{"table":{"a":"b"}}'),
    (
        registration_bodies.decode_register_broker,
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":"T"}}}}',
    ),
]


@fuzzed
@given(st.data())
def test_any_damaged_body_reads_or_is_refused(data: st.DataObject) -> None:
    decode, seed = data.draw(st.sampled_from(SEEDS))
    # Replacing a value by one of another kind reaches further than flipping bytes does.
    pieces = [
        b'"x"',
        b"1",
        b"null",
        b"[]",
        b"{}",
        b"true",
        b"-1",
        b"1e99",
        b'{"a":{}}',
        b"[[]]",
        b"99999999999999999999",
    ]
    at = data.draw(st.integers(0, len(seed)))
    length = data.draw(st.integers(0, 8))
    mixed = seed[:at] + data.draw(st.sampled_from([*pieces, b""])) + seed[at + length :]
    try:
        decode(data.draw(damaged(st.just(mixed))))
    except BodyError:
        return


@fuzzed
@given(st.binary(max_size=100) | damaged(st.binary(max_size=200).map(zlib.compress)))
def test_any_compressed_registration_reads_or_is_refused(data: bytes) -> None:
    try:
        registration_bodies.decode_register_broker(data, compressed=True)
    except BodyError:
        return


@fuzzed
@given(
    st.dictionaries(
        words.filter(lambda name: " " not in name), st.tuples(int32s, int32s, int32s), max_size=5
    ),
    st.lists(texts, max_size=3),
    st.booleans(),
)
def test_a_registration_comes_back_as_it_went(
    table: dict[str, tuple[int, int, int]], filter_servers: list[str], compressed: bool
) -> None:
    body = registration_bodies.RegisterBrokerBody(
        topics=topic_bodies.TopicConfigTable(
            topic_config_table={
                name: topic_bodies.TopicConfig(
                    topic_name=name, read_queue_nums=read, write_queue_nums=write, perm=perm
                )
                for name, (read, write, perm) in table.items()
            }
        ),
        filter_servers=filter_servers,
    )

    data = registration_bodies.encode_register_broker(body, compressed=compressed)

    assert registration_bodies.decode_register_broker(data, compressed=compressed) == body


@fuzzed
@given(st.dictionaries(queues, int64s, max_size=20))
def test_offsets_by_queue_come_back_as_they_went(table: dict[MessageQueue, int]) -> None:
    assert offset_bodies.decode_reset_offsets(offset_bodies.encode_reset_offsets(table)) == table
    assert offset_bodies.decode_reset_offsets(offset_bodies.encode_reset_offsets_for_cpp(table)) == table


@fuzzed
@given(hosts, int64s, texts)
def test_position_ids_come_back_as_they_went(host: bytes, position: int, junk: str) -> None:
    assert parse_offset_message_id(offset_message_id(host, position)).position == position
    with pytest.raises(HeaderError):
        parse_offset_message_id(junk + "x")
