"""What is known of staged batches is a function of their records, and of the table for the older ones."""

from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.broker.kinds.staging.ledger import Chunk, Ledger
from pyromq.broker.kinds.staging.ops import (
    Aborted,
    AnyOp,
    Decided,
    Opened,
    Out,
    Prepared,
    Published,
    decode_op,
    encode_op,
)
from pyromq.broker.kinds.staging.records import ChunkNote, read_note
from pyromq.broker.kinds.staging.staging_snapshot import decode_snapshot, encode_snapshot, restore
from pyromq.errors import BodyError, CorruptRecord
from pyromq.wire.bodies.staging_bodies import PartChunks

HOME = "broker-a"


def note(batch: int, part: int = 0, attempt: str = "x", sequence: int = 0, query: str = "q") -> ChunkNote:
    return ChunkNote(
        query=query, batch=batch, home=HOME, part=part, attempt=attempt, sequence=sequence, topic="orders",
        queue_id=3, sys_flag=0, message_count=5, record_bytes=700, is_plain=True,
    )  # fmt: skip


def part(number: int = 0, attempt: str = "x", chunks: int = 1) -> PartChunks:
    return PartChunks(part=number, attempt=attempt, chunks={HOME: chunks})


@dataclass
class Records:
    """A ledger that is told of records in their order."""

    ledger: Ledger = field(default_factory=Ledger)
    _positions: "count[int]" = field(default_factory=lambda: count(1000, 100))
    _chunks: "count[int]" = field(default_factory=count)
    _ops: "count[int]" = field(default_factory=count)

    def chunk(self, note: ChunkNote, at_ms: int = 0) -> None:
        chunk = Chunk(next(self._positions), note.message_count, note.record_bytes)
        self.ledger.chunk_stored(note, chunk, offset=next(self._chunks), at_ms=at_ms)

    def op(self, op: AnyOp, at_ms: int = 0) -> None:
        self.ledger.apply(op, offset=next(self._ops), position=next(self._positions), at_ms=at_ms)


def opened(batch: int = 0, **layout: dict[str, int]) -> Opened:
    return Opened(query="q", batch=batch, home=HOME, layout=layout)


def test_the_first_layout_of_a_topic_holds_and_others_come_to_it() -> None:
    records = Records()
    records.op(opened(orders={"a": 2}))
    records.op(opened(orders={"a": 7}, paid={"b": 1}))

    batch = records.ledger.batch("q", 0)

    assert batch is not None
    assert batch.layout == {"orders": {"a": 2}, "paid": {"b": 1}}


def test_decided_chunks_come_in_the_order_of_parts() -> None:
    records = Records()
    for number in (1, 0):
        for sequence in range(2):
            records.chunk(note(0, number, sequence=sequence))
    records.chunk(note(0, 1, attempt="loser"))
    records.op(Decided(query="q", batch=0, home=HOME, parts=[part(1, chunks=2), part(0, chunks=2)]))

    batch = records.ledger.batch("q", 0)

    assert batch is not None
    assert [chunk.position for chunk in batch.decided_chunks()] == [1200, 1300, 1000, 1100]
    assert records.ledger.chunk_count == 4


def test_the_first_decision_holds() -> None:
    records = Records()
    records.op(Decided(query="q", batch=0, home=HOME, parts=[part(attempt="first")]))
    records.op(Decided(query="q", batch=0, home=HOME, parts=[part(attempt="second")]))
    records.op(Aborted(query="q", batch=0, attempts=[(0, "first")]))

    batch = records.ledger.batch("q", 0)

    assert batch is not None
    assert batch.decision == (part(attempt="first"),)
    assert not batch.aborted


def test_an_aborted_attempt_gets_no_more_chunks() -> None:
    records = Records()
    records.chunk(note(0))
    records.op(Aborted(query="q", batch=0, attempts=[(0, "x")]))
    records.chunk(note(0))

    batch = records.ledger.batch("q", 0)

    assert batch is not None
    assert not batch.attempts
    assert records.ledger.chunk_count == 0


def test_a_chunk_that_is_not_the_next_is_left_out() -> None:
    records = Records()
    for sequence in (0, 0, 2, 1, 1):
        records.chunk(note(0, sequence=sequence))

    batch = records.ledger.batch("q", 0)

    assert batch is not None
    assert [chunk.position for chunk in batch.chunks_of((0, "x"))] == [1000, 1300]


def test_a_published_batch_and_those_before_it_are_only_a_number() -> None:
    records = Records()
    for batch in (3, 4, 5):
        records.chunk(note(batch))
    records.op(Published(query="q", batch=4))
    records.op(Published(query="q", batch=3))
    records.chunk(note(2))
    records.op(opened(4))

    query = records.ledger.queries["q"]

    assert (query.last_published, list(query.batches), records.ledger.chunk_count) == (4, [5], 1)


def test_what_nobody_touched_expires_unless_it_is_promised() -> None:
    records = Records()
    for batch in range(4):
        records.chunk(note(batch), at_ms=100)
    records.chunk(note(1, sequence=1), at_ms=200)
    records.op(Prepared(query="q", batch=2, home=HOME, parts=[part()]), at_ms=100)
    records.op(Decided(query="q", batch=3, home=HOME, parts=[part()]), at_ms=100)

    assert records.ledger.expire(150, min_position=0) == [("q", 0)]
    assert sorted(records.ledger.queries["q"].batches) == [1, 2, 3]
    assert records.ledger.chunk_count == 4
    assert records.ledger.expire(150, min_position=1 << 40) == [("q", 2)]


def test_a_query_is_forgotten_when_nobody_used_it_for_long_and_nothing_of_it_is_decided() -> None:
    records = Records()
    for query in ("old", "new", "decided"):
        records.chunk(note(0, query=query), at_ms=200 if query == "new" else 100)
    records.op(Decided(query="decided", batch=0, home=HOME, parts=[part()]), at_ms=100)

    records.ledger.forget_queries(150)

    assert sorted(records.ledger.queries) == ["decided", "new"]
    assert records.ledger.chunk_count == 2


def test_an_op_about_an_unknown_query_changes_nothing() -> None:
    records = Records()
    for op in (
        Aborted(query="q", batch=0, attempts=[]),
        Out(query="q", batch=0),
        Published(query="q", batch=0),
    ):
        records.op(op)

    assert not records.ledger.queries


def test_an_op_is_read_as_it_was_written() -> None:
    for op in (
        opened(orders={"a": 1}),
        Aborted(query="q", batch=1, attempts=[(0, "x")]),
        Prepared(query="q", batch=1, home=HOME, parts=[part()]),
        Decided(query="q", batch=1, home=HOME, parts=[part()]),
        Out(query="q", batch=1),
        Published(query="q", batch=1),
    ):
        assert decode_op(encode_op(op)) == op


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"op":"other"}', b'{"op":"out","query":7,"batch":1}', b"\xff"]
)
def test_an_op_that_does_not_read_is_told(body: bytes) -> None:
    with pytest.raises(BodyError):
        decode_op(body)


def test_a_chunk_s_properties_are_read_as_they_were_written() -> None:
    one = note(7, part=3, attempt="0-äö", sequence=2)
    assert read_note(one.encode()) == one


@pytest.mark.parametrize(
    "properties", ["", "STAGED_QUERY\x01q", note(0).encode().replace("\x015\x02", "\x01five\x02")]
)
def test_a_chunk_that_does_not_say_whose_it_is_is_told(properties: str) -> None:
    with pytest.raises(CorruptRecord):
        read_note(properties)


# A start from the table and from what is behind it is a start from everything.

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["chunk", "open", "abort", "prepare", "decide", "out", "publish"]),
        st.integers(0, 3),
        st.sampled_from(["x", "y"]),
    ),
    max_size=30,
)


def _event(records: Records, kind: str, batch: int, attempt: str) -> None:
    """Let something happen, if a broker would let it."""
    known = records.ledger.batch("q", batch)
    query = records.ledger.queries.get("q")
    if query is not None and batch <= query.last_published:
        return
    if kind == "chunk" and (known is None or (known.decision is None and (0, attempt) not in known.aborted)):
        sequence = 0 if known is None else len(known.chunks_of((0, attempt)))
        records.chunk(note(batch, attempt=attempt, sequence=sequence))
    elif kind == "open":
        records.op(opened(batch, orders={"a": 1}))
    elif known is None:
        return
    elif kind == "abort" and known.decision is None:
        records.op(Aborted(query="q", batch=batch, attempts=[(0, attempt)]))
    elif kind == "prepare" and known.decision is None:
        records.op(Prepared(query="q", batch=batch, home=HOME, parts=[part(attempt=attempt)]))
    elif kind == "decide" and known.decision is None and (0, attempt) not in known.aborted:
        records.op(Decided(query="q", batch=batch, home=HOME, parts=[part(attempt=attempt)]))
    elif kind == "out" and known.decision is not None:
        records.op(Out(query="q", batch=batch))
    elif kind == "publish" and known.is_out:
        records.op(Published(query="q", batch=batch))


@dataclass
class Remembering(Records):
    """The same, and the records can be told again from any on."""

    chunks: list[tuple[ChunkNote, Chunk]] = field(default_factory=list)
    ops: list[tuple[AnyOp, int]] = field(default_factory=list)

    def chunk(self, note: ChunkNote, at_ms: int = 0) -> None:
        chunk = Chunk(next(self._positions), note.message_count, note.record_bytes)
        self.chunks.append((note, chunk))
        self.ledger.chunk_stored(note, chunk, offset=len(self.chunks) - 1, at_ms=at_ms)

    def op(self, op: AnyOp, at_ms: int = 0) -> None:
        self.ops.append((op, next(self._positions)))
        self.ledger.apply(op, offset=len(self.ops) - 1, position=self.ops[-1][1], at_ms=at_ms)


@given(before=EVENTS, after=EVENTS)
def test_a_table_and_what_is_behind_it_say_the_same_as_all_records(
    before: list[tuple[str, int, str]], after: list[tuple[str, int, str]]
) -> None:
    records = Remembering()
    for event in before:
        _event(records, *event)
    text = encode_snapshot(records.ledger, chunk_end=len(records.chunks), op_end=len(records.ops))
    for event in after:
        _event(records, *event)

    again = _from_table(text, records)

    assert _facts(again) == _facts(records.ledger)


def _from_table(text: bytes, records: Remembering) -> Ledger:
    snapshot = decode_snapshot(text)
    ledger = Ledger()
    restore(snapshot, ledger)
    chunks = [(chunk.position, offset) for offset, (_, chunk) in enumerate(records.chunks)]
    ops = [(position, offset) for offset, (_, position) in enumerate(records.ops)]
    behind = [*chunks[snapshot.chunk_offset :], *ops[snapshot.op_offset :]]
    for position, offset in sorted(behind):
        if (position, offset) in chunks:
            staged, chunk = records.chunks[offset]
            copy = Chunk(chunk.position, chunk.message_count, chunk.record_bytes)
            ledger.chunk_stored(staged, copy, offset=offset, at_ms=0)
        else:
            ledger.apply(records.ops[offset][0], offset=offset, position=position, at_ms=0)
    return ledger


def _facts(ledger: Ledger) -> object:
    return {
        name: (
            query.last_published,
            {
                number: (
                    # Whose chunks are out has none to speak of.
                    {} if batch.is_out else {key: chunks for key, chunks in batch.attempts.items() if chunks},
                    batch.decision,
                    batch.decided_at,
                    batch.is_out,
                    batch.aborted if batch.decision is None else None,
                    batch.layout if batch.decision is None else None,
                    batch.is_prepared if batch.decision is None else None,
                )
                for number, batch in query.batches.items()
            },
        )
        for name, query in ledger.queries.items()
    }
