"""The properties of a record without the rest of it, as filters read them."""

import contextlib
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import CorruptRecord
from pyromq.wire.record import Record, decode_record, encode_host, encode_record, read_properties

V4 = encode_host("127.0.0.1", 10911)
V6 = encode_host("2001:db8::1", 10911)


def record(
    topic: str = "orders", body: bytes = b"hello", properties: str = "a\x01b", **hosts: bytes
) -> bytes:
    fields = {"born_host": V4, "store_host": V4, **hosts}
    return encode_record(Record(topic, body, 0, properties, **fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("born_host", "store_host", "topic"), list(product((V4, V6), (V4, V6), ("t", "t" * 200)))
)
def test_they_are_found_behind_any_hosts_and_topics(born_host: bytes, store_host: bytes, topic: str) -> None:
    data = record(topic, born_host=born_host, store_host=store_host)
    assert read_properties(memoryview(data)) == "a\x01b"


@given(st.binary(), st.text(st.characters(exclude_categories=["Cs"])))
def test_they_are_those_of_the_whole_record(body: bytes, properties: str) -> None:
    data = record(body=body, properties=properties)
    assert read_properties(data) == decode_record(data).properties


@given(st.integers(0, 200), st.binary(min_size=1, max_size=8), st.integers(-8, 8))
def test_damage_is_told_and_never_read_beyond(at: int, damage: bytes, more: int) -> None:
    data = bytearray(record(store_host=V6))
    data[at : at + len(damage)] = damage
    data = data[:more] if more < 0 else data + bytes(more)
    with contextlib.suppress(CorruptRecord):
        assert len(read_properties(data)) <= len(data)


@pytest.mark.parametrize("size", [0, 90])
def test_too_few_bytes_are_no_record(size: int) -> None:
    with pytest.raises(CorruptRecord, match="too few"):
        read_properties(bytes(size))
