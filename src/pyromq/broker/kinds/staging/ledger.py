"""The ledger of staged batches on this broker: a function of the records in the two topics of staged sends.

    open ──► chunk, chunk, chunk ──► decide ──► publish
                             └► abort, or expiry

Attempts grow until it is decided which of them count. A decision is final. A published batch is forgotten
but for its number. `chunk_stored` and `apply` take records in the order of the log (`batches.py`); they
refuse nothing. `staging.py` checks whether an operation is allowed before it is stored.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from pyromq.broker.kinds.staging.ops import Aborted, AnyOp, Decided, Opened, Out, Prepared, Published
from pyromq.broker.kinds.staging.records import ChunkNote
from pyromq.wire.bodies.staging_bodies import Layout, PartChunks

#: A part and the name of an attempt at it.
AttemptKey = tuple[int, str]


@dataclass(slots=True)
class Chunk:
    """A record with staged messages. `out_count` are the first of them, which are out already.

    `out_bytes` is what these take in the chunk, 0 when nobody looked yet.
    """

    position: int
    message_count: int
    record_bytes: int
    out_count: int = 0
    out_bytes: int = 0


@dataclass(slots=True)
class StagedBatch:
    """A batch of a query that is not published."""

    number: int
    active_at_ms: int = 0
    #: Queues for each topic, at the query's home once the batch is open.
    layout: Layout | None = None
    attempts: dict[AttemptKey, list[Chunk]] = field(default_factory=dict)
    aborted: set[AttemptKey] = field(default_factory=set)
    is_prepared: bool = False
    decision: tuple[PartChunks, ...] | None = None
    #: Where the decision is in the log: what is out is behind it.
    decided_at: int = 0
    is_out: bool = False
    #: The oldest records about it, by their queue offsets.
    first_chunk: int | None = None
    first_op: int | None = None

    def chunks_of(self, key: AttemptKey) -> list[Chunk]:
        """Return the chunks of an attempt in their order."""
        return self.attempts.get(key, [])

    def may_have(self, key: AttemptKey) -> bool:
        """Return whether chunks of an attempt count: all do until it is decided which."""
        return self.decision is None or key in ((part.part, part.attempt) for part in self.decision)

    @property
    def is_leaving(self) -> bool:
        """Whether it is decided, and not all of it is out."""
        return self.decision is not None and not self.is_out

    def decided_chunks(self) -> Iterator[Chunk]:
        """Yield what this broker has of the decided parts, in the order of parts and of sequence numbers."""
        for part in sorted(self.decision or (), key=attrgetter("part")):
            yield from self.chunks_of((part.part, part.attempt))

    @property
    def end_position(self) -> int:
        """The log position of the last chunk, 0 when there is none."""
        return max((chunks[-1].position for chunks in self.attempts.values() if chunks), default=0)

    @property
    def out_count(self) -> int:
        """The number of messages of the decided parts that are out."""
        return sum(chunk.out_count for chunk in self.decided_chunks())


@dataclass(slots=True)
class Query:
    """Somebody who writes batches."""

    home: str
    used_at_ms: int
    last_published: int = -1
    #: The account that it belongs to, the first that used it; None while nobody with an account did.
    owner: str | None = None
    batches: dict[int, StagedBatch] = field(default_factory=dict)


class Ledger:
    """All queries by name."""

    def __init__(self) -> None:
        self.queries: dict[str, Query] = {}
        self.chunk_count = 0

    def batch(self, query: str, number: int) -> StagedBatch | None:
        """Return a batch that is neither published nor unknown."""
        known = self.queries.get(query)
        return None if known is None else known.batches.get(number)

    def batches(self) -> Iterator[tuple[str, Query, StagedBatch]]:
        """Yield all batches that are not published, with their queries."""
        for name, query in self.queries.items():
            for batch in query.batches.values():
                yield name, query, batch

    # Records

    def chunk_stored(self, note: ChunkNote, chunk: Chunk, *, offset: int, at_ms: int) -> None:
        """Note a chunk; one that is not its attempt's next is left out, and so are those behind it."""
        batch = self._batch(note.query, note.batch, note.home, at_ms, owner=note.owner)
        key = (note.part, note.attempt)
        if batch is None or batch.is_out or key in batch.aborted or not batch.may_have(key):
            return
        chunks = batch.attempts.setdefault(key, [])
        if note.sequence == len(chunks):
            chunks.append(chunk)
            self.chunk_count += 1
            if batch.first_chunk is None:
                batch.first_chunk = offset

    def apply(self, op: AnyOp, *, offset: int, position: int, at_ms: int) -> None:
        """Note what an op says."""
        if isinstance(op, Published):
            self._published(op, at_ms)
            return
        home, owner = (op.home, op.owner) if isinstance(op, Opened | Prepared | Decided) else (None, None)
        batch = self._batch(op.query, op.batch, home, at_ms, owner=owner)
        if batch is None:
            return
        if batch.first_op is None:
            batch.first_op = offset
        match op:
            case Opened():
                # Of two proposals for a topic the first holds.
                batch.layout = op.layout | (batch.layout or {})
            case Aborted():
                self._abort(batch, op.attempts)
            case Prepared():
                batch.is_prepared = True
            case Decided():
                self._decide(batch, op.parts, position)
            case Out():
                self._out(batch)

    def restore_decision(
        self, query: str, number: int, parts: Iterable[PartChunks], position: int, *, is_out: bool
    ) -> None:
        """Note what a table says was decided; the records that said so may have gone."""
        batch = self._batch(query, number, None, 0)
        if batch is not None:
            self._decide(batch, parts, position)
            if is_out:
                self._out(batch)

    def _abort(self, batch: StagedBatch, attempts: Iterable[AttemptKey]) -> None:
        if batch.decision is None:
            for key in attempts:
                batch.aborted.add(key)
                self._drop_attempt(batch, key)

    def _decide(self, batch: StagedBatch, parts: Iterable[PartChunks], position: int) -> None:
        if batch.decision is not None:
            return
        batch.decision, batch.decided_at = tuple(parts), position
        counted = {(part.part, part.attempt) for part in batch.decision}
        for key in batch.attempts.keys() - counted:
            self._drop_attempt(batch, key)

    def _out(self, batch: StagedBatch) -> None:
        batch.is_out = True
        for key in tuple(batch.attempts):
            self._drop_attempt(batch, key)
        batch.first_chunk = None

    def _published(self, op: Published, at_ms: int) -> None:
        query = self.queries.get(op.query)
        if query is None:
            return
        query.used_at_ms = max(query.used_at_ms, at_ms)
        query.last_published = max(query.last_published, op.batch)
        for number in [number for number in query.batches if number <= query.last_published]:
            self._drop_batch(query, number)

    def _batch(
        self, name: str, number: int, home: str | None, at_ms: int, *, owner: str | None = None
    ) -> StagedBatch | None:
        """Return a batch, made if it is new; None when it is published, or nobody knows its query's home."""
        query = self.queries.get(name)
        if query is None:
            if home is None:
                return None
            query = self.queries[name] = Query(home, at_ms)
        if query.owner is None:
            query.owner = owner
        query.used_at_ms = max(query.used_at_ms, at_ms)
        if number <= query.last_published:
            return None
        batch = query.batches.setdefault(number, StagedBatch(number))
        batch.active_at_ms = max(batch.active_at_ms, at_ms)
        return batch

    # Forgetting

    def expire(self, before_ms: int, min_position: int) -> list[tuple[str, int]]:
        """Forget batches that nobody touched since, and return which; decided ones stay.

        Those that are prepared stay as long as the log, which begins at `min_position`, has some of them.
        """
        expired = [
            (name, batch.number)
            for name, _, batch in self.batches()
            if batch.active_at_ms < before_ms
            and batch.decision is None
            and not (batch.is_prepared and batch.end_position > min_position)
        ]
        for name, number in expired:
            self._drop_batch(self.queries[name], number)
        return expired

    def forget_queries(self, before_ms: int) -> None:
        """Forget queries that nobody used since; what they have that is not decided goes with them."""
        old = [
            name
            for name, query in self.queries.items()
            if query.used_at_ms < before_ms
            and all(batch.decision is None for batch in query.batches.values())
        ]
        for name in old:
            query = self.queries.pop(name)
            for number in tuple(query.batches):
                self._drop_batch(query, number)

    def first_needed(self, *, chunk_end: int, op_end: int) -> tuple[int, int]:
        """Return from which offsets on records of the two queues are still needed; their ends if none is."""
        for _, _, batch in self.batches():
            chunk_end = min(chunk_end, chunk_end if batch.first_chunk is None else batch.first_chunk)
            op_end = min(op_end, op_end if batch.first_op is None else batch.first_op)
        return chunk_end, op_end

    def _drop_batch(self, query: Query, number: int) -> None:
        batch = query.batches.pop(number)
        for key in tuple(batch.attempts):
            self._drop_attempt(batch, key)

    def _drop_attempt(self, batch: StagedBatch, key: AttemptKey) -> None:
        self.chunk_count -= len(batch.attempts.pop(key, ()))
