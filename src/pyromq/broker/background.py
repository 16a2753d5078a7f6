"""The jobs that run beside the requests, and their owner.

A job that fails is logged and tried again; it never ends the broker, and never ends unnoticed. Pauses are
taken by the broker's clock, so a clock that is moved by hand makes jobs run at once.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable

from pyromq.clock import Clock
from pyromq.errors import PyroError

log = logging.getLogger(__name__)


class Background:
    """The background jobs of one broker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        #: When each job is to start next, and when each that runs did, by the clock's monotonic time.
        self._due_at: dict[str, float] = {}
        self._started_at: dict[str, float] = {}

    def every(
        self,
        name: str,
        interval_s: float | Callable[[], float],
        job: Callable[[], Awaitable[None] | None],
        *,
        first_s: float | None = None,
    ) -> None:
        """Run a job every `interval_s` from its last start on; for the first time after `first_s`.

        An interval that may change while this runs is asked for at each start. A job that took longer than
        that starts again at once: the clock may have been moved meanwhile. Once this is closed, nothing runs.
        """
        if self._is_closed:
            return
        pause_s = interval_s if callable(interval_s) else lambda: interval_s
        first_at = self._clock.monotonic() + (pause_s() if first_s is None else first_s)

        async def repeat() -> None:
            due_at = first_at
            while True:
                self._due_at[name] = due_at
                await wait_until(self._clock, due_at)
                self._started_at[name] = self._clock.monotonic()
                self._due_at.pop(name, None)
                due_at = self._clock.monotonic() + pause_s()
                try:
                    result = job()
                    if result is not None:
                        await result
                except (OSError, PyroError) as error:
                    # What a disk does is no mistake of ours, and a trace tells an operator nothing.
                    log.error("%s failed; it is tried again in %g s: %s", name, pause_s(), error)  # noqa: TRY400
                except Exception:
                    log.exception("%s failed; it is tried again in %g s", name, pause_s())
                self._started_at.pop(name, None)

        self._tasks.add(asyncio.get_running_loop().create_task(repeat(), name=name))

    def is_behind(self, since: float) -> bool:
        """Whether a job is to have started by the clock, or has started `since` then and runs."""
        is_due = min(self._due_at.values(), default=math.inf) <= self._clock.monotonic()
        return is_due or max(self._started_at.values(), default=-math.inf) >= since

    async def close(self) -> None:
        """Cancel all jobs and wait for their end."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._tasks.clear()
        self._due_at.clear()
        self._started_at.clear()


async def wait_until(clock: Clock, due_at: float) -> None:
    """Wait until a clock's monotonic time is `due_at`, also when the clock is moved by hand."""
    # Others get their turn even if there is nothing to wait for.
    await asyncio.sleep(0)
    moved = asyncio.Event()
    loop = asyncio.get_running_loop()

    def look_again() -> None:
        loop.call_soon_threadsafe(moved.set)

    forget = clock.on_move(look_again)
    try:
        while (left_s := due_at - clock.monotonic()) > 0:
            moved.clear()
            try:
                async with asyncio.timeout(left_s):
                    await moved.wait()
            except TimeoutError:
                continue
    finally:
        forget()
