"""The columns of a topic, and messages turned into Arrow batches of them.

A batch holds just the columns of the schema that Spark was given, in its order: `.schema("keys string")` is a
projection, and what is not asked for is not built. With the option `schema` as 'kafka' a topic has the eight
columns of Spark's Kafka source, made of ours.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from pyromq.client.consumer.incoming import must_read
from pyromq.errors import ConfigError
from pyromq.kernel import IS_COMPILED
from pyromq.model import ReceivedMessage
from pyspark_rocketmq.source.source_options import ColumnSet

ROCKETMQ: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "broker": StringType(),
    "queue_id": IntegerType(),
    "queue_offset": LongType(),
    "msg_id": StringType(),
    "tags": StringType(),
    "keys": StringType(),
    "body": BinaryType(),
    "properties": MapType(StringType(), StringType()),
    "born_timestamp": TimestampType(),
    "store_timestamp": TimestampType(),
    "reconsume_times": IntegerType(),
    "born_host": StringType(),
    "message_group": StringType(),
    "deliver_at": TimestampType(),
    "flag": IntegerType(),
    "sys_flag": IntegerType(),
}
KAFKA: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}
_SETS: Final = {ColumnSet.ROCKETMQ: ROCKETMQ, ColumnSet.KAFKA: KAFKA}
_BODIES: Final = frozenset({"body", "value"})
_WITH_PROPERTIES: Final = ("properties", "headers")
#: Kafka's word for times that the broker gave, as `timestamp` is.
_LOG_APPEND_TIME: Final = 1

_TIME: Final = pa.timestamp("us", tz="UTC")
_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)


def _deliver_at(message: ReceivedMessage) -> int | None:
    text = message.properties.get("TIMER_OUT_MS", message.properties.get("TIMER_DELIVER_MS", ""))
    return int(text) * 1000 if _is_time(text) else None


def _is_time(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 15


_COLUMNS: dict[str, tuple[pa.DataType, Callable[[ReceivedMessage], Any]]] = {
    "topic": (pa.string(), lambda message: message.topic),
    "broker": (pa.string(), lambda message: message.queue.broker_name),
    "queue_id": (pa.int32(), lambda message: message.queue.queue_id),
    "queue_offset": (pa.int64(), lambda message: message.queue_offset),
    "msg_id": (pa.string(), lambda message: message.message_id),
    "tags": (pa.string(), lambda message: message.properties.get("TAGS")),
    "keys": (pa.string(), lambda message: message.properties.get("KEYS")),
    "body": (pa.binary(), lambda message: message.body),
    "properties": (pa.map_(pa.string(), pa.string()), lambda message: list(message.properties.items())),
    "born_timestamp": (_TIME, lambda message: message.born_at_ms * 1000),
    "store_timestamp": (_TIME, lambda message: message.stored_at_ms * 1000),
    "reconsume_times": (pa.int32(), lambda message: message.reconsume_times),
    "born_host": (pa.string(), lambda message: message.born_host),
    "message_group": (pa.string(), lambda message: message.properties.get("__SHARDINGKEY")),
    "deliver_at": (_TIME, _deliver_at),
    "flag": (pa.int32(), lambda message: message.flag),
    "sys_flag": (pa.int32(), lambda message: message.sys_flag),
}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that a read was asked for."""

    names: tuple[str, ...]
    schema: pa.Schema
    is_kafka: bool

    def batch(self, messages: list[ReceivedMessage]) -> pa.RecordBatch:
        """Return the messages as one Arrow batch; raise why a body that is asked for cannot be read."""
        if not _BODIES.isdisjoint(self.names):
            must_read(messages)
        if self.is_kafka:
            arrays = [kafka_column(name, messages) for name in self.names]
        else:
            arrays = columns(self.names, messages)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def table_schema(columns: ColumnSet, *, with_properties: bool) -> StructType:
    """Return all columns, for a read that named none."""
    return StructType(
        [
            StructField(name, kind)
            for name, kind in _SETS[columns].items()
            if with_properties or name not in _WITH_PROPERTIES
        ]
    )


def choose_columns(schema: StructType, columns: ColumnSet) -> Columns:
    """Return the columns asked for; raise ConfigError when a topic has none of that name or that type."""
    known = _SETS[columns]
    for asked in schema.fields:
        kind = known.get(asked.name)
        if kind is None:
            raise ConfigError(f"a topic has no column {asked.name}; it has {', '.join(known)}")
        is_called, should = asked.dataType.simpleString(), kind.simpleString()
        if is_called != should:
            raise ConfigError(
                f"column {asked.name} is {should}, not {is_called}; ask for it as it is, and cast it: "
                f".selectExpr('cast({asked.name} as {is_called})')"
            )
    arrow = to_arrow_schema(schema, timezone="UTC")
    return Columns(tuple(schema.names), arrow, columns is ColumnSet.KAFKA)


def pure_column(name: str, messages: list[ReceivedMessage]) -> pa.Array:
    """Return the column of that name."""
    kind, take = _COLUMNS[name]
    return pa.array([take(message) for message in messages], kind)


def pure_columns(names: Sequence[str], messages: list[ReceivedMessage]) -> list[pa.Array]:
    """Return the columns of those names."""
    return [pure_column(name, messages) for name in names]


if TYPE_CHECKING or not IS_COMPILED:
    column, columns = pure_column, pure_columns
else:
    from pyromq._kernel.spark.columns import due_times, named, numbers, pairs, texts

    #: Columns that one walk over the properties of a message fills.
    _WALKED = {"msg_id", "tags", "keys", "message_group"}

    def columns(names: Sequence[str], messages: list[ReceivedMessage]) -> list[pa.Array]:
        """Return the columns of those names, from the bytes that the messages were pulled in."""
        walked = tuple(dict.fromkeys(name for name in names if name in _WALKED))
        filled = dict(zip(walked, named(messages, walked), strict=True)) if walked else {}
        return [
            _array(pa.string(), len(messages), *filled[name]) if name in filled else column(name, messages)
            for name in names
        ]

    def column(name: str, messages: list[ReceivedMessage]) -> pa.Array:
        """Return the column of that name, from the bytes that the messages were pulled in."""
        kind, _ = _COLUMNS[name]
        if name == "deliver_at":
            buffers = due_times(messages)
        elif pa.types.is_map(kind):
            buffers = pairs(messages)
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            buffers = texts(messages, name)
        else:
            buffers = None, numbers(messages, name)
        return array_of(name, len(messages), *buffers)


def array_of(name: str, count: int, *buffers: Any) -> pa.Array:
    """Return the column of that name, of the buffers that the kernel has filled."""
    kind, _ = _COLUMNS[name]
    if pa.types.is_map(kind):
        rows, names, values = buffers
        return pa.MapArray.from_arrays(
            _array(pa.int32(), count + 1, None, rows), _strings(*names), _strings(*values)
        )
    if name == "deliver_at" and buffers[0] is None:
        return pa.nulls(count, _TIME)
    return _array(kind, count, *buffers)


def _strings(offsets: bytearray, text: bytearray) -> pa.Array:
    return _array(pa.string(), len(offsets) // 4 - 1, None, offsets, text)


def _array(kind: pa.DataType, count: int, *buffers: bytes | bytearray | None) -> pa.Array:
    held = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(kind, count, held)


#: Kafka's columns that are one of ours under another name.
_SAME: Final = {
    "value": "body",
    "topic": "topic",
    "partition": "queue_id",
    "offset": "queue_offset",
    "timestamp": "store_timestamp",
}


#: Kafka's columns that are made of one of ours.
_MADE_OF: Final = {"key": ("keys",), "timestampType": (), "headers": ("properties",)}


def kafka_needs(name: str) -> tuple[str, ...]:
    """Return which of our columns a column of Spark's Kafka source is made of."""
    return (_SAME[name],) if name in _SAME else _MADE_OF[name]


def kafka_column(name: str, messages: list[ReceivedMessage]) -> pa.Array:
    """Return the column of that name of Spark's Kafka source."""
    return kafka_of(name, lambda own: column(own, messages), len(messages))


def kafka_of(name: str, own: Callable[[str], pa.Array], count: int) -> pa.Array:
    """Return the same, made of our columns, which `own` returns."""
    same = _SAME.get(name)
    if same is not None:
        return own(same)
    if name == "key":
        return own("keys").cast(pa.binary())
    if name == "timestampType":
        return pa.array([_LOG_APPEND_TIME] * count, pa.int32())
    pairs_of_rows = own("properties")
    fields = [pairs_of_rows.keys, pairs_of_rows.items.cast(pa.binary())]
    values = pa.StructArray.from_arrays(fields, fields=list(_HEADERS.value_type))
    return pa.ListArray.from_arrays(pairs_of_rows.offsets, values, type=_HEADERS)
