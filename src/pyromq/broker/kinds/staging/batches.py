"""Staged batches as a follower of the log: a ledger of the records in the two topics of staged sends.

Whatever happens to a batch is a record first, and known when the store has it (`apply`). Between the question
whether something may happen and its record nothing is awaited, so nothing else can have happened in between.

The checkpoint is `config/stagedBatches.json`: the ledger at some moment, and from which records of the two
topics on it has to be brought up to date. How many messages of a decided chunk are out is counted in the log,
from the decision on: each of them names its chunk.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.kinds.checkpoint_file import CheckpointFile
from pyromq.broker.kinds.kind_follower import KindFollower
from pyromq.broker.kinds.staging.ledger import Chunk, Ledger, StagedBatch
from pyromq.broker.kinds.staging.ops import AnyOp, decode_op
from pyromq.broker.kinds.staging.records import ChunkNote, chunk_draft, op_draft, read_note
from pyromq.broker.kinds.staging.staging_snapshot import decode_snapshot, encode_snapshot, restore
from pyromq.broker.topics.intake import Intake
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.config.settings import BrokerSettings
from pyromq.errors import BodyError, CorruptRecord, SystemBusy
from pyromq.store.files import Files
from pyromq.store.store import Draft, MessageStore, Placed, QueueEntry
from pyromq.system_names import STAGED, STAGED_OP
from pyromq.wire.bodies.staging_bodies import PartChunks
from pyromq.wire.record import Record

if TYPE_CHECKING:
    from pyromq.broker.kinds.staging.departures import Departures

log = logging.getLogger(__name__)

UPKEEP_S = 5.0
#: Queries are remembered for so long after they were last used: a batch of theirs is not published twice.
QUERY_KEPT_MS = 30 * 24 * 3_600_000
#: So many missing chunks are named in a refusal.
_NAMED_MAX = 5


class StagedBatches(KindFollower):
    """The staged batches that this broker knows, and the work on them that no request asks for."""

    name = "staged batches"
    topics = (STAGED, STAGED_OP)
    upkeep_s = UPKEEP_S

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        settings: BrokerSettings,
        *,
        path: Path,
        files: Files | None = None,
    ) -> None:
        super().__init__(store)
        self._clock = clock
        self._settings = settings
        self._file = CheckpointFile(path, files=files)
        #: Whether the file speaks for all records of the two topics.
        self._is_saved = True
        #: The chunks whose messages are counted, by their positions.
        self._counted: dict[int, Chunk] = {}
        self.ledger = Ledger()
        self.broker_name = settings.broker_name
        #: What `lead` sets: who stores records, and the decided batches on their way out.
        self._intake: Intake | None = None
        self._store_host = b""
        self._departures: Departures | None = None

    # The log

    def load(self) -> None:
        """Read the file, and apply what the log has behind it."""
        snapshot = self._file.load(decode_snapshot, field="queries")
        if snapshot is not None:
            restore(snapshot, self.ledger)
            self._offsets = {STAGED: snapshot.chunk_offset, STAGED_OP: snapshot.op_offset}
        self.catch_up()

    def apply(self, record: Record) -> None:
        """Note a chunk, or what an op says."""
        offset, position, at_ms = record.queue_offset, record.position, record.stored_at_ms
        self._offsets[record.topic], self._is_saved = offset + 1, False
        try:
            if record.topic == STAGED:
                note = read_note(record.properties)
                chunk = Chunk(position, note.message_count, note.record_bytes)
                self.ledger.chunk_stored(note, chunk, offset=offset, at_ms=at_ms)
            else:
                self.ledger.apply(decode_op(record.body), offset=offset, position=position, at_ms=at_ms)
        except (BodyError, CorruptRecord) as error:
            log.warning("the record at position %d, about a staged batch, is lost: %s", position, error)

    def _done_from(self) -> int | None:
        unfinished = [batch for _, _, batch in self.ledger.batches() if batch.is_leaving]
        self._counted = {chunk.position: chunk for batch in unfinished for chunk in batch.decided_chunks()}
        return min((batch.decided_at for batch in unfinished), default=None)

    def apply_done(self, _done_at: int, position: int) -> None:
        """Count a message that is out, by the chunk that it names."""
        chunk = self._counted.get(position)
        if chunk is not None:
            chunk.out_count += 1

    def _read(self, topic: str, entry: QueueEntry) -> Record | None:
        """Read a record; of a chunk, nobody looks at the messages."""
        if topic == STAGED:
            return self._store.log.record_head(entry.position)
        return super()._read(topic, entry)

    # The checkpoint

    async def save(self, durability: Durability) -> None:
        """Write the file if it is behind."""
        if self._is_saved:
            return
        self._is_saved = True
        try:
            chunk_end, op_end = self._offsets[STAGED], self._offsets[STAGED_OP]
            await self._file.write(
                encode_snapshot(self.ledger, chunk_end=chunk_end, op_end=op_end), durability
            )
        except BaseException:
            self._is_saved = False
            raise

    def forget_beyond(self, _cut_at: int) -> None:
        """Begin without a checkpoint: the file does not say up to where it goes."""
        self._file.remove()

    # On a master

    def start(self, _durability: Durability) -> None:
        """Go on with what was being published."""
        if self._departures is not None:
            self._departures.resume()

    async def upkeep(self, durability: Durability) -> None:
        """Forget what expired, go on with what failed, and write the file."""
        self.expire()
        self.ledger.forget_queries(self._clock.now_ms() - QUERY_KEPT_MS)
        self.start(durability)
        await self.save(durability)

    async def close(self) -> None:
        """Stop publishing, where it is."""
        if self._departures is not None:
            await self._departures.close()

    # What happens

    def lead(self, intake: Intake, departures: "Departures", *, store_host: bytes) -> None:
        """Let batches change and leave, on a master that has an address."""
        self._intake, self._store_host = intake, store_host
        self._departures = departures

    def note(self, op: AnyOp) -> None:
        """Store what happens, and let it have happened."""
        self._put(op_draft(op, now_ms=self._clock.now_ms(), store_host=self._store_host))

    def stage(self, note: ChunkNote, messages: bytes, *, born_at_ms: int, born_host: bytes) -> int:
        """Store a chunk; return the log position behind it."""
        count = self.ledger.chunk_count
        if count >= self._settings.staged_chunks_max:
            raise SystemBusy(
                ResponseCode.SYSTEM_BUSY, f"{count} staged chunks wait to be published (stagedChunksMax)"
            )
        draft = chunk_draft(
            note, messages, born_at_ms=born_at_ms, born_host=born_host, store_host=self._store_host
        )
        return self._put(draft).end

    def _put(self, draft: Draft) -> Placed:
        assert self._intake is not None
        return self._intake.put_as_is(draft)

    # What is known

    def expire(self) -> None:
        """Forget batches that nobody touched for `stagedMessageTimeout`."""
        before_ms = self._clock.now_ms() - self._settings.staged_message_timeout
        for name, number in self.ledger.expire(before_ms, self._store.min_position):
            log.info("batch %d of query %s was not published in time and is forgotten", number, name)
            self._is_saved = False

    def missing(self, batch: StagedBatch | None, parts: Sequence[PartChunks]) -> str:
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
