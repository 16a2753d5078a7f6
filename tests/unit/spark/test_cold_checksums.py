"""Checksums of columns, whatever batches the rows come in."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rocketmq.cold.checksums import Checksums

TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("queue_offset", pa.int64()),
        ("tags", pa.string()),
        ("body", pa.binary()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("deliver_at", TIME),
    ]
)
rows = st.lists(
    st.tuples(
        st.integers(0, 2**40),
        st.none() | st.text(max_size=4),
        st.binary(max_size=8),
        st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
        st.none() | st.integers(0, 2**50),
    ),
    max_size=30,
)


def batch_of(values: list[tuple[object, ...]]) -> pa.RecordBatch:
    columns = list(zip(*values, strict=True)) if values else [()] * len(SCHEMA)
    arrays = []
    for kind, column in zip(SCHEMA.types, columns, strict=True):
        given_values = [list(one.items()) if isinstance(one, dict) else one for one in column]
        arrays.append(pa.array(given_values, kind))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def checksums(*batches: pa.RecordBatch) -> dict[str, str]:
    made = Checksums()
    for batch in batches:
        made.add(batch)
    return made.by_column()


@given(values=rows.filter(bool), cut=st.integers(0, 30))
def test_it_does_not_matter_how_rows_are_cut_into_batches(values: list[tuple[object, ...]], cut: int) -> None:
    batch = batch_of(values)

    assert checksums(batch.slice(0, cut), batch.slice(cut)) == checksums(batch)


@given(values=rows.filter(bool))
def test_a_parquet_file_gives_the_checksums_of_what_was_written(values: list[tuple[object, ...]]) -> None:
    batch, file = batch_of(values), io.BytesIO()
    with pq.ParquetWriter(file, SCHEMA) as writer:
        writer.write_batch(batch)

    read = pq.ParquetFile(file).iter_batches(7)

    assert checksums(*read) == checksums(batch)


@pytest.mark.parametrize(
    ("column", "changed"),
    [
        ("queue_offset", (2, "a", b"x", {"k": "v"}, None)),
        ("tags", (1, None, b"x", {"k": "v"}, None)),
        ("tags", (1, "", b"x", {"k": "v"}, None)),
        ("body", (1, "a", b"y", {"k": "v"}, None)),
        ("properties", (1, "a", b"x", {"k": "w"}, None)),
        ("properties", (1, "a", b"x", {"kv": ""}, None)),
        ("deliver_at", (1, "a", b"x", {"k": "v"}, 0)),
    ],
)
def test_one_changed_value_changes_the_checksum_of_its_column_alone(
    column: str, changed: tuple[object, ...]
) -> None:
    before = checksums(batch_of([(1, "a", b"x", {"k": "v"}, None)]))

    after = checksums(batch_of([changed]))

    assert {name for name in before if before[name] != after[name]} == {column}


def test_what_moves_from_one_row_to_the_next_is_noticed() -> None:
    one = checksums(batch_of([(1, "ab", b"c", {}, None), (2, "", b"d", {}, None)]))
    other = checksums(batch_of([(1, "a", b"c", {}, None), (2, "b", b"d", {}, None)]))

    assert one["tags"] != other["tags"]
