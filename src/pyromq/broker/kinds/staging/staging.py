"""The life of staged batches on one broker: what may happen to them, and what is made of it.

Whatever happens is a record of the log first, and known only then; between the question whether it may
happen and the record nothing is awaited. What a crash leaves is therefore what the log says (`batches.py`),
and a request that is repeated finds what it asked for done. `docs/internals/staged-sends.md` has the
protocol, and what each failure leads to.

An answer that says more of a batch than that it is open leaves when the log that says so is safe: on the
disk, on the replicas that a sent message would wait for, and with the lease still there (`durability.py`).

With access control a query belongs to the account that used it first, and everybody else is refused, but for
those who may do everything. Whose it is stands in the records, so that the next master knows it too.
"""

from collections.abc import Sequence

import msgspec

from pyromq.broker.durability.acknowledgement import Durability, NotSafe
from pyromq.broker.kinds.staging.batches import StagedBatches
from pyromq.broker.kinds.staging.departures import Departures
from pyromq.broker.kinds.staging.ledger import AttemptKey, Chunk, Query, StagedBatch
from pyromq.broker.kinds.staging.ops import Aborted, Decided, Opened, Prepared, Published
from pyromq.broker.kinds.staging.records import ChunkNote
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.errors import IllegalOperation, NoPermission, ServiceNotAvailable, SystemBusy
from pyromq.net.routes import Caller
from pyromq.wire.bodies.staging_bodies import Layout, PartChunks, StagedBody
from pyromq.wire.headers.staging_headers import BatchState, StagedAnswer

QUERIES_MAX = 100_000


class Staging:
    """Staged batches. Everything but the waiting happens at once, on the broker's loop."""

    def __init__(
        self, batches: StagedBatches, departures: Departures, durability: Durability, clock: Clock
    ) -> None:
        self._batches = batches
        self._departures = departures
        self._durability = durability
        self._clock = clock
        self._ledger = batches.ledger
        self._name = batches.broker_name

    async def open(
        self, name: str, number: int, home: str, layout: Layout, caller: Caller | None
    ) -> tuple[StagedAnswer, StagedBody]:
        """Begin a batch, or join it. Of two layouts for a topic the first holds; others note who is home."""
        query = self._query(name, home, caller)
        owner = owner_of(query, caller)
        is_first = False
        if home != self._name:
            if query is None:
                self._batches.note(Opened(query=name, batch=number, home=home, owner=owner))
        elif query is None or number > query.last_published:
            op = Opened(query=name, batch=number, home=home, owner=owner, layout=layout)
            is_first = self._open(query, op)
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
            self._batches.note(op)
        elif batch is not None:
            # Somebody is at work on it, which keeps it from expiring.
            batch.active_at_ms = self._clock.now_ms()
        return is_first

    def check_stageable(self, note: ChunkNote, caller: Caller | None) -> Chunk | None:
        """Return the chunk if it was staged before; raise IllegalOperation when it cannot be staged now."""
        query = self._query(note.query, note.home, caller)
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

    def stage(
        self,
        note: ChunkNote,
        messages: bytes,
        *,
        born_at_ms: int,
        born_host: bytes,
        caller: Caller | None,
    ) -> int:
        """Store a chunk that may be staged; return the log position behind it."""
        note = msgspec.structs.replace(note, owner=owner_of(self._ledger.queries.get(note.query), caller))
        return self._batches.stage(note, messages, born_at_ms=born_at_ms, born_host=born_host)

    async def prepare(
        self, name: str, number: int, home: str, parts: Sequence[PartChunks], caller: Caller | None
    ) -> tuple[StagedAnswer, StagedBody]:
        """Promise that the home may decide for these parts: what is here of them is safe, and stays."""
        query = self._query(name, home, caller)
        if query is None or number > query.last_published:
            batch = self._ledger.batch(name, number)
            if batch is None or batch.decision is None:
                self._check_parts(name, number, batch, parts)
                owner = owner_of(query, caller)
                self._batches.note(
                    Prepared(query=name, batch=number, home=home, owner=owner, parts=list(parts))
                )
        await self._safe()
        return await self._told(name, number)

    async def publish(
        self,
        name: str,
        number: int,
        home: str,
        parts: Sequence[PartChunks],
        wait_s: float,
        caller: Caller | None,
    ) -> tuple[StagedAnswer, StagedBody]:
        """Decide what the batch is made of, unless that is decided, and let it out; wait for a while."""
        query = self._query(name, home, caller)
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
                owner = owner_of(query, caller)
                self._batches.note(
                    Decided(query=name, batch=number, home=home, owner=owner, parts=list(parts))
                )
            await self._departures.wait(name, number, wait_s)
        return await self._told(name, number)

    async def complete(
        self, name: str, number: int, home: str, caller: Caller | None
    ) -> tuple[StagedAnswer, StagedBody]:
        """Note at the home that all other brokers are done."""
        query = self._query(name, home, caller)
        if query is None or number > query.last_published:
            batch = self._ledger.batch(name, number)
            if home != self._name or batch is None or not batch.is_out:
                raise _refused(f"batch {number} of query {name} is not out here; publish it first")
            self._batches.note(Published(query=name, batch=number))
        return await self._told(name, number)

    async def abort(
        self,
        name: str,
        number: int,
        home: str,
        attempts: Sequence[AttemptKey],
        caller: Caller | None,
    ) -> tuple[StagedAnswer, StagedBody]:
        """Forget attempts of a batch that is not decided; what is decided or published stays as it is."""
        self._query(name, home, caller)
        batch = self._ledger.batch(name, number)
        if batch is not None and batch.decision is None and not batch.aborted.issuperset(attempts):
            self._batches.note(Aborted(query=name, batch=number, attempts=list(attempts)))
        await self._safe()
        return await self._told(name, number)

    async def status(
        self, name: str, number: int | None, caller: Caller | None
    ) -> tuple[StagedAnswer, StagedBody]:
        """Say who the query's home is, and how far a batch is."""
        query = self._ledger.queries.get(name)
        if query is not None:
            _check_owner(name, query, caller)
        return await self._told(name, number)

    # What is known

    def _query(self, name: str, home: str, caller: Caller | None) -> Query | None:
        """Return what is known of a query now; raise IllegalOperation when another broker is its home.

        Raises NoPermission when it is another account's, and SystemBusy when it is unknown and there are too
        many to know one more.
        """
        self._batches.expire()
        query = self._ledger.queries.get(name)
        if query is not None:
            _check_owner(name, query, caller)
        if query is not None and query.home != home:
            raise _refused(f"the home of query {name} is {query.home}, not {home}")
        if query is None and len(self._ledger.queries) >= QUERIES_MAX:
            raise SystemBusy(
                ResponseCode.SYSTEM_BUSY, f"the broker remembers {QUERIES_MAX} queries and takes no more now"
            )
        return query

    def _check_parts(
        self, name: str, number: int, batch: StagedBatch | None, parts: Sequence[PartChunks]
    ) -> None:
        for part in parts:
            if batch is not None and (part.part, part.attempt) in batch.aborted:
                raise _refused(
                    f"attempt {part.attempt} at part {part.part} of batch {number} of {name} was aborted"
                )
        missing = self._batches.missing(batch, parts)
        if missing:
            raise _refused(
                f"batch {number} of query {name} cannot be published: {self._name} does not have {missing}; "
                "were they staged longer ago than stagedMessageTimeout? Stage them again, in another attempt"
            )

    async def _safe(self) -> None:
        """Return when all that happened so far is as safe as a message that is acknowledged, and on the disk.

        Raises ServiceNotAvailable when that takes too long: what happened stays, and whoever asks again waits
        for it again.
        """
        try:
            await self._durability.all_safe()
        except NotSafe as error:
            raise ServiceNotAvailable(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                f"what is staged is not safe yet on disk and replicas ({error}); ask again",
            ) from error

    async def _told(
        self, name: str, number: int | None, *, is_first: bool = False
    ) -> tuple[StagedAnswer, StagedBody]:
        """Return what is known now, when it is safe; that a batch is open needs no proof."""
        answer, body = self._answer(name, number, is_first=is_first)
        if answer.state in (BatchState.DECIDED, BatchState.PUBLISHED):
            await self._safe()
        else:
            self._durability.vouch()
        return answer, body

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


def owner_of(query: Query | None, caller: Caller | None) -> str | None:
    """Return the account that a query belongs to when somebody does something with it."""
    if query is not None and query.owner is not None:
        return query.owner
    return None if caller is None else caller.name


def _check_owner(name: str, query: Query, caller: Caller | None) -> None:
    """Raise NoPermission unless a query is the caller's: whoever publishes a batch decides what is in it."""
    if caller is None or caller.is_trusted or query.owner in (None, caller.name):
        return
    raise NoPermission(
        ResponseCode.NO_PERMISSION, f"query {name} belongs to another account than {caller.name}"
    )


def _refused(remark: str) -> IllegalOperation:
    return IllegalOperation(ResponseCode.ILLEGAL_OPERATION, remark)
