"""A pulled buffer makes the same messages compiled and not, and a compiled message is the dataclass."""

import copy
import dataclasses
import pickle
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pulled_records import RECORDS

from pyromq.client.consumer.incoming import pure_received_messages, received_messages
from pyromq.errors import PyroError
from pyromq.kernel import IS_COMPILED
from pyromq.model import MessageQueue, PureReceivedMessage, ReceivedMessage
from pyromq.wire.record import Record, encode_record

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="the pure version runs")

NAMES = [field.name for field in dataclasses.fields(PureReceivedMessage)]


def outcome(read: Any, *arguments: Any) -> Any:
    """Return the messages, each field by its name, or what was raised."""
    try:
        messages = read(*arguments)
    except PyroError as error:
        return type(error), str(error)
    return [[(name, value(message, name)) for name in NAMES] for message in messages]


def value(message: ReceivedMessage, name: str) -> Any:
    """Return a field, or why a body cannot be read."""
    try:
        return getattr(message, name)
    except PyroError as error:
        return type(error), str(error)


@given(RECORDS, st.frozensets(st.sampled_from(["a b", "é", "a"])), st.sampled_from([{}, {"MIN_OFFSET": "7"}]))
def test_messages_are_read_alike(records: list[Record], tags: frozenset[str], added: dict[str, str]) -> None:
    buffer = b"".join(map(encode_record, records))

    seen = outcome(received_messages, buffer, "broker-a", added, tags)

    assert seen == outcome(pure_received_messages, buffer, "broker-a", added, tags)


@given(RECORDS.filter(bool), st.data())
@settings(max_examples=400)
def test_damage_is_told_alike(records: list[Record], data: st.DataObject) -> None:
    buffer = bytearray(b"".join(map(encode_record, records)))
    places = st.one_of(st.integers(0, 100), st.integers(0, len(buffer) - 1))
    for at, value in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=3)):
        buffer[min(at, len(buffer) - 1)] = value
    del buffer[
        data.draw(st.sampled_from([len(buffer), len(buffer), len(buffer) - 1, len(buffer) // 2, 90])) :
    ]

    seen = outcome(received_messages, bytes(buffer), "b")

    assert seen == outcome(pure_received_messages, bytes(buffer), "b")


def fresh(number: int = 1) -> ReceivedMessage:
    """Return a message of which nothing was read yet."""
    record = Record(
        topic="orders",
        body=b"hello",
        queue_id=3,
        queue_offset=number,
        position=17,
        properties="UNIQ_KEY\x01ABC\x02TAGS\x01a\x02KEYS\x01k l",
    )
    return received_messages(encode_record(record), "broker-a", {"MIN_OFFSET": "0"})[0]


def pure_twin(message: ReceivedMessage) -> Any:
    return PureReceivedMessage(*[getattr(message, name) for name in NAMES])


def test_it_reads_as_the_dataclass_does() -> None:
    assert repr(fresh()) == repr(pure_twin(fresh()))


def test_messages_with_equal_fields_are_equal() -> None:
    assert fresh() == fresh()
    assert fresh() != fresh(2)
    assert fresh() != "orders"


def test_it_cannot_be_a_key() -> None:
    with pytest.raises(TypeError):
        hash(fresh())


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_it_can_be_copied_and_pickled(again: Any) -> None:
    assert again(fresh()) == fresh()


def test_a_pickle_reads_where_there_is_no_kernel() -> None:
    script = "import pickle, sys; print(pickle.load(sys.stdin.buffer))"

    printed = subprocess.run(
        [sys.executable, "-c", script],
        input=pickle.dumps(fresh()),
        capture_output=True,
        check=True,
        env={"PYROMQ_PURE": "1"},
    ).stdout

    assert printed.decode().strip() == repr(fresh())


def test_the_functions_of_dataclasses_take_it() -> None:
    assert dataclasses.replace(fresh(), topic="other").topic == "other"
    assert dataclasses.asdict(fresh()) == dataclasses.asdict(pure_twin(fresh()))
    assert [field.name for field in dataclasses.fields(fresh())] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_field_can_be_set_and_no_other_changes(name: str) -> None:
    message, twin = fresh(), pure_twin(fresh())
    value: Any = {"queue": MessageQueue("t", "b", 1), "properties": {"x": "y"}, "body": b"new"}.get(name)
    if value is None:
        value = 12345 if isinstance(getattr(twin, name), int) else "new"

    setattr(message, name, value)
    setattr(twin, name, value)

    assert pure_twin(message) == twin


@pytest.mark.parametrize("name", NAMES)
def test_each_field_can_be_read_first(name: str) -> None:
    assert getattr(fresh(), name) == getattr(pure_twin(fresh()), name)


def test_what_was_added_to_properties_stays() -> None:
    message = fresh()

    message.properties["mine"] = "1"

    assert message.body == b"hello"
    assert message.properties["mine"] == "1"
    assert (message.tags, message.keys) == ("a", ["k", "l"])


def test_a_message_lets_the_buffer_go_when_it_is_read() -> None:
    buffer = encode_record(Record(topic="t", body=b"x" * 100, properties="a\x01b"))
    before = sys.getrefcount(buffer)
    (held,) = received_messages(buffer, "b")
    assert sys.getrefcount(buffer) == before + 1

    assert held.body
    assert held.properties

    assert sys.getrefcount(buffer) == before
