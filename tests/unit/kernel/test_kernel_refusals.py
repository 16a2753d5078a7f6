"""The kernel refuses sends in the same bytes as Python, and leaves alone what is no send."""

import json
import struct
from itertools import permutations
from random import Random

import pytest

from pyromq.broker.requests.busy import refusal_parts
from pyromq.codes import CommandFlag, RequestCode, ResponseCode, Serializer
from pyromq.errors import RemoteProtocolError
from pyromq.testing.requests import send_v2_fields
from pyromq.wire.command import Command, CommandReader, encode

refusals = pytest.importorskip("pyromq._kernel.requests.refusals")

REMARK = "[TIMEOUT_CLEAN_QUEUE]broker busy, period in queue: 2147480001ms"
SENDS = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
)


def asked(
    code: int = RequestCode.SEND_MESSAGE_V2, opaque: int = 7, flag: int = 0, serializer: int = 0
) -> bytes:
    fields = {name: str(value) for name, value in send_v2_fields("orders").items()}
    return encode(Command(code, opaque=opaque, flag=flag, ext=fields, body=b"body", serializer=serializer))


def answered(opaque: int = 7, serializer: int = 0) -> bytes:
    return encode(
        Command(
            ResponseCode.SYSTEM_BUSY,
            opaque=opaque,
            flag=CommandFlag.RESPONSE,
            remark=REMARK,
            serializer=serializer,
        )
    )


def refuse(received: bytes, start: int = 0, answer_bytes_max: int = 1 << 20) -> tuple[int, bytes, int]:
    before, after, binary = refusal_parts(REMARK)
    found: tuple[int, bytes, int] = refusals.refuse_sends(
        received,
        start,
        json_before=before,
        json_after=after,
        binary=binary,
        answer_bytes_max=answer_bytes_max,
    )
    return found


@pytest.mark.parametrize("serializer", [Serializer.JSON, Serializer.ROCKETMQ])
@pytest.mark.parametrize("code", SENDS)
def test_every_kind_of_send_is_answered_as_python_answers_it(code: int, serializer: int) -> None:
    opaques = (0, 7, -3, 2**31 - 1, 2_147_480_001)
    received = b"".join(asked(code, opaque, serializer=serializer) for opaque in opaques)
    answers = b"".join(answered(opaque, serializer) for opaque in opaques)
    assert refuse(received) == (len(received), answers, len(opaques))
    assert refuse(bytearray(received)) == (len(received), answers, len(opaques))


def test_a_oneway_send_is_counted_and_not_answered() -> None:
    received = asked(flag=CommandFlag.ONEWAY) + asked(opaque=8)
    assert refuse(received) == (len(received), answered(8), 2)


@pytest.mark.parametrize(
    "other",
    [
        asked(RequestCode.PULL_MESSAGE),
        asked(RequestCode.HEART_BEAT),
        asked(flag=CommandFlag.RESPONSE),
        asked()[:-1],
        asked()[:6],
        b"\0\0\0\4\x07\0\0\0",
    ],
)
def test_it_stops_at_the_first_that_is_no_whole_send(other: bytes) -> None:
    first = asked()
    assert refuse(first + other) == (len(first), answered(), 1)
    assert refuse(first + other, len(first)) == (len(first), b"", 0)


def test_it_stops_when_the_answers_are_many() -> None:
    received = asked() * 3
    end, answers, count = refuse(received, answer_bytes_max=len(answered()) + 1)
    assert (end, answers, count) == (2 * len(asked()), answered() * 2, 2)


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(TypeError, match="bytes or a bytearray"):
        refuse("text")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="too short"):
        refusals.refuse_sends(b"", 0, json_before=b"", json_after=b"", binary=b"", answer_bytes_max=1)


def framed(header: bytes, body: bytes = b"body") -> bytes:
    return struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body


def as_json(members: dict[str, object]) -> bytes:
    return json.dumps(members, separators=(",", ":")).encode()


#: A value that looks like the members of a header, as far as JSON lets it.
TRICKY = '","code":11,"flag":1,"opaque":9},"code":11,"flag":2,"opaque":8}'
MEMBERS: dict[str, object] = {
    "code": 310,
    "flag": 0,
    "opaque": 7,
    "language": "GO",
    "version": 431,
    "serializeTypeCurrentRPC": "JSON",
    "extFields": {"a": "orders", "i": TRICKY, "code": "x", "flag": "\\", "opaque": '"'},
}


def test_a_header_may_have_its_members_in_any_order() -> None:
    orders = [[*order] for order in permutations(("code", "flag", "opaque", "version", "extFields"))]
    orders += [[*MEMBERS], [*reversed(MEMBERS)]]
    for order in orders:
        received = framed(as_json({name: MEMBERS[name] for name in order}))
        assert refuse(received) == (len(received), answered(), 1), order


def test_a_header_without_fields_is_read_too() -> None:
    received = framed(as_json({name: MEMBERS[name] for name in ("code", "flag", "opaque")}))
    assert refuse(received) == (len(received), answered(), 1)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{}",
        b"}{",
        b'{"code":310,"flag":0}',
        b'{"code":310,"flag":0,"opaque":7,"opaque":8}',
        b'{"code":310,"opaque":7,"extFields":{},"flag":0,"opaque":8}',
        b'{"code":310,"flag":0,"opaque":07}',
        b'{"code":310,"flag":0,"opaque":-0}',
        b'{"code":310,"flag":0,"opaque":2147483648}',
        b'{"code":310,"flag":0,"opaque":"7"}',
        b'{"code":310,"flag":0,"opaque":7,"remark":"x"}',
        b'{"code":310,"flag":0,"opaque":7} ',
        b'{"code":310,"flag":0, "opaque":7}',
        b'{"code":310,"extFields":{"a":"b","flag":0,"opaque":7}}',
        b'{"code":310,"extFields":{"flag":0,"opaque":7}',
        b'{"code":310,"extFields":{"language":"a","flag":0,"opaque":7}',
        b'{"code":310,"extFields":null,"flag":0,"opaque":7}',
        b'{"extFields":{"code":310,"flag":0,"opaque":7}}',
    ],
)
def test_a_header_that_is_written_in_another_way_is_left_to_python(header: bytes) -> None:
    assert refuse(framed(header)) == (0, b"", 0)


def test_what_the_kernel_refuses_python_would_refuse_in_the_same_bytes() -> None:
    """Mutated frames: whatever Python can read, too, it reads as the same send."""
    random, refused, compared = Random(20261118), 0, 0
    frames = [
        asked(code, opaque, flag, serializer)
        for code in (*SENDS, RequestCode.PULL_MESSAGE)
        for opaque in (0, 7, 2**31 - 1)
        for flag in (0, CommandFlag.RESPONSE, CommandFlag.ONEWAY)
        for serializer in (Serializer.JSON, Serializer.ROCKETMQ)
    ] + [framed(as_json(MEMBERS))]
    for _ in range(6_000):
        received = bytearray(random.choice(frames))
        header_end = 8 + int.from_bytes(received[5:8])
        for _ in range(random.randrange(3)):
            received[random.randrange(8, header_end)] = random.choice(b'",:{}\\0123456789-acdefglopquv \xff')
        end, answers, count = refuse(bytes(received))
        assert end == (len(received) if count else 0)
        refused += count
        reader = CommandReader()
        reader.feed(bytes(received))
        try:
            command = reader.next_command()
        except RemoteProtocolError:
            continue
        assert command is not None
        if count:
            assert command.code in SENDS
            assert not command.is_response
            assert answers == (b"" if command.is_oneway else answered(command.opaque, command.serializer))
            compared += 1
    assert refused >= compared > 1_000
