"""Chunks handed on by another thread, so that the next one is made while the broker takes the last."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from pyromq.model import MessageQueue


class Hand:
    """Hands on one chunk at a time, in the order they come.

    What goes wrong with a chunk is raised by the next call; nothing is handed on behind it.
    """

    def __init__(self, put: Callable[[MessageQueue, bytes, int], None]) -> None:
        self._put = put
        self._thread = ThreadPoolExecutor(1, "spark sink")
        self._last: Future[None] | None = None

    def put(self, queue: MessageQueue, units: bytes, count: int) -> None:
        """Take a chunk when the last one is there."""
        self.settle()
        self._last = self._thread.submit(self._put, queue, units, count)

    def settle(self) -> None:
        """Wait until all is handed on."""
        if self._last is not None:
            last, self._last = self._last, None
            last.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()
