"""What a gRPC client may send, and what is stored of it."""

import gzip
import zlib
from collections.abc import Callable

import pytest

from pyromq.codes import SysFlag
from pyromq.wire import properties as names
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.grpc.grpc_messages import Digest, Message, Resource, SystemProperties
from pyromq.wire.grpc.grpc_times import duration_of, timestamp_of
from pyromq.wire.grpc.message_groups import queue_of_group
from pyromq.wire.grpc.proto_numbers import DigestType, Encoding, MessageType
from pyromq.wire.grpc.sent_messages import SendLimits, check_sent, kind_of, read_sent
from pyromq.wire.grpc.transaction_ids import HalfPlace, decode_transaction_id

NOW_MS = 1_700_000_000_000
LIMITS = SendLimits()
Change = Callable[[Message], None]


def message() -> Message:
    return Message(
        topic=Resource(name="Orders"),
        system_properties=SystemProperties(message_id="0156F7E71C361B21BC024CCDBE00000000"),
        body=b"hello",
    )


def changed(change: Change) -> Message:
    made = message()
    change(made)
    return made


def code_of(*messages: Message, limits: SendLimits = LIMITS) -> int:
    try:
        check_sent(messages, limits, NOW_MS)
    except GrpcRefused as refused:
        return refused.code
    return GrpcCode.OK


def properties_of(count: int, value: str = "v") -> Change:
    return lambda one: one.user_properties.update({f"n{number}": value for number in range(count)})


def system(**fields: object) -> Change:
    return lambda one: one.system_properties.MergeFrom(SystemProperties(**fields))  # type: ignore[arg-type]


def topic(name: str) -> Change:
    return lambda one: setattr(one.topic, "name", name)


CASES: list[tuple[str, Change, int]] = [
    ("plain", lambda _: None, GrpcCode.OK),
    ("blank topic", topic(" "), GrpcCode.ILLEGAL_TOPIC),
    ("topic of 127", topic("t" * 127), GrpcCode.OK),
    ("topic of 128", topic("t" * 128), GrpcCode.ILLEGAL_TOPIC),
    ("topic with a dot", topic("a.b"), GrpcCode.ILLEGAL_TOPIC),
    ("system topic", topic("TBW102"), GrpcCode.ILLEGAL_TOPIC),
    ("topic with the system's prefix", topic("rmq_sys_x"), GrpcCode.ILLEGAL_TOPIC),
    ("no body", lambda one: one.ClearField("body"), GrpcCode.MESSAGE_BODY_EMPTY),
    ("4 MiB", lambda one: setattr(one, "body", bytes(4 << 20)), GrpcCode.OK),
    (
        "4 MiB and a byte",
        lambda one: setattr(one, "body", bytes((4 << 20) + 1)),
        GrpcCode.MESSAGE_BODY_TOO_LARGE,
    ),
    ("128 properties", properties_of(128), GrpcCode.OK),
    ("129 properties", properties_of(129), GrpcCode.MESSAGE_PROPERTIES_TOO_LARGE),
    ("16 KiB of properties", properties_of(1, "v" * (16_384 - 2)), GrpcCode.OK),
    ("a byte more", properties_of(1, "v" * (16_384 - 1)), GrpcCode.MESSAGE_PROPERTIES_TOO_LARGE),
    (
        "reserved name",
        lambda one: one.user_properties.update(KEYS="k"),
        GrpcCode.ILLEGAL_MESSAGE_PROPERTY_KEY,
    ),
    (
        "forged message group",
        lambda one: one.user_properties.update({names.SHARDING_KEY: "g"}),
        GrpcCode.ILLEGAL_MESSAGE_PROPERTY_KEY,
    ),
    (
        "control character in a name",
        lambda one: one.user_properties.update({"a\x01": "b"}),
        GrpcCode.ILLEGAL_MESSAGE_PROPERTY_KEY,
    ),
    (
        "control character in a value",
        lambda one: one.user_properties.update({"a": "\x85"}),
        GrpcCode.ILLEGAL_MESSAGE_PROPERTY_KEY,
    ),
    ("empty tag", system(tag=""), GrpcCode.OK),
    ("blank tag", system(tag=" "), GrpcCode.ILLEGAL_MESSAGE_TAG),
    ("tag with a bar", system(tag="a|b"), GrpcCode.ILLEGAL_MESSAGE_TAG),
    ("blank key", system(keys=["a", " "]), GrpcCode.ILLEGAL_MESSAGE_KEY),
    ("control character in a key", system(keys=["a\n"]), GrpcCode.ILLEGAL_MESSAGE_KEY),
    (
        "blank id",
        lambda one: setattr(one.system_properties, "message_id", " "),
        GrpcCode.ILLEGAL_MESSAGE_ID,
    ),
    (
        "an hour to decide",
        system(orphaned_transaction_recovery_duration=duration_of(3_600_000)),
        GrpcCode.OK,
    ),
    (
        "a second more",
        system(orphaned_transaction_recovery_duration=duration_of(3_601_000)),
        GrpcCode.BAD_REQUEST,
    ),
    ("24 hours ahead", system(delivery_timestamp=timestamp_of(NOW_MS + 86_400_000)), GrpcCode.OK),
    (
        "a millisecond more",
        system(delivery_timestamp=timestamp_of(NOW_MS + 86_400_001)),
        GrpcCode.ILLEGAL_DELIVERY_TIME,
    ),
    ("in the past", system(delivery_timestamp=timestamp_of(5)), GrpcCode.OK),
    (
        "transaction with a time",
        system(delivery_timestamp=timestamp_of(NOW_MS), message_type=MessageType.TRANSACTION),
        GrpcCode.BAD_REQUEST,
    ),
    ("group of 63 bytes", system(message_group="g" * 63), GrpcCode.OK),
    ("group of 64 bytes", system(message_group="g" * 64), GrpcCode.ILLEGAL_MESSAGE_GROUP),
    ("group of 22 characters and 66 bytes", system(message_group="消" * 22), GrpcCode.ILLEGAL_MESSAGE_GROUP),
    ("blank group", system(message_group="  "), GrpcCode.ILLEGAL_MESSAGE_GROUP),
    (
        "wrong digest",
        system(body_digest=Digest(type=DigestType.MD5, checksum="00")),
        GrpcCode.MESSAGE_CORRUPTED,
    ),
    (
        "right digest",
        system(body_digest=Digest(type=DigestType.MD5, checksum="5D41402ABC4B2A76B9719D911017C592")),
        GrpcCode.OK,
    ),
    (
        "right checksum",
        system(body_digest=Digest(type=DigestType.CRC32, checksum=str(zlib.crc32(b"hello")))),
        GrpcCode.OK,
    ),
]


@pytest.mark.row("GR-16")
@pytest.mark.parametrize(("change", "code"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_limit_of_a_send_has_its_code(change: Change, code: int) -> None:
    assert code_of(changed(change)) == code


def test_the_messages_of_a_request_belong_together() -> None:
    assert code_of() == GrpcCode.MESSAGE_CORRUPTED
    assert code_of(message(), changed(topic("Other"))) == GrpcCode.MESSAGE_CORRUPTED
    assert code_of(message(), message()) == GrpcCode.OK
    timed = changed(system(delivery_timestamp=timestamp_of(NOW_MS)))
    assert code_of(timed, message()) == GrpcCode.BAD_REQUEST


def test_the_kind_of_a_message_follows_from_what_it_has() -> None:
    assert kind_of(message()) == MessageType.NORMAL
    assert kind_of(changed(system(message_type=MessageType.FIFO))) == MessageType.NORMAL
    assert kind_of(changed(system(message_group="g"))) == MessageType.FIFO
    both = system(message_group="g", delivery_timestamp=timestamp_of(NOW_MS))
    assert kind_of(changed(both)) == MessageType.DELAY
    assert kind_of(changed(system(priority=1))) == MessageType.PRIORITY
    assert kind_of(changed(system(message_type=MessageType.TRANSACTION))) == MessageType.TRANSACTION


def test_what_is_stored_has_the_names_that_remoting_clients_read() -> None:
    fields = system(
        tag="A",
        keys=["k1", "k2"],
        born_timestamp=timestamp_of(NOW_MS),
        born_host="build-7",
        trace_context="00-1-2-01",
        message_group="g",
    )
    one = changed(fields)
    one.user_properties["colour"] = "red"
    sent = read_sent(one, "Orders", "127.0.0.1:5000")
    assert sent.properties == {
        "colour": "red",
        "TAGS": "A",
        "KEYS": "k1 k2",
        "UNIQ_KEY": "0156F7E71C361B21BC024CCDBE00000000",
        "__SHARDINGKEY": "g",
        "TRACE_CONTEXT": "00-1-2-01",
        "__BORNHOST": "build-7",
        "BORN_TIMESTAMP": str(NOW_MS),
        "PGROUP": "Orders",
    }
    assert (sent.born_at_ms, sent.group, sent.sys_flag, sent.body) == (NOW_MS, "g", 0, b"hello")


def test_a_half_is_prepared_and_has_its_time() -> None:
    fields = system(
        message_type=MessageType.TRANSACTION, orphaned_transaction_recovery_duration=duration_of(30_900)
    )
    sent = read_sent(changed(fields), "Orders", "127.0.0.1:5000")
    assert sent.sys_flag == SysFlag.TRANSACTION_PREPARED
    assert sent.properties["TRAN_MSG"] == "true"
    assert sent.properties["CHECK_IMMUNITY_TIME_IN_SECONDS"] == "30"
    assert sent.properties["__BORNHOST"] == "127.0.0.1:5000"


@pytest.mark.parametrize("compress", [zlib.compress, gzip.compress])
def test_a_compressed_body_is_stored_as_remoting_consumers_read_it(
    compress: Callable[[bytes], bytes],
) -> None:
    one = changed(system(body_encoding=Encoding.GZIP))
    one.body = compress(b"text " * 100)
    sent = read_sent(one, "Orders", "")
    assert sent.sys_flag == SysFlag.COMPRESSED
    assert zlib.decompress(sent.body) == b"text " * 100


@pytest.mark.parametrize("body", [b"hello", b"\x1f\x8bxxxx"])
def test_a_body_that_is_not_compressed_is_corrupted(body: bytes) -> None:
    one = changed(system(body_encoding=Encoding.GZIP))
    one.body = body
    with pytest.raises(GrpcRefused) as caught:
        read_sent(one, "Orders", "")
    assert caught.value.code == GrpcCode.MESSAGE_CORRUPTED


@pytest.mark.row("GR-18")
@pytest.mark.parametrize(
    ("group", "queues"),
    [
        ("a", [0, 0, 0, 0, 0]),
        ("order-1", [0, 0, 3, 3, 3]),
        ("order-2", [0, 0, 2, 2, 11]),
        ("group-42", [0, 1, 2, 2, 10]),
        ("消息组", [0, 0, 2, 7, 7]),
    ],
)
def test_a_message_group_has_the_queue_that_rocketmq_gives_it(group: str, queues: list[int]) -> None:
    assert [queue_of_group(group, count) for count in (1, 2, 4, 8, 16)] == queues


def test_a_transaction_id_says_where_the_half_is() -> None:
    place = HalfPlace(7, 123_456_789_012)
    assert decode_transaction_id(place.encode()) == place
    assert decode_transaction_id("0156F7E71C361B21BC024CCDBE00000000") is None
    assert decode_transaction_id("A" * 29) is None
    assert decode_transaction_id("1" * 29) is None
    assert decode_transaction_id("消" * 29) is None
