"""Timed messages while the broker runs: deliver them, list them, recall them.

    timer queue ──────────► table, every second or 8,192 messages, after a sync of the log
         │                    │ the next seconds
         └─ due very soon ──► near future ──► own topic, when the alarm rings
                                               │
                              table ◄── done ──┘ after the next sync of the log

Every change is a record of the log first. The table (`keeper.py`) gets it after the log's sync, and a restart
finds in the log what the table did not get (`DESIGN.md`).
"""

import asyncio
import logging
from collections.abc import Iterable
from heapq import nsmallest
from pathlib import Path
from typing import Final

from pyromq.broker.alarm import Alarm
from pyromq.broker.durability import Durability
from pyromq.broker.timers.catching_up import entries_from, rows_from
from pyromq.broker.timers.ending import Endings
from pyromq.broker.timers.keeper import LOADED_MAX, Keeper
from pyromq.broker.timers.near import DUE_MS_MAX, NEVER, POSITION_MAX, NearFuture, Row
from pyromq.broker.timers.waiting import Recalled, Waiting
from pyromq.broker.topic_names import WHEEL_TIMER
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.errors import ServiceNotAvailable, StoreError
from pyromq.store.follower import entry_of
from pyromq.store.store import MessageStore
from pyromq.wire import properties as names
from pyromq.wire.record import decode_record

log = logging.getLogger(__name__)

#: What is delivered in one turn of the loop: some milliseconds of its time.
TURN_MESSAGES_MAX: Final = 64
TURN_BYTES_MAX: Final = 256 << 10
#: How long deliveries wait after the store refused one, and while the table cannot follow them.
PAUSE_MS: Final = 1_000
UNWRITTEN_MAX: Final = 200_000
#: So many are in memory at most, and so many stay there when they get more.
NEAR_MAX: Final = 49_152
NEAR_KEPT: Final = 24_576
#: Messages of one key that are looked at for a recall, and messages that are looked at in one turn.
KEY_COUNT_MAX: Final = 64
LOOK_TURN: Final = 64
#: Whoever knows when a message is due may have rounded it.
_DUE_SLACK_MS: Final = 1_000


class Timers:
    """The messages that wait for a time of their own.

    Without a path their table is in memory, and made again from the log at every start.
    """

    def __init__(self, store: MessageStore, clock: Clock, *, path: Path | None) -> None:
        self._store = store
        self._clock = clock
        self._near = NearFuture()
        self._endings = Endings(store, clock)
        self._keeper = Keeper(store, clock, path, self._near, self._endings)
        self._keeper.on_loaded = self._loaded
        self._alarm: Alarm | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._not_before_ms = 0
        self._last_error = ""
        self._is_following = False

    # A life

    def start(self, durability: Durability) -> None:
        """Begin to deliver; what came due while nobody did is delivered now."""
        self._alarm = Alarm(self._clock, self._rung)
        self._store.may_go_before = self._keeper.may_go_before
        self._keeping = asyncio.get_running_loop().create_task(self._keeper.run(durability), name="timers")

    async def follow(self, durability: Durability) -> None:
        """Keep the table near the end of a log that grows by copying; for a slave, which delivers nothing."""
        self._is_following = True
        await self._keeper.follow(durability)

    def nudge(self) -> None:
        """Have what is new written down; to be called every second."""
        self._keeper.nudge()

    @property
    def pending(self) -> int:
        """How many changes are not written down yet."""
        return self._keeper.pending

    @property
    def in_memory(self) -> int:
        """How many of the waiting messages are in memory."""
        return len(self._near)

    def stop(self) -> None:
        """Deliver no more."""
        if self._alarm is not None:
            self._alarm.end()
            self._alarm = None

    async def close(self) -> None:
        """Write down what is left, after the last message was stored; can be called without a start."""
        self.stop()
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            self._keeper.close()
            await keeping
        elif self._is_following:
            await self._keeper.stop_following()

    def arrived(self, end: int, due_ms: int) -> None:
        """Note that the timer queue grew to `end` by a message that is due then; 0 is none that waits."""
        if due_ms <= 0 or self._alarm is None:
            return
        near, keeper = self._near, self._keeper
        if due_ms <= near.until[0]:
            for position, size, _ in entries_from(self._store, end - 1, 1):
                if near.covers(due_ms, position):
                    near.add((due_ms, position, size))
                    self._loaded()
                    keeper.write_if_many()
                    return
        if keeper.beyond_ms is None or due_ms < keeper.beyond_ms:
            keeper.beyond_ms = due_ms
            self._set_alarm()
        keeper.write_if_many()

    # Delivering

    def _rung(self) -> None:
        now_ms = self._clock.now_ms()
        if self._may_deliver(now_ms):
            rows = self._near.take_due(now_ms, count_max=TURN_MESSAGES_MAX, bytes_max=TURN_BYTES_MAX)
            if rows:
                self._deliver(rows, now_ms)
        load_at_ms = self._keeper.load_at_ms
        if load_at_ms is not None and load_at_ms <= now_ms:
            self._keeper.want_load()
        self._set_alarm()

    def _may_deliver(self, now_ms: int) -> bool:
        if not now_ms < self._not_before_ms <= now_ms + PAUSE_MS:
            self._not_before_ms = 0
        if len(self._endings) >= UNWRITTEN_MAX:
            self._not_before_ms = now_ms + PAUSE_MS
        return not self._not_before_ms

    def _deliver(self, rows: list[Row], now_ms: int) -> None:
        try:
            self._endings.deliver(rows)
            self._last_error = ""
        except StoreError as error:
            if str(error) != self._last_error:
                log.warning("timed messages wait on, the store refuses them: %s", error)
            self._last_error = str(error)
            self._not_before_ms = now_ms + PAUSE_MS
            for row in rows:
                if row[1] not in self._endings:
                    self._near.add(row)
        self._keeper.write_if_many()

    def _loaded(self) -> None:
        """Let go of what is too much for memory: a load brings all that the table does not have yet."""
        if len(self._near) > NEAR_MAX:
            self._near.shrink(NEAR_KEPT)
            self._keeper.beyond_ms = min(self._near.until[0], self._keeper.beyond_ms or DUE_MS_MAX)
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._alarm is None:
            return
        times = [time for time in (self._near.head_ms(), self._keeper.load_at_ms) if time is not None]
        if times:
            self._alarm.set(max(min(times), self._not_before_ms))

    # Asking

    async def list_waiting(
        self, *, topic: str | None = None, after: tuple[int, int] | None = None, count: int
    ) -> list[Waiting]:
        """Return up to `count` messages that wait, in the order of their delivery; fewer are the last ones.

        `after` is (due_ms, position) of the last one that is known already, `topic` their own topic. A topic
        of which few wait among many takes long, and holds up nobody.
        """
        await self._keeper.ready()
        found: list[Waiting] = []
        after = after or NEVER
        while len(found) < count:
            rows = await self._rows_behind(after, max(count, LOOK_TURN))
            if not rows:
                break
            after = rows[-1][:2]
            found += [Waiting(*row) for row in rows if self._is_wanted(row, topic)]
            await asyncio.sleep(0)
        return found[:count]

    async def _rows_behind(self, after: tuple[int, int], count: int) -> list[Row]:
        """Return the next rows of the table and of what it does not have yet, ended or not."""
        new = nsmallest(
            count, (row for row in rows_from(self._store, self._keeper.progress.offset) if row[:2] > after)
        )
        # What is written while the table is read may be in both.
        rows = set(new).union(await self._keeper.next_due(after, DUE_MS_MAX, count))
        return sorted(rows)[:count]

    def _is_wanted(self, row: Row, topic: str | None) -> bool:
        if row[1] in self._endings:
            return False
        if topic is None:
            return True
        record = self._endings.record_of(row)
        return record is not None and names.find_text(record.properties, names.REAL_TOPIC) == topic

    async def count(self) -> int:
        """Return how many messages wait."""
        await self._keeper.ready()
        return self._keeper.count

    async def recall(self, topic: str, unique_id: str, *, due_ms: int | None = None) -> Recalled:
        """Let a message that waits never be delivered; it is so once the log is synced up to `placed.end`.

        `topic` is its own topic and `unique_id` its UNIQ_KEY. A store without an index of keys needs
        `due_ms`, at or up to a second behind the time that the message is due. Raises Refused when nothing
        can be stored.
        """
        await self._keeper.ready()
        if self._store.settings.message_index_enable:
            candidates: Iterable[Row] = self._with_key(unique_id)
        else:
            candidates = [] if due_ms is None else await self._due_about(due_ms)
        for row in candidates:
            if self._is_message(row, topic, unique_id) and await self._waits(row):
                return self._recall(row)
        return Recalled(None)

    def _with_key(self, unique_id: str) -> list[Row]:
        """Return the messages that the index has under an id, waiting or not, the newest first."""
        found = self._store.query(
            WHEEL_TIMER, unique_id, count_max=KEY_COUNT_MAX, begin_ms=0, end_ms=DUE_MS_MAX
        )
        records = [decode_record(data, check_crc=False) for data in reversed(found.records)]
        entries = [entry_of(record, record.size, {}) for record in records]
        return [(entry.tags_code, entry.position, entry.size) for entry in entries if entry.tags_code > 0]

    async def _due_about(self, due_ms: int) -> list[Row]:
        found: list[Row] = []
        after = (due_ms - _DUE_SLACK_MS - 1, POSITION_MAX)
        while (rows := await self._rows_behind(after, LOADED_MAX)) and after[0] <= due_ms:
            found += [row for row in rows if row[0] <= due_ms]
            after = rows[-1][:2]
        return found

    def _is_message(self, row: Row, topic: str, unique_id: str) -> bool:
        record = self._endings.record_of(row)
        return (
            record is not None
            and names.find_text(record.properties, names.REAL_TOPIC) == topic
            and names.find_text(record.properties, names.UNIQ_KEY) == unique_id
        )

    async def _waits(self, row: Row) -> bool:
        """Return whether a message waits at the moment of return."""
        position = row[1]
        if position not in self._endings and not self._is_new(position) and not self._near.covers(*row[:2]):
            writes = -1
            while writes != self._keeper.writes:
                writes = self._keeper.writes
                is_found = await self._keeper.has(row[0], position)
            if not is_found:
                return False
        if position in self._endings:
            return False
        return not self._near.covers(*row[:2]) or position in self._near

    def _is_new(self, position: int) -> bool:
        """Return whether the table does not have the message at a position yet."""
        following = entries_from(self._store, self._keeper.progress.offset, 1)
        return bool(following) and following[0][0] <= position

    def _recall(self, row: Row) -> Recalled:
        try:
            placed = self._endings.recall(row)
        except StoreError as error:
            raise ServiceNotAvailable(
                ResponseCode.SERVICE_NOT_AVAILABLE, f"recall failed, nothing can be stored now: {error}"
            ) from error
        self._near.discard(row[1])
        return Recalled(placed, row[0])
