"""Messages make the same Arrow columns compiled and not."""

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulled_records import RECORDS

from pyromq.client.consumer.incoming import received_messages
from pyromq.codes import SysFlag
from pyromq.kernel import IS_COMPILED
from pyromq.model import ReceivedMessage
from pyromq.wire.record import Record, encode_record

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from pyspark.sql.types import StringType, StructField, StructType

from pyspark_rocketmq.source.columns import (
    _COLUMNS,
    choose_columns,
    column,
    columns,
    pure_column,
    pure_columns,
)
from pyspark_rocketmq.source.source_options import ColumnSet

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="the pure version runs")

READABLE = ~int(SysFlag.COMPRESSED)
NAMES = list(_COLUMNS)
TIMES = st.integers(-(1 << 50), 1 << 50)
#: Things that may have happened to a message before it comes into a batch.
TOUCHES: dict[str, Any] = {
    "nothing": lambda message: None,
    "body read": lambda message: message.body,
    "properties read": lambda message: message.properties,
    "all read": lambda message: (message.body, message.properties, message.born_host),
    "body set": lambda message: setattr(message, "body", b"new"),
    "properties changed": lambda message: message.properties.update(TAGS="new"),
    "properties set": lambda message: setattr(message, "properties", {"KEYS": "ü"}),
    "id set": lambda message: setattr(message, "message_id", "mine"),
    "numbers set": lambda message: (setattr(message, "flag", 7), setattr(message, "born_at_ms", 8)),
}


def pulled(records: list[Record], added: dict[str, str]) -> list[ReceivedMessage]:
    return received_messages(b"".join(map(encode_record, records)), "broker-a", added)


@given(
    RECORDS,
    st.sampled_from([{}, {"MIN_OFFSET": "7", "MAX_OFFSET": "9"}, {"TAGS": "added"}]),
    st.lists(st.sampled_from(list(TOUCHES)), min_size=1),
    st.lists(TIMES, min_size=2, max_size=4),
)
def test_columns_are_filled_alike(
    records: list[Record], added: dict[str, str], touches: list[str], times: list[int]
) -> None:
    for number, record in enumerate(records):
        record.sys_flag &= READABLE
        record.born_at_ms = times[number % len(times)]
        record.stored_at_ms = times[(number + 1) % len(times)]
    made = {}
    for fill in (column, pure_column):
        made[fill] = []
        for name in NAMES:
            messages = pulled(records, added)
            for number, message in enumerate(messages):
                TOUCHES[touches[number % len(touches)]](message)
            made[fill].append(fill(name, messages))
            made[fill][-1].validate(full=True)

    assert made[column] == made[pure_column]

    messages = pulled(records, added)
    for number, message in enumerate(messages):
        TOUCHES[touches[number % len(touches)]](message)
    assert columns(NAMES, messages) == pure_columns(NAMES, messages)


def test_a_batch_has_the_columns_asked_for_in_their_order() -> None:
    messages = pulled([Record(topic="t", body=b"x", properties="TAGS\x01a")], {})

    asked = StructType([StructField("tags", StringType()), StructField("topic", StringType())])
    batch = choose_columns(asked, ColumnSet.ROCKETMQ).batch(messages)

    assert batch.to_pylist() == [{"tags": "a", "topic": "t"}]


def test_text_that_is_not_utf_8_is_replaced() -> None:
    raw = encode_record(Record(topic="t", body=b"x", properties="TAGS\x01ab\x02k1\x01v")).replace(
        b"ab", b"a\xff"
    )
    messages = received_messages(raw.replace(b"k1", b"k\xfe"), "b")

    assert column("tags", messages).to_pylist() == ["a\ufffd"]
    assert column("properties", messages).to_pylist() == [[("TAGS", "a\ufffd"), ("k\ufffd", "v")]]


def test_many_pairs_and_many_rows_grow() -> None:
    text = "\x02".join(f"name{number}\x01value{number}" for number in range(40))
    messages = pulled([Record(topic="t", body=b"x" * 50, properties=text)] * 50, {})

    for name in NAMES:
        assert column(name, messages) == pure_column(name, messages)


@pytest.mark.parametrize("name", ["born_timestamp", "store_timestamp"])
def test_a_time_that_no_column_holds_is_refused(name: str) -> None:
    messages = pulled([Record(topic="t", body=b"", born_at_ms=1 << 60, stored_at_ms=-(1 << 60))], {})

    with pytest.raises(OverflowError):
        column(name, messages)
    with pytest.raises((OverflowError, ValueError)):
        pure_column(name, messages)


@pytest.mark.parametrize(
    ("properties", "due"),
    [
        ("TIMER_OUT_MS\x011700000000001", "2023-11-14T22:13:20.001+00:00"),
        ("TIMER_DELIVER_MS\x011700000000001", "2023-11-14T22:13:20.001+00:00"),
        ("TIMER_DELIVER_MS\x015\x02TIMER_OUT_MS\x011700000000001", "2023-11-14T22:13:20.001+00:00"),
        ("TIMER_OUT_MS\x01soon", None),
        ("TIMER_OUT_MS\x01", None),
        ("TAGS\x01a", None),
    ],
)
def test_the_time_that_a_message_was_due_is_one_of_two_properties(properties: str, due: str | None) -> None:
    record = Record(topic="t", body=b"x", properties=properties)
    other = Record(topic="t", body=b"x", properties="TIMER_OUT_MS\x011")

    for fill in (column, pure_column):
        found = fill("deliver_at", pulled([record, other], {})).to_pylist()
        assert found[0] == (None if due is None else datetime.fromisoformat(due))
