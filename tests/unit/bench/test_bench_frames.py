import struct

import pytest

from pyromq.bench.frames import OPAQUE_FIRST, AnswerReader, PullFrame, Queue, SendFrame, UniqueKeys
from pyromq.bench.slots import ReadSlot, stamps
from pyromq.bench.workload import Tally
from pyromq.codes import CommandFlag, RequestCode, ResponseCode, Serializer
from pyromq.errors import RemoteProtocolError
from pyromq.wire import properties
from pyromq.wire.batch import decode_batch
from pyromq.wire.command import Command, CommandReader, encode
from pyromq.wire.record import Record, encode_host, encode_record

QUEUE = Queue("127.0.0.1:10911", "broker-a", 3)
BORN_MS = 1_763_000_000_123


def only_command(frame: bytes) -> Command:
    reader = CommandReader()
    reader.feed(frame)
    command = reader.next_command()
    assert command is not None
    assert reader.pending_bytes == 0
    return command


def send_frame(*, size: int = 100, batch: int = 1) -> SendFrame:
    return SendFrame("topic", QUEUE, OPAQUE_FIRST + 7, size=size, batch=batch, keys=UniqueKeys(0))


def patched(frame: SendFrame) -> Command:
    return only_command(bytes(frame.patched(b"%d" % BORN_MS)))


def unique_key(text: str) -> str:
    return properties.decode(text)["UNIQ_KEY"]


def test_a_patched_send_says_what_it_should() -> None:
    command = patched(send_frame())

    assert command.code == RequestCode.SEND_MESSAGE_V2
    assert command.opaque == OPAQUE_FIRST + 7
    assert command.ext is not None
    assert (command.ext["b"], command.ext["e"], command.ext["g"]) == ("topic", "3", str(BORN_MS))
    assert properties.decode(command.ext["i"])["WAIT"] == "true"
    assert command.body == b"x" * 100


def test_no_two_sends_of_a_process_have_the_same_unique_id() -> None:
    keys = UniqueKeys(BORN_MS)
    frames = [SendFrame("topic", QUEUE, OPAQUE_FIRST, size=1, batch=1, keys=keys) for _ in range(3)]

    ids = [unique_key((patched(frame).ext or {})["i"]) for _ in range(5) for frame in frames]

    assert len(set(ids)) == 15
    assert {len(text) for text in ids} == {32}


def test_each_message_of_a_batch_has_an_id_of_its_own_and_a_new_one_each_time() -> None:
    frame = send_frame(batch=4, size=20)

    commands = [patched(frame), patched(frame)]
    units = [unit for command in commands for unit in decode_batch(command.body)]

    assert commands[0].code == RequestCode.SEND_BATCH_MESSAGE
    assert [unit.body for unit in units] == [b"x" * 20] * 8
    assert len({unique_key(unit.properties) for unit in units}) == 8


@pytest.mark.parametrize("batch", [1, 3])
def test_a_stamp_is_the_beginning_of_each_body(batch: int) -> None:
    frame = send_frame(size=30, batch=batch)

    frame.stamp(123_456_789)
    first, second = patched(frame).body, patched(frame).body

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


@pytest.mark.parametrize("offset", [0, 9, 10, 123_456_789_012])
def test_a_pull_asks_for_its_offset(offset: int) -> None:
    frame = PullFrame("topic", QUEUE, OPAQUE_FIRST, count=32, hold_ms=0)

    command = only_command(frame.at(offset))

    assert command.ext is not None
    assert command.ext["queueOffset"] == str(offset)
    assert command.ext["queueId"] == "3"
    assert command.ext["maxMsgNums"] == "32"


def answer(opaque: int, code: int = 0, *, serializer: int = Serializer.JSON, body: bytes = b"") -> bytes:
    fields = {"nextBeginOffset": "57", "msgId": 'say "opaque":1234567890'}
    command = Command(
        code, opaque=opaque, flag=CommandFlag.RESPONSE, ext=fields, body=body, serializer=serializer
    )
    return encode(command)


@pytest.mark.parametrize("cut", [1, 7, 100, 10_000])
def test_answers_are_found_however_they_are_cut(cut: int) -> None:
    whole = b"".join(answer(OPAQUE_FIRST + number, number % 3, body=b"b" * number) for number in range(20))
    reader = AnswerReader()

    pieces = [whole[at : at + cut] for at in range(0, len(whole), cut)]
    found = [(each.opaque, each.code) for piece in pieces for each in reader.feed(piece)]

    assert found == [(OPAQUE_FIRST + number, number % 3) for number in range(20)]


def test_an_answer_in_another_form_is_read_too() -> None:
    header = b'{"opaque":1000000001,"code":2,"flag":1}'
    other = struct.pack(">iI", len(header) + 4, len(header)) + header

    [binary, json] = AnswerReader().feed(answer(OPAQUE_FIRST, 2, serializer=Serializer.ROCKETMQ) + other)

    assert (binary.opaque, binary.code) == (OPAQUE_FIRST, 2)
    assert (json.opaque, json.code) == (OPAQUE_FIRST + 1, 2)


def test_bytes_that_are_no_answer_are_refused() -> None:
    with pytest.raises(RemoteProtocolError):
        list(AnswerReader().feed(b"HTTP/1.1 200 OK\r\n"))


def test_a_reader_goes_through_its_queues_and_stops_at_the_end_of_the_last() -> None:
    frames = [PullFrame("topic", QUEUE, OPAQUE_FIRST, count=32, hold_ms=0) for _ in range(2)]
    slot, tally = ReadSlot(frames, [50, 0], is_repeated=False), Tally(until_ns=100)
    [found] = AnswerReader().feed(answer(OPAQUE_FIRST))
    [end] = AnswerReader().feed(answer(OPAQUE_FIRST, ResponseCode.PULL_NOT_FOUND))

    slot.answered(found, 1, tally)
    after_first = slot.request(b"")
    slot.answered(end, 1, tally)
    at_second = slot.request(b"")
    slot.answered(end, 1, tally)

    assert after_first is not None
    assert (only_command(after_first).ext or {})["queueOffset"] == "57"
    assert at_second is not None
    assert (only_command(at_second).ext or {})["queueOffset"] == "0"
    assert slot.request(b"") is None
    assert tally.messages == 7
    assert not tally.refused
