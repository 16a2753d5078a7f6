from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from pyromq.client.producer.outgoing import prepare, prepare_batch
from pyromq.config.settings import ClientSettings
from pyromq.errors import MessageIllegal
from pyromq.model import Message
from pyromq.wire import properties

SETTINGS = ClientSettings()


def sent(**when: Any) -> dict[str, str]:
    outgoing = prepare(Message("t", b"x", **when), "ID", SETTINGS)
    assert outgoing.is_timed
    pairs = properties.decode(outgoing.properties)
    return {name: value for name, value in pairs.items() if name not in ("UNIQ_KEY", "WAIT")}


@pytest.mark.row("DE-10")
@pytest.mark.parametrize(
    ("delay", "ms"),
    [(90, "90000"), (0.25, "250"), (timedelta(days=2, milliseconds=1), "172800001"), (0, "0")],
)
def test_a_delay_travels_in_milliseconds_which_the_broker_counts(delay: Any, ms: str) -> None:
    assert sent(delay=delay) == {"TIMER_DELAY_MS": ms}


@pytest.mark.row("DE-10")
@pytest.mark.parametrize(
    "at",
    [
        1_798_761_600_000,
        datetime(2027, 1, 1, tzinfo=UTC),
        datetime(2027, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_a_moment_is_the_same_however_it_is_written(at: Any) -> None:
    assert sent(deliver_at=at) == {"TIMER_DELIVER_MS": "1798761600000"}


def test_a_message_without_a_time_is_not_timed() -> None:
    assert not prepare(Message("t", b"x", delay_level=3), "ID", SETTINGS).is_timed


@pytest.mark.parametrize(
    ("when", "why"),
    [
        ({"delay": 1, "delay_level": 2}, "delay_level or a time, not both"),
        ({"deliver_at": 1_798_761_600_000, "delay_level": 2}, "delay_level or a time, not both"),
        ({"delay": 1, "deliver_at": 1_798_761_600_000}, "not both"),
        ({"deliver_at": datetime(2027, 1, 1)}, "has no time zone"),
        ({"deliver_at": 1_798_761_600}, "milliseconds since 1970, not seconds"),
        ({"deliver_at": -1}, "is no time"),
        ({"deliver_at": 2**63}, "is no time"),
        ({"deliver_at": "2027-01-01"}, "not str"),
        ({"deliver_at": 1.5e12}, "not float"),
        ({"deliver_at": True}, "not bool"),
        ({"delay": -0.5}, "is negative"),
        ({"delay": timedelta(seconds=-1)}, "is negative"),
        ({"delay": float("nan")}, "no time that ends"),
        ({"delay": float("inf")}, "no time that ends"),
        ({"delay": 1e300}, "no time that ends"),
        ({"delay": "90s"}, "not str"),
        ({"delay": True}, "not bool"),
    ],
)
def test_a_time_that_is_none_is_refused_with_the_reason(when: dict[str, Any], why: str) -> None:
    with pytest.raises(MessageIllegal, match=why):
        prepare(Message("t", b"x", **when), "ID", SETTINGS)


@pytest.mark.parametrize("when", [{"delay": 1}, {"deliver_at": 1_798_761_600_000}, {"delay_level": 1}])
def test_a_delayed_message_cannot_be_in_a_batch(when: dict[str, Any]) -> None:
    with pytest.raises(MessageIllegal, match="delayed message cannot be in a batch"):
        prepare_batch([Message("t", b"x", **when)], ["ID"], SETTINGS)


@pytest.mark.parametrize("name", ["TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "TIMER_OUT_MS"])
def test_times_are_not_given_as_properties(name: str) -> None:
    with pytest.raises(MessageIllegal, match=name):
        prepare(Message("t", b"x", properties={name: "1"}), "ID", SETTINGS)
