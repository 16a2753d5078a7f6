"""Stored records as protobuf reads what was written of them."""

import hashlib
import importlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from pyromq.codes import SysFlag
from pyromq.errors import CorruptRecord
from pyromq.kernel import IS_COMPILED
from pyromq.wire import properties as names
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode
from pyromq.wire.grpc.grpc_times import ms_of
from pyromq.wire.grpc.receive_answers import (
    RECEIVED_OK,
    ReceivedFrames,
    delivered_at,
    framed,
    pulled_messages,
    pulled_next,
    received_status,
)
from pyromq.wire.grpc.shown_messages import shown_message, shown_topic
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.record import Record, encode_host, encode_record

BYTES_MAX = 4 * 1024 * 1024
BORN_AT, STORED_AT = 1_700_000_000_123, 1_700_000_001_000
STORE_HOST = encode_host("10.0.0.2", 10911)


def stored(body: bytes = b"hello", properties: dict[str, str] | None = None, **changes: object) -> bytes:
    values: dict[str, object] = {
        "topic": "%RETRY%readers_orders",
        "queue_id": 3,
        "queue_offset": 41,
        "position": 7000,
        "born_at_ms": BORN_AT,
        "born_host": encode_host("10.0.0.9", 55_001),
        "stored_at_ms": STORED_AT,
        "store_host": STORE_HOST,
    }
    return encode_record(Record(body=body, properties=names.encode(properties or {}), **(values | changes)))  # type: ignore[arg-type]


@dataclass
class Run:
    offsets: Sequence[int]
    positions: Sequence[int]
    body: bytes
    sizes: Sequence[int]
    attempts: Sequence[int]


def run_of(*records: bytes, attempts: Sequence[int]) -> Run:
    return Run((41, 42), (7000, 8000), b"".join(records), [len(each) for each in records], attempts)


def shown(record: bytes, topic: str = "orders", **more: object) -> pb.Message:
    written = shown_message(record, shown_topic(topic), body_bytes_max=BYTES_MAX, **more)  # type: ignore[arg-type]
    return pb.Message.FromString(written)


@pytest.mark.row("GR-28")
def test_a_message_of_remoting_has_all_its_fields() -> None:
    properties = {
        "UNIQ_KEY": "7F000001000118B4AAC2123456780000",
        "TAGS": "blue",
        "KEYS": "k1 k2",
        "WAIT": "true",
        "CLUSTER": "DefaultCluster",
        "colour": "büro",
        "empty": "",
    }
    message = shown(stored(properties=properties, reconsume_times=2), receipt=b"a handle", attempt=3)

    system = message.system_properties
    assert (message.topic.resource_namespace, message.topic.name) == ("", "orders")
    assert dict(message.user_properties) == {"colour": "büro"}
    assert message.body == b"hello"
    assert system.tag == "blue"
    assert list(system.keys) == ["k1", "k2"]
    assert system.message_id == properties["UNIQ_KEY"]
    assert system.body_digest.type == 2
    assert system.body_digest.checksum == hashlib.md5(b"hello").hexdigest().upper()
    assert (system.body_encoding, system.message_type) == (1, 1)
    assert (ms_of(system.born_timestamp), system.born_host) == (BORN_AT, "10.0.0.9")
    assert (ms_of(system.store_timestamp), system.store_host) == (STORED_AT, "10.0.0.2:10911")
    assert (system.receipt_handle, system.delivery_attempt) == ("a handle", 3)
    assert (system.queue_id, system.queue_offset) == (3, 41)
    unset = (
        "delivery_timestamp",
        "invisible_duration",
        "message_group",
        "trace_context",
        "dead_letter_queue",
    )
    assert [name for name in unset if system.HasField(name)] == []


def test_what_is_written_is_what_protobuf_writes() -> None:
    properties = {
        "UNIQ_KEY": "U1", "TAGS": "t", "KEYS": "k", "one": "1", "__SHARDINGKEY": "g", "TRACE_CONTEXT": "c",
        "TIMER_DELIVER_MS": str(BORN_AT), "DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_MESSAGE_ID": "U0",
        "__LITE_TOPIC": "l", "_SYS_MSG_PRIORITY_": "7",
    }  # fmt: skip
    record = stored(b"x" * 300, properties)
    written = shown_message(
        record, shown_topic("ns%orders"), body_bytes_max=BYTES_MAX, receipt=b"h", attempt=1
    )

    assert pb.Message.FromString(written).SerializeToString(deterministic=True) == written


def test_a_message_without_anything_still_has_what_clients_insist_on() -> None:
    message = shown(stored(b"", queue_id=0, queue_offset=0, born_at_ms=0))

    system = message.system_properties
    assert system.message_id == offset_message_id(STORE_HOST, 7000)
    assert system.HasField("body_digest")
    assert system.HasField("born_timestamp")
    assert system.HasField("queue_offset")
    assert not system.HasField("tag")
    assert not system.HasField("receipt_handle")
    assert (system.body_encoding, system.delivery_attempt) == (1, 1)


def test_an_attempt_that_nobody_counted_is_the_record_s() -> None:
    assert shown(stored(reconsume_times=4)).system_properties.delivery_attempt == 5


@pytest.mark.row("GR-28")
@pytest.mark.parametrize("kind", ["plain zlib", "zlib", "lz4", "zstd"])
def test_a_compressed_body_leaves_as_it_was(kind: str) -> None:
    body = b"the same again and " * 100
    if "zlib" in kind:
        packed, flag = zlib.compress(body), 0 if kind == "plain zlib" else SysFlag.COMPRESSION_ZLIB
    elif kind == "lz4":
        packed, flag = importlib.import_module("lz4.frame").compress(body), SysFlag.COMPRESSION_LZ4
    else:
        packed = importlib.import_module("zstandard").ZstdCompressor().compress(body)
        flag = SysFlag.COMPRESSION_ZSTD
    message = shown(stored(packed, sys_flag=int(SysFlag.COMPRESSED | flag)))

    assert message.body == body
    assert message.system_properties.body_encoding == 1
    assert message.system_properties.body_digest.checksum == hashlib.md5(body).hexdigest().upper()


@pytest.mark.parametrize(
    ("body", "flag"),
    [
        (b"no zlib at all", SysFlag.COMPRESSION_ZLIB),
        (zlib.compress(bytes(BYTES_MAX + 1)), SysFlag.COMPRESSION_ZLIB),
        (b"of a kind that nobody knows", 0x700),
    ],
    ids=["damaged", "too large", "unknown kind"],
)
def test_a_body_that_cannot_be_unpacked_leaves_as_it_is_and_says_so(
    body: bytes, flag: int, caplog: pytest.LogCaptureFixture
) -> None:
    message = shown(stored(body, sys_flag=int(SysFlag.COMPRESSED | flag)))

    assert message.body == body
    assert message.system_properties.body_encoding == 2
    assert message.system_properties.body_digest.checksum == hashlib.md5(body).hexdigest().upper()
    assert "leaves compressed" in caplog.text


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, 1),
        ({"__SHARDINGKEY": "g"}, 2),
        ({"DELAY": "3"}, 3),
        ({"TIMER_DELIVER_MS": "1700000000000", "__SHARDINGKEY": "g"}, 3),
        ({"TIMER_DELAY_SEC": "3"}, 3),
        ({"TRAN_MSG": "true", "DELAY": "3"}, 4),
        ({"TRAN_MSG": "false"}, 1),
        ({"__LITE_TOPIC": "l"}, 5),
        ({"_SYS_MSG_PRIORITY_": "2"}, 6),
    ],
)
def test_the_type_of_a_message_follows_from_its_properties(properties: dict[str, str], kind: int) -> None:
    assert shown(stored(properties=properties)).system_properties.message_type == kind


@pytest.mark.row("GR-28")
def test_reserved_and_internal_properties_are_hidden() -> None:
    hidden = {
        "__SHARDINGKEY": "g", "TRACE_CONTEXT": "c", "__transactionId__": "x", "TRANSACTION_CHECK_TIMES": "1",
        "CHECK_IMMUNITY_TIME_IN_SECONDS": "9", "RECONSUME_TIME": "0", "PGROUP": "p", "POP_CK": "0 1 2",
        "1ST_POP_TIME": "5", "REAL_TOPIC": "r", "INNER_NUM": "1", "__BORNHOST": "1.2.3.4:5",
    }  # fmt: skip
    message = shown(stored(properties=hidden | {"own": "value"}))

    assert dict(message.user_properties) == {"own": "value"}
    assert message.system_properties.message_group == "g"
    assert message.system_properties.trace_context == "c"
    assert message.system_properties.born_host == "1.2.3.4:5"


@pytest.mark.parametrize("value", ["", "soon", "-1", "9" * 19 + "9", "１２"])
def test_a_time_that_is_none_is_not_shown(value: str) -> None:
    system = shown(
        stored(properties={"TIMER_DELIVER_MS": value, "_SYS_MSG_PRIORITY_": value})
    ).system_properties

    assert not system.HasField("delivery_timestamp")
    assert not system.HasField("priority")


@pytest.mark.parametrize(
    ("topic", "namespace", "name"),
    [
        ("orders", "", "orders"),
        ("ns%orders", "ns", "orders"),
        ("%DLQ%readers", "", "%DLQ%readers"),
        ("%DLQ%ns%readers", "ns", "%DLQ%readers"),
        ("%RETRY%ns%readers", "ns", "%RETRY%readers"),
        ("orders%", "", "orders%"),
    ],
)
def test_a_namespace_is_told_from_the_name(topic: str, namespace: str, name: str) -> None:
    shown_as = shown(stored(), topic).topic

    assert (shown_as.resource_namespace, shown_as.name) == (namespace, name)


def test_properties_that_are_no_text_are_mended() -> None:
    record = bytearray(stored(properties={"own": "value", "TAGS": "tag"}))
    at = record.index(b"value")
    record[at : at + 5] = b"\xff\xfe\xfd\xfc\xfb"
    message = shown(bytes(record))

    assert message.user_properties["own"] == "\ufffd" * 5
    assert message.system_properties.tag == "tag"


def test_a_broken_record_is_no_message() -> None:
    with pytest.raises(CorruptRecord):
        shown(stored()[:-1])


@pytest.mark.parametrize("born_at_ms", [-1, -1_000, -1_500, 999, 253_402_300_799_999])
def test_any_time_of_birth_is_shown(born_at_ms: int) -> None:
    born = shown(stored(born_at_ms=born_at_ms)).system_properties.born_timestamp

    assert born.seconds * 1000 + born.nanos // 1_000_000 == born_at_ms
    assert 0 <= born.nanos < 1_000_000_000


# The messages of streams -----------------------------------------------------------------------------------


def unframed(data: bytes) -> list[pb.ReceiveMessageResponse]:
    """Return the messages of a stream, each of which has gRPC's prefix."""
    messages = []
    while data:
        assert data[0] == 0
        end = 5 + int.from_bytes(data[1:5], "big")
        messages.append(pb.ReceiveMessageResponse.FromString(data[5:end]))
        data = data[end:]
    return messages


@pytest.mark.parametrize("use_kernel", [False, *([True] if IS_COMPILED else [])])
def test_a_stream_says_status_messages_and_time(*, use_kernel: bool) -> None:
    run = run_of(stored(), stored(), attempts=(1, 4))
    frames = ReceivedFrames(BYTES_MAX, use_kernel=use_kernel)
    messages = b"".join(frames.of(run, b"40 1 60000 2 0 broker-a 3 ", shown_topic("orders")))
    status, first, second, time = unframed(framed(RECEIVED_OK) + messages + framed(delivered_at(STORED_AT)))

    assert (status.status.code, status.status.message) == (GrpcCode.OK, "OK")
    assert first.message.system_properties.receipt_handle == "40 1 60000 2 0 broker-a 3 41 7000"
    assert second.message.system_properties.receipt_handle == "40 1 60000 2 0 broker-a 3 42 8000"
    assert second.message.system_properties.delivery_attempt == 4
    assert ms_of(time.delivery_timestamp) == STORED_AT


@pytest.mark.parametrize("use_kernel", [False, *([True] if IS_COMPILED else [])])
def test_a_record_that_is_not_whole_does_not_keep_the_others_back(
    caplog: pytest.LogCaptureFixture, *, use_kernel: bool
) -> None:
    run = run_of(stored()[:-1], stored(), attempts=(1, 1))
    frames = ReceivedFrames(BYTES_MAX, use_kernel=use_kernel)
    [only] = unframed(b"".join(frames.of(run, b"h ", shown_topic("orders"))))

    assert only.message.system_properties.receipt_handle == "h 42 8000"
    assert "the message at 7000 cannot be delivered" in caplog.text


def test_a_pull_s_stream_has_messages_without_handles_and_the_next_offset() -> None:
    written = [*pulled_messages(stored() + stored(b"two"), shown_topic("orders"), BYTES_MAX), pulled_next(0)]
    first, second, following = (pb.PullMessageResponse.FromString(each) for each in written)

    assert (first.message.body, second.message.body) == (b"hello", b"two")
    assert not first.message.system_properties.HasField("receipt_handle")
    assert (following.WhichOneof("content"), following.next_offset) == ("next_offset", 0)


def test_any_text_fits_a_status() -> None:
    status = pb.ReceiveMessageResponse.FromString(received_status(40402, "no \udcff topic")).status

    assert (status.code, status.message) == (40402, "no ? topic")
