"""From a staged chunk to messages that everybody can read.

Each message of a chunk becomes a record in its own topic and queue, as if it had been sent in a batch; all
records of a chunk are one write. Every such record names the chunk that it came from, in the field where a
committed transaction names its half:

    rmq_sys_staged   … │ chunk at P │ …
    orders, queue 2                     … │ m0 → P │ m1 → P │ m2 → P │

So the log itself tells how many messages of a chunk are out. After a crash in the middle of a write it may
be some, and publishing goes on with the next.

Plain messages are encoded by the compiled kernel, where there is one. A message that waits for its time, or
whose text is not ASCII, takes the way of Python, and so does everything without the kernel; that way is
taken in slices, so that other clients are answered in between.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from pyromq.broker.delivery.arrivals import Announcements
from pyromq.broker.kinds.staging.ledger import Chunk
from pyromq.broker.kinds.staging.records import ChunkNote, read_note
from pyromq.broker.kinds.stored_again import name_of
from pyromq.broker.topics.intake import Intake
from pyromq.clock import Clock
from pyromq.codes import ResponseCode, SysFlag
from pyromq.errors import CorruptRecord, HeaderError, MessageIllegal, Refused, StoreError
from pyromq.store.messages import untorn
from pyromq.store.store import Draft, MessageStore
from pyromq.wire import properties as names
from pyromq.wire.batch import BatchUnit, decode_batch
from pyromq.wire.record import (
    BLANK_BYTES,
    HOST_BYTES_V4,
    PROPERTIES_BYTES_MAX,
    RECORD_BYTES_MIN,
    Record,
    body_of,
    decode_record,
    record_size,
)

if TYPE_CHECKING:
    from pyromq._kernel.storage.plans import Plan

log = logging.getLogger(__name__)

#: Messages of a chunk, so that publishing it takes some milliseconds and not a second.
CHUNK_MESSAGES_MAX: Final = 65_536
#: Messages that Python stores in one turn of the loop.
SLICE_MESSAGES: Final = 500
#: The longest record that a message can have has IPv6 hosts.
_HOSTS_V6: Final = int(SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)


class Measured(NamedTuple):
    """The measures of the messages in a chunk."""

    message_count: int
    record_bytes: int
    is_plain: bool


class Publisher:
    """Measures chunks when they come, and stores their messages when they are published."""

    def __init__(
        self,
        *,
        store: MessageStore,
        intake: Intake,
        announcements: Announcements,
        sys_flag_of: Callable[[str], int],
        store_host: bytes,
        cluster: str,
        clock: Clock,
        use_kernel: bool,
    ) -> None:
        self._store = store
        self._intake = intake
        self._announcements = announcements
        self._sys_flag_of = sys_flag_of
        self._store_host = store_host
        self._common = names.encode({names.CLUSTER: cluster})
        self._now_ms = clock.now_ms
        self._kernel: Kernel | None = None
        self._kinds = tuple(name.encode() for name in intake.diverting)
        if use_kernel and len(store_host) == HOST_BYTES_V4 and self._common.isascii():
            self._kernel = _new_kernel(store_host, has_index=store.settings.message_index_enable)

    def measure(self, topic: str, queue_id: int, messages: bytes) -> Measured:
        """Return what publishing a chunk will have to do; raise MessageIllegal when it could not be done."""
        if len(messages) > self._store.settings.max_message_size:
            raise self._intake.too_large()
        measured = self._measure_plain(topic, messages) or self._measure_any(topic, queue_id, messages)
        if not 0 < measured.message_count <= CHUNK_MESSAGES_MAX:
            raise _illegal(f"a chunk has 1 to {CHUNK_MESSAGES_MAX} messages, not {measured.message_count}")
        room = self._store.settings.mapped_file_size_commit_log - BLANK_BYTES
        if measured.record_bytes > room:
            raise _illegal(
                f"the messages take {measured.record_bytes} bytes in the log, whose files have {room} "
                "(mappedFileSizeCommitLog); stage smaller chunks"
            )
        return measured

    def publish_some(self, chunk: Chunk) -> None:
        """Store messages of a chunk that are not out: all of them where the kernel can, else a slice.

        Raises CorruptRecord when the chunk is gone or damaged, and Refused when nothing can be stored now.
        """
        with self._look(chunk.position) as data:
            # What this process wrote was never anywhere else than in memory.
            is_old = chunk.position < self._store.log.written_from
            record = decode_record(data, check_crc=is_old, with_body=False)
            note = read_note(record.properties)
            with body_of(data) as messages:
                if chunk.out_count and not chunk.out_bytes:
                    chunk.out_bytes = _end_of_units(messages, 0, chunk.out_count)
                # The kernel finds the queue when it has a message.
                is_known = self._store.queue(note.topic, note.queue_id) is not None
                if note.is_plain and is_known and self._put_planned(chunk, note, record, messages):
                    return
                count = SLICE_MESSAGES if is_known or not note.is_plain else 1
                end = _end_of_units(messages, chunk.out_bytes, count)
                taken = bytes(messages[chunk.out_bytes : end])
        self._put_slice(chunk, note, record, taken)

    @contextmanager
    def _look(self, position: int) -> Iterator[memoryview]:
        """Look at the bytes of a chunk's record where they are: there are many."""
        log_ = self._store.log
        head, segment = log_.read(position, RECORD_BYTES_MIN), log_.segment_at(position)
        size = 0 if head is None else int.from_bytes(head[:4], "big")
        if segment is None or not 0 < size <= log_.run_end(position) - position:
            raise CorruptRecord(f"the staged chunk at position {position} of the log is gone")
        at = position - segment.base
        with memoryview(segment.map) as file, file[at : at + size] as data:
            yield data

    # With the kernel

    def _measure_plain(self, topic: str, messages: bytes) -> Measured | None:
        if self._kernel is None:
            return None
        # One more byte may stand between a message's own properties and ours.
        more_bytes = len(self._common) + 1
        found = self._kernel.measure_units(messages, self._kinds, more_bytes)
        if found is None:
            return None
        count, content_bytes = found
        each_bytes = record_size(len(topic), more_bytes, 0, _HOSTS_V6)
        return Measured(count, content_bytes + count * each_bytes, is_plain=True)

    def _put_planned(self, chunk: Chunk, note: ChunkNote, record: Record, messages: memoryview) -> bool:
        """Store the rest of a chunk with one write; return False when the kernel leaves it to Python."""
        store, queue = self._store, self._store.queue(note.topic, note.queue_id)
        if queue is None or self._kernel is None or not store.is_writable:
            return False
        plan = self._kernel.plan
        try:
            store.make_room(note.record_bytes)
        except StoreError:
            # It is refused with a reason when Python takes the same messages up.
            return False
        now_ms, first = self._now_ms(), queue.end
        log_end, log_room, index_room = store.rooms()
        count = plan.plan_units(
            messages,
            chunk.out_bytes,
            topic=note.topic.encode(),
            queue_id=note.queue_id,
            queue=queue,
            sys_flag=note.sys_flag | self._sys_flag_of(note.topic),
            born_at_ms=record.born_at_ms,
            born_host=record.born_host,
            prepared_position=name_of(chunk.position),
            more_properties=self._common.encode(),
            now_ms=now_ms,
            log_end=log_end,
            log_room=log_room,
            index_room=index_room,
        )
        if not count:
            return False
        try:
            store.put_planned(plan, now_ms)
        except StoreError:
            plan.drop()
            return False
        chunk.out_count += count
        chunk.out_bytes = len(messages)
        self._announcements.log_grew(self._store.log.write_s)
        self._announcements.grew(note.topic, note.queue_id, first, queue.end)
        return True

    # Without it

    def _measure_any(self, topic: str, queue_id: int, messages: bytes) -> Measured:
        try:
            drafts = [self._draft(unit, topic, queue_id) for unit in decode_batch(messages)]
            return Measured(len(drafts), sum(map(self._measure_one, drafts)), is_plain=False)
        except (HeaderError, CorruptRecord) as error:
            raise _illegal(f"the chunk does not read: {error}") from error

    def _measure_one(self, draft: Draft) -> int:
        """Return how many bytes a message's record takes; raise MessageIllegal when it has too many."""
        if names.find_text(draft.properties, names.TRANSACTION_PREPARED) is not None:
            raise _illegal("a staged message is no half of a transaction: leave TRAN_MSG out")
        self._divert(draft)
        properties_bytes = len(untorn(draft.properties).encode("utf-8", "replace"))
        if properties_bytes > PROPERTIES_BYTES_MAX:
            raise self._intake.too_large()
        return record_size(len(draft.topic), len(draft.body), properties_bytes, _HOSTS_V6)

    def _put_slice(self, chunk: Chunk, note: ChunkNote, record: Record, messages: bytes) -> None:
        """Store the next messages of a chunk with one write."""
        drafts = []
        for unit in decode_batch(messages):
            draft = self._draft(unit, note.topic, note.queue_id)
            draft.sys_flag |= note.sys_flag | self._sys_flag_of(note.topic)
            draft.born_at_ms, draft.born_host = record.born_at_ms, record.born_host
            draft.prepared_position = name_of(chunk.position)
            try:
                self._divert(draft)
            except Refused as refusal:
                # It was allowed when it was staged, and is decided: it must come out now.
                log.warning("a staged message that was to wait does not: %s", refusal)
            drafts.append(draft)
        self._intake.put_together(drafts)
        chunk.out_count += len(drafts)
        chunk.out_bytes += len(messages)

    def _draft(self, unit: BatchUnit, topic: str, queue_id: int) -> Draft:
        """Return a message as it is stored in its own topic, but for what the chunk's record says of it."""
        return Draft(
            topic=topic,
            queue_id=queue_id,
            body=unit.body,
            properties=names.joined(unit.properties, self._common),
            flag=unit.flag,
            sys_flag=0,
            born_at_ms=0,
            born_host=self._store_host,
            store_host=self._store_host,
        )

    def _divert(self, draft: Draft) -> None:
        if any(kind in draft.properties for kind in self._intake.diverting):
            self._intake.divert(draft, names.decode(draft.properties))


class Kernel(NamedTuple):
    """The functions of the compiled kernel that work on chunks."""

    plan: "Plan"
    measure_units: Callable[[bytes, tuple[bytes, ...], int], tuple[int, int] | None]


def _new_kernel(store_host: bytes, *, has_index: bool) -> Kernel:
    # Only now: without a compiler there is nothing to import.
    from pyromq._kernel.storage.plans import Plan, measure_units

    return Kernel(Plan(store_host=store_host, has_index=has_index), measure_units)


def _end_of_units(messages: memoryview, start: int, count: int) -> int:
    """Return where `count` messages end that begin at `start`; there may be fewer."""
    for _ in range(count):
        if start >= len(messages):
            break
        start += int.from_bytes(messages[start : start + 4], "big")
    return start


def _illegal(remark: str) -> MessageIllegal:
    return MessageIllegal(ResponseCode.MESSAGE_ILLEGAL, remark)
