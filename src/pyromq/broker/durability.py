"""When a message is safe, and may be acknowledged: the one way of every answer to a write.

    disk        under synchronous flush the log is synced up to the end of what was written
    replicas    of a synchronous master the slaves have it too (`replicated.py`)
    lease       with failover this is still the master, now that the answer leaves (`standing.py`)

Whoever writes for a client calls `acknowledge`; the compiled kernel's sends call `vouch` or `when_safe`.

Group commit: at most one sync is under way, in a worker thread. What is appended while it runs waits for
the next one, which starts as soon as it ends; so all sends of a turn, or of a sync, share one. The flushed
watermark says how far the disk has the log.

    append ─ append ─ append ─────── append ─ append
                      └─ sync ──────────────┘└─ sync ─────
                                            │
                                            answers of the first three leave

Under synchronous flush all that is appended is synced so, whether anybody waits for it or not. Under
asynchronous flush nothing waits, and the log is synced every half second if enough is new. With a write
buffer (`transientStorePoolEnable`) the log is committed to its files before that, every 200 ms; whoever waits
for the disk has it committed at once.

A failed sync leaves unknown what the disk has. Everyone who waits is refused, and the store takes no more
writes until a restart.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Protocol

from pyromq.broker.standing import Lease, Standing, no_longer_master
from pyromq.broker.watermark import Settle, Watermark, settling
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.config.choices import FlushDiskType
from pyromq.config.settings import StoreSettings
from pyromq.errors import PyroError, ServiceNotAvailable, StoreError
from pyromq.net.routes import Answer

log = logging.getLogger(__name__)

PAGE_BYTES = 4096
#: The pause between two parts of a settling, in times that the last part took: it gets a tenth of the loop.
SETTLE_PAUSE_FACTOR = 9
#: When a start after a crash would have to walk more than this, it gets half of the loop.
UNSAFE_BYTES_MAX = 1 << 30


class SyncedLog(Protocol):
    """The part of the store that is made durable here."""

    @property
    def whole_position(self) -> int:
        """Where its last whole record ends: of the next, a slave may have the beginning, in its memory."""
        ...

    @property
    def committed_position(self) -> int:
        """Up to where its files have it; the rest is in a write buffer."""
        ...

    @property
    def is_writable(self) -> bool:
        """Whether it takes messages now."""
        ...

    def commit(self) -> None:
        """Write what the write buffer has. Raises StoreError."""
        ...

    @property
    def flushed_position(self) -> int:
        """Up to where the disk has the log."""
        ...

    def sync(self) -> int:
        """Bring the log to the disk and return up to where; may be called from a worker thread."""
        ...

    @property
    def unsafe_bytes(self) -> int:
        """How much of the log a start after a crash would have to walk."""
        ...

    def queue_sync(self) -> "RunsLong":
        """Return what is left to do to bring what follows the log to the disk; all is settled."""
        ...

    def queue_sync_if_due(self) -> "RunsLong | None":
        """Return what is left to do to bring what follows the log to the disk, if it is time."""
        ...


class RunsLong(Protocol):
    """Work for a worker thread, after some for the loop's own."""

    def settle_some(self) -> bool:
        """Do a part of what must be done in the loop's thread, and return whether that is all of it."""
        ...

    def run(self) -> None:
        """Do it."""
        ...


class NotSafe(PyroError):
    """A message is in the log, but not as safe as it should be; `code` tells the sender."""

    code: ResponseCode


class FlushTimeout(NotSafe):
    """The disk took longer than `syncFlushTimeout`."""

    code = ResponseCode.FLUSH_DISK_TIMEOUT


class Elsewhere(Protocol):
    """Other brokers that must have a message before it is safe."""

    def when_there(self, end: int, settle: Settle) -> None:
        """Call `settle` once they have the log up to `end`, with None, NotSafe or ServiceNotAvailable."""
        ...


class Durability:
    """Syncs the log, and tells senders when their messages are safe: on the disk, and elsewhere."""

    def __init__(
        self,
        log_: SyncedLog,
        settings: StoreSettings,
        clock: Clock,
        elsewhere: Elsewhere | None = None,
        lease: Lease | None = None,
    ) -> None:
        self._log = log_
        self._elsewhere = elsewhere
        self._lease = lease or Standing().lease
        self._settings = settings
        self._clock = clock
        self._flushed = Watermark(log_.flushed_position)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sync")
        #: Another one: whoever waits for the log must not wait for a hundred thousand queues.
        self._queue_thread = ThreadPoolExecutor(1, thread_name_prefix="sync queues")
        self._is_syncing = False
        self._has_failed = False
        self._is_closed = False
        self._watchdog: asyncio.TimerHandle | None = None
        self._synced_at = self._committed_at = clock.monotonic()
        #: Whether all that is appended is brought to the disk at once.
        self.syncs_all = settings.flush_disk_type == FlushDiskType.SYNC_FLUSH
        #: Told how many seconds each sync took, and how long who waited did; for metrics.
        self.on_synced: Callable[[float], None] | None = None
        self.on_safe: Callable[[float], None] | None = None
        #: Told up to where the disk has the log, before anybody is told that a message is safe.
        self.on_flushed: Callable[[int], None] | None = None
        self._sync_began_at = 0.0
        #: Whether a send is answered without waiting for anything.
        self.is_immediate = not self.syncs_all and elsewhere is None

    @property
    def why_failed(self) -> str | None:
        """Why nothing is acknowledged until a restart, None while syncs succeed."""
        return _failed_disk().remark if self._has_failed else None

    def acknowledge(self, end: int, answer: Answer, *, waits: bool = True) -> Answer | Awaitable[Answer]:
        """Return the answer to a request that wrote the log up to `end`, once it may be given.

        Its code says so if disk or slaves took too long. Whoever does not want to wait for them has the
        lease looked at all the same. Raises ServiceNotAvailable, or gives it to who awaits, when this is no
        longer the master, and after a failed sync.
        """
        if waits and not self.is_immediate:
            return self.confirm(end, answer)
        self.vouch()
        return answer

    def vouch(self) -> None:
        """Look at the lease for what is acknowledged now; raise ServiceNotAvailable if it is over."""
        if not self._lease.vouch():
            raise no_longer_master()

    def when_safe(self, end: int, settle: Settle) -> None:
        """Call `settle` once the log is safe up to `end`.

        It gets None, a NotSafe, or ServiceNotAvailable: after a failed sync, or from who is master no more.
        """
        if self.on_safe is not None:
            settle = _timed(settle, self.on_safe)
        self._when_safe(end, settle, needs_disk=self.syncs_all)

    async def all_safe(self) -> None:
        """Return when all that is in the log is safe, on this disk too whichever flush there is.

        Raises NotSafe when that takes too long, and ServiceNotAvailable as `acknowledge` does.
        """
        safe: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._when_safe(self._log.whole_position, settling(safe), needs_disk=True)
        await safe

    def _when_safe(self, end: int, settle: Settle, *, needs_disk: bool) -> None:
        settle = self._fenced(settle)
        if self._has_failed:
            settle(_failed_disk())
        elif self._elsewhere is None:
            self._when_flushed(end, settle)
        elif not needs_disk:
            self._elsewhere.when_there(end, settle)
        else:
            both = _Both(settle)
            self._when_flushed(end, both.first)
            self._elsewhere.when_there(end, both.second)

    def _when_flushed(self, end: int, settle: Settle) -> None:
        if self._has_failed:
            settle(_failed_disk())
            return
        if end > self._log.committed_position:
            try:
                self._log.commit()
            except StoreError:
                # The store has said why.
                settle(_failed_disk())
                return
        if end > self._flushed.value:
            self._sync_soon()
        self._flushed.when(end, settle)

    def _fenced(self, settle: Settle) -> Settle:
        """Return what looks at the lease when the waiting is over."""
        lease = self._lease

        def settle_if_master(error: Exception | None) -> None:
            settle(error if lease.vouch() else no_longer_master())

        return settle_if_master

    def appended(self) -> None:
        """Note that the log grew; under synchronous flush it is synced at once, even if nobody waits.

        That concerns messages with WAIT=false, and those that the broker itself stores.
        """
        if self.syncs_all and not self._has_failed:
            self._sync_soon()

    def confirm(self, end: int, answer: Answer) -> "asyncio.Future[Answer]":
        """Return the answer once the log is safe up to `end`; its code says so if that took too long."""
        confirmed: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def settle(error: Exception | None) -> None:
            if confirmed.done():
                return
            if isinstance(error, NotSafe):
                answer.code = error.code
            elif error is not None:
                confirmed.set_exception(error)
                return
            confirmed.set_result(answer)

        self.when_safe(end, settle)
        return confirmed

    async def sync_now(self) -> None:
        """Sync what is in the log now; raise ServiceNotAvailable when that fails or has failed before."""
        await self.flushed(self._log.whole_position)

    def flushed(self, end: int) -> "asyncio.Future[None]":
        """Return a future that is done when the disk has the log up to `end`.

        It gets FlushTimeout when that takes too long, ServiceNotAvailable when it fails or has failed before.
        """
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._when_flushed(end, settling(reached))
        return reached

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
                is_urgent = self._log.unsafe_bytes > UNSAFE_BYTES_MAX
                await asyncio.sleep((loop.time() - began_at) * (1 if is_urgent else SETTLE_PAUSE_FACTOR))
        await loop.run_in_executor(self._queue_thread, queue_sync.run)

    async def sync_queues_now(self) -> None:
        """Bring the log and what follows it to the disk, up to here."""
        queue_sync = self._log.queue_sync()
        await asyncio.get_running_loop().run_in_executor(self._queue_thread, queue_sync.run)

    def close(self) -> None:
        """Wait for the sync that is under way and end the thread; what is new is the store's to sync."""
        self._is_closed = True
        self._thread.shutdown()
        self._queue_thread.shutdown()

    def _sync_soon(self) -> None:
        if not self._is_syncing:
            self._is_syncing = True
            # At the end of the turn: what else the turn appends shares this sync.
            asyncio.get_running_loop().call_soon(self._begin_sync)

    def _begin_sync(self) -> None:
        self._sync_began_at = perf_counter()
        if self._is_closed:
            # A broker that changes its role is closed in the turn in which the last bytes came.
            return
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
            self._flushed.give_up(self._log.whole_position, _failed_disk())
            return
        if self.on_flushed is not None:
            self.on_flushed(sync.result())
        self._flushed.raise_to(sync.result())
        is_behind = self.syncs_all and self._log.whole_position > self._flushed.value
        if is_behind or self._flushed.waiting_count:
            self._sync_soon()


def _timed(settle: Settle, on_safe: Callable[[float], None]) -> Settle:
    began_at = perf_counter()

    def settle_timed(error: Exception | None) -> None:
        on_safe(perf_counter() - began_at)
        settle(error)

    return settle_timed


class _Both:
    """Waits for two, and tells of both with the second one's word, which RocketMQ lets win."""

    def __init__(self, settle: Settle) -> None:
        self._settle = settle
        self._said: list[Exception | None] = []
        self._last_word: Exception | None = None

    def first(self, error: Exception | None) -> None:
        self._note(error)

    def second(self, error: Exception | None) -> None:
        self._last_word = error
        self._note(error)

    def _note(self, error: Exception | None) -> None:
        self._said.append(error)
        if len(self._said) == 2:
            self._settle(self._last_word or self._said[0] or self._said[1])


def _failed_disk() -> ServiceNotAvailable:
    return ServiceNotAvailable(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "the broker could not bring its log to the disk and takes no messages until it is restarted",
    )
