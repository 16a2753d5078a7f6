"""The life of staged batches on one broker: what may happen to them, and what is made of it.

Whatever happens is a record of the log first, and known only then; between the question whether it may
happen and the record nothing is awaited. What a crash leaves is therefore what the log says (`replay.py`),
and a request that is repeated finds what it asked for done. `docs/internals/staged-sends.md` has the
protocol, and what each failure leads to.

An answer that says more of a batch than that it is open leaves when the disk has the log that says so.
"""

import asyncio
import logging
from collections.abc import Sequence

from pyromq.broker import topic_names
from pyromq.broker.durability import Durability, FlushTimeout
from pyromq.broker.intake import Intake
from pyromq.broker.staging.ledger import AttemptKey, Batch, Chunk, Ledger, Query
from pyromq.broker.staging.ops import Aborted, AnyOp, Decided, Opened, Out, Prepared, Published
from pyromq.broker.staging.publishing import Publisher
from pyromq.broker.staging.records import QUEUE_ID, ChunkNote, chunk_draft, op_draft
from pyromq.broker.staging.table import StagedTable
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.config.settings import BrokerSettings
from pyromq.errors import (
    CorruptRecord,
    IllegalOperation,
    Refused,
    ServerFailed,
    ServiceNotAvailable,
    StoreError,
    SystemBusy,
)
from pyromq.store.store import MessageStore
from pyromq.wire.bodies.staging import Layout, PartChunks, StagedBody
from pyromq.wire.headers.staging import BatchState, StagedAnswer

log = logging.getLogger(__name__)

#: Queries are remembered for so long after they were last used: a batch of theirs is not published twice.
QUERY_KEPT_MS = 30 * 24 * 3_600_000
QUERIES_MAX = 100_000
#: So many missing chunks are named in a refusal.
_NAMED_MAX = 5


class Staging:
    """Staged batches. Everything but the waiting happens at once, on the broker's loop."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        table: StagedTable,
        store: MessageStore,
        intake: Intake,
        durability: Durability,
        publisher: Publisher,
        settings: BrokerSettings,
        clock: Clock,
        store_host: bytes,
    ) -> None:
        self._ledger = ledger
        self._table = table
        self._store = store
        self._intake = intake
        self._durability = durability
        self._publisher = publisher
        self._settings = settings
        self._name = settings.broker_name
        self._clock = clock
        self._store_host = store_host
        self._publishing: dict[tuple[str, int], asyncio.Task[None]] = {}
        #: Whether the table speaks for all records of the two topics; without any there need be none.
        self._is_saved = not ledger.queries
        self._is_closing = False

    # What clients ask for

    async def open(
        self, name: str, number: int, home: str, layout: Layout
    ) -> tuple[StagedAnswer, StagedBody]:
        """Begin a batch, or join it. Of two layouts for a topic the first holds; others note who is home."""
        query = self._query(name, home)
        if query is None and len(self._ledger.queries) >= QUERIES_MAX:
            raise SystemBusy(
                ResponseCode.SYSTEM_BUSY, f"the broker remembers {QUERIES_MAX} queries and takes no more now"
            )
        is_first = False
        if home != self._name:
            if query is None:
                self._note(Opened(query=name, batch=number, home=home))
        elif query is None or number > query.last_published:
            is_first = self._open(query, Opened(query=name, batch=number, home=home, layout=layout))
        if is_first:
            await self._safe()
        return await self._told(name, number, is_first=is_first)

    def _open(self, query: Query | None, op: Opened) -> bool:
        batches = {} if query is None else query.batches
        unfinished = [
            one.number for one in batches.values() if one.decision is not None and one.number < op.batch
        ]
        if unfinished:
            raise _refused(
                f"batch {unfinished[0]} of query {op.query} is decided and not yet published on all brokers; "
                f"publish it before batch {op.batch} is opened"
            )
        batch = batches.get(op.batch)
        if batch is not None and batch.decision is not None:
            return False
        is_first = batch is None or batch.layout is None
        known: Layout = {} if batch is None or batch.layout is None else batch.layout
        if is_first or op.layout.keys() - known.keys():
            self._note(op)
        elif batch is not None:
            batch.active_at_ms = self._clock.now_ms()
        return is_first

    def check_stageable(self, note: ChunkNote) -> Chunk | None:
        """Return the chunk if it was staged before; raise IllegalOperation when it cannot be staged now."""
        query = self._query(note.query, note.home)
        batch = None if query is None else query.batches.get(note.batch)
        what = f"batch {note.batch} of query {note.query}"
        if query is not None and note.batch <= query.last_published:
            raise _refused(f"{what} is published; nothing can be staged for it")
        if note.home == self._name and (batch is None or batch.layout is None):
            raise _refused(
                f"{what} is not open here, or was untouched for stagedMessageTimeout; open it first"
            )
        if batch is not None and batch.decision is not None:
            raise _refused(f"{what} is decided; nothing can be staged for it")
        key = (note.part, note.attempt)
        chunks = [] if batch is None else batch.chunks_of(key)
        if batch is not None and key in batch.aborted:
            raise _refused(f"attempt {note.attempt} at part {note.part} of {what} was aborted")
        if note.sequence > len(chunks):
            raise _refused(
                f"chunk {note.sequence} of attempt {note.attempt} at part {note.part} of {what} comes before "
                f"chunk {len(chunks)}: chunks are staged in their order, and begin anew in another attempt"
            )
        return chunks[note.sequence] if note.sequence < len(chunks) else None

    def stage(self, note: ChunkNote, messages: bytes, *, born_at_ms: int, born_host: bytes) -> int:
        """Store a chunk that may be staged; return the log position behind it."""
        if self._ledger.chunk_count >= self._settings.staged_chunks_max:
            raise SystemBusy(
                ResponseCode.SYSTEM_BUSY,
                f"{self._ledger.chunk_count} staged chunks wait to be published (stagedChunksMax)",
            )
        draft = chunk_draft(
            note, messages, born_at_ms=born_at_ms, born_host=born_host, store_host=self._store_host
        )
        placed = self._intake.put_as_is(draft)
        self._is_saved = False
        chunk = Chunk(placed.position, note.message_count, note.record_bytes)
        self._ledger.chunk_stored(note, chunk, offset=placed.queue_offset, at_ms=placed.stored_at_ms)
        return placed.end

    async def prepare(
        self, name: str, number: int, home: str, parts: Sequence[PartChunks]
    ) -> tuple[StagedAnswer, StagedBody]:
        """Promise that the home may decide for these parts: what is here of them is safe, and stays."""
        query = self._query(name, home)
        if query is None or number > query.last_published:
            batch = self._ledger.batch(name, number)
            if batch is None or batch.decision is None:
                self._check_parts(name, number, batch, parts)
                self._note(Prepared(query=name, batch=number, home=home, parts=list(parts)))
        await self._safe()
        return await self._told(name, number)

    async def publish(
        self, name: str, number: int, home: str, parts: Sequence[PartChunks], wait_s: float
    ) -> tuple[StagedAnswer, StagedBody]:
        """Decide what the batch is made of, unless that is decided, and let it out; wait for a while."""
        query = self._query(name, home)
        if query is None or number > query.last_published:
            batch = self._ledger.batch(name, number)
            is_open = batch is not None and (batch.layout is not None or batch.decision is not None)
            if home == self._name and not is_open:
                raise _refused(
                    f"batch {number} of query {name} is not open here, or was untouched for "
                    "stagedMessageTimeout; open it, and stage its parts again"
                )
            if batch is None or batch.decision is None:
                self._check_parts(name, number, batch, parts)
                self._note(Decided(query=name, batch=number, home=home, parts=list(parts)))
            await self._wait_until_out(name, number, wait_s)
        return await self._told(name, number)

    async def complete(self, name: str, number: int, home: str) -> tuple[StagedAnswer, StagedBody]:
        """Note at the home that all other brokers are done."""
        query = self._query(name, home)
        if query is None or number > query.last_published:
            batch = self._ledger.batch(name, number)
            if home != self._name or batch is None or not batch.is_out:
                raise _refused(f"batch {number} of query {name} is not out here; publish it first")
            self._note(Published(query=name, batch=number))
        return await self._told(name, number)

    async def abort(
        self, name: str, number: int, home: str, attempts: Sequence[AttemptKey]
    ) -> tuple[StagedAnswer, StagedBody]:
        """Forget attempts of a batch that is not decided; what is decided or published stays as it is."""
        self._query(name, home)
        batch = self._ledger.batch(name, number)
        if batch is not None and batch.decision is None and not batch.aborted.issuperset(attempts):
            self._note(Aborted(query=name, batch=number, attempts=list(attempts)))
        await self._safe()
        return await self._told(name, number)

    async def status(self, name: str, number: int | None) -> tuple[StagedAnswer, StagedBody]:
        """Say who the query's home is, and how far a batch is."""
        return await self._told(name, number)

    # What goes on

    def resume(self) -> None:
        """Go on with what is decided and not out."""
        for name, _, batch in self._ledger.batches():
            if batch.decision is not None and not batch.is_out:
                self._begin(name, batch)

    async def upkeep(self) -> None:
        """Forget what expired, go on with what failed, and write the table."""
        self._expire()
        self._ledger.forget_queries(self._clock.now_ms() - QUERY_KEPT_MS)
        self.resume()
        await self.save()

    async def save(self) -> None:
        """Write the table if it is behind."""
        if not self._is_saved:
            self._is_saved = True
            ends = {
                "chunk_end": self._store.max_offset(topic_names.STAGED, QUEUE_ID),
                "op_end": self._store.max_offset(topic_names.STAGED_OP, QUEUE_ID),
            }
            try:
                await self._table.save(self._ledger, self._durability, **ends)
            except BaseException:
                self._is_saved = False
                raise

    async def close(self) -> None:
        """Stop publishing, where it is, and write the table."""
        self._is_closing = True
        tasks = tuple(self._publishing.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        try:
            await self.save()
        except (StoreError, ServiceNotAvailable, FlushTimeout) as error:
            log.warning("the table of staged batches was not written; the log has what it lacks: %s", error)

    def _begin(self, name: str, batch: Batch) -> "asyncio.Task[None]":
        if self._is_closing:
            raise ServiceNotAvailable(
                ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops; ask again when it is back"
            )
        key = (name, batch.number)
        task = self._publishing.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(
                self._publish(name, batch), name=f"publish batch {batch.number} of {name}"
            )
            self._publishing[key] = task
            task.add_done_callback(lambda task: self._ended(key, task))
        return task

    def _ended(self, key: tuple[str, int], task: "asyncio.Task[None]") -> None:
        del self._publishing[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(
                "batch %d of query %s is decided and not all out, it is tried again: %s",
                key[1],
                key[0],
                error,
            )

    async def _publish(self, name: str, batch: Batch) -> None:
        """Let a decided batch out, a chunk in each turn of the loop."""
        missing = self._missing(batch, batch.decision or ())
        if missing:
            raise CorruptRecord(f"of what was decided, the log does not have {missing} any more")
        for chunk in tuple(batch.decided_chunks()):
            while chunk.out_count < chunk.message_count:
                self._publisher.publish_some(chunk)
                await asyncio.sleep(0)
        is_all_here = all(part.chunks.keys() <= {self._name} for part in batch.decision or ())
        if self._ledger.queries[name].home == self._name and not is_all_here:
            self._note(Out(query=name, batch=batch.number))
        else:
            self._note(Published(query=name, batch=batch.number))

    async def _wait_until_out(self, name: str, number: int, wait_s: float) -> None:
        batch = self._ledger.batch(name, number)
        if batch is None or batch.is_out:
            return
        # Whoever waits may go away; the publishing is not his.
        done, _ = await asyncio.wait({self._begin(name, batch)}, timeout=wait_s)
        for task in done:
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Refused):
                raise error
            if error is not None:
                raise ServerFailed(ResponseCode.SYSTEM_ERROR, str(error)) from error

    # What both stand on

    def _note(self, op: AnyOp) -> None:
        """Store what happens, and let it have happened."""
        placed = self._intake.put_as_is(
            op_draft(op, now_ms=self._clock.now_ms(), store_host=self._store_host)
        )
        self._is_saved = False
        self._ledger.apply(
            op, offset=placed.queue_offset, position=placed.position, at_ms=placed.stored_at_ms
        )

    async def _told(
        self, name: str, number: int | None, *, is_first: bool = False
    ) -> tuple[StagedAnswer, StagedBody]:
        """Return what is known now, when the disk has it; that a batch is open needs no proof."""
        answer, body = self._answer(name, number, is_first=is_first)
        if answer.state in (BatchState.DECIDED, BatchState.PUBLISHED):
            await self._safe()
        return answer, body

    async def _safe(self) -> None:
        try:
            await self._durability.sync_now()
        except FlushTimeout as error:
            raise ServiceNotAvailable(
                ResponseCode.SERVICE_NOT_AVAILABLE, "the disk takes longer than syncFlushTimeout; ask again"
            ) from error

    def _expire(self) -> None:
        before_ms = self._clock.now_ms() - self._settings.staged_message_timeout
        for name, number in self._ledger.expire(before_ms, self._store.min_position):
            log.info("batch %d of query %s was not published in time and is forgotten", number, name)
            self._is_saved = False

    def _query(self, name: str, home: str) -> Query | None:
        """Return what is known of a query now; raise IllegalOperation when another broker is its home."""
        self._expire()
        query = self._ledger.queries.get(name)
        if query is not None and query.home != home:
            raise _refused(f"the home of query {name} is {query.home}, not {home}")
        return query

    def _check_parts(self, name: str, number: int, batch: Batch | None, parts: Sequence[PartChunks]) -> None:
        for part in parts:
            if batch is not None and (part.part, part.attempt) in batch.aborted:
                raise _refused(
                    f"attempt {part.attempt} at part {part.part} of batch {number} of {name} was aborted"
                )
        missing = self._missing(batch, parts)
        if missing:
            raise _refused(
                f"batch {number} of query {name} cannot be published: {self._name} does not have {missing}; "
                "were they staged longer ago than stagedMessageTimeout? Stage them again, in another attempt"
            )

    def _missing(self, batch: Batch | None, parts: Sequence[PartChunks]) -> str:
        """Return in words which chunks of the parts this broker should have and has not; empty when none."""
        missing = []
        for part in parts:
            wanted = part.chunks.get(self._name, 0)
            chunks = [] if batch is None else batch.chunks_of((part.part, part.attempt))
            there = sum(chunk.position >= self._store.min_position for chunk in chunks)
            if there != wanted or len(chunks) != wanted:
                missing.append(f"{wanted} chunks of attempt {part.attempt} at part {part.part} (but {there})")
        more = f" and {len(missing) - _NAMED_MAX} more" if len(missing) > _NAMED_MAX else ""
        return ", ".join(missing[:_NAMED_MAX]) + more

    def _answer(
        self, name: str, number: int | None, *, is_first: bool = False
    ) -> tuple[StagedAnswer, StagedBody]:
        query = self._ledger.queries.get(name)
        if query is None:
            return StagedAnswer(), StagedBody()
        answer = StagedAnswer(home=query.home, last_published=query.last_published, is_first=is_first)
        batch = None if number is None else query.batches.get(number)
        if batch is not None:
            answer.state = BatchState.OPEN if batch.decision is None else BatchState.DECIDED
            answer.is_out, answer.message_count = batch.is_out, batch.out_count
            return answer, StagedBody(layout=batch.layout or {}, parts=list(batch.decision or ()))
        if number is not None and number <= query.last_published:
            answer.state, answer.is_out = BatchState.PUBLISHED, True
        return answer, StagedBody()


def _refused(remark: str) -> IllegalOperation:
    return IllegalOperation(ResponseCode.ILLEGAL_OPERATION, remark)
