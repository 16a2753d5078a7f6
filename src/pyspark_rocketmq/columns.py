"""The columns of a topic, and messages turned into Arrow batches of them.

A batch holds just the columns of the schema that Spark was given, in its order: `.schema("keys string")` is a
projection, and what is not asked for is not built.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from pyromq.errors import ConfigError
from pyromq.kernel import IS_COMPILED
from pyromq.model import ReceivedMessage

SCHEMA = (
    "topic string, broker string, queue_id int, queue_offset bigint, msg_id string, tags string, "
    "keys string, body binary, properties map<string,string>, born_timestamp timestamp, "
    "store_timestamp timestamp, reconsume_times int, born_host string, message_group string, "
    "flag int, sys_flag int"
)

_TIME = pa.timestamp("us", tz="UTC")
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
    "flag": (pa.int32(), lambda message: message.flag),
    "sys_flag": (pa.int32(), lambda message: message.sys_flag),
}


def check_schema(schema: StructType) -> list[str]:
    """Return the names of the columns asked for; raise ConfigError when the source does not have one."""
    unknown = [name for name in schema.names if name not in _COLUMNS]
    if unknown:
        raise ConfigError(
            f"a RocketMQ topic has no column {', '.join(unknown)}; it has {', '.join(_COLUMNS)}"
        )
    return list(schema.names)


def pure_column(name: str, messages: list[ReceivedMessage]) -> pa.Array:
    """Return the column of that name."""
    kind, take = _COLUMNS[name]
    return pa.array([take(message) for message in messages], kind)


if TYPE_CHECKING or not IS_COMPILED:
    column = pure_column
else:
    from pyromq._kernel.columns import numbers, pairs, texts

    def column(name: str, messages: list[ReceivedMessage]) -> pa.Array:
        """Return the column of that name, from the bytes that the messages were pulled in."""
        kind, _ = _COLUMNS[name]
        if pa.types.is_map(kind):
            rows, names, values = pairs(messages)
            return pa.MapArray.from_arrays(
                _array(pa.int32(), len(messages) + 1, None, rows), _strings(*names), _strings(*values)
            )
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return _array(kind, len(messages), *texts(messages, name))
        return _array(kind, len(messages), None, numbers(messages, name))


def _strings(offsets: bytearray, text: bytearray) -> pa.Array:
    return _array(pa.string(), len(offsets) // 4 - 1, None, offsets, text)


def _array(kind: pa.DataType, count: int, *buffers: bytearray | None) -> pa.Array:
    held = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(kind, count, held)


def to_batch(names: list[str], messages: list[ReceivedMessage]) -> pa.RecordBatch:
    """Return the messages as one Arrow batch of the named columns."""
    return pa.RecordBatch.from_arrays([column(name, messages) for name in names], names=names)
