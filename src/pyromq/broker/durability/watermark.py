"""Waiting for a number to be reached.

A watermark is a number that only rises, and the callbacks that wait for it. A message is safe on the disk
when the flushed position has reached the end of its record, and safe on the slaves when their position has.
Each callback is called exactly once: with None when the number was reached, or with the reason why it will
not be.
"""

from asyncio import Future, get_running_loop
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Settle = Callable[[Exception | None], None]


class Watermark:
    """A number that only rises, and who waits for it."""

    __slots__ = ("_order", "_value", "_waiting")

    def __init__(self, value: int = 0) -> None:
        self._value = value
        self._waiting: list[tuple[int, int, Settle]] = []
        self._order = count()

    @property
    def value(self) -> int:
        """The highest number so far."""
        return self._value

    @property
    def waiting_count(self) -> int:
        """The number of calls that wait for their number to be reached."""
        return len(self._waiting)

    def when(self, number: int, settle: Settle) -> None:
        """Call `settle` once the number is reached: now if it is, else in the order of the numbers."""
        if number <= self._value:
            settle(None)
        else:
            heappush(self._waiting, (number, next(self._order), settle))

    def reach(self, number: int) -> Future[None]:
        """Return a future that is done when the number is reached."""
        reached: Future[None] = get_running_loop().create_future()
        self.when(number, settling(reached))
        return reached

    def raise_to(self, number: int) -> None:
        """Raise the number; a lower one changes nothing."""
        if number > self._value:
            self._value = number
            waiting = self._waiting
            if waiting and waiting[0][0] <= number:
                self._settle_up_to(number, None)

    def give_up(self, number: int, error: Exception) -> None:
        """Tell all who wait for `number` or less that it will not be reached in time, or at all."""
        self._settle_up_to(number, error)

    def _settle_up_to(self, number: int, error: Exception | None) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= number:
            heappop(waiting)[2](error)


def settling(future: Future[None]) -> Settle:
    """Return what settles a future that may have been given up meanwhile."""

    def settle(error: Exception | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    return settle
