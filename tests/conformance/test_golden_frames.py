"""Every frame recorded between real clients and a real 4.9.8 decodes, and what Java wrote encodes again."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from route_listing import headers_by_code

from pyromq.codes import VERSION_STANDARD_JSON, Language, RequestCode, ResponseCode
from pyromq.testing.golden import GoldenFrame, pair_up, read_answers, read_frames
from pyromq.wire import properties
from pyromq.wire.bodies import heartbeat_bodies, lock_bodies, offset_bodies, route_bodies
from pyromq.wire.command import CommandReader, encode
from pyromq.wire.header import read_header, write_header
from pyromq.wire.java_hash import java_map_order
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.record import encode_record, iter_records

HEADERS = headers_by_code()
FOLDER = Path(__file__).parent / "golden"
RECORDINGS = {
    "java": read_frames(FOLDER / "frames_java_4.9.8.jsonl"),
    "cpp": read_frames(FOLDER / "frames_cpp_1x_wheel.jsonl"),
    "javascript": read_frames(FOLDER / "frames_alions_js.jsonl"),
}
ANSWERS = read_answers(FOLDER / "golden_4.9.8.txt")
FRAMES = [pytest.param(frames, id=name) for name, frames in RECORDINGS.items()]
#: Keys that hooks and proxies add to any request; none is a field of a header.
EVERYWHERE = {"AccessKey", "Signature", "OnsChannel", "ReqT", "bname"}


def wrap(frame: GoldenFrame) -> bytes:
    body = frame.body or b""
    lengths = (4 + len(frame.header) + len(body)).to_bytes(4, "big")
    return lengths + bytes([frame.serializer]) + len(frame.header).to_bytes(3, "big") + frame.header + body


@pytest.mark.parametrize("frames", FRAMES)
def test_a_whole_recording_decodes_from_one_stream(frames: list[GoldenFrame]) -> None:
    reader = CommandReader()
    reader.feed(b"".join(wrap(frame) for frame in frames))

    commands = [reader.next_command() for _ in frames]

    assert commands == [frame.command for frame in frames]
    assert reader.next_command() is None
    assert reader.pending_bytes == 0


def test_every_frame_that_java_wrote_encodes_to_the_same_bytes() -> None:
    by_java = [
        frame
        for name, frames in RECORDINGS.items()
        for frame in frames
        if name == "java" or not frame.from_client
    ]

    changed = [frame.line for frame in by_java if encode(frame.command) != wrap(frame)]

    assert len(by_java) > 1500
    assert not changed


def test_every_recorded_answer_encodes_to_the_same_bytes() -> None:
    changed = [
        name for name, answer in ANSWERS.items() if encode(answer.command)[8:] != answer.header + answer.body
    ]

    assert len(ANSWERS) == 42
    assert not changed


@pytest.mark.parametrize("frames", FRAMES)
def test_every_request_s_header_reads_and_keeps_its_fields(frames: list[GoldenFrame]) -> None:
    lost = Counter[tuple[int, str]]()
    for frame in frames:
        command = frame.command
        if command.is_response or command.code not in HEADERS:
            continue
        fields = write_header(read_header(HEADERS[RequestCode(command.code)].request, command.ext))
        lost.update((command.code, key) for key in (command.ext or {}) if key not in fields)

    assert not {loss for loss in lost if loss[1] not in EVERYWHERE}


def test_numbers_and_booleans_among_the_fields_become_text() -> None:
    sends = [f.command for f in RECORDINGS["javascript"] if f.from_client and f.command.code == 310]

    ext = sends[0].ext

    assert ext is not None
    assert (ext["d"], ext["e"], ext["k"]) == ("4", "0", "false")


def bodies_of(code: RequestCode) -> list[bytes]:
    frames = [frame for frame in RECORDINGS["java"] if frame.from_client and frame.command.code == code]
    return [frame.body for frame in frames if frame.body is not None]


def answer_bodies_of(code: RequestCode) -> list[bytes]:
    exchanges = [exchange for frames in RECORDINGS.values() for exchange in pair_up(frames)]
    return [
        exchange.answer.body
        for exchange in exchanges
        if exchange.request.command.code == code
        and exchange.answer.command.code == ResponseCode.SUCCESS
        and exchange.answer.body is not None
    ]


@pytest.mark.parametrize(
    ("bodies", "decode", "encode_again"),
    [
        pytest.param(
            bodies_of(RequestCode.HEART_BEAT),
            heartbeat_bodies.decode_heartbeat,
            heartbeat_bodies.encode_heartbeat,
            id="heartbeats",
        ),
        pytest.param(
            bodies_of(RequestCode.LOCK_BATCH_MQ),
            lock_bodies.decode_lock_batch,
            lock_bodies.encode_lock_batch,
            id="locks",
        ),
        pytest.param(
            answer_bodies_of(RequestCode.LOCK_BATCH_MQ),
            lock_bodies.decode_locked_queues,
            lock_bodies.encode_locked_queues,
            id="locked queues",
        ),
        pytest.param(
            answer_bodies_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP),
            lock_bodies.decode_consumer_ids,
            lock_bodies.encode_consumer_ids,
            id="consumer ids",
        ),
    ],
)
def test_recorded_bodies_are_read_and_written_back(
    bodies: list[bytes], decode: Callable[[bytes], Any], encode_again: Callable[[Any], bytes]
) -> None:
    assert bodies
    assert [encode_again(decode(body)) for body in bodies] == bodies


@pytest.mark.row("NS-07", "NS-15")
@pytest.mark.parametrize("frames", FRAMES)
def test_routes_are_written_in_the_flavour_of_the_client_s_version(frames: list[GoldenFrame]) -> None:
    routes = [
        exchange
        for exchange in pair_up(frames)
        if exchange.request.command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
        and exchange.answer.command.code == ResponseCode.SUCCESS
    ]

    rewritten = [
        route_bodies.encode_route(
            route_bodies.decode_route(exchange.answer.command.body),
            quoted_keys=exchange.request.command.version >= VERSION_STANDARD_JSON,
        )
        for exchange in routes
    ]

    assert routes
    assert rewritten == [exchange.answer.body for exchange in routes]


def test_a_cpp_heartbeat_reads_with_ordinals_and_a_version_as_text() -> None:
    beats = [f for f in RECORDINGS["cpp"] if f.from_client and f.command.code == RequestCode.HEART_BEAT]

    beat = heartbeat_bodies.decode_heartbeat(beats[0].command.body)

    (consumer,) = beat.consumers
    assert beats[0].command.language == Language.CPP
    assert consumer.consume_type is heartbeat_bodies.ConsumeType.CONSUME_PASSIVELY
    assert consumer.message_model is heartbeat_bodies.MessageModel.CLUSTERING
    assert consumer.consume_from_where is heartbeat_bodies.ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    assert [subscription.expression_type for subscription in consumer.subscriptions] == ["TAG", "TAG"]
    assert consumer.subscriptions[0].sub_version == 1794772946857


def test_a_javascript_heartbeat_reads() -> None:
    beats = [f for f in RECORDINGS["javascript"] if f.command.code == RequestCode.HEART_BEAT]

    beat = heartbeat_bodies.decode_heartbeat(beats[0].command.body)

    assert beat.client_id == "127.0.0.1@11458"
    assert [subscription.topic for subscription in beat.consumers[0].subscriptions] == [
        "TopicTest",
        "%RETRY%jsc",
    ]


@pytest.mark.row("ST-07")
def test_pulled_records_are_read_and_written_back() -> None:
    bodies = answer_bodies_of(RequestCode.PULL_MESSAGE)
    bodies += [ANSWERS[name].body for name in ("pull", "queryMsg", "view")]

    rewritten = [b"".join(encode_record(record) for record in iter_records(body)) for body in bodies]

    assert len(bodies) > 10
    assert rewritten == bodies


def test_the_properties_of_stored_messages_are_in_the_order_of_a_java_map() -> None:
    records = [record for body in answer_bodies_of(RequestCode.PULL_MESSAGE) for record in iter_records(body)]

    reordered = [
        record.properties
        for record in records
        if properties.encode(properties.decode(record.properties)) != record.properties
    ]

    assert len(records) >= 20
    assert not reordered


@pytest.mark.row("MM-04")
def test_the_id_of_a_stored_message_is_store_host_and_position() -> None:
    sent = ANSWERS["send v2"].command.ext
    (stored,) = iter_records(ANSWERS["pull"].body)

    assert sent is not None
    assert offset_message_id(stored.store_host, stored.position) == sent["msgId"]


def test_a_half_message_that_is_checked_is_a_record() -> None:
    checks = [f for f in RECORDINGS["java"] if f.command.code == RequestCode.CHECK_TRANSACTION_STATE]

    halves = [list(iter_records(frame.command.body)) for frame in checks]

    assert len(halves) == 5
    assert all(len(records) == 1 for records in halves)


def test_topic_stats_are_keyed_by_queues_in_the_order_of_a_java_map() -> None:
    body = ANSWERS["topicstats"].body
    stats = offset_bodies.decode_topic_stats(body)
    by_queue = dict(sorted(stats.items()))

    assert offset_bodies.encode_topic_stats(by_queue) == body


@pytest.mark.parametrize(
    ("name", "decode", "encode_again"),
    [
        ("all offsets", offset_bodies.decode_group_offsets, offset_bodies.encode_group_offsets),
        ("delay offset", offset_bodies.decode_delay_offsets, offset_bodies.encode_delay_offsets),
        ("lock", lock_bodies.decode_locked_queues, lock_bodies.encode_locked_queues),
    ],
)
def test_recorded_answers_are_read_and_written_back(
    name: str, decode: Callable[[bytes], Any], encode_again: Callable[[Any], bytes]
) -> None:
    body = ANSWERS[name].body

    assert encode_again(decode(body)) == body


@pytest.mark.parametrize(("name", "field"), [("all topics", "topicName"), ("all subgroups", "groupName")])
def test_the_broker_s_tables_are_in_the_order_of_a_map_of_2048_buckets(name: str, field: str) -> None:
    # The recording has the first 1,500 bytes only, so the names are picked out by hand.
    assert ANSWERS[name].is_cut
    names = tuple(re.findall(f'"{field}":"([^"]+)"', ANSWERS[name].body.decode()))

    assert len(names) > 4
    assert java_map_order(tuple(sorted(names)), 2048) == names


def test_no_recorded_send_is_mistaken_for_a_batch() -> None:
    sends = [
        frame.command
        for frames in RECORDINGS.values()
        for frame in frames
        if frame.from_client and frame.command.code in (10, 310)
    ]
    headers = [read_header(HEADERS[RequestCode(command.code)].request, command.ext) for command in sends]

    assert len(headers) > 10
    assert not any(getattr(header, "batch", None) for header in headers)
