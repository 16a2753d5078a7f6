"""Tasks that work at intervals, and go on after an error."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

_log = logging.getLogger("pyromq.client")

#: Seconds until a task that was cancelled and goes on is cancelled again.
CANCEL_AGAIN_S = 0.5


async def every(interval_s: float, action: Callable[[], Awaitable[object]], *, what: str) -> None:
    """Do something at intervals until cancelled; the first time after one interval."""
    while True:
        await asyncio.sleep(interval_s)
        await guarded(action, what=what)


async def whenever(
    event: asyncio.Event, interval_s: float, action: Callable[[], Awaitable[object]], *, what: str
) -> None:
    """Do something each time an event is set, and at intervals even if it is not."""
    while True:
        await wait(event, interval_s)
        event.clear()
        await guarded(action, what=what)


async def guarded(action: Callable[[], Awaitable[object]], *, what: str) -> None:
    """Do something, and log what it raises."""
    try:
        await action()
    except Exception:  # noqa: BLE001  the owner of background work: the next turn may do better
        _log.exception("%s failed; it is tried again in a while", what)


async def wait(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for an event, but not longer than that, and return whether it came."""
    if event.is_set():
        return True
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait for their ends; one that loses a cancellation gets another."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)


class OwnedTasks:
    """OwnedTasks that somebody must own until they end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """Begin some work; a failure nobody waits for is logged."""
        task = asyncio.create_task(work, name=self._name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def wait(self, timeout_s: float) -> None:
        """Wait for all to end, but not longer than that."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=timeout_s)

    async def cancel(self) -> None:
        """Cancel all, and wait for their ends."""
        await end(task for task in self._tasks if task is not asyncio.current_task())

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("%s ended unexpectedly", self._name, exc_info=error)
