"""Removal of old files of the store, in the background, with pauses.

    sweep ─► files of the log ─────► one, deleteCommitLogFilesInterval, the next, …
                                       └► files of the queues that pointed to it: those of one queue,
                                          deleteConsumeQueueFilesInterval, the next queue's, …

Removing a large file keeps some disks busy for a while; the pauses leave time for writes and reads. A queue's
file goes when the log's files of its sweep are gone: a kill in between must not leave messages that no queue
has. Files of the log do not wait for those of ten thousand queues.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from pyromq.broker.background import Background, wait_until
from pyromq.clock import Clock
from pyromq.config.settings import StoreSettings
from pyromq.store.follower import StoreFile
from pyromq.store.retention import Swept
from pyromq.store.store import MessageStore


class FileRemoval:
    """Removes files in the order in which they came. `pause_ms` tells the pause before the next one."""

    def __init__(self, clock: Clock, pause_ms: Callable[[StoreFile, StoreFile], int]) -> None:
        self._clock = clock
        self._pause_ms = pause_ms
        self._waiting: deque[tuple[Swept, StoreFile, Callable[[], None] | None]] = deque()
        self._wanted = asyncio.Event()

    def add(self, swept: Swept, files: list[StoreFile], then: Callable[[], None] | None = None) -> None:
        """Have files removed, behind those that still wait; `then` is called when they are gone."""
        if not files:
            if then is not None:
                then()
            return
        self._waiting += [(swept, file, None) for file in files[:-1]]
        self._waiting.append((swept, files[-1], then))
        self._wanted.set()

    async def run(self) -> None:
        """Remove what waits and what comes; end only with a file that cannot be removed, which waits on."""
        while True:
            await self._wanted.wait()
            while self._waiting:
                await self._remove_first()
            self._wanted.clear()

    async def _remove_first(self) -> None:
        swept, file, then = self._waiting[0]
        await asyncio.to_thread(swept.remove_one, file)
        self._waiting.popleft()
        if then is not None:
            then()
        if self._waiting:
            pause_ms = self._pause_ms(file, self._waiting[0][1])
            await wait_until(self._clock, self._clock.monotonic() + pause_ms / 1000)


class OldFiles:
    """The files that the store keeps no longer: found by its sweep, and removed one after the other."""

    def __init__(self, store: MessageStore, settings: StoreSettings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._log_files = FileRemoval(clock, lambda _file, _next: settings.delete_commit_log_files_interval)
        self._queue_files = FileRemoval(clock, self._pause_between_queues_ms)

    def run_jobs(self, background: Background) -> None:
        """Look for old files from now on. A file that cannot be removed is tried again at the next look."""
        look_s = self._settings.clean_resource_interval / 1000
        background.every("let old files go", look_s, self.let_go)
        background.every("remove old log files", look_s, self._log_files.run, first_s=0)
        background.every("remove old queue files", look_s, self._queue_files.run, first_s=0)

    def let_go(self, *, at_any_hour: bool = False) -> None:
        """Have the files removed that are old enough, or that a full disk needs, at the hour for it."""
        swept = self._store.sweep(at_any_hour=at_any_hour)
        log_files, queue_files = swept.files[: swept.log_count], swept.files[swept.log_count :]
        self._log_files.add(swept, log_files, then=lambda: self._queue_files.add(swept, queue_files))

    def _pause_between_queues_ms(self, file: StoreFile, following: StoreFile) -> int:
        is_same_queue = file.path.parent == following.path.parent
        return 0 if is_same_queue else self._settings.delete_consume_queue_files_interval
