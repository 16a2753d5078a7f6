import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.client.tracing.trace_format import (
    ConsumeReturn,
    MessageKind,
    TraceEntry,
    TraceType,
    decode_entries,
    encode_entry,
    keys_of,
)

#: What Java's TraceDataEncoder 4.9.8 writes for the same values; recorded by tests/interop.
SENT = TraceEntry(
    type=TraceType.PUB,
    at_ms=1_700_000_000_000,
    region="DefaultRegion",
    group="senders",
    topic="orders",
    message_id="ID1",
    tags="paid",
    keys="42 43",
    broker_address="127.0.0.1:10911",
    body_bytes=7,
    took_ms=3,
    kind=MessageKind.NORMAL,
    offset_message_id="OFF1",
)
SENT_TEXT = (
    "Pub\x011700000000000\x01DefaultRegion\x01senders\x01orders\x01ID1\x01paid\x0142 43\x01"
    "127.0.0.1:10911\x017\x013\x010\x01OFF1\x01true\x02"
)
BEFORE = TraceEntry(
    type=TraceType.SUB_BEFORE,
    at_ms=5,
    region=None,
    group="readers",
    request_id="R1",
    message_id="ID1",
    retries=2,
)
BEFORE_TEXT = "SubBefore\x015\x01null\x01readers\x01R1\x01ID1\x012\x01null\x02"
AFTER = TraceEntry(
    type=TraceType.SUB_AFTER,
    at_ms=9,
    group="readers",
    request_id="R1",
    message_id="ID1",
    took_ms=4,
    is_success=False,
    keys="42",
    how_it_ended=ConsumeReturn.EXCEPTION,
)
AFTER_TEXT = "SubAfter\x01R1\x01ID1\x014\x01false\x0142\x012\x019\x01readers\x02"
END = TraceEntry(
    type=TraceType.END_TRANSACTION,
    at_ms=5,
    group="senders",
    topic="orders",
    message_id="ID1",
    broker_address="b:1",
    kind=MessageKind.COMMIT,
    transaction_id="TX",
    transaction_state="COMMIT_MESSAGE",
    was_asked=True,
)
END_TEXT = (
    "EndTransaction\x015\x01DefaultRegion\x01senders\x01orders\x01ID1\x01null\x01null\x01b:1\x012\x01TX\x01"
    "COMMIT_MESSAGE\x01true\x02"
)
ALL = [(SENT, SENT_TEXT), (BEFORE, BEFORE_TEXT), (AFTER, AFTER_TEXT), (END, END_TEXT)]


@pytest.mark.parametrize(("entry", "text"), ALL)
def test_an_entry_is_written_as_java_writes_it(entry: TraceEntry, text: str) -> None:
    assert encode_entry(entry) == text


@pytest.mark.parametrize(("entry", "text"), ALL)
def test_an_entry_is_read_as_it_was_written(entry: TraceEntry, text: str) -> None:
    assert list(decode_entries(text)) == [entry]


def test_a_message_has_many_entries_and_says_who_told() -> None:
    entries = list(decode_entries(SENT_TEXT + BEFORE_TEXT + AFTER_TEXT, "1.2.3.4:5"))

    assert [entry.type for entry in entries] == [TraceType.PUB, TraceType.SUB_BEFORE, TraceType.SUB_AFTER]
    assert {entry.client_host for entry in entries} == {"1.2.3.4:5"}


def test_an_old_clients_entry_without_an_offset_id_is_read() -> None:
    old = SENT_TEXT.replace("OFF1\x01", "")

    (entry,) = decode_entries(old)

    assert (entry.offset_message_id, entry.is_success) == (None, True)


def test_entries_are_found_by_ids_and_keys() -> None:
    assert keys_of([SENT, BEFORE, AFTER]) == ["ID1", "42", "43"]


@given(st.text(alphabet="PubSAfter\x01\x02019nulltrue-"))
def test_what_is_no_trace_is_passed_over(text: str) -> None:
    for entry in decode_entries(text):
        assert encode_entry(entry)
