"""What happens to staged batches, as it is written and as it is known: the log first, then the ledger.

Between the question whether something may happen and its record nothing is awaited, so that nothing else can
have happened in between.
"""

import logging
from collections.abc import Sequence

from pyromq import system_names
from pyromq.broker.durability import Durability, NotSafe
from pyromq.broker.intake import Intake
from pyromq.broker.staging.ledger import Batch, Chunk, Ledger
from pyromq.broker.staging.ops import AnyOp
from pyromq.broker.staging.records import QUEUE_ID, ChunkNote, chunk_draft, op_draft
from pyromq.broker.staging.table import StagedTable
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.config.settings import BrokerSettings
from pyromq.errors import ServiceNotAvailable, SystemBusy
from pyromq.store.store import MessageStore
from pyromq.wire.bodies.staging import PartChunks

log = logging.getLogger(__name__)

#: Queries are remembered for so long after they were last used: a batch of theirs is not published twice.
QUERY_KEPT_MS = 30 * 24 * 3_600_000
#: So many missing chunks are named in a refusal.
_NAMED_MAX = 5


class Journal:
    """The records of staged batches, the ledger that follows them, and the table for the older ones."""

    def __init__(
        self,
        ledger: Ledger,
        table: StagedTable,
        *,
        store: MessageStore,
        intake: Intake,
        durability: Durability,
        settings: BrokerSettings,
        clock: Clock,
        store_host: bytes,
    ) -> None:
        self.ledger = ledger
        self.broker_name = settings.broker_name
        self._table = table
        self._store = store
        self._intake = intake
        self._durability = durability
        self._settings = settings
        self._clock = clock
        self._store_host = store_host
        #: Whether the table speaks for all records of the two topics; without any there need be none.
        self._is_saved = not ledger.queries

    def note(self, op: AnyOp) -> None:
        """Store what happens, and let it have happened."""
        placed = self._intake.put_as_is(
            op_draft(op, now_ms=self._clock.now_ms(), store_host=self._store_host)
        )
        self._is_saved = False
        self.ledger.apply(op, offset=placed.queue_offset, position=placed.position, at_ms=placed.stored_at_ms)

    def touch(self, batch: Batch) -> None:
        """Note that somebody is at work on a batch, which keeps it from expiring."""
        batch.active_at_ms = self._clock.now_ms()

    def stage(self, note: ChunkNote, messages: bytes, *, born_at_ms: int, born_host: bytes) -> int:
        """Store a chunk; return the log position behind it."""
        if self.ledger.chunk_count >= self._settings.staged_chunks_max:
            raise SystemBusy(
                ResponseCode.SYSTEM_BUSY,
                f"{self.ledger.chunk_count} staged chunks wait to be published (stagedChunksMax)",
            )
        draft = chunk_draft(
            note, messages, born_at_ms=born_at_ms, born_host=born_host, store_host=self._store_host
        )
        placed = self._intake.put_as_is(draft)
        self._is_saved = False
        chunk = Chunk(placed.position, note.message_count, note.record_bytes)
        self.ledger.chunk_stored(note, chunk, offset=placed.queue_offset, at_ms=placed.stored_at_ms)
        return placed.end

    async def safe(self) -> None:
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

    def vouch(self) -> None:
        """Look at the lease for an answer that waits for nothing; raise ServiceNotAvailable if it is over."""
        self._durability.vouch()

    def missing(self, batch: Batch | None, parts: Sequence[PartChunks]) -> str:
        """Return in words which chunks of the parts this broker should have and has not; empty when none."""
        missing = []
        for part in parts:
            wanted = part.chunks.get(self.broker_name, 0)
            chunks = [] if batch is None else batch.chunks_of((part.part, part.attempt))
            there = sum(chunk.position >= self._store.min_position for chunk in chunks)
            if there != wanted or len(chunks) != wanted:
                missing.append(f"{wanted} chunks of attempt {part.attempt} at part {part.part} (but {there})")
        more = f" and {len(missing) - _NAMED_MAX} more" if len(missing) > _NAMED_MAX else ""
        return ", ".join(missing[:_NAMED_MAX]) + more

    def expire(self) -> None:
        """Forget batches that nobody touched for `stagedMessageTimeout`."""
        before_ms = self._clock.now_ms() - self._settings.staged_message_timeout
        for name, number in self.ledger.expire(before_ms, self._store.min_position):
            log.info("batch %d of query %s was not published in time and is forgotten", number, name)
            self._is_saved = False

    def forget_queries(self) -> None:
        """Forget queries that nobody used for a month."""
        self.ledger.forget_queries(self._clock.now_ms() - QUERY_KEPT_MS)

    async def save(self) -> None:
        """Write the table if it is behind."""
        if self._is_saved:
            return
        self._is_saved = True
        try:
            await self._table.save(
                self.ledger,
                self._durability,
                chunk_end=self._store.max_offset(system_names.STAGED, QUEUE_ID),
                op_end=self._store.max_offset(system_names.STAGED_OP, QUEUE_ID),
            )
        except BaseException:
            self._is_saved = False
            raise
