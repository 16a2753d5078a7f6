"""The keeper of the timer table: the one task that works with it, one job after the other, in a thread.

The loop never waits for the table. It asks for a job (`wake`), and the jobs are done in this order: catch up
with the log, once; load the messages that are due next; write the new ones and those that are done; store
messages again whose log file is to go.

Because nothing else touches the table, at any moment that the loop can see

    what waits = the table's rows + the timer queue from `progress.offset` on − the endings

and the near future is the part of it up to `near.until`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.kinds.done_names import walk_names
from pyromq.broker.kinds.stored_again import QUEUE_ID
from pyromq.broker.kinds.timers.due_rows import ROW
from pyromq.broker.kinds.timers.ending import Endings
from pyromq.broker.kinds.timers.near import DUE_MS_MAX, NEVER, POSITION_MAX, NearFuture, Row
from pyromq.broker.kinds.timers.timer_queue import (
    beginning,
    count_from,
    entry_at,
    gather_new,
    is_of,
    not_before_log,
    row_at,
    rows_due,
)
from pyromq.broker.kinds.timers.timer_table import Changes, TimerProgress, WaitingTable
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
#: While the table catches up, it is written after so much of the log.
STRETCH_BYTES: Final = 8 << 20
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
        self._task: asyncio.Task[None] | None = None
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
        self.progress = TimerProgress(0, 0)
        #: How often the table was written.
        self.writes = 0
        #: When the first message is due that is not in the near future, None when there is none.
        self.beyond_ms: int | None = None
        #: Called when the near future has more.
        self.on_loaded: Callable[[], None] = lambda: None

    # What the loop asks and tells

    @property
    def pending(self) -> int:
        """The number of changes that the table does not have yet."""
        new = self._store.max_offset(WHEEL_TIMER, QUEUE_ID) - self.progress.offset
        return new + len(self._endings)

    @property
    def count(self) -> int:
        """The number of waiting messages; known once `ready`."""
        new = count_from(self._store, self.progress.offset)
        return self._table.count + new - len(self._endings)

    @property
    def load_at_ms(self) -> int | None:
        """The time to load more messages into the near future; None if it needs none, or asked already."""
        if self.beyond_ms is None or self._is_load_wanted or len(self._near) >= LOW_COUNT:
            return None
        return self.beyond_ms - MARGIN_MS

    @property
    def is_loading(self) -> bool:
        """Whether more messages are wanted in the near future, and are not there yet."""
        return self._is_load_wanted

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

    def forget_beyond(self, cut_at: int) -> None:
        """Remove a table that goes beyond a position, before the log is cut there."""
        if self._table.exists:
            try:
                progress = self._table.open()
            except StoreError:
                # It is made again from the log anyway.
                progress = None
            if progress is not None and progress.position > cut_at:
                self._table.remove()
            self._table.close()

    def may_go_before(self, position: int) -> int:
        """Return up to where files of the log may go that end at a position: no waiting message is there.

        The others are stored again, so that a later call lets their files go.
        """
        if not self._caught_up.is_set():
            return 0
        if not self._table.count and entry_at(self._store, self.progress.offset) is None:
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

    def start(self, durability: Durability) -> None:
        """Begin to work, on a master."""
        self._task = asyncio.get_running_loop().create_task(self._run(durability), name="timers")

    async def _run(self, durability: Durability) -> None:
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

    async def close(self) -> None:
        """Write what is left, and give the table back; can be called without a start, and twice."""
        self._is_closing = self._is_write_wanted = True
        self._wake.set()
        if self._task is not None:
            await self._task
        if self._table.is_open:
            await self._call(self._table.close)
        self._thread.shutdown()

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
        if await self._bring_forth(durability):
            self._endings.forget_before(self.progress.position)
            self._is_damaged = False
            self._caught_up.set()
            self.want_load()

    async def follow(self, durability: Durability) -> None:
        """Bring the table forth to where a log is that only grows by copying; for a slave, now and then.

        A slave that becomes master has little left to catch up with then.
        """
        try:
            await self._bring_forth(durability)
        except CorruptRecord:
            self._is_damaged = True
            await self._bring_forth(durability)
        self._is_damaged = False

    async def _bring_forth(self, durability: Durability) -> bool:
        """Bring the table to where the log is now; return False if it has to stop before.

        What began to wait is in the timer queue. What ended is named by records that may be anywhere.
        """
        store, table = self._store, self._table
        if self._is_damaged:
            await self._call(table.remove)
        if not table.is_open:
            self.progress = beginning(store)
            if not table.exists and entry_at(store, self.progress.offset) is None:
                return True
            await self._open()
        end = store.whole_position
        await durability.sync_now()
        self.progress = not_before_log(store, self.progress)
        done: list[Row] = []
        for step in walk_names(store.log, self.progress.position, end):
            if self._is_closing:
                # It takes a minute with millions, and the next start finds all of it in the log.
                return False
            # A table that is filled finds by positions alone what ended.
            rows = ((0, named, 0) if table.is_filling else row_at(store, named) for _, named in step.names)
            done += (row for row in rows if row is not None)
            if step.reached >= end or step.reached - self.progress.position >= STRETCH_BYTES:
                await self._take_in(step.reached, done)
                done.clear()
            await asyncio.sleep(0)
        if table.is_filling:
            await self._call(partial(table.end_filling, self.progress))
        store.log.forget_pages()
        return True

    async def _open(self) -> None:
        """Open the table, to be filled if it is new; raise CorruptRecord if it is of another log."""
        store, table = self._store, self._table
        found = await self._call(table.open)
        if found is None:
            await self._call(table.begin_filling)
            return
        if not is_of(store, found):
            raise CorruptRecord("the table of waiting messages is of another log, or of another part of it")
        if found.position < store.flushed_position and store.min_position > 0:
            # A crash may have taken it back to before the oldest files went.
            await self._call(partial(table.forget_before, store.min_position))
        self.progress = found

    async def _take_in(
        self, end: int, done: Sequence[Row] | None = None, *, count_max: int | None = None
    ) -> None:
        """Let the table have the log up to a position: what began to wait, and what is done or has ended."""
        new, progress = gather_new(self._store, self.progress._replace(position=end), count_max=count_max)
        ended = sorted(self._endings.before(progress.position) if done is None else done)
        rows = b"".join(ROW.pack(*row) for row in ended)
        await self._call(partial(self._table.apply, Changes(new, rows, progress)))
        self.progress = progress

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
        new, new_beyond_ms = rows_due(self._store, self.progress.offset, after, until)
        for row in (*rows, *new):
            if row[1] not in self._endings:
                near.add(row)
        near.until = until
        beyond_ms = (new_beyond_ms, *(row[0] for row in following))
        self.beyond_ms = min((due_ms for due_ms in beyond_ms if due_ms is not None), default=None)
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
        if not self._table.is_open:
            await self._call(self._table.open)
        behind = endings.position_behind(WRITTEN_MAX)
        await self._take_in(end if behind is None else min(end, behind), count_max=WRITTEN_MAX)
        self.writes += 1
        self._last_error = ""
        endings.forget_before(self.progress.position)
        self._noted_at = self._clock.monotonic()
        # There may be more than was written at once.
        self._is_write_wanted |= self.progress.position < end
        if self.progress.position >= self._rolled_at:
            self._free_before = max(self._free_before, self._rolled_before)

    # Rolling

    async def _roll(self) -> None:
        """Look at some messages for those whose file is to go, and store them again, in turns.

        When all were looked at, the files may go as soon as the table has what was stored.
        """
        before = self._wanted_before
        following = entry_at(self._store, self.progress.offset)
        if following is not None and following[0] < before:
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
