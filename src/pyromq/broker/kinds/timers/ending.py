"""The ends of timed messages' waits: each is a record of the log that names the waiting record.

Between that record and the table's next transaction the table still has the message. Such messages are kept
here, so that none of them is delivered, listed or recalled a second time.
"""

import logging
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile

from pyromq.broker.kinds.deliveries import Deliveries
from pyromq.broker.kinds.timers.near import Row
from pyromq.broker.kinds.timers.timed import delivered_draft, recall_draft, rolled_draft
from pyromq.clock import Clock
from pyromq.errors import CorruptRecord, MessageTooLarge
from pyromq.store.store import Draft, MessageStore, Placed
from pyromq.system_names import WHEEL_TIMER
from pyromq.wire.record import Record, decode_record

log = logging.getLogger(__name__)

Put = Callable[[list[Draft]], list[Placed]]


class Endings:
    """The waits that ended, as long as the table has them."""

    def __init__(self, store: MessageStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        #: Where the done record is, and the row of the waiting one, in the log's order.
        self._done: deque[tuple[int, Row]] = deque()
        self._positions: set[int] = set()
        #: What stores many with one write, where there is a kernel.
        self.deliveries: Deliveries | None = None

    def __len__(self) -> int:
        return len(self._done)

    def __contains__(self, position: int) -> bool:
        return position in self._positions

    def deliver(self, rows: Sequence[Row]) -> None:
        """Store messages in their own topics, with one write where that is possible.

        Raises StoreError when the store takes none now; those that ended all the same are in here.
        """
        now_ms = self._clock.now_ms()
        self._end(
            self._deliver_plain(rows), lambda record: delivered_draft(record, now_ms), self._put_in_own_topics
        )

    def _deliver_plain(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Store messages as far as the kernel can; return the rest, which begins with one for Python."""
        left = [row for row in rows if row[1] not in self._positions]
        while self.deliveries is not None and left:
            placed = self.deliveries.deliver(array("q", [row[1] for row in left]), WHEEL_TIMER)
            if not placed:
                break
            for position, row in zip(placed, left, strict=False):
                self._add(position, row)
            left = left[len(placed) :]
        return left

    def _put_in_own_topics(self, drafts: list[Draft]) -> list[Placed]:
        placed = self._store.put_batch(drafts)
        if self.deliveries is not None:
            for topic, queue_id in {(draft.topic, draft.queue_id) for draft in drafts}:
                self.deliveries.learn(topic, queue_id)
        return placed

    def roll(self, rows: Sequence[Row]) -> None:
        """Store messages again in the timer topic, where they wait on; raises as `deliver` does."""
        self._end(rows, rolled_draft, partial(self._store.put_batch, is_for_room=True))

    def recall(self, rows: Sequence[Row]) -> int | None:
        """Let messages never be delivered, and return where the log ends behind that; raises as `deliver`.

        None when the records of all of them are gone.
        """
        now_ms, before = self._clock.now_ms(), self._store.max_position
        self._end(rows, lambda record: recall_draft(record, now_ms), self._store.put_batch)
        end = self._store.max_position
        return end if end > before else None

    def record_of(self, row: Row) -> Record | None:
        """Return the record of a waiting message, None when it is not there or not whole."""
        _, position, size = row
        data = self._store.log.read(position, size)
        try:
            record = data and decode_record(data, check_crc=position < self._store.log.written_from)
        except CorruptRecord:
            record = None
        record = record or self._store.record_at(position)
        is_itself = record is not None and record.position == position and record.topic == WHEEL_TIMER
        return record if is_itself and record else None

    def before(self, position: int) -> list[Row]:
        """Return which waits were ended by records before a position."""
        return [row for _, row in takewhile(lambda done: done[0] < position, self._done)]

    def position_behind(self, count: int) -> int | None:
        """Return where the done record is behind the first `count`, None when there are no more."""
        return self._done[count][0] if count < len(self._done) else None

    def forget_before(self, position: int) -> None:
        """Forget the waits that were ended by records before a position: the table has them no more."""
        while self._done and self._done[0][0] < position:
            _, row = self._done.popleft()
            self._positions.discard(row[1])

    def _end(self, rows: Sequence[Row], make: Callable[[Record], Draft | None], put: Put) -> None:
        drafts: list[Draft] = []
        ended: list[Row] = []
        for row in rows:
            if row[1] in self._positions:
                continue
            record = self.record_of(row)
            draft = None if record is None else make(record)
            if draft is None:
                self._give_up(row, "cannot be read" if record is None else "does not say where it belongs")
            else:
                drafts.append(draft)
                ended.append(row)
        self._put(drafts, ended, put)

    def _put(self, drafts: list[Draft], rows: list[Row], put: Put) -> None:
        try:
            placed = put(drafts)
        except MessageTooLarge as error:
            if len(drafts) == 1:
                self._give_up(rows[0], f"can never be stored: {error}")
                return
            # Together they may be more than a file of the log takes, or one of them is.
            for draft, row in zip(drafts, rows, strict=True):
                self._put([draft], [row], put)
            return
        for one, row in zip(placed, rows, strict=True):
            self._add(one.position, row)

    def _add(self, done_at: int, row: Row) -> None:
        self._done.append((done_at, row))
        self._positions.add(row[1])

    def _give_up(self, row: Row, why: str) -> None:
        """End a wait without a record; the table forgets it."""
        log.error("the timed message at position %d, due at %d ms, %s", row[1], row[0], why)
        self._add(max(self._store.max_position - 1, 0), row)
