"""Time, through one door: wall time for what is written down, monotonic time for waiting.

Whoever needs the time is given a `Clock`, so that tests own it (`pyromq.testing.manual_clock`).
"""

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """A source of the time."""

    def now_ms(self) -> int:
        """Return wall time in milliseconds since 1970, as RocketMQ stores it."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back; only differences mean something."""
        ...

    def on_move(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called whenever the clock is moved by hand; return what ends that.

        Whoever waits by the machine's timers for this clock's time must look again then. The callback may
        come from another thread.
        """
        ...


class SystemClock:
    """The machine's own clocks."""

    def __init__(self) -> None:
        #: The machine's monotonic seconds, without a call in between: it is asked several times a turn. Bound
        #: here and not with the class, so that a simulated machine's time is asked where there is one.
        self.monotonic = time.monotonic

    def now_ms(self) -> int:
        """Return wall time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def on_move(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Do nothing: these clocks move on their own."""
        return _nothing


def _nothing() -> None:
    pass
