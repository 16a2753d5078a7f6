from datetime import datetime

import pytest

from pyromq.cli.messages.client_commands import From
from pyromq.cli.messages.consume import start_time_ms
from pyromq.cli.messages.produce import MessageTemplate
from pyromq.errors import ConfigError


def test_a_start_time_may_be_milliseconds() -> None:
    assert start_time_ms(From.TIME, "1700000000000") == 1_700_000_000_000


def test_a_start_time_may_be_written_with_its_zone() -> None:
    assert start_time_ms(From.TIME, "1970-01-01T00:00:01+00:00") == 1_000


def test_a_start_time_without_a_zone_is_local() -> None:
    local = datetime(2026, 1, 31, 12).timestamp()

    assert start_time_ms(From.TIME, "2026-01-31T12:00:00") == local * 1_000


@pytest.mark.parametrize(("start", "text"), [(From.TIME, None), (From.TIME, "noon"), (From.FIRST, "1")])
def test_a_start_time_that_is_missing_wrong_or_unused_is_refused(start: From, text: str | None) -> None:
    with pytest.raises(ConfigError, match=r"--time|--from time"):
        start_time_ms(start, text)


def test_a_message_carries_what_the_options_say() -> None:
    message = MessageTemplate(
        topic="t", keys=["a", "b"], tag="x", properties=["k=v=w"], delay_level=2
    ).message(b"body")

    assert (message.topic, message.body, message.tags, message.delay_level) == ("t", b"body", "x", 2)
    assert message.key_list == ["a", "b"]
    assert message.properties == {"k": "v=w"}


@pytest.mark.parametrize("text", ["novalue", "=x"])
def test_a_property_without_name_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected NAME=VALUE"):
        MessageTemplate(topic="t", properties=[text]).message(b"")
