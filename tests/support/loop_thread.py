"""An asyncio loop on a thread, for tests that are not asyncio: stages run while a browser looks at them."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

#: Seconds for one step; spent only when a test fails.
STEP_S = 90


class LoopThread:
    """Carries out steps on the loop, one after the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._closing = AsyncExitStack()

    def run(self, step: Coroutine[Any, Any, T]) -> T:
        """Carry out a step and return its result."""
        return asyncio.run_coroutine_threadsafe(step, self._loop).result(STEP_S)

    def enter(self, stage: AbstractAsyncContextManager[T]) -> T:
        """Enter a stage, which is left when the thread ends."""
        return self.run(self._closing.enter_async_context(stage))

    def close(self) -> None:
        """Leave the stages, the last first."""
        self.run(self._closing.aclose())


@contextmanager
def loop_thread() -> Iterator[LoopThread]:
    """Run a loop on a thread for the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="stage", daemon=True)
    thread.start()
    running = LoopThread(loop)
    try:
        try:
            yield running
        finally:
            running.close()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()
