"""Who works with the table: one task, one thing after the other, in a thread of its own.

The loop never waits for the table. What needs it is asked for (`wake`), and done in this order: catch up with
the log, once; load what is due next; write what is new and what is done; store messages again whose file is
to go.

Because nothing else touches the table, at any moment that the loop can see

    what waits = the table's rows + the timer queue from `progress.offset` on − the endings

and the near future is the part of it up to `near.until`.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from pyromq.broker.durability import Durability
from pyromq.broker.timers.catching_up import (
    beginning,
    changes_since,
    entries_from,
    gather_new,
    rows_from,
    within_log,
)
from pyromq.broker.timers.ending import Endings
from pyromq.broker.timers.near import DUE_MS_MAX, NEVER, POSITION_MAX, NearFuture, Row
from pyromq.broker.timers.table import Changes, Progress, WaitingTable
from pyromq.broker.timers.timed import QUEUE_ID
from pyromq.clock import Clock
from pyromq.errors import CorruptRecord, ServiceNotAvailable, StoreError
from pyromq.store.store import MessageStore
from pyromq.system_names import WHEEL_TIMER

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How far ahead messages are loaded, and how much of that is left when the next are.
LOOKAHEAD_MS: Final = 3_000
MARGIN_MS: Final = 1_000
#: How many are loaded at once, and how few must be left of them before the next are.
LOADED_MAX: Final = 6_144
LOW_COUNT: Final = 6_144
#: A start after a crash walks the log from the progress on, so it is written after so much or so long.
WALKED_BYTES_MAX: Final = 64 << 20
NOTE_S: Final = 5.0
#: So many changes are written at once when there are more, and the table is asked to when there are so many.
WRITTEN_MAX: Final = 32_768
MANY: Final = 8_192
#: Messages that are looked at for those whose file is to go, and bytes of them that one turn stores again.
LOOKED_AT: Final = 8_192
ROLLED_BYTES: Final = 256 << 10


class Keeper:
    """Keeps the table beside the log, and the near future before it."""

    def __init__(
        self, store: MessageStore, clock: Clock, path: Path | None, near: NearFuture, endings: Endings
    ) -> None:
        self._store = store
        self._clock = clock
        self._near = near
        self._endings = endings
        self._table = WaitingTable(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="timers")
        self._wake = asyncio.Event()
        self._caught_up = asyncio.Event()
        self._is_closing = False
        self._is_damaged = False
        self._is_write_wanted = False
        self._is_load_wanted = False
        self._noted_at = clock.monotonic()
        self._last_error = ""
        #: Files of the log that end here are to go, and how far messages of theirs were looked for.
        self._wanted_before = 0
        self._looked_until = NEVER
        #: What was stored again is written down when the progress is here; then the files before may go.
        self._rolled_at = 0
        self._rolled_before = 0
        self._free_before = 0
        self.progress = Progress(0, 0)
        #: How often the table was written.
        self.writes = 0
        #: When the first message is due that is not in the near future, None when there is none.
        self.beyond_ms: int | None = None
        #: Called when the near future has more.
        self.on_loaded: Callable[[], None] = lambda: None

    # What the loop asks and tells

    @property
    def pending(self) -> int:
        """How many changes the table does not have yet."""
        new = self._store.max_offset(WHEEL_TIMER, QUEUE_ID) - self.progress.offset
        return new + len(self._endings)

    @property
    def count(self) -> int:
        """How many messages wait; known once `ready`."""
        new = sum(1 for _ in rows_from(self._store, self.progress.offset))
        return self._table.count + new - len(self._endings)

    @property
    def load_at_ms(self) -> int | None:
        """When the near future needs more of what waits; None when it needs none, or gets it already."""
        if self.beyond_ms is None or self._is_load_wanted or len(self._near) >= LOW_COUNT:
            return None
        return self.beyond_ms - MARGIN_MS

    def want_load(self) -> None:
        """Have what is due next loaded."""
        self._is_load_wanted = True
        self._wake.set()

    def write_if_many(self) -> None:
        """Have the changes written when there are many."""
        if self.pending >= MANY and not self._last_error:
            self._wake.set()

    def nudge(self) -> None:
        """Have the changes written, and what failed tried again; to be called every second."""
        self._is_write_wanted = True
        self._wake.set()

    def may_go_before(self, position: int) -> int:
        """Return up to where files of the log may go that end at a position: no waiting message is there.

        The others are stored again, so that a later call lets their files go.
        """
        if not self._caught_up.is_set():
            return 0
        if not self._table.count and not entries_from(self._store, self.progress.offset, 1):
            return position
        if self._free_before < position and not self._wanted_before:
            self._wanted_before = position
            self._wake.set()
        return min(self._free_before, position)

    async def ready(self) -> None:
        """Return when the table has caught up with the log."""
        await self._caught_up.wait()

    async def next_due(self, after: tuple[int, int], until_ms: int, count: int) -> list[Row]:
        """Return the table's rows behind `after` and not behind `until_ms`, up to a count."""
        if not self._table.is_open:
            return []
        return await self._call(lambda: self._table.next_due(after, until_ms, count=count))

    async def has(self, due_ms: int, position: int) -> bool:
        """Return whether the table has a message."""
        return self._table.is_open and await self._call(lambda: self._table.has(due_ms, position))

    # The task

    async def run(self, durability: Durability) -> None:
        """Work until `close`; errors are told once and tried again with the next nudge."""
        self._wake.set()
        while not self._is_closing:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._work(durability)
            except CorruptRecord as error:
                log.warning("%s; it is made again from the log", error)
                self._caught_up.clear()
                if not self._is_damaged:
                    # Once at once; a disk that damages it every time is given a second each.
                    self._wake.set()
                self._is_damaged = True
            except (StoreError, ServiceNotAvailable) as error:
                self._tell_once(str(error))
            except Exception:
                log.exception("what waits could not be written down; it is tried again in a second")
        await self._call(self._table.close)
        self._thread.shutdown()

    def close(self) -> None:
        """Let `run` write what is left and return."""
        self._is_closing = self._is_write_wanted = True
        self._wake.set()

    def _tell_once(self, error: str) -> None:
        if error != self._last_error:
            log.warning("the table of waiting messages is behind the log, which has everything: %s", error)
        self._last_error = error

    async def _call(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    async def _work(self, durability: Durability) -> None:
        if not self._caught_up.is_set():
            await self._catch_up(durability)
        while self._caught_up.is_set():
            if self._is_load_wanted and not self._is_closing:
                await self._load()
            elif self._is_write_due():
                await self._write(durability)
            elif self._wanted_before and not self._is_closing:
                await self._roll()
            else:
                return

    # Catching up

    async def _catch_up(self, durability: Durability) -> None:
        store, table = self._store, self._table
        if self._is_damaged:
            await self._call(table.remove)
        progress = beginning(store)
        if table.exists or entries_from(store, progress.offset, 1):
            found = await self._open()
            progress = found or progress
            if found is None:
                await self._call(table.begin_filling)
            await durability.sync_now()
            end = store.flushed_position
            for changes in changes_since(store, progress, end, is_new=found is None):
                if self._is_closing:
                    # It takes a minute with millions, and the next start finds all of it in the log.
                    return
                if changes is None:
                    await asyncio.sleep(0)
                else:
                    take_in = table.fill if found is None else table.apply
                    await self._call(partial(take_in, changes))
                    progress = changes.progress
            if found is None:
                await self._call(partial(table.end_filling, progress))
            store.log.forget_pages()
        self.progress = progress
        self._endings.forget_before(progress.position)
        self._is_damaged = False
        self._caught_up.set()
        self.want_load()

    async def _open(self) -> Progress | None:
        """Open the table and return its progress, None when it is to be filled from the beginning."""
        table = self._table
        found = await self._call(table.open)
        if found is None:
            return None
        progress = within_log(self._store, found)
        if progress is None:
            raise CorruptRecord("the table of waiting messages is of another log, or of another part of it")
        if found.position < self._store.flushed_position and self._store.min_position > 0:
            # A crash may have taken it back to before the oldest files went.
            await self._call(partial(table.forget_before, self._store.min_position))
        return progress

    async def follow(self, durability: Durability) -> None:
        """Bring the table forth to where a log is that only grows by copying; for a slave, now and then.

        A slave that becomes master has little left to catch up with then.
        """
        store, table = self._store, self._table
        end = store.whole_position
        found = None
        if table.exists or entries_from(store, beginning(store).offset, 1):
            found = await self._open_or_begin()
        if found is None or found.position >= end:
            return
        await durability.sync_now()
        for changes in changes_since(store, found, end, is_new=False):
            if changes is None:
                await asyncio.sleep(0)
            else:
                await self._call(partial(table.apply, changes))

    async def _open_or_begin(self) -> Progress:
        """Open the table, made anew if it is not of this log; return how far it goes."""
        try:
            found = await self._open()
        except CorruptRecord:
            await self._call(self._table.remove)
            found = await self._open()
        return found or beginning(self._store)

    async def stop_following(self) -> None:
        """Give the table back, if it is open."""
        await self._call(self._table.close)
        self._thread.shutdown()

    # Loading

    async def _load(self) -> None:
        """Bring what is due next into the near future."""
        near, after = self._near, self._near.until
        until = (self._clock.now_ms() + LOOKAHEAD_MS, POSITION_MAX)
        rows = await self.next_due(after, until[0], LOADED_MAX)
        if len(rows) == LOADED_MAX:
            until = rows[-1][:2]
        following = await self.next_due(until, DUE_MS_MAX, 1)
        if near.until != after:
            # Some left it meanwhile, because they were too many, and are to be loaded too.
            return
        until = max(until, after)
        beyond_ms = [row[0] for row in following]
        for row in (*rows, *rows_from(self._store, self.progress.offset)):
            if row[:2] > until:
                beyond_ms.append(row[0])
            elif row[:2] > after and row[1] not in self._endings:
                near.add(row)
        near.until = until
        self.beyond_ms = min(beyond_ms, default=None)
        self._is_load_wanted = False
        self.on_loaded()

    # Writing

    def _is_write_due(self) -> bool:
        pending = self.pending
        if pending >= MANY:
            return True
        if not self._is_write_wanted:
            return False
        new_bytes = self._store.flushed_position - self.progress.position
        is_late = self._clock.monotonic() - self._noted_at >= NOTE_S or self._is_closing
        is_far = new_bytes >= WALKED_BYTES_MAX or (new_bytes > 0 and is_late)
        self._is_write_wanted = pending > 0 or (is_far and self._table.exists)
        return self._is_write_wanted

    async def _write(self, durability: Durability) -> None:
        """Bring the table forth to where the log is synced, but only so many changes at once."""
        endings = self._endings
        if self.pending:
            await durability.sync_now()
        end = self._store.flushed_position
        self._is_write_wanted = self._is_closing
        behind = endings.position_behind(WRITTEN_MAX)
        new: list[Row] = []
        progress = gather_new(
            self._store,
            self.progress._replace(position=end if behind is None else min(end, behind)),
            new,
            count_max=WRITTEN_MAX,
        )
        if not self._table.is_open:
            await self._call(self._table.open)
        await self._call(
            partial(self._table.apply, Changes(new, endings.before(progress.position), progress))
        )
        self.writes += 1
        self._last_error = ""
        self.progress = progress
        endings.forget_before(progress.position)
        self._noted_at = self._clock.monotonic()
        # There may be more than was written at once.
        self._is_write_wanted |= progress.position < end
        if progress.position >= self._rolled_at:
            self._free_before = max(self._free_before, self._rolled_before)

    # Rolling

    async def _roll(self) -> None:
        """Look at some messages for those whose file is to go, and store them again, in turns.

        When all were looked at, the files may go as soon as the table has what was stored.
        """
        before = self._wanted_before
        if any(entry[0] < before for entry in entries_from(self._store, self.progress.offset, 1)):
            # What the table does not have yet would be passed over.
            self._is_write_wanted = True
            return
        rows, looked_until = await self._call(
            partial(self._table.old_ones, before, self._looked_until, look_at=LOOKED_AT)
        )
        while rows:
            await self._roll_some(rows)
        if looked_until is not None:
            self._looked_until = looked_until
            return
        self._wanted_before, self._looked_until = 0, NEVER
        if not self.pending:
            self._free_before = before
        self._rolled_before, self._rolled_at = before, self._store.max_position
        self._is_write_wanted = True

    async def _roll_some(self, rows: list[Row]) -> None:
        waiting, size = [], 0
        while rows and size < ROLLED_BYTES:
            row = rows.pop()
            if row[1] not in self._endings:
                waiting.append(row)
                size += row[2]
        try:
            self._endings.roll(waiting)
        finally:
            for row in waiting:
                if row[1] in self._endings:
                    self._near.discard(row[1])
        await asyncio.sleep(0)
