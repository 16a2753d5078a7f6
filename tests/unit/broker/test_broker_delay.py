"""Which messages are delayed, and what is delivered of them."""

import pytest

from pyromq.broker.kinds.delay import delay_diversion, level_of
from pyromq.broker.kinds.stored_again import due_draft
from pyromq.store.store import Draft
from pyromq.wire import properties as names
from pyromq.wire.record import Record

LEVELS_MS = {1: 1_000, 2: 5_000, 3: 10_000}


def draft(*, sys_flag: int = 0) -> Draft:
    return Draft("orders", 2, b"x", "", 0, sys_flag, 0, bytes(8), bytes(8))


@pytest.mark.row("DE-03", "MM-09")
def test_a_delayed_draft_goes_to_the_queue_of_its_level() -> None:
    delayed, properties = draft(), {"DELAY": "2"}

    assert delay_diversion(LEVELS_MS)(delayed, properties)

    assert (delayed.topic, delayed.queue_id) == ("SCHEDULE_TOPIC_XXXX", 1)
    assert properties == {"DELAY": "2", "REAL_TOPIC": "orders", "REAL_QID": "2"}


@pytest.mark.row("DE-11")
@pytest.mark.parametrize(("sys_flag", "is_diverted"), [(0, True), (4, False), (8, True), (12, False)])
def test_only_plain_and_committed_messages_are_delayed(sys_flag: int, *, is_diverted: bool) -> None:
    delayed = draft(sys_flag=sys_flag)

    assert delay_diversion(LEVELS_MS)(delayed, {"DELAY": "1"}) is is_diverted

    assert (delayed.topic == "orders") is not is_diverted


@pytest.mark.parametrize(
    ("text", "level"), [("3", 3), ("0", 0), ("-2", 0), ("", 0), ("x", 0), ("٣", 0), ("9" * 5000, 0)]
)
def test_a_level_is_a_number_or_none(text: str, level: int) -> None:
    assert level_of({"DELAY": text}) == level


def test_without_levels_nothing_is_delayed() -> None:
    assert not delay_diversion({})(draft(), {"DELAY": "1"})


def test_a_real_topic_from_an_earlier_delay_is_replaced() -> None:
    properties = {"DELAY": "1", "REAL_TOPIC": "before", "REAL_QID": "9"}

    delay_diversion(LEVELS_MS)(draft(), properties)

    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("orders", "2")


@pytest.mark.row("DE-09")
def test_a_due_message_is_stored_as_it_was_in_its_own_topic() -> None:
    text = names.encode({"REAL_TOPIC": "orders", "REAL_QID": "2", "DELAY": "1", "TAGS": "paid"})
    record = Record(topic="SCHEDULE_TOPIC_XXXX", body=b"x", queue_id=0, properties=text, reconsume_times=3)

    due = due_draft(record)

    assert due is not None
    assert (due.topic, due.queue_id, due.body, due.reconsume_times) == ("orders", 2, b"x", 3)
    assert due.properties == text


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"REAL_TOPIC": "orders"},
        {"REAL_TOPIC": "orders", "REAL_QID": "x"},
        {"REAL_QID": "1"},
        {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0"},
    ],
)
def test_a_message_that_does_not_say_where_it_belongs_is_not_delivered(properties: dict[str, str]) -> None:
    record = Record(topic="SCHEDULE_TOPIC_XXXX", body=b"x", properties=names.encode(properties))

    assert due_draft(record) is None
