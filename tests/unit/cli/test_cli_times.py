import time
from datetime import datetime

import pytest

from pyromq.cli.messages.produce import MessageTemplate
from pyromq.cli.times import moment_ms, remaining, span_s, written
from pyromq.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("1.5h", 5_400), ("15m", 900), ("30d", 2_592_000), ("500ms", 0.5)],
)
def test_a_span_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    assert span_s(text, "--delay") == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1w", "1 h", "1h30m"])
def test_another_span_is_refused_under_its_option(text: str) -> None:
    with pytest.raises(ConfigError, match="--delay"):
        span_s(text, "--delay")


def test_a_moment_is_a_time_milliseconds_or_from_now() -> None:
    assert moment_ms("1970-01-01T00:00:01+00:00", "--at") == 1_000
    assert moment_ms("1794800000000", "--at") == 1_794_800_000_000
    assert moment_ms("2026-01-31T12:00:00", "--at") == datetime(2026, 1, 31, 12).timestamp() * 1_000
    before_ms = time.time() * 1_000
    assert before_ms + 7_199_999 <= moment_ms("+2h", "--at") <= time.time() * 1_000 + 7_200_001


@pytest.mark.parametrize("text", ["noon", "+", "+2x"])
def test_another_moment_is_refused_under_its_option(text: str) -> None:
    with pytest.raises(ConfigError, match="--from"):
        moment_ms(text, "--from")


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "overdue"),
        (-5, "overdue"),
        (500, "500ms"),
        (61_000, "1m 1s"),
        (3_600_000, "1h 0m"),
        (90_061_000, "1d 1h"),
    ],
)
def test_what_remains_is_told_in_its_two_largest_units(ms: int, text: str) -> None:
    assert remaining(ms) == text


def test_a_moment_that_no_calendar_has_is_written_as_a_number() -> None:
    assert written(2**62) == f"{2**62} ms"


def test_options_give_a_message_its_time() -> None:
    assert MessageTemplate(topic="t", delay_s=1.5).message(b"x").delay == 1.5
    assert MessageTemplate(topic="t", deliver_at_ms=7).message(b"x").deliver_at == 7
