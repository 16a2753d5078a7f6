"""Removing the files that the store let go, in the background, with pauses.

    sweep ─► files of the log ─────► one, deleteCommitLogFilesInterval, the next, …
                                       └► files of the queues that pointed to it: those of one queue,
                                          deleteConsumeQueueFilesInterval, the next queue's, …

Removing a large file keeps some disks busy for a while; the pauses leave time for those who write and read
meanwhile. A queue's file goes when the log's files of its sweep are gone: a kill in between must not leave
messages that no queue has. Files of the log do not wait for those of ten thousand queues.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from pyromq.broker.background import wait_until
from pyromq.clock import Clock
from pyromq.store.follower import StoreFile
from pyromq.store.retention import Swept


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
