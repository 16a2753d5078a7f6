"""The two ids of a message."""

from datetime import datetime

import pytest

from pyromq.errors import HeaderError
from pyromq.wire.message_id import UniqueIds, offset_message_id, parse_offset_message_id
from pyromq.wire.record import encode_host


def local_ms(year: int, month: int, day: int, hour: int = 0) -> int:
    return int(datetime(year, month, day, hour).timestamp() * 1000)


@pytest.mark.row("MM-04")
@pytest.mark.parametrize(("host", "length"), [("127.0.0.1", 32), ("2001:db8::1", 56)])
def test_a_position_id_says_where_the_message_is(host: str, length: int) -> None:
    text = offset_message_id(encode_host(host, 10911), 1 << 40)

    assert len(text) == length
    assert parse_offset_message_id(text) == (host, 10911, 1 << 40)
    assert parse_offset_message_id(text.lower()).position == 1 << 40


@pytest.mark.parametrize("text", ["", "7F", "x" * 32, "7F " * 10 + "7F", "7F000001" * 5, "é" * 32])
def test_what_is_no_position_id_is_refused(text: str) -> None:
    with pytest.raises(HeaderError, match="message id"):
        parse_offset_message_id(text)


@pytest.mark.row("MM-03")
def test_a_unique_id_is_address_process_loader_time_and_counter() -> None:
    ids = UniqueIds("127.0.0.1", 0x12345, 0x18B4AAC2)

    first = ids.next(local_ms(2026, 11, 1) + 0xABC)
    second = ids.next(local_ms(2026, 11, 1) + 0xABD)

    assert first == "7F000001" + "2345" + "18B4AAC2" + "00000ABC" + "0000"
    assert second == "7F000001" + "2345" + "18B4AAC2" + "00000ABD" + "0001"


@pytest.mark.row("MM-03")
def test_a_unique_id_with_an_ipv6_address_has_56_characters() -> None:
    assert len(UniqueIds("2001:db8::1", 1).next(local_ms(2026, 11, 15))) == 56


def test_the_time_starts_anew_with_each_month_and_year() -> None:
    ids = UniqueIds("127.0.0.1", 1)

    assert ids.next(local_ms(2026, 11, 30, 23))[20:28] == f"{(29 * 24 + 23) * 3_600_000:08X}"
    assert ids.next(local_ms(2026, 12, 1))[20:28] == "00000000"
    assert ids.next(local_ms(2027, 1, 1))[20:28] == "00000000"


def test_a_clock_set_back_over_the_month_s_start_gives_no_huge_time() -> None:
    ids = UniqueIds("127.0.0.1", 1)
    ids.next(local_ms(2026, 12, 1))

    assert ids.next(local_ms(2026, 12, 1) - 5)[20:28] == "00000000"


def test_65536_ids_of_one_moment_differ() -> None:
    ids = UniqueIds("127.0.0.1", 1)

    assert len({ids.next(local_ms(2026, 12, 1)) for _ in range(65536)}) == 65536
