"""How long a receive waits, and how long messages are invisible."""

import pytest

from pyromq.broker.grpc.consuming.consume_times import (
    AskedTime,
    changed_invisible_ms,
    polling_ms,
    received_invisible_ms,
)
from pyromq.config.grpc_settings import GrpcSettings
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused

SETTINGS = GrpcSettings()
STRICT = GrpcSettings(grpc_strict_polling_time=True)
HOURS_12 = 12 * 3_600_000


def asked(polling: int | None, remaining: int | None, version: str = "5.2.1") -> AskedTime:
    return AskedTime(polling, remaining, request_timeout_ms=3_000, client_version=version)


@pytest.mark.row("GR-24")
@pytest.mark.parametrize(
    ("polling", "remaining", "waits"),
    [
        (15_000, 18_000, 15_000),
        (1_000, 60_000, 5_000),
        (40_000, 60_000, 20_000),
        (None, 18_000, 16_500),
        (None, 7_000, 5_500),
        (None, None, 20_000),
        (15_000, None, 15_000),
        # Rust's deadline is its polling time.
        (40_000, 40_000, 20_000),
        (20_000, 20_000, 19_800),
        (15_000, 6_000, 5_800),
        # A user who awaits a second, with a request timeout of three.
        (1_000, 4_000, 3_800),
        (1_000, 150, 0),
        (1_000, -5, 0),
    ],
)
def test_a_receive_waits_within_the_limits_and_answers_before_its_deadline(
    polling: int | None, remaining: int | None, waits: int
) -> None:
    assert polling_ms(SETTINGS, asked(polling, remaining)) == waits


@pytest.mark.row("GR-24")
@pytest.mark.parametrize(
    ("version", "code"),
    [
        ("5.0.3", GrpcCode.ILLEGAL_POLLING_TIME),
        ("5.2.1", GrpcCode.ILLEGAL_POLLING_TIME),
        ("5.0.2", GrpcCode.BAD_REQUEST),
        ("", GrpcCode.BAD_REQUEST),
    ],
)
def test_a_strict_broker_refuses_a_short_deadline_in_the_client_s_words(version: str, code: GrpcCode) -> None:
    with pytest.raises(GrpcRefused, match="raise the request timeout") as refused:
        polling_ms(STRICT, asked(1_000, 4_000, version))
    assert refused.value.code == code


@pytest.mark.parametrize("remaining", [5_000, 5_001, None])
def test_a_strict_broker_takes_a_deadline_that_is_long_enough(remaining: int | None) -> None:
    waits = polling_ms(STRICT, asked(15_000, remaining))
    assert waits == (15_000 if remaining is None else remaining - 200)


@pytest.mark.row("GR-25")
@pytest.mark.parametrize("invisible", [10_000, 60_000, HOURS_12])
def test_an_invisible_time_within_the_limits_holds(invisible: int) -> None:
    assert received_invisible_ms(SETTINGS, invisible, is_renewed=False) == invisible


@pytest.mark.row("GR-25")
@pytest.mark.parametrize("invisible", [0, -1, 9_999, HOURS_12 + 1, 1 << 70])
def test_an_invisible_time_beyond_the_limits_is_illegal(invisible: int) -> None:
    with pytest.raises(GrpcRefused, match="from 10000 to 43200000 ms") as refused:
        received_invisible_ms(SETTINGS, invisible, is_renewed=False)
    assert refused.value.code == GrpcCode.ILLEGAL_INVISIBLE_TIME


@pytest.mark.parametrize("invisible", [0, 5, HOURS_12 + 1])
def test_the_broker_decides_what_it_renews(invisible: int) -> None:
    assert received_invisible_ms(SETTINGS, invisible, is_renewed=True) == 60_000


@pytest.mark.row("GR-30")
def test_a_change_may_be_at_once_and_up_to_twelve_hours() -> None:
    assert [changed_invisible_ms(SETTINGS, each) for each in (0, 1, HOURS_12)] == [0, 1, HOURS_12]
    for illegal in (-1, HOURS_12 + 1):
        with pytest.raises(GrpcRefused) as refused:
            changed_invisible_ms(SETTINGS, illegal)
        assert refused.value.code == GrpcCode.ILLEGAL_INVISIBLE_TIME
