"""The table of messages in flight, made again from the log: journal records and done records, in their order.

    position   100        200              300               400
    log      … │ journal  │ retry topic    │ journal         │ dead letter of the group
                 handed     names 17         handed, acked     names 18

Two streams are merged by their positions: what an offset means depends on what was said before of it.
"""

import logging
from collections.abc import Iterator

from pyromq.broker.kinds.done_names import walk_names
from pyromq.broker.pop.in_flight import NO_CLIENT
from pyromq.broker.pop.journal_ops import (
    AnyOp,
    Ended,
    GroupForgotten,
    Handed,
    InOrder,
    JournalRecord,
    Moved,
    MovedInOrder,
    QueueName,
    Renewed,
    ResetTo,
    TopicForgotten,
    decode_journal,
)
from pyromq.broker.pop.ordered import OrderedBatch
from pyromq.broker.pop.pop_names import ends_wait, is_topic_or_retry
from pyromq.broker.pop.pop_table import PopQueue, PopTable
from pyromq.errors import BodyError
from pyromq.store.store import MessageStore
from pyromq.wire.record import Record

log = logging.getLogger(__name__)

#: Steps of a walk that are taken in one turn of the loop.
_RECORDS_A_STEP = 64


class Replay:
    """Lets a table take in what the log says behind a position. `is_partial`: the log's beginning is gone."""

    def __init__(self, table: PopTable, store: MessageStore, *, is_partial: bool) -> None:
        self._table = table
        self._store = store
        self._is_partial = is_partial

    def run(self, journal: Iterator[Record], start: int, end: int) -> Iterator[None]:
        """Take in the journal's records and the names in a part of the log, step by step."""
        waiting = next(journal, None)
        if waiting is None and not any(queue.count for queue in self._table):
            return
        for step in walk_names(self._store.log, start, end):
            for done_at, position in step.names:
                while waiting is not None and waiting.position < done_at:
                    self._take(waiting)
                    waiting = next(journal, None)
                self._end_named(done_at, position)
            yield
        count = 0
        while waiting is not None:
            self._take(waiting)
            waiting = next(journal, None)
            count += 1
            if count % _RECORDS_A_STEP == 0:
                yield

    def _take(self, record: Record) -> None:
        try:
            entry = decode_journal(record.body)
        except BodyError as error:
            log.warning("the record at %d is lost, and messages may come again: %s", record.position, error)
            return
        queues: dict[int, PopQueue] = {}
        for op in entry.ops:
            if isinstance(op, TopicForgotten | GroupForgotten):
                forget(self._table, op)
                queues.clear()
                continue
            queue = queues.get(op.queue) or self._queue_of(entry, op)
            if queue is not None:
                queues[op.queue] = queue
                _take_op(self._table, queue, op, entry.at_ms)

    def _queue_of(self, entry: JournalRecord, op: AnyOp) -> PopQueue | None:
        """Return the queue that an operation is about; None when it says nothing without one before it."""
        assert not isinstance(op, TopicForgotten | GroupForgotten)
        if not 0 <= op.queue < len(entry.queues):
            return None
        name: QueueName = entry.queues[op.queue]
        known = self._table.find(*name)
        if known is not None:
            return known
        if isinstance(op, Handed):
            queue = self._table.make(*name, op.floor)
            if self._is_partial and op.floor < op.first:
                # Some of them are finished; the records that say so behind this one are heard.
                self._table.hand_out(queue, range(op.floor, op.first), 0, 0, NO_CLIENT)
            return queue
        if isinstance(op, InOrder):
            return self._table.make(*name, op.offsets[0])
        return self._table.make(*name, op.offset) if isinstance(op, ResetTo) else None

    def _end_named(self, done_at: int, position: int) -> None:
        waited = self._store.log.record_head(position)
        if waited is None:
            return
        queues = self._table.at_place(waited.topic, waited.queue_id)
        done = self._store.log.record_head(done_at) if queues else None
        if done is None:
            return
        for queue in queues:
            if ends_wait(queue.group, queue.topic, done.topic):
                self._table.end(queue, waited.queue_offset)


def forget(table: PopTable, op: TopicForgotten | GroupForgotten) -> None:
    """Forget the queues of a topic or a group that is deleted."""
    for queue in queues_of(table, op):
        table.forget(queue)


def queues_of(table: PopTable, op: TopicForgotten | GroupForgotten) -> list[PopQueue]:
    """Return the queues of a topic or a group."""
    if isinstance(op, GroupForgotten):
        return [queue for queue in table if queue.group == op.group]
    return [queue for queue in table if is_topic_or_retry(queue.group, queue.topic, op.topic)]


def _take_op(table: PopTable, queue: PopQueue, op: AnyOp, at_ms: int) -> None:
    match op:
        case Handed():
            _take_handed(table, queue, op, at_ms)
        case Ended():
            for offset in op.offsets:
                table.end(queue, offset)
        case Moved():
            popped_at_ms = at_ms + op.popped_after_ms
            table.move(queue, op.offset, popped_at_ms, popped_at_ms + op.invisible_ms)
        case Renewed():
            table.renew(queue, op.offsets, at_ms + op.visible_after_ms, keeps_client=op.keeps_client)
        case InOrder():
            if op.offsets and len(op.offsets) == len(op.attempts):
                table.hand_out_in_order(queue, _batch_of(table, queue, op, at_ms))
        case MovedInOrder():
            table.move_in_order(queue, op.offset, at_ms + op.visible_after_ms)
        case ResetTo():
            table.reset(queue, op.offset)


def _take_handed(table: PopTable, queue: PopQueue, op: Handed, at_ms: int) -> None:
    offsets = [op.first + distance for distance in op.distances] or range(op.first, op.first + op.count)
    if op.first <= queue.in_flight.last:
        # The record between that says why is lost.
        table.reset(queue, op.first)
    popped_at_ms = at_ms + op.popped_after_ms
    client = table.client_number(op.client, queue.group)
    table.hand_out(queue, offsets, popped_at_ms, popped_at_ms + op.invisible_ms, client)
    queue.next = op.next


def _batch_of(table: PopTable, queue: PopQueue, op: InOrder, at_ms: int) -> OrderedBatch:
    popped_at_ms = at_ms + op.popped_after_ms
    return OrderedBatch(
        popped_at_ms,
        popped_at_ms + op.invisible_ms,
        op.offsets,
        op.attempts,
        op.attempt_id,
        table.client_number(op.client, queue.group),
    )
