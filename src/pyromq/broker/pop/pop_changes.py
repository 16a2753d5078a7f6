"""Changes of messages in flight on a master: each change of the table is an operation of the journal.

    pop, ack, change, …   during the turn    the table changes at once; the operation is noted
    `flush`               at its end         one record with all operations is appended to the log
                                             then the answers leave (`end_of_turn.py`)

An answer is on its link before the record is in the log, and leaves after it. When the record cannot be
appended the links of that turn are closed instead: nobody hears that something was acknowledged which the log
does not know. The operations are kept, and appended as soon as the store takes them.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.durability.watermark import Settle
from pyromq.broker.end_of_turn import BrokerTurn
from pyromq.broker.groups.offsets import OffsetTable
from pyromq.broker.kinds.stored_again import own_draft
from pyromq.broker.pop.in_flight import NO_CLIENT
from pyromq.broker.pop.journal_ops import (
    VERSION,
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
    encode_journal,
)
from pyromq.broker.pop.ordered import OrderedBatch
from pyromq.broker.pop.pop_table import PopQueue, PopTable
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.errors import ServiceNotAvailable, StoreError
from pyromq.kernel import IS_COMPILED
from pyromq.store.store import MessageStore
from pyromq.system_names import POP_JOURNAL

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.broker.pop.in_flight import DeliveryEnding
else:
    from pyromq._kernel.storage.in_flight import DeliveryEnding

log = logging.getLogger(__name__)


class PopChanges:
    """Changes the table of a master, and journals what changed."""

    def __init__(
        self,
        table: PopTable,
        store: MessageStore,
        offsets: OffsetTable,
        clock: Clock,
        *,
        turn: BrokerTurn,
    ) -> None:
        self.table = table
        self._store = store
        self._offsets = offsets
        self._clock = clock
        self._turn = turn
        self._step = turn.journal
        self._step.run = self.end_turn
        self._at_ms = 0
        self._names: list[QueueName] = []
        self._places: dict[PopQueue, int] = {}
        self._ops: list[AnyOp] = []
        self._ended: dict[PopQueue, list[int]] = {}
        #: Queues whose progress is to be told.
        self._touched: set[PopQueue] = set()
        self._settles: list[Settle] = []
        #: Whether something was changed in this turn, which answers may tell.
        self._has_news = False
        #: Another one in each turn in which something happened.
        self.turn_number = 0
        #: Why the store did not take the last record; None: it did.
        self.why_refused: str | None = None
        #: Done before a turn's operations are appended; it may cause some.
        self.before_flush: Callable[[], None] = lambda: None
        #: Done behind them.
        self.after_flush: Callable[[], None] = lambda: None
        #: What `lead` sets.
        self._durability: Durability | None = None
        self._store_host = b""

    def lead(self, durability: Durability, *, store_host: bytes) -> None:
        """Append records with this host from now on, and acknowledge them so."""
        self._durability, self._store_host = durability, store_host

    # Changes

    def hand_out(
        self,
        queue: PopQueue,
        offsets: Sequence[int],
        next_offset: int,
        *,
        popped_at_ms: int,
        invisible_ms: int,
        client_id: str = "",
    ) -> None:
        """Hand out messages, and read on at another offset."""
        place, after_ms = self._place(queue), popped_at_ms - self._at_ms
        oldest = queue.in_flight.first
        floor = offsets[0] if oldest is None else oldest
        client = self.table.client_number(client_id, queue.group) if client_id else NO_CLIENT
        queue.next = next_offset
        self.table.hand_out(queue, offsets, popped_at_ms, popped_at_ms + invisible_ms, client)
        first, count = offsets[0], len(offsets)
        is_run = offsets[-1] - first == count - 1
        distances = [] if is_run else [offset - first for offset in offsets]
        self._ops.append(
            Handed(place, floor, next_offset, after_ms, invisible_ms, first, count, distances, client_id)
        )

    def end(self, queue: PopQueue, offset: int) -> bool:
        """Finish a message; return whether it was in flight."""
        if not self.table.end(queue, offset):
            return False
        self._noted(queue).append(offset)
        return True

    def end_at(self, queue: PopQueue, at: int, offset: int) -> None:
        """Finish the message at a place of the columns."""
        self.table.end_at(queue, at)
        self._noted(queue).append(offset)

    def ending(self, queue: PopQueue) -> DeliveryEnding:
        """Return what ends messages of a queue, and notes them as `end_at` does."""
        return DeliveryEnding(queue.in_flight, partial(self._noted, queue))

    def _noted(self, queue: PopQueue) -> list[int]:
        """Return the offsets of a queue that were acknowledged in this turn, to which others are added."""
        noted = queue.in_flight.noted
        if noted is None:
            self._place(queue)
            noted = queue.in_flight.noted = self._ended[queue] = []
        return noted

    def ended_by_record(self, queue: PopQueue, offset: int) -> None:
        """Finish a message that the log's newest records name as done."""
        self.table.end(queue, offset)
        self.touch(queue)

    def move(self, queue: PopQueue, offset: int, popped_at_ms: int, invisible_ms: int) -> None:
        """Give a message another handle and another visible time."""
        place, after_ms = self._place(queue), popped_at_ms - self._at_ms
        self.table.move(queue, offset, popped_at_ms, popped_at_ms + invisible_ms)
        self._ops.append(Moved(place, offset, after_ms, invisible_ms))

    def renew(
        self, queue: PopQueue, offsets: Sequence[int], visible_at_ms: int, *, keeps_client: bool
    ) -> None:
        """Give messages another visible time."""
        place = self._place(queue)
        self.table.renew(queue, offsets, visible_at_ms, keeps_client=keeps_client)
        self._ops.append(Renewed(place, list(offsets), visible_at_ms - self._at_ms, keeps_client))

    def hand_out_in_order(self, queue: PopQueue, batch: OrderedBatch, client_id: str = "") -> None:
        """Hand out a batch in order."""
        place, after_ms = self._place(queue), batch.popped_at_ms - self._at_ms
        batch.client = self.table.client_number(client_id, queue.group)
        self.table.hand_out_in_order(queue, batch)
        self._ops.append(
            InOrder(
                place,
                after_ms,
                batch.visible_at_ms - batch.popped_at_ms,
                list(batch.offsets),
                list(batch.attempts),
                batch.attempt_id,
                client_id,
            )
        )

    def move_in_order(self, queue: PopQueue, offset: int, visible_at_ms: int) -> None:
        """Give a message of a batch a visible time of its own."""
        place = self._place(queue)
        self.table.move_in_order(queue, offset, visible_at_ms)
        self._ops.append(MovedInOrder(place, offset, visible_at_ms - self._at_ms))

    def reset(self, queue: PopQueue, offset: int) -> None:
        """Go on at another offset; nothing is in flight there any more."""
        self._settle_ended()
        place = self._place(queue)
        self.table.reset(queue, offset)
        self._ops.append(ResetTo(place, offset))

    def forget(self, queues: Sequence[PopQueue], op: TopicForgotten | GroupForgotten) -> None:
        """Forget queues of a topic or a group that is deleted."""
        if not queues:
            return
        self._settle_ended()
        self._begin()
        for queue in queues:
            self.table.forget(queue)
            self._touched.discard(queue)
            self._places.pop(queue, None)
        self._ops.append(op)

    def touch(self, queue: PopQueue) -> None:
        """Have the progress of a queue told when the turn ends."""
        self._touched.add(queue)
        self._step.due()

    def begin_retries(self, group: str, topic: str) -> None:
        """Let a group have progress in a retry topic: what waits there is lag before anybody pops it."""
        if self._offsets.progress(group, topic, 0) is None:
            self._offsets.commit(group, topic, 0, 0)

    # The journal

    def will_end(self) -> None:
        """Have this turn end with another number."""
        self._step.due()

    def try_again(self) -> None:
        """Append what the store refused before."""
        if self.why_refused is not None:
            self._step.due()

    def when_kept(self, settle: Settle) -> None:
        """Call `settle` once what happened so far is safe, as a send would be; see `Durability.when_safe`."""
        self._settles.append(settle)
        self._step.due()

    def end_turn(self) -> None:
        """Append what happened in this turn."""
        self.turn_number += 1
        self.before_flush()
        try:
            self.flush()
        except StoreError as error:
            self._refuse(error)
        self.after_flush()
        self._has_news = False
        settles, self._settles = self._settles, []
        if settles and self._durability is not None:

            def settle_all(error: Exception | None) -> None:
                for settle in settles:
                    settle(error)

            self._durability.when_safe(self._store.max_position, settle_all)

    def flush(self) -> None:
        """Append what happened so far; whatever is stored next is behind it. Raises StoreError."""
        self._settle_ended()
        if self._ops:
            record = JournalRecord(VERSION, self._at_ms, self._names, self._ops)
            draft = own_draft(
                POP_JOURNAL,
                encode_journal(record),
                "",
                born_at_ms=self._at_ms,
                store_host=self._store_host,
            )
            # Without it nothing could be consumed on a full disk, and nothing made room.
            self._store.put_batch([draft], is_for_room=True)
            self.why_refused = None
            self._names, self._ops = [], []
            self._places.clear()
        if self._touched:
            self._tell_progress()

    def _refuse(self, error: StoreError) -> None:
        """Let nobody hear of what the log does not know."""
        if str(error) != self.why_refused:
            log.error("what happened to popped messages cannot be stored: %s", error)
        self.why_refused = str(error)
        refusal = ServiceNotAvailable(
            ResponseCode.SERVICE_NOT_AVAILABLE, f"service not available now: the store takes nothing, {error}"
        )
        settles, self._settles = self._settles, []
        for settle in settles:
            settle(refusal)
        if not self._has_news:
            return
        may_leave = self._turn.may_leave

        def stays() -> bool:
            self._turn.may_leave = may_leave
            return False

        self._turn.may_leave = stays

    def _begin(self) -> None:
        if not self._ops and not self._ended:
            self._at_ms = self._clock.now_ms()
        self._step.due()

    def _place(self, queue: PopQueue) -> int:
        self._has_news = True
        self._touched.add(queue)
        place = self._places.get(queue)
        if place is None:
            self._begin()
            place = self._places[queue] = len(self._names)
            self._names.append(queue.name)
        return place

    def _settle_ended(self) -> None:
        """Note acknowledgements behind the operations before them."""
        for queue, offsets in self._ended.items():
            self._ops.append(Ended(self._places[queue], offsets))
            queue.in_flight.noted = None
        self._ended.clear()

    def _tell_progress(self) -> None:
        """Raise the groups' progress to what is finished."""
        changed: set[str] = set()
        for queue in self._touched:
            committed = queue.committed
            if committed == queue.told:
                continue
            kept = self._offsets.kept(queue.group, queue.topic)
            if kept is None or queue.queue_id not in kept:
                self._offsets.commit(queue.group, queue.topic, queue.queue_id, committed)
            else:
                kept[queue.queue_id] = committed
                changed.add(self._offsets.name_of(queue.group, queue.topic))
            queue.told = committed
        self._touched.clear()
        if changed:
            self._offsets.changed(changed)
