"""The kernel's checksum is that of zlib."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

kernel = pytest.importorskip("pyromq._kernel.codec.crc32")


@given(st.binary(max_size=600), st.integers(0, (1 << 32) - 1), st.integers(0, 40))
def test_the_checksum_is_that_of_zlib(data: bytes, before: int, cut: int) -> None:
    view = memoryview(data)

    assert kernel.crc32(data) == crc32(data)
    assert kernel.crc32(view, before) == crc32(data, before)
    assert kernel.crc32(view[cut:], kernel.crc32(view[:cut], before)) == crc32(data, before)


@pytest.mark.parametrize("begin", range(17))
def test_the_checksum_is_that_of_zlib_at_each_length_and_alignment(begin: int) -> None:
    data = memoryview(bytes(number * number >> 3 & 255 for number in range(700)))

    wrong = [
        length
        for length in range(601)
        if kernel.crc32(data[begin : begin + length], 7) != crc32(data[begin : begin + length], 7)
    ]

    assert not wrong


def test_what_has_no_bytes_has_no_checksum() -> None:
    with pytest.raises(TypeError):
        kernel.crc32("text")
