"""An asyncio loop on a daemon thread, for blocking clients whose engine needs a loop.

One loop serves one client object. Threads do not survive `fork`, so neither does the loop: a child that uses
the client gets an error that says to make a new one.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from pyromq.errors import AlreadyStarted, ClientClosed
from pyromq.net.loop import new_event_loop

T = TypeVar("T")


class HostedLoop:
    """A loop on a thread of its own; `name` is the client's, for the thread and for errors."""

    def __init__(self, name: str) -> None:
        self._name = name
        # One lock for each process: a thread of the parent may hold the lock at a fork, for ever in a child.
        # Reentrant: a signal's handler may close the client in the middle of a call.
        self._locks: dict[int, threading.RLock] = {}
        self._pid = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    @property
    def is_started(self) -> bool:
        """Whether `start` was called, wherever and whatever became of it."""
        return self._loop is not None or self._is_closed

    @property
    def is_running(self) -> bool:
        """Whether `run` would work: started in this process, and not closed."""
        return self._loop is not None and not self._is_closed and self._pid == os.getpid()

    def start(self) -> None:
        """Start the thread. Raises AlreadyStarted the second time, ClientClosed after `close`."""
        with self._lock():
            if self._is_closed:
                raise ClientClosed(self._complaint())
            if self._loop is not None:
                raise AlreadyStarted(f"{self._name} is started already; start it once")
            self._loop = loop = new_event_loop()
            self._pid = os.getpid()
            self._thread = threading.Thread(
                target=_host, args=(loop,), name=f"pyromq-{self._name}", daemon=True
            )
            self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run a coroutine on the loop, and return its result or raise its error.

        Raises ClientClosed before `start`, after `close` or when that comes first, and in a child of `fork`;
        TimeoutError, and the coroutine is cancelled, when `timeout_s` passed. Interrupted by ctrl-C, it
        cancels the coroutine too.
        """
        future = self.submit(coroutine)
        try:
            return future.result(timeout_s)
        except CancelledError:
            if self.is_running:
                raise
            raise ClientClosed(self._complaint()) from None
        except BaseException:
            future.cancel()
            raise

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start a coroutine on the loop, and return its future at once."""
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError(
                f"{self._name} was called on its own loop's thread, which would wait for itself; call it "
                "from another thread, or use pyromq.aio"
            )
        # The loop ends what it got before it was told to stop; a later coroutine would wait for ever.
        with self._lock():
            loop = self._loop
            if loop is None or not self.is_running:
                coroutine.close()
                raise ClientClosed(self._complaint())
            try:
                return asyncio.run_coroutine_threadsafe(coroutine, loop)
            except RuntimeError as error:
                # Closed since it was looked at, by a signal's handler on this very thread.
                coroutine.close()
                raise ClientClosed(self._complaint()) from error

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Let the loop call a function, from any thread; nothing happens after `close`."""
        with self._lock():
            if self._loop is not None and self.is_running:
                self._loop.call_soon_threadsafe(callback)

    def close(self) -> None:
        """Stop the loop and all tasks on it, and end the thread. Closing again does nothing.

        In a child of `fork` it only forgets the loop, which is the parent's.
        """
        with self._lock():
            is_running, self._is_closed = self.is_running, True
            loop, thread = self._loop, self._thread
            if is_running and loop is not None:
                loop.call_soon_threadsafe(loop.stop)
        # Not with the lock: a task that still runs on the loop may want it.
        if thread is not None and self._pid == os.getpid() and thread is not threading.current_thread():
            thread.join()

    def _lock(self) -> threading.RLock:
        return self._locks.setdefault(os.getpid(), threading.RLock())

    def _complaint(self) -> str:
        if self._loop is not None and self._pid != os.getpid():
            return f"{self._name} was started in another process; make a new one in this one"
        if self._is_closed:
            return f"{self._name} is closed; make a new one"
        return f"{self._name} is not started; call start(), or use it in a `with` block"


def _host(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then cancel the tasks that are left on it."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()
