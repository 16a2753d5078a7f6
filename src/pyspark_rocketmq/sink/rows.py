"""The columns of a DataFrame that is written to topics: which there may be, and how they are taken.

`check_columns` looks at a schema once, when Spark plans; `take` then turns each Arrow batch into the arrays
that messages are made of, column by column and never row by row.
"""

from dataclasses import dataclass, fields

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from pyromq.codes import ResponseCode
from pyromq.errors import ConfigError, MessageIllegal
from pyromq.wire.properties import KEY_SEPARATOR

#: Names of Kafka's sink, for the columns that mean the same.
_ALIASES = {"value": "body", "partition": "queue_id", "headers": "properties", "key": "keys"}
_TEXT = (StringType, BinaryType)
_WHOLE = (ByteType, ShortType, IntegerType, LongType)
#: What each column may be, and how that is said.
_SIMPLE: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "body": (_TEXT, "string or binary"),
    "topic": ((StringType,), "string"),
    "tags": ((StringType,), "string"),
    "keys": (_TEXT, "string or array<string>"),
    "properties": ((), "map<string,string>"),
    "message_group": ((StringType,), "string"),
    "msg_id": ((StringType,), "string"),
    "queue_id": (_WHOLE, "int"),
    "deliver_at": ((TimestampType,), "timestamp"),
    "delay_ms": (_WHOLE, "bigint"),
    "delay_level": (_WHOLE, "int"),
}
_PAIRS = pa.map_(pa.binary(), pa.binary())


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one Arrow batch, by column, without those that the DataFrame does not have.

    Texts are bytes; what was to be delivered at a time is in milliseconds. All arrays are as long as `body`.
    """

    body: pa.BinaryArray
    topic: pa.BinaryArray | None = None
    tags: pa.BinaryArray | None = None
    keys: pa.BinaryArray | None = None
    properties: pa.MapArray | None = None
    message_group: pa.BinaryArray | None = None
    msg_id: pa.BinaryArray | None = None
    queue_id: pa.Int64Array | None = None
    deliver_at: pa.Int64Array | None = None
    delay_ms: pa.Int64Array | None = None
    delay_level: pa.Int64Array | None = None

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.body)


assert {field.name for field in fields(Rows)} == set(_SIMPLE)


def check_columns(schema: StructType, *, topic: str | None) -> dict[str, str]:
    """Return our names of the columns, each with the DataFrame's; raise ConfigError for what none can be.

    `topic` is the option, which stands above the column.
    """
    columns: dict[str, str] = {}
    for field in schema.fields:
        name = _ALIASES.get(field.name, field.name)
        if name not in _SIMPLE:
            raise ConfigError(
                f"a topic takes no column {field.name!r}; it takes {_all_columns()}. Select those, as in "
                ".selectExpr('to_json(struct(*)) AS body')"
            )
        if name in columns:
            raise ConfigError(
                f"columns {columns[name]!r} and {field.name!r} mean the same; select one of them"
            )
        _check_type(name, field.name, field.dataType)
        columns[name] = field.name
    if "body" not in columns:
        raise ConfigError(
            f"a message needs a column body (or value), {_SIMPLE['body'][1]}; the DataFrame has "
            f"{', '.join(schema.names) or 'none'}"
        )
    if "topic" not in columns and topic is None:
        raise ConfigError("no topic is given: set .option('topic', …), or select a column topic")
    if topic is not None:
        columns.pop("topic", None)
    return columns


def _all_columns() -> str:
    return ", ".join(f"{name} {words}" for name, (_, words) in _SIMPLE.items())


def _check_type(name: str, given: str, kind: DataType) -> None:
    kinds, words = _SIMPLE[name]
    if isinstance(kind, kinds):
        return
    if name == "keys" and isinstance(kind, ArrayType) and isinstance(kind.elementType, StringType):
        return
    if name == "properties" and _is_pairs(kind):
        return
    raise ConfigError(f"column {given!r} is {kind.simpleString()}; it must be {words}: cast it")


def _is_pairs(kind: DataType) -> bool:
    """Whether a type is a map of texts, or an array of Kafka's headers."""
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and isinstance(kind.valueType, _TEXT)
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    parts = kind.elementType.fields
    return [part.name for part in parts] == ["key", "value"] and all(
        isinstance(part.dataType, _TEXT) for part in parts
    )


def take(batch: pa.RecordBatch, columns: dict[str, str]) -> Rows:
    """Return the rows of a batch; `columns` is what `check_columns` returned."""
    taken = {}
    for name, given in columns.items():
        array = batch.column(given)
        if name == "properties":
            taken[name] = _pairs(array)
        elif name == "keys" and pa.types.is_nested(array.type):
            taken[name] = _joined_keys(array)
        elif name == "deliver_at":
            taken[name] = (
                pc.floor_temporal(array, unit="millisecond").cast(pa.timestamp("ms", "UTC")).view("int64")
            )
        elif name in ("queue_id", "delay_ms", "delay_level"):
            taken[name] = array.cast(pa.int64())
        else:
            taken[name] = array.cast(pa.binary())
    return Rows(**taken)


def _pairs(array: pa.Array) -> pa.MapArray:
    """Return a column of maps; Kafka's headers are lists of structs, which Arrow's maps are too."""
    if pa.types.is_large_list(array.type):
        array = array.cast(pa.list_(array.type.value_type))
    if pa.types.is_map(array.type):
        names, values = array.keys, array.items
    else:
        names, values = array.values.field(0), array.values.field(1)
    if names.null_count:
        raise _illegal("the column properties has a pair whose name is null; leave such pairs out")
    validity, offsets, *_ = array.buffers()
    entries = pa.StructArray.from_arrays(
        [names.cast(pa.binary()), values.cast(pa.binary())],
        fields=[_PAIRS.key_field, _PAIRS.item_field],
    )
    return pa.MapArray.from_buffers(
        _PAIRS, len(array), [validity, offsets], offset=array.offset, children=[entries]
    )


def _joined_keys(array: pa.Array) -> pa.BinaryArray:
    """Return lists of keys as texts in which a space separates them; null keys are left out."""
    # Spark says of literals that they are not null, and Arrow does not join lists of such.
    array = array.cast(pa.list_(pa.string()))
    keys = array.flatten()
    if pc.any(pc.match_substring(keys, KEY_SEPARATOR)).as_py():
        bad = keys.filter(pc.match_substring(keys, KEY_SEPARATOR))[0].as_py()
        raise _illegal(f"the key {bad!r} has a space, which separates keys; replace it in the column keys")
    if keys.null_count:
        lists = [row and [key for key in row if key is not None] for row in array.to_pylist()]
        array = pa.array(lists, pa.list_(pa.string()))
    return pc.binary_join(array, KEY_SEPARATOR).cast(pa.binary())


def _illegal(text: str) -> MessageIllegal:
    return MessageIllegal(ResponseCode.MESSAGE_ILLEGAL, text)
