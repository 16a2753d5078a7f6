"""The kernel reads a header sixteen bytes at a time: no byte may slip through between two looks."""

import json
import struct
from typing import Any

import pytest

from pyromq.broker.requests.send_shortcut import make_sends
from pyromq.codes import RequestCode, Serializer
from pyromq.wire.command import Command, encode
from pyromq.wire.properties import decode
from pyromq.wire.record import iter_records

tails = pytest.importorskip("pyromq._kernel.storage.tails")

from kernel_inlets import inlet  # noqa: E402  it needs the kernel

HOST = bytes([127, 0, 0, 1, 0, 0, 42, 159])
LENGTHS = (1, 2, 13, 14, 15, 16, 17, 18, 30, 31, 32, 33, 34, 47, 48, 49)
#: As a JSON string writes them, and what they are then.
PLAIN = {
    "\\u0003": "\x03",
    '\\"': '"',
    "\\\\": "\\",
    "\\/": "/",
    "\\n": "\n",
    "~": "~",
    "\x7f": "\x7f",
    " ": " ",
}
STRANGE = (b"\x00", b"\x01", b"\x1f", b"\x80", b"\xff", b'"', b"\\\x01", b"\\\x80", b"\\u0080", b"\\x")


def _frame(value: bytes, *, before: bytes = b"") -> bytes:
    """Return a send with a property that has a value, as the bytes of a JSON string."""
    fields = dict.fromkeys("ac", "text") | dict.fromkeys("defghj", "0")
    fields |= {"b": "orders", "i": "k\x01?\x02n\x01v"}
    head = json.dumps({"code": 310, "opaque": 7, "flag": 0, "extFields": fields}, separators=(",", ":"))
    header = before + head.encode().replace(b"?", value)
    return struct.pack(">ii", len(header) + 4, len(header)) + header


def _sends() -> Any:
    kernel = make_sends(
        store_host=HOST,
        cluster="c",
        common_ext={},
        diverting=(),
        wait_matters=False,
        has_index=False,
        body_bytes_max=100,
    )
    assert kernel is not None
    return kernel


def _planned(frame: bytes) -> dict[str, str] | None:
    """Return the properties that the kernel stores, None when it leaves the send to Python."""
    kernel = _sends()
    kernel.learn(b"orders", 0, tails.QueueTail(), 0)
    received = inlet(frame, host=HOST)
    kernel.plan([received], 0, under_way_max=1, now_ms=1, log_end=0, log_room=1 << 20, index_room=0)
    if not kernel.count:
        return None
    kernel.hand_out()
    assert not received.pending_bytes
    (record,) = iter_records(bytes(kernel.records))
    return decode(record.properties)


@pytest.mark.parametrize("serializer", Serializer)
def test_a_request_of_another_kind_is_known_by_the_code_that_its_header_begins_with(
    serializer: Serializer,
) -> None:
    kernel = _sends()

    def may_plan(*received: bytes) -> bool:
        return bool(kernel.may_plan([inlet(one, host=HOST) for one in received]))

    kinds = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
    send, *others = [encode(Command(code, serializer=serializer, ext={"a": "group"})) for code in kinds]
    pull = encode(Command(RequestCode.PULL_MESSAGE, serializer=serializer, ext={"topic": "orders"}))
    assert may_plan(send)
    assert all(map(may_plan, others))
    assert not may_plan(pull)
    assert not may_plan(pull, b"", pull)
    assert may_plan(pull, send)
    # While the code is not whole it may be any.
    assert all(may_plan(pull[:length]) for length in range(1, 10))
    if serializer is Serializer.JSON:
        assert all(may_plan(pull[:length]) for length in range(1, pull.index(b",")))
        assert may_plan(pull.replace(b'{"code"', b'{"opaque":7,"code"'))
        assert may_plan(pull.replace(b":11,", b":12345678,"))


@pytest.mark.parametrize("length", LENGTHS)
def test_an_escape_is_read_wherever_it_stands(length: int) -> None:
    for at in range(length):
        for written, meant in PLAIN.items():
            value = "x" * at + written + "y" * (length - at - 1)
            found = _planned(_frame(value.encode()))
            assert found == {"k": "x" * at + meant + "y" * (length - at - 1), "n": "v", "CLUSTER": "c"}


@pytest.mark.parametrize("length", LENGTHS)
def test_a_byte_that_no_text_has_leaves_the_send_to_python_wherever_it_stands(length: int) -> None:
    for at in range(length):
        for strange in STRANGE:
            assert _planned(_frame(b"x" * at + strange + b"y" * (length - at - 1))) is None


@pytest.mark.parametrize("cut", [1, 2, 3, 17, 40])
def test_a_header_that_ends_within_a_text_is_left_to_python(cut: int) -> None:
    whole = _frame(b"value")
    header = whole[8:-cut]
    assert _planned(whole) is not None
    assert _planned(struct.pack(">ii", len(header) + 4, len(header)) + header) is None


def test_what_stands_before_the_first_brace_leaves_the_send_to_python() -> None:
    assert _planned(_frame(b"value", before=b" ")) is None


@pytest.mark.parametrize("before", ['"extFields":{', "{"], ids=["a field", "the language"])
def test_an_escape_that_means_nothing_leaves_the_send_to_python_even_where_nobody_reads_it(
    before: str,
) -> None:
    name = "language" if before == "{" else "z"

    def framed(escaped: bytes) -> bytes:
        more = before.encode() + b'"%s":"x%sx",' % (name.encode(), escaped)
        header = _frame(b"v")[8:].replace(before.encode(), more, 1)
        return struct.pack(">ii", len(header) + 4, len(header)) + header

    for escaped in PLAIN:
        assert _planned(framed(escaped.encode())) == {"k": "v", "n": "v", "CLUSTER": "c"}
    for broken in (b"x", b"h", b"N", b"u12", b"u000", b"u000g", b"u00g0", b"ud800", b"\x80"):
        assert _planned(framed(b"\\" + broken)) is None
