"""Encoder of rows: a row of a Spark batch becomes a message of a RocketMQ batch (`pyromq.wire.batch`).

The compiled kernel encodes plain rows, without a Python object for any of them. The row at which it stops is
encoded here, or refused with a reason.

A row has the same id whenever it is written again, in another attempt or after a restart, if Spark gives the
rows of a partition in the same order. Consumers can recognize duplicates by it.

    id   16 characters  hash of the query, the batch and the partition
          4             upper half of the row's number in its partition
          8             0; clients put the time here, which an id that is made twice cannot have
          4             lower half of the number
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from pyromq.client.producer.outgoing import NOT_A_PRODUCERS
from pyromq.codes import ResponseCode
from pyromq.errors import MessageIllegal
from pyromq.kernel import IS_COMPILED
from pyromq.wire import properties as names
from pyromq.wire.batch import UNIT_BYTES_MIN
from pyromq.wire.java_hash import java_hash
from pyromq.wire.record import PROPERTIES_BYTES_MAX
from pyspark_rocketmq.sink.rows import Rows

#: Rows that a partition can have: their numbers are part of the ids.
ROWS_MAX: Final = 1 << 32

#: Properties that are not copied from a map: in a topic that is read they describe the stored message, and a
#: new message has its own.
LEFT_OUT: Final = tuple(
    name.encode()
    for name in sorted(
        NOT_A_PRODUCERS
        | {
            names.WAIT,
            names.UNIQ_KEY,
            names.DELAY,
            names.START_DELIVER_TIME,
            names.TIMER_DELAY_MS,
            names.TIMER_DELAY_SEC,
            names.TIMER_DELIVER_MS,
            names.TRANSACTION_PREPARED,
            names.TRANSACTION_PREPARED_QUEUE_OFFSET,
            names.TRANSACTION_CHECK_TIMES,
            names.CHECK_IMMUNITY_TIME_IN_SECONDS,
            names.TRANSACTION_ID,
            names.PRODUCER_GROUP,
            names.INSTANCE_ID,
            names.RECONSUME_TIME,
            names.MAX_RECONSUME_TIMES,
            names.POP_CK,
            names.FIRST_POP_TIME,
        }
    )
)
#: Columns that stand above a pair of the map, with the property that each is.
_TEXTS: Final = (("tags", names.TAGS), ("keys", names.KEYS), ("message_group", names.SHARDING_KEY))
_TIMES: Final = (
    ("deliver_at", names.TIMER_DELIVER_MS),
    ("delay_ms", names.TIMER_DELAY_MS),
    ("delay_level", names.DELAY),
)


def id_head(query: str, batch: int, part: int) -> bytes:
    """Return the part of an id that all rows of a partition share."""
    text = f"{query}\n{batch}\n{part}".encode()
    return blake2b(text, digest_size=8).hexdigest().upper().encode()


class PureUnits:
    """The rows of one Arrow batch, to be encoded in any order and in any portions."""

    def __init__(self, rows: Rows, head: bytes, first_row: int, left_out: tuple[bytes, ...]) -> None:
        self.count = rows.count
        self._rows = rows
        self._head = head
        self._first_row = first_row
        self._left_out = frozenset(left_out)

    def encode(
        self, rows: "np.ndarray[tuple[int], np.dtype[np.int32]] | None", start: int, stop: int, bytes_max: int
    ) -> tuple[bytes, int]:
        """Encode the rows at these places, None for all, from `start` up to `stop`.

        Return the bytes, at most `bytes_max`, and the place of the first row that is not among them: it did
        not fit. Raises MessageIllegal for one that cannot be a message.
        """
        parts: list[bytes] = []
        used, at = 0, start
        while at < stop:
            unit = self.encode_row(at if rows is None else int(rows[at]))
            if used + len(unit) > bytes_max:
                break
            parts.append(unit)
            used += len(unit)
            at += 1
        return b"".join(parts), at

    def encode_row(self, row: int) -> bytes:
        """Return one row; raise MessageIllegal when it cannot be a message, with what to do."""
        body = self._rows.body[row].as_py()
        if not body:
            problem = "null" if body is None else "empty"
            raise self._refused(
                row, f"the body is {problem}: leave such rows out, by .where('length(body) > 0')"
            )
        properties = b"\x02".join(b"%s\x01%s" % pair for pair in self._pairs(row))
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise self._refused(
                row, f"its properties have {len(properties)} bytes; {PROPERTIES_BYTES_MAX} are the limit"
            )
        size = UNIT_BYTES_MIN + len(body) + len(properties)
        return b"".join(
            (
                size.to_bytes(4, "big"),
                bytes(12),
                len(body).to_bytes(4, "big"),
                body,
                len(properties).to_bytes(2, "big"),
                properties,
            )
        )

    def _pairs(self, row: int) -> Iterator[tuple[bytes, bytes]]:
        yield names.UNIQ_KEY.encode(), self._text("msg_id", row) or self._made_id(row)
        columns = set()
        for column, name in _TEXTS:
            value = self._text(column, row)
            if value:
                columns.add(name.encode())
                yield name.encode(), value
        yield from self._times(row)
        maps = self._rows.properties
        for name, value in (None if maps is None else maps[row].as_py()) or ():
            if name and value and name not in self._left_out and name not in columns:
                self._check_text(row, f"property {name.decode('utf-8', 'replace')!r}", name + value)
                yield name, value

    def _made_id(self, row: int) -> bytes:
        number = self._first_row + row
        if number >= ROWS_MAX:
            raise self._refused(row, f"a partition has {ROWS_MAX} rows at most; repartition the DataFrame")
        return b"%s%04X00000000%04X" % (self._head, number >> 16, number & 0xFFFF)

    def _times(self, row: int) -> Iterator[tuple[bytes, bytes]]:
        found: list[str] = []
        for column, name in _TIMES:
            array = getattr(self._rows, column)
            number = None if array is None else array[row].as_py()
            # A moment may be 0; of the others it means no delay.
            if number is None or (number == 0 and column != "deliver_at"):
                continue
            if number < 0:
                raise self._refused(row, f"{column} is {number}, before any time a message can wait for")
            found.append(column)
            yield name.encode(), str(number).encode()
        if len(found) > 1:
            raise self._refused(
                row,
                f"{' and '.join(found)} are both set: a message waits for one time, so set one to null",
            )

    def _text(self, column: str, row: int) -> bytes | None:
        array = getattr(self._rows, column)
        value: bytes | None = None if array is None else array[row].as_py()
        if value:
            self._check_text(row, column, value)
        return value

    def _check_text(self, row: int, what: str, text: bytes) -> None:
        if b"\x01" in text or b"\x02" in text:
            raise self._refused(
                row, f"{what} has the characters 1 or 2, which separate properties; replace them"
            )

    def _refused(self, row: int, text: str) -> MessageIllegal:
        return MessageIllegal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"row {self._first_row + row} of its partition (the first is 0) cannot be a message: {text}",
        )


def pure_group_queues(
    groups: pa.BinaryArray, queue_count: int
) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    """Return which of so many queues each row belongs to, as Java's clients choose it; -1: to none."""
    return np.array([_queue_of(group, queue_count) for group in groups.to_pylist()], np.int32)


def _queue_of(group: bytes | None, queue_count: int) -> int:
    return abs(java_hash(group.decode("utf-8", "replace"))) % queue_count if group else -1


if TYPE_CHECKING or not IS_COMPILED:
    Units = PureUnits
    group_queues = pure_group_queues
else:
    from pyromq._kernel.spark.units import Units
    from pyromq._kernel.spark.units import group_queues as _plain_group_queues

    def group_queues(groups: pa.BinaryArray, queue_count: int) -> np.ndarray:
        """Return which of so many queues each row belongs to, as Java's clients choose it; -1: to none."""
        made = np.frombuffer(_plain_group_queues(groups, queue_count), np.int32)
        for row in np.flatnonzero(made == -2):
            made[row] = _queue_of(groups[int(row)].as_py(), queue_count)
        return made


class Encoder:
    """Encodes the rows of one Arrow batch: plain ones fast, and any other."""

    def __init__(self, rows: Rows, head: bytes, first_row: int) -> None:
        self.rows = rows
        self._fast = Units(rows, head, first_row, LEFT_OUT)
        self._any = PureUnits(rows, head, first_row, LEFT_OUT)

    def encode(
        self, rows: "np.ndarray[tuple[int], np.dtype[np.int32]] | None", start: int, stop: int, bytes_max: int
    ) -> tuple[bytes, int]:
        """Encode some of these rows, as `PureUnits.encode` does; none when the first does not fit."""
        made, at = self._fast.encode(rows, start, stop, bytes_max)
        if at > start or at == stop:
            return made, at
        unit = self.encode_row(start if rows is None else int(rows[start]))
        return (unit, start + 1) if len(unit) <= bytes_max else (b"", start)

    def encode_row(self, row: int) -> bytes:
        """Return one row, whatever its size."""
        return self._any.encode_row(row)
