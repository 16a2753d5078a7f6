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
from heapq import nsmallest
from pathlib import Path
from typing import Final

from pyromq.broker.alarm import Alarm
from pyromq.broker.durability import Durability
from pyromq.broker.timers.catching_up import entries_from, rows_from
from pyromq.broker.timers.ending import Endings
from pyromq.broker.timers.keeper import Keeper
from pyromq.broker.timers.near import DUE_MS_MAX, NEVER, NearFuture, Row
from pyromq.broker.timers.recalls import Recalls
from pyromq.broker.timers.waiting import Recalled, Waiting
from pyromq.clock import Clock
from pyromq.errors import StoreError
from pyromq.store.store import MessageStore
from pyromq.wire import properties as names

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
#: Messages that are looked at in one turn.
LOOK_TURN: Final = 64


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
        self._recalls = Recalls(store, self._keeper, self._near, self._endings, self._rows_behind)
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
        """Let a message that waits never be delivered, no copy of it; see `Recalls.recall`."""
        return await self._recalls.recall(topic, unique_id, due_ms=due_ms)
