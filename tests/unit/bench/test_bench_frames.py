import struct

import pytest

from pyromq.bench.frames import (
    OPAQUE_FIRST,
    Queue,
    answers,
    key_prefix,
    pull_template,
    read_next_offset,
    send_template,
)
from pyromq.bench.slots import Templates, stamps
from pyromq.codes import CommandFlag, RequestCode, Serializer
from pyromq.errors import RemoteProtocolError
from pyromq.wire import properties
from pyromq.wire.batch import decode_batch
from pyromq.wire.command import Command, CommandReader, encode
from pyromq.wire.record import Record, encode_host, encode_record

QUEUE = Queue("127.0.0.1:10911", "broker-a", "topic", 3)
BORN_MS = 1_763_000_000_123


def only_command(frame: bytes) -> Command:
    reader = CommandReader()
    reader.feed(frame)
    command = reader.next_command()
    assert command is not None
    assert reader.pending_bytes == 0
    return command


def templates(*, size: int = 100, batch: int = 1, text: str = "") -> Templates:
    row = send_template(QUEUE, size=size, batch=batch, prefix=key_prefix(), properties=text)
    return Templates([row], 0xFFFFFFFFFFFF)


def written(sends: Templates, since_ns: int | None = None) -> Command:
    frame = sends.write(OPAQUE_FIRST + 7, since_ns or 0, BORN_MS, is_stamped=since_ns is not None)
    return only_command(bytes(frame))


def unique_key(text: str) -> str:
    return properties.decode(text)["UNIQ_KEY"]


def test_a_send_from_a_template_says_what_it_should() -> None:
    command = written(templates(text="DELAY\x013"))

    assert command.code == RequestCode.SEND_MESSAGE_V2
    assert command.opaque == OPAQUE_FIRST + 7
    assert command.ext is not None
    assert (command.ext["b"], command.ext["e"], command.ext["g"]) == ("topic", "3", str(BORN_MS))
    assert properties.decode(command.ext["i"]).items() >= {"WAIT": "true", "DELAY": "3"}.items()
    assert command.body == b"x" * 100


def test_no_two_sends_of_a_process_have_the_same_unique_id() -> None:
    sends = templates()

    ids = [unique_key((written(sends).ext or {})["i"]) for _ in range(15)]

    assert len(set(ids)) == 15
    assert {len(text) for text in ids} == {32}


def test_each_message_of_a_batch_has_an_id_of_its_own_and_a_new_one_each_time() -> None:
    sends = templates(batch=4, size=20)

    commands = [written(sends), written(sends)]
    units = [unit for command in commands for unit in decode_batch(command.body)]

    assert commands[0].code == RequestCode.SEND_BATCH_MESSAGE
    assert [unit.body for unit in units] == [b"x" * 20] * 8
    assert len({unique_key(unit.properties) for unit in units}) == 8


@pytest.mark.parametrize("batch", [1, 3])
def test_a_stamp_is_the_beginning_of_each_body(batch: int) -> None:
    sends = templates(size=30, batch=batch)

    first, second = (written(sends, 123_456_789).body for _ in range(2))

    bodies = [unit.body for body in (first, second) for unit in decode_batch(body)] if batch > 1 else [first]
    assert {body[:8] for body in bodies} == {struct.pack(">Q", 123_456_789)}
    assert {body[8:] for body in bodies} == {b"x" * 22}


def test_stamps_are_found_in_stored_records_whatever_the_hosts_are() -> None:
    records = b"".join(
        encode_record(
            Record(
                queue_id=0,
                flag=0,
                queue_offset=number,
                position=0,
                sys_flag=flags,
                born_at_ms=0,
                born_host=encode_host(born, 1),
                stored_at_ms=0,
                store_host=encode_host(store, 1),
                body=struct.pack(">Q", number) + b"rest",
                topic="topic",
                properties="A\x01b",
            )
        )
        for number, (flags, born, store) in enumerate(
            [(0, "127.0.0.1", "127.0.0.1"), (0x10, "::1", "127.0.0.1"), (0x30, "::1", "::1")]
        )
    )

    assert stamps(b"head" + records, 4, 4 + len(records)) == [0, 1, 2]


def test_a_pull_is_encoded_in_two_pieces_between_which_its_offset_goes() -> None:
    head, tail, start = pull_template(QUEUE, OPAQUE_FIRST, 9, count=32, hold_ms=0)

    header = head + b"12345" + tail
    command = only_command(struct.pack(">iI", len(header) + 4, len(header)) + header)

    assert command.ext is not None
    assert command.ext["queueOffset"] == "12345"
    assert command.ext["queueId"] == "3"
    assert command.ext["maxMsgNums"] == "32"
    assert start == 9


def answer(opaque: int, code: int = 0, *, serializer: int = Serializer.JSON, body: bytes = b"") -> bytes:
    fields = {"nextBeginOffset": "57", "msgId": 'say "opaque":1234567890'}
    command = Command(
        code, opaque=opaque, flag=CommandFlag.RESPONSE, ext=fields, body=body, serializer=serializer
    )
    return encode(command)


def test_answers_are_found_up_to_the_first_that_is_not_whole() -> None:
    whole = b"".join(answer(OPAQUE_FIRST + number, number % 3, body=b"b" * number) for number in range(20))

    found = [(each.opaque, each.code) for each in answers(whole + answer(OPAQUE_FIRST)[:-1])]

    assert found == [(OPAQUE_FIRST + number, number % 3) for number in range(20)]


def test_an_answer_in_another_form_is_read_too() -> None:
    header = b'{"opaque":1000000001,"code":2,"flag":1}'
    other = struct.pack(">iI", len(header) + 4, len(header)) + header

    [binary, json] = answers(answer(OPAQUE_FIRST, 2, serializer=Serializer.ROCKETMQ) + other)

    assert (binary.opaque, binary.code, binary.next_offset()) == (OPAQUE_FIRST, 2, 57)
    assert (json.opaque, json.code, json.next_offset()) == (OPAQUE_FIRST + 1, 2, 0)


def test_the_next_offset_is_found_in_a_header() -> None:
    assert read_next_offset(b'{"code":0,"extFields":{"nextBeginOffset":"57"}}', Serializer.JSON) == 57


def test_bytes_that_are_no_answer_are_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        list(answers(b"HTTP/1.1 200 OK\r\n"))


@pytest.mark.parametrize("cut", [1, 60, 100])
def test_messages_that_are_cut_off_are_refused(cut: int) -> None:
    record = encode_record(
        Record(
            queue_id=0,
            flag=0,
            queue_offset=0,
            position=0,
            sys_flag=0,
            born_at_ms=0,
            stored_at_ms=0,
            body=b"12345678",
            topic="topic",
            properties="",
        )
    )

    with pytest.raises(RemoteProtocolError):
        stamps(record[:cut], 0, cut)
