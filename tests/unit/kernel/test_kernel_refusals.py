"""The kernel refuses sends in the same bytes as Python, and leaves alone what is no send."""

import pytest

from pyromq.broker.busy import refusal_parts
from pyromq.codes import CommandFlag, RequestCode, ResponseCode, Serializer
from pyromq.testing.requests import send_v2_fields
from pyromq.wire.command import Command, encode

refusals = pytest.importorskip("pyromq._kernel.refusals")

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
