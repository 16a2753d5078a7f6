"""Take a message back that waits: every copy of it, in one step.

A producer whose answer did not come sends again, so one message may wait several times: under the same
UNIQ_KEY, and with a delay each copy is due as much later as it came later. Who recalls the message means all
of them. They are looked for first; then, in one turn of the loop, it is seen which of them still wait and
which came meanwhile, and all end with one write of the log. So none is delivered while others are taken back.

What was delivered before stays delivered, and whoever recalls is told. What arrives later is a message of its
own: a producer may send a message again that it took back, under the same id and for another time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from pyromq.broker.kinds.stored_again import QUEUE_ID
from pyromq.broker.kinds.timers.ending import Endings
from pyromq.broker.kinds.timers.keeper import LOADED_MAX, Keeper
from pyromq.broker.kinds.timers.near import DUE_MS_MAX, POSITION_MAX, NearFuture, Row
from pyromq.broker.kinds.timers.timer_queue import entry_at, rows_from
from pyromq.codes import ResponseCode
from pyromq.errors import CorruptRecord, ServiceNotAvailable, StoreError
from pyromq.store.follower import timer_due_ms
from pyromq.store.store import MessageStore
from pyromq.system_names import WHEEL_TIMER
from pyromq.wire import properties as names
from pyromq.wire.record import decode_record, read_properties

#: Messages of one key that are looked at, the newest; the index gives no more.
KEY_COUNT_MAX: Final = 64
#: Messages that are looked at in one turn of the loop.
LOOK_TURN: Final = 64
#: Without an index of keys: how far from each other copies of a message may be due. A producer tries again
#: within seconds.
COPIES_APART_MS: Final = 10_000

#: Returns up to so many rows that are due behind a place, ended or not.
RowsBehind = Callable[[tuple[int, int], int], Awaitable[list[Row]]]


class Recalled(NamedTuple):
    """The result of a recall: the log up to `end` says that no waiting copy of the message is delivered.

    `end` is None when no copy waits: the message was delivered or recalled already, or never existed.
    `due_ms` is the time at which the first copy would have been delivered. `was_delivered` says whether a
    copy was, as far as is known.
    """

    end: int | None
    due_ms: int = 0
    was_delivered: bool = False

    @property
    def was_waiting(self) -> bool:
        """Whether the message was waiting, and now is not any more."""
        return self.end is not None


class Recalls:
    """Finds all copies of a message that wait, and ends them."""

    def __init__(
        self,
        store: MessageStore,
        keeper: Keeper,
        near: NearFuture,
        endings: Endings,
        rows_behind: RowsBehind,
    ) -> None:
        self._store = store
        self._keeper = keeper
        self._near = near
        self._endings = endings
        self._rows_behind = rows_behind

    async def recall(self, topic: str, unique_id: str, *, due_ms: int | None = None) -> Recalled:
        """Let a message that waits never be delivered; it is so once the log is synced up to the `end`.

        `topic` is its own topic and `unique_id` its UNIQ_KEY. A store without an index of keys needs
        `due_ms`, about the time that the message is due. Raises Refused when nothing can be stored.
        """
        await self._keeper.ready()
        seen = self._store.max_offset(WHEEL_TIMER, QUEUE_ID)
        copies = await self._copies(topic, unique_id, due_ms)
        waiting = await self._those_waiting(copies)
        # From here on nothing is awaited. What came meanwhile may have been stored again to wait on.
        newer = [row for row in rows_from(self._store, seen) if self._is_message(row, topic, unique_id)]
        waiting += [row for row in newer if row not in waiting and self._has_not_ended(row)]
        end = self._end(waiting) if waiting else None
        was_delivered = len(waiting) < len(copies) and self._was_delivered(topic, unique_id)
        return Recalled(end, min((row[0] for row in waiting), default=0), was_delivered=was_delivered)

    async def _copies(self, topic: str, unique_id: str, due_ms: int | None) -> list[Row]:
        """Return the records of a message that waited or wait."""
        if self._store.settings.message_index_enable:
            candidates = self._with_key(unique_id)
        else:
            candidates = [] if due_ms is None else await self._due_about(due_ms)
        found = []
        for at, row in enumerate(candidates, 1):
            if self._is_message(row, topic, unique_id):
                found.append(row)
            if at % LOOK_TURN == 0:
                await asyncio.sleep(0)
        return found

    def _with_key(self, unique_id: str) -> list[Row]:
        """Return the messages that the index has under an id, waiting or not, the newest first."""
        found = self._store.query(
            WHEEL_TIMER, unique_id, count_max=KEY_COUNT_MAX, begin_ms=0, end_ms=DUE_MS_MAX
        )
        records = [decode_record(data, check_crc=False) for data in reversed(found.records)]
        rows = [(timer_due_ms(record), record.position, record.size) for record in records]
        return [row for row in rows if row[0] > 0]

    async def _due_about(self, due_ms: int) -> list[Row]:
        found: list[Row] = []
        after, last_ms = (due_ms - COPIES_APART_MS - 1, POSITION_MAX), due_ms + COPIES_APART_MS
        while (rows := await self._rows_behind(after, LOADED_MAX)) and after[0] <= last_ms:
            found += [row for row in rows if row[0] <= last_ms]
            after = rows[-1][:2]
        return found

    def _is_message(self, row: Row, topic: str, unique_id: str) -> bool:
        record = self._endings.record_of(row)
        return (
            record is not None
            and names.find_text(record.properties, names.REAL_TOPIC) == topic
            and names.find_text(record.properties, names.UNIQ_KEY) == unique_id
        )

    async def _those_waiting(self, rows: list[Row]) -> list[Row]:
        """Return which messages wait, all of them at the moment of return."""
        keeper, near = self._keeper, self._near
        while True:
            seen = keeper.writes, near.until
            found = [row for row in rows if self._is_beside_table(row) or await keeper.has(*row[:2])]
            # What the table was asked for holds as long as it was not written; where memory ends may move.
            if seen == (keeper.writes, near.until):
                return [row for row in found if self._has_not_ended(row)]

    def _is_beside_table(self, row: Row) -> bool:
        """Return whether it is known without the table whether a message waits."""
        position = row[1]
        return position in self._endings or self._near.covers(*row[:2]) or self._is_new(position)

    def _has_not_ended(self, row: Row) -> bool:
        position = row[1]
        if position in self._endings:
            return False
        return not self._near.covers(*row[:2]) or position in self._near

    def _is_new(self, position: int) -> bool:
        """Return whether the table does not have the message at a position yet."""
        following = entry_at(self._store, self._keeper.progress.offset)
        return following is not None and following[0] <= position

    def _end(self, rows: list[Row]) -> int | None:
        try:
            end = self._endings.recall(rows)
        except StoreError as error:
            raise ServiceNotAvailable(
                ResponseCode.SERVICE_NOT_AVAILABLE, f"recall failed, nothing can be stored now: {error}"
            ) from error
        finally:
            for row in rows:
                if row[1] in self._endings:
                    self._near.discard(row[1])
        return end

    def _was_delivered(self, topic: str, unique_id: str) -> bool:
        """Return whether the index has a copy in the message's own topic that waited before."""
        if not self._store.settings.message_index_enable:
            return False
        found = self._store.query(topic, unique_id, count_max=KEY_COUNT_MAX, begin_ms=0, end_ms=DUE_MS_MAX)
        return any(_waited(record, unique_id) for record in found.records)


def _waited(record: bytes, unique_id: str) -> bool:
    try:
        properties = read_properties(record)
    except CorruptRecord:
        return False
    return (
        names.find_text(properties, names.UNIQ_KEY) == unique_id
        and names.find_text(properties, names.TIMER_OUT_MS) is not None
    )
