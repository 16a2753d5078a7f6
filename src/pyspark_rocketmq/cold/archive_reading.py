"""An executor's read of an archive task: the requested columns of the wanted messages."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pyromq.filter.sql_filter import compile_sql
from pyromq.filter.tags import ALL, parse_tags
from pyspark_rocketmq.cold.parquet_files import read_range
from pyspark_rocketmq.cold.seam import ColdTask
from pyspark_rocketmq.source.columns import Columns, kafka_needs, kafka_of
from pyspark_rocketmq.source.source_options import Filter


def read_cold(task: ColdTask, columns: Columns, only: Filter) -> Iterator[pa.RecordBatch]:
    """Yield a task's messages as Arrow batches, as a read of a topic yields them."""
    needed = dict.fromkeys(
        own for name in columns.names for own in (kafka_needs(name) if columns.is_kafka else (name,))
    )
    if only.sql is not None:
        needed["properties"] = None
    elif only.tags != ALL:
        needed["tags"] = None
    # A read of no column at all still counts its rows.
    names = list(needed) or ["queue_offset"]
    for wanted in task.ranges:
        for batch in read_range(task.folder, wanted, names):
            kept = _kept(batch, only)
            if kept.num_rows:
                yield _shaped(kept, columns)


def _kept(batch: pa.RecordBatch, only: Filter) -> pa.RecordBatch:
    if only.sql is not None:
        wanted = compile_sql(only.sql)
        matches = [wanted.matches(dict(pairs)) for pairs in batch.column("properties").to_pylist()]
        return batch.filter(pa.array(matches, pa.bool_()))
    if only.tags != ALL:
        tags = pa.array(sorted(parse_tags(only.tags)), pa.string())
        return batch.filter(pc.is_in(batch.column("tags"), value_set=tags))
    return batch


def _shaped(batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    if columns.is_kafka:
        arrays = [kafka_of(name, batch.column, batch.num_rows) for name in columns.names]
    else:
        arrays = [batch.column(name) for name in columns.names]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.schema)
