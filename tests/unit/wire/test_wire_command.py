"""A command and its frame: any cut of bytes gives commands, and nonsense is named."""

import struct

import pytest

from pyromq.codes import CommandFlag, Language, Serializer
from pyromq.errors import LocalProtocolError, RemoteProtocolError
from pyromq.wire.command import FRAME_BYTES_MAX, Command, CommandReader, decode_header, encode


def frame(header: bytes, body: bytes = b"", serializer: int = Serializer.JSON) -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), serializer << 24 | len(header)) + header + body


def read_one(data: bytes) -> Command:
    reader = CommandReader()
    reader.feed(data)
    command = reader.next_command()
    assert command is not None
    return command


COMMAND = Command(
    310, opaque=-7, flag=2, remark="why not", ext={"a": "pg", "b": "T"}, body=b"hello", language=Language.GO
)


@pytest.mark.parametrize("serializer", list(Serializer))
def test_a_command_comes_back_as_it_went(serializer: Serializer) -> None:
    COMMAND.serializer = serializer

    assert read_one(encode(COMMAND)) == COMMAND


def test_the_json_header_is_what_fastjson_writes() -> None:
    command = Command(105, opaque=3, ext={"topic": "T"}, version=409)

    assert encode(command)[8:] == (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":3,'
        b'"serializeTypeCurrentRPC":"JSON","version":409}'
    )


def test_no_fields_and_an_empty_map_of_fields_differ_in_json() -> None:
    assert b"extFields" not in encode(Command(0))
    assert b'"extFields":{}' in encode(Command(0, ext={}))


def test_bytes_that_come_one_by_one_give_the_same_command() -> None:
    reader = CommandReader()
    commands = []
    for byte in encode(COMMAND):
        assert reader.next_command() is None
        reader.feed(bytes([byte]))
    commands.append(reader.next_command())

    assert commands == [COMMAND]
    assert reader.pending_bytes == 0


def test_commands_that_come_in_one_piece_come_out_one_by_one() -> None:
    reader = CommandReader()
    reader.feed(encode(Command(1)) + encode(Command(2)) + encode(Command(3))[:10])

    assert [reader.next_command(), reader.next_command()] == [Command(1), Command(2)]
    assert reader.next_command() is None
    assert reader.pending_bytes == 10


def test_the_rest_of_a_frame_may_come_with_the_next_one() -> None:
    data = encode(Command(1)) + encode(Command(2)) + encode(Command(3))
    reader = CommandReader()
    codes = []
    for at in range(0, len(data), 100):
        reader.feed(data[at : at + 100])
        while command := reader.next_command():
            codes.append(command.code)

    assert codes == [1, 2, 3]


@pytest.mark.parametrize("length", [-1, 0, 3, FRAME_BYTES_MAX - 3, 0x7FFFFFFF])
def test_a_frame_that_lies_about_its_length_is_refused_before_it_has_come(length: int) -> None:
    reader = CommandReader()
    reader.feed(struct.pack(">i", length))

    with pytest.raises(RemoteProtocolError, match=str(length)):
        reader.next_command()


def test_the_limit_on_frames_may_be_lower() -> None:
    reader = CommandReader(frame_bytes_max=100)
    reader.feed(struct.pack(">i", 97))

    with pytest.raises(RemoteProtocolError, match="limit is 96"):
        reader.next_command()


def test_a_header_longer_than_its_frame_is_refused_before_it_has_come() -> None:
    reader = CommandReader()
    reader.feed(struct.pack(">iI", 10, 7))

    with pytest.raises(RemoteProtocolError, match="header has 7 bytes"):
        reader.next_command()


def test_a_serializer_that_does_not_exist_is_named() -> None:
    with pytest.raises(RemoteProtocolError, match="serializer 9"):
        read_one(frame(b"{}", serializer=9))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"nonsense",
        b"[]",
        b'{"code":"x"}',
        b'{"code":1,"remark":"\xff"}',
        b'{"code":4294967296}',
        b'{"code":1,"opaque":99999999999}',
        b'{"code":1,"version":1e30}',
        b'{"code":1' + b"1" * 5000 + b"}",
        b'{"extFields":' + b"[" * 100_000,
        b'{"extFields":{"a":' + b"[" * 500 + b"]" * 500 + b"}",
    ],
)
def test_a_header_that_is_not_a_command_s_json_is_a_protocol_error(header: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read_one(frame(header))


def test_numbers_booleans_and_objects_among_the_fields_become_text_and_null_is_absent() -> None:
    command = read_one(
        frame(b'{"code":1,"extFields":{"a":1,"b":true,"c":1.5,"d":null,"e":{"x":[1]},"f":"t"}}')
    )

    assert command.ext == {"a": "1", "b": "true", "c": "1.5", "e": '{"x":[1]}', "f": "t"}


def test_numbers_may_come_as_text() -> None:
    assert read_one(frame(b'{"code":"34","opaque":"7","flag":"1","version":"63"}')).opaque == 7


@pytest.mark.parametrize(
    ("language", "expected"),
    [(b'"GO"', Language.GO), (b'"KLINGON"', Language.OTHER), (b"null", Language.OTHER), (b"9", Language.GO)],
)
def test_an_unknown_language_is_another(language: bytes, expected: Language) -> None:
    assert read_one(frame(b'{"code":1,"language":%b}' % language)).language == expected


def test_whitespace_after_the_json_is_allowed_as_the_cpp_client_sends_it() -> None:
    assert read_one(frame(b'{"code":34,"remark":""}\n', b"body")).body == b"body"


BINARY = encode(Command(11, ext={"queueId": "1"}, remark="r", serializer=Serializer.ROCKETMQ))[8:]


@pytest.mark.parametrize("end", range(len(BINARY)))
def test_a_binary_header_that_is_cut_is_a_protocol_error(end: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_header(BINARY[:end], Serializer.ROCKETMQ)


@pytest.mark.parametrize(("at", "value"), [(13, -1), (13, 1000), (18, -1), (18, 1000), (31, -1), (31, 1000)])
def test_a_binary_header_that_lies_about_a_length_is_a_protocol_error(at: int, value: int) -> None:
    header = bytearray(BINARY)
    struct.pack_into(">i", header, at, value)

    with pytest.raises(RemoteProtocolError):
        decode_header(bytes(header), Serializer.ROCKETMQ)


def test_a_binary_header_without_fields_and_remark_has_none() -> None:
    command = read_one(encode(Command(0, remark="", ext={}, serializer=Serializer.ROCKETMQ)))

    assert (command.remark, command.ext) == (None, None)


def test_text_in_a_binary_header_that_is_not_utf8_is_a_protocol_error() -> None:
    with pytest.raises(RemoteProtocolError, match="does not read"):
        decode_header(BINARY.replace(b"queueId", b"queue\xff\xff"), Serializer.ROCKETMQ)


@pytest.mark.parametrize("code", [200050, -0x8001])
def test_a_code_of_more_than_16_bits_needs_json(code: int) -> None:
    with pytest.raises(LocalProtocolError, match="use JSON"):
        encode(Command(code, serializer=Serializer.ROCKETMQ))


@pytest.mark.parametrize("serializer", list(Serializer))
def test_text_that_is_no_unicode_cannot_be_sent(serializer: Serializer) -> None:
    with pytest.raises(LocalProtocolError, match="cannot be sent"):
        encode(Command(1, ext={"a": "\ud800"}, serializer=serializer))


def test_a_name_too_long_for_the_binary_header_cannot_be_sent() -> None:
    with pytest.raises(LocalProtocolError, match="name of 40000 bytes"):
        encode(Command(1, ext={"a" * 40000: ""}, serializer=Serializer.ROCKETMQ))


def test_a_frame_over_the_limit_cannot_be_sent() -> None:
    with pytest.raises(LocalProtocolError, match="over the limit"):
        encode(Command(10, body=bytes(FRAME_BYTES_MAX)))


def test_flags_read_as_claims() -> None:
    assert Command(1, flag=CommandFlag.RESPONSE).is_response
    assert Command(1, flag=CommandFlag.ONEWAY).is_oneway
    assert not Command(1).is_response


@pytest.mark.parametrize(
    ("flag", "kind"),
    [(0, "request 7"), (CommandFlag.RESPONSE, "response 7"), (CommandFlag.ONEWAY, "oneway 7")],
)
def test_a_command_shows_what_it_is_but_not_its_body(flag: int, kind: str) -> None:
    shown = repr(Command(7, flag=flag, body=b"secret"))

    assert kind in shown
    assert "secret" not in shown


def test_a_command_equals_no_other_kind_of_thing() -> None:
    assert Command(7) != 7
