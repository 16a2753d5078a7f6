"""The bytes of replication, written down from HAConnection, HAService, AutoSwitchHAConnection and -Client."""

import itertools
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import RemoteProtocolError
from pyromq.wire.replication import (
    EPOCHS_MAX,
    FRAME_BYTES_MAX,
    Hello,
    PositionReader,
    ReplicatedPiece,
    ReportReader,
    Welcome,
    encode_epoch_piece_head,
    encode_hello,
    encode_piece_head,
    encode_position,
    encode_report,
    encode_welcome,
    read_epoch_piece,
    read_piece,
    read_welcome,
)

positions = st.integers(0, (1 << 63) - 1)
epoch_numbers = st.integers(0, (1 << 31) - 1)


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(edges)]


def test_a_slave_says_its_position_in_eight_bytes() -> None:
    assert encode_position(0x0102030405060708) == bytes.fromhex("0102030405060708")


def test_a_piece_of_the_log_has_a_head_of_twelve_bytes() -> None:
    assert encode_piece_head(1 << 30, 32 << 10) == bytes.fromhex("0000000040000000 00008000")


def test_a_heartbeat_is_a_piece_without_bytes() -> None:
    assert encode_piece_head(5, 0) == bytes.fromhex("0000000000000005 00000000")


def test_a_handshake_of_a_slave_has_sixteen_bytes() -> None:
    assert encode_hello(Hello(7)) == bytes.fromhex("00000001 0000 0000 0000000000000007")
    assert encode_hello(Hello(7, is_from_last_file=True, is_learner=True)) == bytes.fromhex(
        "00000001 0001 0001 0000000000000007"
    )


def test_a_slave_with_failover_says_its_position_in_twelve_bytes() -> None:
    assert encode_report(258) == bytes.fromhex("00000002 0000000000000102")


def test_a_handshake_of_a_master_tells_its_end_and_all_epochs() -> None:
    assert encode_welcome(4096, [(1, 0), (3, 2048)]) == bytes.fromhex(
        "00000001 00000018 0000000000001000 0000000300000001 000000000000000000000003 0000000000000800"
    )


def test_a_master_without_epochs_says_minus_one() -> None:
    assert encode_welcome(0, []) == bytes.fromhex("00000001 00000000 0000000000000000 ffffffff")


def test_a_piece_with_failover_has_a_head_of_36_bytes() -> None:
    assert encode_epoch_piece_head(2050, 3, 3, 2048, 2049) == bytes.fromhex(
        "00000002 00000003 0000000000000802 00000003 0000000000000800 0000000000000801"
    )


@given(st.lists(positions), st.lists(st.integers(0, 10_000)))
def test_positions_are_read_however_they_are_cut(told: list[int], cuts: list[int]) -> None:
    reader = PositionReader()
    data = b"".join(map(encode_position, told))
    assert [one for part in pieces_of(data, cuts) for one in reader.feed(part)] == told


@given(
    st.builds(Hello, positions, st.booleans(), st.booleans()),
    st.lists(positions),
    st.lists(st.integers(0, 10_000)),
)
def test_a_handshake_and_positions_are_read_however_they_are_cut(
    hello: Hello, told: list[int], cuts: list[int]
) -> None:
    reader = ReportReader()
    data = encode_hello(hello) + b"".join(map(encode_report, told))
    assert [one for part in pieces_of(data, cuts) for one in reader.feed(part)] == told
    assert reader.hello == hello


@given(positions, st.binary(max_size=100), st.binary(max_size=20))
def test_a_piece_is_read_once_it_is_whole(start: int, body: bytes, behind: bytes) -> None:
    data = encode_piece_head(start, len(body)) + body
    for size in range(len(data)):
        assert read_piece(memoryview(data[:size])) is None
    assert read_piece(memoryview(data + behind)) == (ReplicatedPiece(start, memoryview(body)), len(data))


@given(positions, st.binary(max_size=100), epoch_numbers, positions, positions)
def test_a_piece_with_failover_is_read_once_it_is_whole(
    start: int, body: bytes, epoch: int, epoch_start: int, confirmed: int
) -> None:
    data = encode_epoch_piece_head(start, len(body), epoch, epoch_start, confirmed) + body
    for size in range(len(data)):
        assert read_epoch_piece(memoryview(data[:size])) is None
    expected = ReplicatedPiece(start, memoryview(body), epoch, epoch_start, confirmed)
    assert read_epoch_piece(memoryview(data + b"behind")) == (expected, len(data))


@given(positions, st.lists(epoch_numbers, unique=True, max_size=20).map(sorted))
def test_a_master_s_handshake_is_read_once_it_is_whole(end: int, numbers: list[int]) -> None:
    epochs = tuple((number, place * 100) for place, number in enumerate(numbers))
    data = encode_welcome(end, epochs)
    for size in range(len(data)):
        assert read_welcome(memoryview(data[:size])) is None
    expected = Welcome(end, numbers[-1] if numbers else -1, epochs)
    assert read_welcome(memoryview(data + b"behind")) == (expected, len(data))


@pytest.mark.parametrize("size", [-1, FRAME_BYTES_MAX + 1, 0x7FFFFFFF])
def test_a_piece_of_an_absurd_size_is_refused_before_it_comes(size: int) -> None:
    with pytest.raises(RemoteProtocolError, match=str(size)):
        read_piece(memoryview(encode_piece_head(0, size)))
    with pytest.raises(RemoteProtocolError, match=str(size)):
        read_epoch_piece(memoryview(encode_epoch_piece_head(0, size, 1, 0, 0)))


def test_a_piece_at_a_place_that_cannot_be_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="at -1"):
        read_piece(memoryview(encode_piece_head(-1, 0)))


def test_a_position_below_zero_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="-1"):
        PositionReader().feed(encode_position(-1))
    with pytest.raises(RemoteProtocolError, match="-1"):
        ReportReader().feed(encode_hello(Hello(1)) + encode_report(-1))


def test_a_slave_that_skips_the_handshake_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="kind 2"):
        ReportReader().feed(encode_report(5))


def test_a_second_handshake_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="kind 1"):
        ReportReader().feed(encode_hello(Hello(1)) * 2)


def test_a_master_that_skips_the_handshake_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="kind 2"):
        read_welcome(memoryview(encode_epoch_piece_head(0, 0, 1, 0, 0)))


def test_more_epochs_than_a_handshake_may_have_are_refused_before_they_come() -> None:
    head = bytearray(encode_welcome(0, []))
    head[4:8] = ((EPOCHS_MAX + 1) * 12).to_bytes(4, "big")
    with pytest.raises(RemoteProtocolError, match="epochs"):
        read_welcome(memoryview(head))


def test_of_more_epochs_than_fit_the_newest_are_told() -> None:
    found = read_welcome(memoryview(encode_welcome(0, [(one, one) for one in range(EPOCHS_MAX + 5)])))
    assert found is not None
    assert [epoch for epoch, _ in found[0].epochs] == list(range(5, EPOCHS_MAX + 5))


@pytest.mark.parametrize("epochs", [[(2, 0), (1, 10)], [(1, 10), (2, 0)]])
def test_epochs_that_do_not_rise_are_refused(epochs: list[tuple[int, int]]) -> None:
    with pytest.raises(RemoteProtocolError, match="order"):
        read_welcome(memoryview(encode_welcome(0, epochs)))


@given(st.binary(max_size=200))
def test_no_bytes_break_a_reader(data: bytes) -> None:
    for read in (read_piece, read_epoch_piece, read_welcome):
        with suppress(RemoteProtocolError):
            read(memoryview(data))
    for reader in (PositionReader(), ReportReader()):
        with suppress(RemoteProtocolError):
            reader.feed(data)
