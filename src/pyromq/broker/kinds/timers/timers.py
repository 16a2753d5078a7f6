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
from collections.abc import Mapping, Sequence
from heapq import nsmallest
from pathlib import Path
from typing import Final

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.kinds.alarm import Alarm
from pyromq.broker.kinds.deliveries import Deliveries
from pyromq.broker.kinds.kind_follower import KindFollower
from pyromq.broker.kinds.stored_again import QUEUE_ID
from pyromq.broker.kinds.timers.ending import Endings
from pyromq.broker.kinds.timers.keeper import Keeper
from pyromq.broker.kinds.timers.near import DUE_MS_MAX, NEVER, NearFuture, Row
from pyromq.broker.kinds.timers.recalls import Recalled, Recalls
from pyromq.broker.kinds.timers.timed import plain_timer_diversions, timer_diversions
from pyromq.broker.kinds.timers.timer_queue import rows_due, rows_from
from pyromq.broker.topics.intake import Diversion, PlainDiversion
from pyromq.clock import Clock
from pyromq.errors import StoreError
from pyromq.store.store import MessageStore
from pyromq.system_names import WHEEL_TIMER
from pyromq.wire.record import Record

log = logging.getLogger(__name__)

#: How often what is new is written down.
WRITE_S: Final = 1.0
#: What is delivered in one turn of the loop: some milliseconds of its time.
TURN_MESSAGES_MAX: Final = 64
TURN_BYTES_MAX: Final = 256 << 10
#: How long deliveries wait after the store refused one, and while the table cannot follow them.
PAUSE_MS: Final = 1_000
UNWRITTEN_MAX: Final = 200_000
#: So many are in memory at most, and so many stay there when they get more.
NEAR_MAX: Final = 49_152
NEAR_KEPT: Final = 24_576
#: Messages that are looked at in one turn.
LOOK_TURN: Final = 64


class Timers(KindFollower):
    """The messages that wait for a time of their own.

    Without a path their table is in memory, and made again from the log at every start.
    """

    name = "timed messages"
    topics = (WHEEL_TIMER,)
    upkeep_s = WRITE_S

    def __init__(self, store: MessageStore, clock: Clock, *, path: Path | None) -> None:
        super().__init__(store)
        self._clock = clock
        self._near = NearFuture()
        self._endings = Endings(store, clock)
        self._keeper = Keeper(store, clock, path, self._near, self._endings)
        self._keeper.on_loaded = self._loaded
        self._recalls = Recalls(store, self._keeper, self._near, self._endings, self._rows_behind)
        self._alarm: Alarm | None = None
        self._not_before_ms = 0
        self._last_error = ""

    def deliver_with(self, deliveries: Deliveries) -> None:
        """Have messages delivered many with one write, as far as the kernel can."""
        self._endings.deliveries = deliveries

    # A life

    def load(self) -> None:
        """Nothing yet: there may be millions, so the table catches up while the broker runs."""

    def start(self, durability: Durability) -> None:
        """Begin to deliver; what came due while nobody did is delivered now."""
        self._alarm = Alarm(self._clock, self._rung)
        self._store.may_go_before = self._keeper.may_go_before
        self._keeper.start(durability)

    async def follow(self, durability: Durability) -> None:
        """Keep the table near the end of a log that grows by copying; for a slave, which delivers nothing."""
        await self._keeper.follow(durability)

    def diversions(self, _broker_ip: str) -> Mapping[str, Diversion]:
        """Return what sends timed messages to the timer topic."""
        return timer_diversions(self._store.settings, self._clock.now_ms)

    def plain_diversions(self) -> Sequence[PlainDiversion]:
        """Return that each property that asks for a time leads to the timer topic."""
        return plain_timer_diversions(self._store.settings)

    async def upkeep(self, _durability: Durability) -> None:
        """Have what is new written down."""
        self.nudge()

    def nudge(self) -> None:
        """Have what is new written down, without waiting for it."""
        self._keeper.nudge()

    def forget_beyond(self, cut_at: int) -> None:
        """Remove a table that goes beyond a position of the log."""
        self._keeper.forget_beyond(cut_at)

    @property
    def pending(self) -> int:
        """The number of changes that are not written to the table yet."""
        return self._keeper.pending

    @property
    def in_memory(self) -> int:
        """The number of waiting messages that are in memory."""
        return len(self._near)

    def stop(self) -> None:
        """Deliver no more."""
        if self._alarm is not None:
            self._alarm.end()
            self._alarm = None

    async def close(self) -> None:
        """Write down what is left, after the last message was stored; can be called without a start."""
        self.stop()
        await self._keeper.close()

    def apply(self, record: Record) -> None:
        """Note a message that begins to wait."""
        self.grew(record.topic, record.queue_id, record.queue_offset, record.queue_offset + 1)

    def grew(self, _topic: str, queue_id: int, first: int, end: int) -> None:
        """Note messages that begin to wait, by their entries; those that are due soon are kept in memory."""
        if self._alarm is None or queue_id != QUEUE_ID:
            return
        near, keeper = self._near, self._keeper
        rows, beyond_ms = rows_due(self._store, first, NEVER, near.until, end)
        for row in rows:
            near.add(row)
        if rows:
            self._loaded()
        if beyond_ms is not None and (keeper.beyond_ms is None or beyond_ms < keeper.beyond_ms):
            keeper.beyond_ms = beyond_ms
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

    @property
    def next_due_ms(self) -> int | None:
        """The time at which the first in memory is due, or more are to be loaded; now, while they are."""
        if self._alarm is None:
            return None
        return 0 if self._keeper.is_loading else self._next_ms()

    def _next_ms(self) -> int | None:
        times = (self._near.head_ms(), self._keeper.load_at_ms)
        return min((time for time in times if time is not None), default=None)

    def _set_alarm(self) -> None:
        next_ms = self._next_ms()
        if self._alarm is not None and next_ms is not None:
            self._alarm.set(max(next_ms, self._not_before_ms))

    # Asking

    async def list_waiting(self, *, after: tuple[int, int] = NEVER, count: int) -> list[Row]:
        """Return up to `count` messages that wait, in the order of their delivery; fewer are the last ones.

        `after` is (due_ms, position) of the last one that is known already.
        """
        await self._keeper.ready()
        found: list[Row] = []
        while len(found) < count:
            rows = await self._rows_behind(after, max(count, LOOK_TURN))
            if not rows:
                break
            after = rows[-1][:2]
            found += [row for row in rows if row[1] not in self._endings]
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

    async def count(self) -> int:
        """Return how many messages wait."""
        await self._keeper.ready()
        return self._keeper.count

    async def recall(self, topic: str, unique_id: str, *, due_ms: int | None = None) -> Recalled:
        """Let a message that waits never be delivered, no copy of it; see `Recalls.recall`."""
        return await self._recalls.recall(topic, unique_id, due_ms=due_ms)
