"""Waiting for a time of the wall clock, without a task and without polling.

An alarm is set to a time and rings once when it comes. It rings early as well: when the clock is moved by
hand, and every second, because the machine's clock may be set while we wait for it by a timer that does not
know. Whoever is rung looks at the clock and sets the alarm again if there is still something to wait for.
"""

import asyncio
from collections.abc import Callable

from pyromq.clock import Clock

NAP_MS_MAX = 1_000


class Alarm:
    """Calls `ring` in the loop at a time of the wall clock, or somewhat earlier."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._at_ms = 0
        self._is_ended = False
        self._forget_clock = clock.on_move(self._clock_moved)

    def set(self, at_ms: int) -> None:
        """Ring at this time; an earlier time that is set already holds."""
        if self._is_ended or (self._timer is not None and self._at_ms <= at_ms):
            return
        self.unset()
        self._at_ms = at_ms
        nap_ms = min(max(at_ms - self._clock.now_ms(), 0), NAP_MS_MAX)
        self._timer = self._loop.call_later(nap_ms / 1000, self._rung)

    def unset(self) -> None:
        """Do not ring before the alarm is set again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        """Never ring again."""
        self._is_ended = True
        self.unset()
        self._forget_clock()

    def _clock_moved(self) -> None:
        self._loop.call_soon_threadsafe(self._rung_early)

    def _rung_early(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._rung()

    def _rung(self) -> None:
        self._timer = None
        self._ring()
