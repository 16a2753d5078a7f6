"""Records: what is written is read, and what is not whole is refused."""

import struct

import msgspec
import pytest

from pyromq.codes import SysFlag
from pyromq.errors import CorruptRecord, MessageTooLarge
from pyromq.wire.record import (
    BLANK_MAGIC,
    BODY_CRC_AT,
    BORN_AT_AT,
    BORN_HOST_AT,
    FLAG_AT,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    POSITION_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    RECORD_BYTES_MIN,
    SYS_FLAG_AT,
    Record,
    body_crc,
    decode_host,
    decode_record,
    encode_blank,
    encode_host,
    encode_record,
    is_blank,
    iter_records,
    record_size,
)

V4 = encode_host("10.1.2.3", 10911)
V6 = encode_host("2001:db8::1", 10911)
RECORD = Record(
    topic="TopicTest",
    body=b"hello",
    queue_id=3,
    properties="KEYS\x01k1\x02TAGS\x01A",
    flag=-9,
    sys_flag=SysFlag.COMPRESSED,
    queue_offset=7,
    position=8,
    born_at_ms=9,
    born_host=V4,
    stored_at_ms=10,
    store_host=V4,
    reconsume_times=11,
    prepared_position=12,
)


def as_read(record: Record, data: bytes, v6_flags: int = 0) -> Record:
    return msgspec.structs.replace(
        record, size=len(data), body_crc=body_crc(record.body), sys_flag=record.sys_flag | v6_flags
    )


@pytest.mark.row("ST-07")
@pytest.mark.parametrize(
    ("born_host", "store_host", "flags"),
    [(V4, V4, 0), (V6, V4, 0x10), (V4, V6, 0x20), (V6, V6, 0x30)],
)
def test_a_record_comes_back_as_it_went(born_host: bytes, store_host: bytes, flags: int) -> None:
    record = msgspec.structs.replace(RECORD, born_host=born_host, store_host=store_host)

    data = encode_record(record)

    assert decode_record(data) == as_read(record, data, flags)
    assert len(data) == record_size(9, 5, len(record.properties), flags)


def test_fields_stand_where_the_layout_says() -> None:
    data = encode_record(RECORD)

    assert struct.unpack_from(">ii", data) == (len(data), MAGIC_V1)
    assert struct.unpack_from(">i", data, MAGIC_AT) == (MAGIC_V1,)
    assert struct.unpack_from(">i", data, BODY_CRC_AT) == (body_crc(b"hello"),)
    assert struct.unpack_from(">i", data, QUEUE_ID_AT) == (3,)
    assert struct.unpack_from(">i", data, FLAG_AT) == (-9,)
    assert struct.unpack_from(">q", data, QUEUE_OFFSET_AT) == (7,)
    assert struct.unpack_from(">q", data, POSITION_AT) == (8,)
    assert struct.unpack_from(">i", data, SYS_FLAG_AT) == (1,)
    assert struct.unpack_from(">q", data, BORN_AT_AT) == (9,)
    assert data[BORN_HOST_AT : BORN_HOST_AT + 8] == V4


def test_the_smallest_record_has_91_bytes() -> None:
    assert len(encode_record(Record(topic="", body=b""))) == RECORD_BYTES_MIN


@pytest.mark.parametrize(("length", "magic"), [(127, MAGIC_V1), (128, MAGIC_V2), (300, MAGIC_V2)])
def test_a_topic_over_127_bytes_makes_version_2(length: int, magic: int) -> None:
    record = Record(topic="t" * length, body=b"x")

    data = encode_record(record)

    assert struct.unpack_from(">i", data, MAGIC_AT) == (magic,)
    assert decode_record(data).topic == record.topic
    assert len(data) == record_size(length, 1, 0, 0)


def test_the_ipv6_bits_follow_the_hosts() -> None:
    data = encode_record(msgspec.structs.replace(RECORD, sys_flag=0x31))

    assert decode_record(data).sys_flag == 1


@pytest.mark.parametrize("view", [bytes, bytearray, memoryview])
def test_a_record_is_read_anywhere_in_any_buffer(view: type) -> None:
    data = encode_record(RECORD)

    assert decode_record(view(b"before" + data + b"behind"), 6) == as_read(RECORD, data)


@pytest.mark.parametrize("end", [0, 4, 90, 91, -1])
def test_a_record_that_is_cut_is_corrupt(end: int) -> None:
    with pytest.raises(CorruptRecord):
        decode_record(encode_record(RECORD)[:end])


def test_an_ipv6_record_cut_within_its_head_is_corrupt() -> None:
    data = encode_record(msgspec.structs.replace(RECORD, born_host=V6, store_host=V6))

    with pytest.raises(CorruptRecord, match="IPv6"):
        decode_record(data[:100])


@pytest.mark.parametrize("at", [-1, 10_000])
def test_there_is_no_record_outside_of_the_buffer(at: int) -> None:
    with pytest.raises(CorruptRecord):
        decode_record(encode_record(RECORD), at)


@pytest.mark.parametrize(
    ("form", "at", "value"),
    [
        (">i", 0, 0),
        (">i", 0, -1),
        (">i", 0, RECORD_BYTES_MIN),
        (">i", 0, 1 << 30),
        (">i", MAGIC_AT, 0),
        (">i", MAGIC_AT, BLANK_MAGIC),
        (">i", MAGIC_AT, MAGIC_V2),
        (">i", BODY_CRC_AT, 1),
        (">i", 84, -1),
        (">i", 84, 4),
        (">i", 84, 1 << 30),
        (">b", 93, 127),
        (">b", 93, -1),
        (">h", 103, -1),
        (">h", 103, 13),
        (">h", 103, 15),
    ],
)
def test_a_number_that_lies_makes_a_record_corrupt(form: str, at: int, value: int) -> None:
    data = bytearray(encode_record(RECORD))
    struct.pack_into(form, data, at, value)

    with pytest.raises(CorruptRecord):
        decode_record(data)


def test_a_version_2_topic_that_lies_makes_a_record_corrupt() -> None:
    data = bytearray(encode_record(Record(topic="t" * 200, body=b"")))
    struct.pack_into(">h", data, 88, -1)

    with pytest.raises(CorruptRecord):
        decode_record(data)


def test_the_checksum_is_skipped_when_told_to() -> None:
    data = bytearray(encode_record(RECORD))
    data[88] ^= 1

    assert decode_record(data, check_crc=False).body == b"iello"


def test_text_that_is_not_utf8_does_not_stop_a_reader() -> None:
    data = encode_record(RECORD).replace(b"TopicTest", b"Topic\xffest")

    assert decode_record(data).topic == "Topic�est"


def test_text_that_is_no_unicode_is_stored_with_question_marks() -> None:
    data = encode_record(Record(topic="T", body=b"", properties="a\x01\ud800"))

    assert decode_record(data).properties == "a\x01?"


@pytest.mark.row("SC-09")
def test_properties_have_a_limit() -> None:
    assert encode_record(Record(topic="T", body=b"", properties="p" * 32767))
    with pytest.raises(MessageTooLarge, match="32768"):
        encode_record(Record(topic="T", body=b"", properties="p" * 32768))


def test_a_pull_s_answer_is_records_one_behind_the_other() -> None:
    records = [msgspec.structs.replace(RECORD, queue_offset=offset) for offset in range(3)]

    body = b"".join(encode_record(record) for record in records)

    assert [record.queue_offset for record in iter_records(body)] == [0, 1, 2]
    assert list(iter_records(b"")) == []


def test_a_pull_s_answer_that_is_cut_gives_what_is_whole_and_then_fails() -> None:
    body = encode_record(RECORD) * 2
    records = iter_records(body[:-1])

    assert next(records).topic == "TopicTest"
    with pytest.raises(CorruptRecord):
        next(records)


def test_a_blank_is_told_from_a_record() -> None:
    blank = encode_blank(100)

    assert blank == struct.pack(">ii", 100, BLANK_MAGIC)
    assert is_blank(blank)
    assert is_blank(b"x" + blank, 1)
    assert not is_blank(blank[:7])
    assert not is_blank(encode_record(RECORD))


@pytest.mark.parametrize(
    ("address", "length"), [("127.0.0.1", 8), ("::1", 20), ("2001:db8::1", 20), ("fe80::1%eth0", 20)]
)
def test_a_host_is_an_address_and_a_port(address: str, length: int) -> None:
    host = encode_host(address, 10911)

    assert len(host) == length
    assert decode_host(host) == (address.partition("%")[0], 10911)


def test_a_host_of_another_length_is_corrupt() -> None:
    with pytest.raises(CorruptRecord, match="9 bytes"):
        decode_host(bytes(9))


def test_a_host_that_is_no_address_is_refused() -> None:
    with pytest.raises(ValueError, match="localhost"):
        encode_host("localhost", 1)
