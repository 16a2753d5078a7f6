"""Pulled bytes make the same Arrow rows scanned by the kernel and by way of messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pulled_records import RECORDS

from pyromq.codes import SysFlag
from pyromq.errors import CorruptRecord
from pyromq.kernel import IS_COMPILED
from pyromq.wire.record import Record, encode_record

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import pyarrow as pa

from pyspark_rocketmq.source import gathering
from pyspark_rocketmq.source.columns import choose_columns, table_schema
from pyspark_rocketmq.source.gathering import Gathering, PureGathering, Taken
from pyspark_rocketmq.source.source_options import ColumnSet

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="the pure version runs")

READABLE = ~int(SysFlag.COMPRESSED)
TIMES = st.integers(-(1 << 50), 1 << 50)
ALL = {columns: choose_columns(table_schema(columns, with_properties=True), columns) for columns in ColumnSet}
END = (1 << 63) - 1


def scanning(columns: ColumnSet = ColumnSet.ROCKETMQ) -> Any:
    return gathering.ScanGathering(ALL[columns])  # type: ignore[attr-defined]  # without the kernel it is not there


def encoded(*records: Record) -> bytes:
    return b"".join(map(encode_record, records))


def rows_of(
    gathered: Gathering, answers: list[bytes], tags: frozenset[str] = frozenset(), end: int = END
) -> tuple[list[Taken], pa.Table | None]:
    """Return what was said of each answer, and the rows."""
    said, batches = [], []
    for answer in answers:
        said.append(gathered.add(answer, "broker-a", tags, end))
        batches += gathered.full()
    batches += gathered.rest()
    for batch in batches:
        batch.validate(full=True)
    return said, pa.Table.from_batches(batches).combine_chunks() if batches else None


@given(
    st.lists(RECORDS, max_size=3),
    st.sampled_from(list(ColumnSet)),
    st.sampled_from([frozenset(), frozenset({"a b"}), frozenset({"a", "漢"})]),
    st.sampled_from([END, 0]),
    st.lists(TIMES, min_size=2, max_size=4),
)
def test_a_scan_gives_what_messages_give(
    answers: list[list[Record]], columns: ColumnSet, tags: frozenset[str], end: int, times: list[int]
) -> None:
    for number, record in enumerate(one for answer in answers for one in answer):
        record.sys_flag &= READABLE
        record.born_at_ms = times[number % len(times)]
        record.stored_at_ms = times[(number + 1) % len(times)]
    # The last message of an answer says where it ends: offsets rise in it.
    raw = [encoded(*sorted(answer, key=lambda one: one.queue_offset)) for answer in answers]

    fast = rows_of(scanning(columns), raw, tags, end)
    pure = rows_of(PureGathering(ALL[columns]), raw, tags, end)

    assert fast == pure


def test_rows_stay_in_order_when_one_of_them_is_not_plain() -> None:
    plain = [Record(topic="t", body=b"%d" % number, queue_offset=number) for number in range(4)]
    plain[2].properties = "x\x011\x02x\x012"

    said, rows = rows_of(scanning(), [encoded(*plain), encoded(plain[0])])

    assert rows is not None
    assert rows.column("queue_offset").to_pylist() == [0, 1, 2, 3, 0]
    assert said == [Taken(4, 3, 0), Taken(1, 0, 0)]
    assert rows.column("properties").to_pylist()[2] == [("x", "2")]


def test_a_column_grows_over_many_rows_and_answers() -> None:
    text = "\x02".join(f"name{number}\x01value{number}" for number in range(20))
    records = [
        Record(topic="t", body=b"x" * 300, properties=text, queue_offset=number) for number in range(9_000)
    ]
    answers = [encoded(*records[:5_000]), encoded(*records[5_000:]), encoded(*records[:10])]

    fast = rows_of(scanning(), answers)

    assert fast == rows_of(PureGathering(ALL[ColumnSet.ROCKETMQ]), answers)
    assert fast[1] is not None
    assert fast[1].num_rows == 9_010


def test_a_batch_that_was_taken_does_not_change_with_the_next() -> None:
    gathered = scanning()
    gathered.add(encoded(Record(topic="t", body=b"first", properties="TAGS\x01one")), "b", frozenset(), END)
    (first,) = gathered.rest()
    gathered.add(encoded(Record(topic="u", body=b"other", properties="TAGS\x01two")), "c", frozenset(), END)
    (second,) = gathered.rest()

    for batch, topic, tag in ((first, "t", "one"), (second, "u", "two")):
        assert batch.column("topic").to_pylist() == [topic]
        assert batch.column("tags").to_pylist() == [tag]


def test_a_damaged_record_is_an_error_and_not_a_row() -> None:
    raw = encoded(Record(topic="t", body=b"whole"), Record(topic="t", body=b"other"))

    with pytest.raises(CorruptRecord):
        scanning().add(raw.replace(b"other", b"othEr"), "b", frozenset(), END)
