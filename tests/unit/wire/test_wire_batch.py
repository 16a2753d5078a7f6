"""Batches."""

import struct

import pytest

from pyromq.errors import HeaderError, MessageTooLarge
from pyromq.wire.batch import UNIT_BYTES_MIN, BatchUnit, decode_batch, encode_batch

UNITS = [BatchUnit(0, b"one", "TAGS\x01A"), BatchUnit(-1, b"", ""), BatchUnit(7, b"three", "KEYS\x01标")]


@pytest.mark.row("BA-01")
def test_a_unit_is_size_zero_zero_flag_body_properties() -> None:
    assert encode_batch(UNITS[:1]) == (
        struct.pack(">iiiii", 31, 0, 0, 0, 3) + b"one" + struct.pack(">h", 6) + b"TAGS\x01A"
    )


@pytest.mark.row("BA-01")
def test_a_batch_comes_back_as_it_went() -> None:
    assert decode_batch(encode_batch(UNITS)) == UNITS
    assert decode_batch(b"") == []


@pytest.mark.row("BA-02")
def test_the_properties_of_a_unit_have_a_limit() -> None:
    fits = BatchUnit(0, b"", "p" * 32767)

    assert decode_batch(encode_batch([fits])) == [fits]
    with pytest.raises(MessageTooLarge, match="32768"):
        encode_batch([BatchUnit(0, b"", "p" * 32768)])


@pytest.mark.parametrize("end", range(1, 31))
def test_a_batch_that_is_cut_is_refused(end: int) -> None:
    with pytest.raises(HeaderError, match="batch"):
        decode_batch(encode_batch(UNITS[:1])[:end])


@pytest.mark.parametrize(
    ("form", "at", "value"),
    [
        (">i", 0, 0),
        (">i", 0, -1),
        (">i", 0, UNIT_BYTES_MIN),
        (">i", 0, 1 << 30),
        (">i", 16, -1),
        (">i", 16, 1 << 30),
        (">h", 23, -1),
        (">h", 23, 5),
        (">h", 23, 7),
    ],
)
def test_a_unit_that_lies_about_a_length_is_refused(form: str, at: int, value: int) -> None:
    data = bytearray(encode_batch(UNITS[:1]))
    struct.pack_into(form, data, at, value)

    with pytest.raises(HeaderError, match="batch"):
        decode_batch(bytes(data))
