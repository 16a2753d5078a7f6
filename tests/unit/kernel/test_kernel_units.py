"""Rows become the same messages compiled and not, and what the compiled way leaves is done by the other."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import MessageIllegal
from pyromq.kernel import IS_COMPILED
from pyromq.wire.batch import decode_batch

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

import numpy as np
import pyarrow as pa

from pyspark_rocketmq.sink.rows import Rows
from pyspark_rocketmq.sink.units import LEFT_OUT, PureUnits, Units, group_queues, pure_group_queues

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="the pure version runs")

HEAD = b"0123456789ABCDEF"
TEXTS = st.none() | st.binary(max_size=12) | st.sampled_from([b"paid", "größer".encode(), b"a\x01b", b"\x02"])
NAMES = st.binary(max_size=6) | st.sampled_from([*LEFT_OUT[:9], b"TAGS", b"KEYS", b"__SHARDINGKEY", b"mine"])
TIMES = st.none() | st.integers(-2, 3) | st.integers(-(1 << 63), (1 << 63) - 1)
MAPS = st.none() | st.lists(st.tuples(NAMES, TEXTS), max_size=4)
COLUMNS: dict[str, tuple[Any, Any]] = {
    "body": (st.none() | st.binary(max_size=40), pa.binary()),
    "tags": (TEXTS, pa.binary()),
    "keys": (TEXTS, pa.binary()),
    "message_group": (TEXTS, pa.binary()),
    "msg_id": (TEXTS, pa.binary()),
    "properties": (MAPS, pa.map_(pa.binary(), pa.binary())),
    "deliver_at": (TIMES, pa.int64()),
    "delay_ms": (TIMES, pa.int64()),
    "delay_level": (TIMES, pa.int64()),
}


@st.composite
def rows(draw: st.DrawFn) -> Rows:
    count, cut = draw(st.integers(1, 12)), draw(st.integers(0, 3))
    has = ["body", *draw(st.lists(st.sampled_from(list(COLUMNS)[1:]), unique=True))]
    made = {}
    for name in has:
        values, kind = COLUMNS[name]
        listed = draw(st.lists(values, min_size=count + cut, max_size=count + cut))
        # Arrays that begin in the middle of their buffers, as slices do.
        made[name] = pa.array(listed, kind)[cut:]
    return Rows(**made)


@given(rows(), st.integers(0, 1 << 33), st.data())
@settings(max_examples=300)
def test_rows_are_encoded_alike_up_to_the_first_that_is_not_plain(
    table: Rows, first_row: int, data: st.DataObject
) -> None:
    places = data.draw(st.none() | st.lists(st.integers(0, table.count - 1), max_size=20))
    order = None if places is None else np.array(places, np.int32)
    stop = table.count if places is None else len(places)
    bytes_max = data.draw(st.integers(0, 2_000))
    pure = PureUnits(table, HEAD, first_row, LEFT_OUT)

    made, end = Units(table, HEAD, first_row, LEFT_OUT).encode(order, 0, stop, bytes_max)

    assert pure.encode(order, 0, end, 1 << 30) == (made, end)
    assert len(made) <= bytes_max
    if end < stop:
        try:
            unit = pure.encode_row(end if places is None else places[end])
        except MessageIllegal:
            return
        assert len(made) + len(unit) > bytes_max


@given(st.lists(TEXTS | st.text(max_size=5).map(str.encode), max_size=20), st.integers(1, 40))
def test_groups_belong_to_the_same_queues(groups: list[bytes | None], queue_count: int) -> None:
    array = pa.array(groups, pa.binary())

    assert group_queues(array, queue_count).tolist() == pure_group_queues(array, queue_count).tolist()


def test_a_row_is_read_back_as_it_was() -> None:
    table = Rows(
        body=pa.array([b"hello"]),
        tags=pa.array([b"paid"]),
        keys=pa.array([b"k1 k2"]),
        properties=pa.array(
            [[(b"mine", b"1"), (b"TAGS", b"old"), (b"UNIQ_KEY", b"X")]], COLUMNS["properties"][1]
        ),
        delay_level=pa.array([3]),
    )

    made, _ = Units(table, HEAD, 0x12345, LEFT_OUT).encode(None, 0, 1, 1_000)

    (unit,) = decode_batch(made)
    assert unit.body == b"hello"
    assert unit.properties.split("\x02") == [
        "UNIQ_KEY\x010123456789ABCDEF0001000000002345",
        "TAGS\x01paid",
        "KEYS\x01k1 k2",
        "DELAY\x013",
        "mine\x011",
    ]


class Nonsense:
    """An array whose buffers are not what it says."""

    def __init__(self, length: int, offset: int, *buffers: bytes | None) -> None:
        self._length, self.offset, self._buffers = length, offset, buffers

    def __len__(self) -> int:
        return self._length

    def buffers(self) -> tuple[bytes | None, ...]:
        return self._buffers


@pytest.mark.parametrize(
    "body",
    [
        Nonsense(2, 0, None, bytes(8), b""),
        Nonsense(1, 0, None, b"\0\0\0\0\x09\0\0\0", b"12345678"),
        Nonsense(1, 0, None, b"\x02\0\0\0\x01\0\0\0", b"12345678"),
        Nonsense(1, 0, None, b"\xff\xff\xff\xff\x01\0\0\0", b"12345678"),
        Nonsense(9, 0, b"\xff", bytes(40), b""),
        Nonsense(1, -1, None, bytes(8), b""),
    ],
)
def test_buffers_that_do_not_fit_are_refused(body: Any) -> None:
    with pytest.raises(ValueError, match="array"):
        Units(Rows(body=body), HEAD, 0, LEFT_OUT)
