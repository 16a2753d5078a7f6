"""A clock by which servers began a while ago."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from pyromq.testing.cluster import ThreadCluster, running_cluster

#: Seconds: a broker has heard of all clients by then, and is not yet believed to be gone.
BEHIND_S: Final = 90


class LateClock:
    """This machine's clocks, late by a while until they catch up."""

    def __init__(self) -> None:
        self._behind_s = BEHIND_S
        self._callbacks: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 - 1_000 * self._behind_s

    def monotonic(self) -> float:
        return time.monotonic() - self._behind_s

    def on_move(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def catch_up(self) -> None:
        """Be right from now on."""
        self._behind_s = 0
        for callback in tuple(self._callbacks):
            callback()


@contextmanager
def long_running_cluster(**settings: Any) -> Iterator[ThreadCluster]:
    """Run a cluster whose brokers have been there for a while, so that they have heard of all clients."""
    clock = LateClock()
    with running_cluster(clock=clock, **settings) as cluster:
        clock.catch_up()
        yield cluster
