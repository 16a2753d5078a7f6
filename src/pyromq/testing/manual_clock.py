"""Time that moves when told."""

from collections.abc import Callable


class ManualClock:
    """A clock for tests; wall and monotonic time move together, and only by `advance`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 1_000.0
        self._callbacks: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since 1970."""
        return self._now_ms

    def monotonic(self) -> float:
        """Return the monotonic seconds."""
        return self._monotonic

    def advance(self, ms: int) -> None:
        """Let time pass, and tell whoever waits for it. Time cannot go back."""
        if ms < 0:
            raise ValueError(f"time cannot go back by {-ms} ms")
        self._now_ms += ms
        self._monotonic += ms / 1_000
        for callback in tuple(self._callbacks):
            callback()

    def on_move(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called by each `advance`; return what ends that."""
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)
