"""Time that flows as the machine's does, and jumps ahead when told."""

import time
from collections.abc import Callable


class ShiftedClock:
    """The machine's time and an offset that only grows; wall and monotonic time jump together.

    Whoever waits for a pause of real time goes on without help, unlike with a `ManualClock`.
    """

    def __init__(self) -> None:
        self._shift_ms = 0
        self._callbacks: list[Callable[[], None]] = []

    @property
    def shift_ms(self) -> int:
        """The milliseconds that it is ahead of the machine's clock."""
        return self._shift_ms

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000 + self._shift_ms

    def monotonic(self) -> float:
        """Return the monotonic seconds."""
        return time.monotonic() + self._shift_ms / 1_000

    def advance(self, ms: int) -> float:
        """Jump ahead, and tell whoever waits; return a monotonic time that no work after the jump precedes.

        Raises ValueError for a time that lies behind.
        """
        if ms < 0:
            raise ValueError(f"time cannot go back by {-ms} ms")
        since = self.monotonic() + ms / 1_000
        self._shift_ms += ms
        for callback in tuple(self._callbacks):
            callback()
        return since

    def on_move(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called by each `advance`; return what ends that."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)
