"""Threads that wait for answers, and whose turn it is among those that have theirs.

Only one thread of an interpreter runs at a time. Threads that are woken together, or by one that goes on
itself, queue for the interpreter's lock: each is woken twice. So the threads whose answers came form a chain.
The one that has its turn goes on, and wakes the next when it has nothing to do itself: when it waits for the
answer to its next request.

    the reader      answers ──► the chain; wakes the first, and watches
    a thread        wakes up, has its answer, sends again, wakes the next, sleeps
    the last one    wakes the reader

Nothing says that a thread sends again soon: it may compute, wait for something else, or end. The reader sees
then that too few turns are given (`watch`), and lets all threads of the chain wake each other (`release`).

`_kernel/client/thread_answers.pyx` is the same, compiled: there a thread lets go of the interpreter's lock
before it wakes the next one, which so finds it free.
"""

import threading
from collections import deque
from contextlib import suppress
from typing import Any


class ThreadAnswer:
    """A place for an answer that a thread waits for."""

    __slots__ = ("_chain", "_lock", "has_left", "is_reading", "outcome", "wakes_next")

    def __init__(self, chain: "WakeChain") -> None:
        self._chain = chain
        self._lock = threading.Lock()
        self._lock.acquire()
        #: The answer or the error; None while there is neither.
        self.outcome: Any = None
        #: Whether the thread reads for others, and needs no turn.
        self.is_reading = False
        #: Whether the thread does not wait any more.
        self.has_left = False
        #: Whether the thread is to wake the next one as soon as it goes on.
        self.wakes_next = False

    def done(self) -> bool:
        """Return whether there is an outcome."""
        return self.outcome is not None

    def set_result(self, outcome: Any) -> None:
        """Put an answer there, unless there is one; the thread is woken in its turn."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        if not self.is_reading:
            self._chain._ready.append(self)

    #: An error is an outcome like another: the thread looks what it is.
    set_exception = set_result

    def wake(self) -> None:
        """Wake the thread: there is an outcome, or it is to read."""
        # Where the lock is free somebody did already, and the thread did not look yet.
        with suppress(RuntimeError):
            self._lock.release()

    def sleep(self, timeout_s: float) -> None:
        """Hand on; return when this thread was woken, or the time is over."""
        if self.outcome is not None:
            return
        chain = self._chain
        other = chain._take_next() or chain._take_watcher()
        if other is not None:
            other.wake()
        self._lock.acquire(timeout=timeout_s)

    def watch(self, look_s: float, turns_min: int) -> bool:
        """Wake the first of the chain, and sleep until all had their turns; return whether they have them.

        They do not when there were less than `turns_min` in `look_s` seconds.
        """
        chain = self._chain
        other = chain._take_next()
        if other is None or other is self:
            return True
        chain._watchers.append(self)
        try:
            seen = chain.turns
            other.wake()
            while not self._lock.acquire(timeout=look_s):
                if chain.turns < seen + turns_min:
                    return False
                seen = chain.turns
        finally:
            with suppress(ValueError):
                chain._watchers.remove(self)
            chain._wake_watchers()
        return True


class WakeChain:
    """The threads whose answers are there, and those that watch."""

    __slots__ = ("_ready", "_watchers", "turns")

    def __init__(self) -> None:
        self._ready: deque[ThreadAnswer] = deque()
        self._watchers: list[ThreadAnswer] = []
        #: The number of turns so far.
        self.turns = 0

    def __bool__(self) -> bool:
        return bool(self._ready)

    def wake_next(self) -> bool:
        """Wake the next thread that did not go on yet; return whether there was one."""
        answer = self._take_next()
        if answer is not None:
            answer.wake()
        return answer is not None

    def release(self) -> None:
        """Let the threads that are here wake each other without waiting for their turns."""
        for answer in tuple(self._ready):
            answer.wakes_next = True
        self.wake_next()

    def _take_next(self) -> ThreadAnswer | None:
        self.turns += 1
        # Another thread may take the last one.
        with suppress(IndexError):
            while True:
                answer = self._ready.popleft()
                if not answer.has_left:
                    return answer
        return None

    def _wake_watchers(self) -> None:
        """Wake those that watch beside one that watches no longer: of other connections."""
        while (watcher := self._take_watcher()) is not None:
            watcher.wake()

    def _take_watcher(self) -> ThreadAnswer | None:
        with suppress(IndexError):
            return self._watchers.pop()
        return None
