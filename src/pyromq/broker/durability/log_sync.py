"""Brings the log, and what follows it, to the disk.

Group commit: at most one sync of the log is under way, in a worker thread. What is appended while it runs
waits for the next one, which begins when it ends; so all messages of a turn, or of a sync, share one. The
flushed watermark is the position up to which the disk has the log.

    append ─ append ─ append ─────── append ─ append
                      └─ sync ──────────────┘└─ sync ─────
                                            │
                                            answers of the first three leave

Under SYNC_FLUSH all that is appended is synced in this way, whether anybody waits for it or not. Under
ASYNC_FLUSH nobody waits, and the log is synced every half second if enough of it is new. With a write buffer
(`transientStorePoolEnable`) the log is committed to its files before that, every 200 ms; whoever waits for
the disk has it committed at once.

After a failed sync nobody knows what the disk has. Everyone who waits is refused, and the store takes no more
writes until a restart.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from pyromq.broker.background import Background
from pyromq.broker.durability.watermark import Settle, Watermark, settling
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.config.choices import FlushDiskType
from pyromq.config.settings import StoreSettings
from pyromq.errors import PyroError, ServiceNotAvailable, StoreError
from pyromq.net.turn import Turn, TurnStep
from pyromq.store.store import MessageStore

log = logging.getLogger(__name__)

PAGE_BYTES = 4096
#: The pause between two parts of a settling, in times that the last part took: it gets a tenth of the loop.
SETTLE_PAUSE_FACTOR = 9
#: When a start after a crash would have to walk more than this, it gets more of the loop; half at twice this.
UNSAFE_BYTES_MAX = 1 << 30


def settle_pause(unsafe_bytes: int) -> float:
    """Return for how many times its length a part of a settling is followed by a pause.

    It falls little by little: at once, it would take half of the loop from one moment to the next.
    """
    over = unsafe_bytes / UNSAFE_BYTES_MAX - 1
    return SETTLE_PAUSE_FACTOR - (SETTLE_PAUSE_FACTOR - 1) * min(max(over, 0.0), 1.0)


class NotSafe(PyroError):
    """A message is in the log, but not as safe as it should be; `code` tells the sender."""

    code: ResponseCode


class FlushTimeout(NotSafe):
    """The disk took longer than `syncFlushTimeout`."""

    code = ResponseCode.FLUSH_DISK_TIMEOUT


class LogSync:
    """Syncs the log and what follows it. `step` is the step of a turn in which a sync begins."""

    def __init__(
        self, store: MessageStore, settings: StoreSettings, clock: Clock, *, step: TurnStep | None = None
    ) -> None:
        self._log = store
        self._settings = settings
        self._clock = clock
        self._step = step or Turn().step()
        self._step.run = self.end_turn
        self._flushed = Watermark(store.flushed_position)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sync")
        #: Another one: whoever waits for the log must not wait for a hundred thousand queues.
        self._queue_thread = ThreadPoolExecutor(1, thread_name_prefix="sync queues")
        #: Whether a sync is to begin when this turn ends, and whether one has begun.
        self._is_wanted = False
        self._is_syncing = False
        self._has_failed = False
        self._is_closed = False
        self._watchdog: asyncio.TimerHandle | None = None
        self._synced_at = self._committed_at = clock.monotonic()
        self._sync_began_at = 0.0
        #: Whether all that is appended is brought to the disk at once.
        self.syncs_all = settings.flush_disk_type == FlushDiskType.SYNC_FLUSH
        #: Told how many seconds each sync took; for metrics.
        self.on_synced: Callable[[float], None] | None = None
        #: Told up to where the disk has the log, before anybody is told that a message is safe.
        self.on_flushed: Callable[[int], None] | None = None

    def run_jobs(self, background: Background, *, is_buffered: bool) -> None:
        """Sync the log and the queues from now on, and commit a write buffer where there is one."""
        settings = self._settings
        background.every("sync the log", settings.flush_interval_commit_log / 1000, self.sync_if_due)
        if is_buffered:
            background.every("commit the log", settings.commit_interval_commit_log / 1000, self.commit_if_due)
        background.every(
            "sync the queues", settings.flush_interval_consume_queue / 1000, self.sync_queues_if_due
        )

    @property
    def why_failed(self) -> str | None:
        """The reason why nothing is acknowledged until a restart, None while syncs succeed."""
        return failed_disk().remark if self._has_failed else None

    # The log

    def appended(self) -> None:
        """Note that the log grew; under synchronous flush it is synced at once, even if nobody waits.

        That concerns messages with WAIT=false, and those that the broker itself stores.
        """
        if self.syncs_all and not self._has_failed:
            self._sync_soon()

    def when_flushed(self, end: int, settle: Settle) -> None:
        """Call `settle` once the disk has the log up to `end`.

        It gets None, FlushTimeout, or ServiceNotAvailable when a sync fails or has failed before.
        """
        if self._has_failed:
            settle(failed_disk())
            return
        if end > self._log.committed_position:
            try:
                self._log.commit()
            except StoreError:
                # The store has said why.
                settle(failed_disk())
                return
        if end > self._flushed.value:
            self._sync_soon()
        self._flushed.when(end, settle)

    def flushed(self, end: int) -> "asyncio.Future[None]":
        """Return a future that is done when the disk has the log up to `end`; see `when_flushed`."""
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.when_flushed(end, settling(reached))
        return reached

    async def sync_now(self) -> None:
        """Sync what is in the log now; raise ServiceNotAvailable when that fails or has failed before."""
        await self.flushed(self._log.whole_position)

    async def sync_if_due(self) -> None:
        """Sync the log when enough of it is new, or the last sync is long ago; never after a failed one."""
        if self._has_failed:
            return
        thorough_s = self._settings.flush_commit_log_thorough_interval / 1000
        least_bytes = self._settings.flush_commit_log_least_pages * PAGE_BYTES
        committed = self._log.committed_position
        new_bytes = committed - self._flushed.value
        is_late = self._clock.monotonic() - self._synced_at >= thorough_s
        if new_bytes >= max(least_bytes, 1) or (new_bytes and is_late):
            await self.flushed(committed)

    def commit_if_due(self) -> None:
        """Commit the write buffer when it has enough, or the last commit is long ago."""
        if not self._log.is_writable:
            return
        thorough_s = self._settings.commit_commit_log_thorough_interval / 1000
        least_bytes = self._settings.commit_commit_log_least_pages * PAGE_BYTES
        new_bytes = self._log.whole_position - self._log.committed_position
        now = self._clock.monotonic()
        is_late = now - self._committed_at >= thorough_s
        if is_late or new_bytes >= least_bytes:
            self._committed_at = now
            self._log.commit()

    # What follows the log

    async def sync_queues_if_due(self) -> None:
        """Sync what follows the log when enough of it is new, or the last time is long ago."""
        queue_sync = self._log.queue_sync_if_due()
        if queue_sync is None:
            return
        loop = asyncio.get_running_loop()
        is_settled = False
        while not is_settled:
            began_at = loop.time()
            is_settled = queue_sync.settle_some()
            if not is_settled:
                # Ten thousand queues are written little by little, beside everything else.
                await asyncio.sleep((loop.time() - began_at) * settle_pause(self._log.unsafe_bytes))
        await loop.run_in_executor(self._queue_thread, queue_sync.run)

    async def sync_queues_now(self) -> None:
        """Bring the log and what follows it to the disk, up to here."""
        queue_sync = self._log.queue_sync()
        await asyncio.get_running_loop().run_in_executor(self._queue_thread, queue_sync.run)

    def close(self) -> None:
        """Wait for the sync that is under way and end the threads; what is new is the store's to sync."""
        self._is_closed = True
        self._thread.shutdown()
        self._queue_thread.shutdown()

    # A sync

    def _sync_soon(self) -> None:
        if not self._is_syncing and not self._is_wanted:
            # At the end of the turn: what else the turn appends shares this sync.
            self._is_wanted = True
            self._step.due()

    def end_turn(self) -> None:
        """Begin the sync that somebody asked for in this turn."""
        # A broker that changes its role is closed in the turn in which the last bytes came.
        if self._is_wanted and not self._is_closed:
            self._is_wanted, self._is_syncing = False, True
            self._sync_began_at = perf_counter()
            self._watch()
            sync = asyncio.get_running_loop().run_in_executor(self._thread, self._log.sync)
            sync.add_done_callback(self._end_sync)

    def _watch(self) -> None:
        """Let those give up who wait longer than the settings allow while one sync is under way."""
        self._watchdog = asyncio.get_running_loop().call_later(
            self._settings.sync_flush_timeout / 1000, self._give_up_overdue, self._log.whole_position
        )

    def _give_up_overdue(self, waited_for: int) -> None:
        self._flushed.give_up(
            waited_for, FlushTimeout("FLUSH_DISK_TIMEOUT: the disk took longer than syncFlushTimeout")
        )
        self._watch()

    def _end_sync(self, sync: "asyncio.Future[int]") -> None:
        self._is_syncing = False
        self._synced_at = self._clock.monotonic()
        if self.on_synced is not None:
            self.on_synced(perf_counter() - self._sync_began_at)
        if self._watchdog is not None:
            self._watchdog.cancel()
        if sync.cancelled():
            return
        error = sync.exception()
        if error is not None:
            self._has_failed = True
            if not isinstance(error, StoreError):
                log.error("a sync failed in a way that is no disk's", exc_info=error)
            self._flushed.give_up(self._log.whole_position, failed_disk())
            return
        if self.on_flushed is not None:
            self.on_flushed(sync.result())
        self._flushed.raise_to(sync.result())
        is_behind = self.syncs_all and self._log.whole_position > self._flushed.value
        if is_behind or self._flushed.waiting_count:
            self._sync_soon()


def failed_disk() -> ServiceNotAvailable:
    """Return the refusal of a broker whose log could not be synced."""
    return ServiceNotAvailable(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "the broker could not bring its log to the disk and takes no messages until it is restarted",
    )
