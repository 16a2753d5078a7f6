"""Callers of the listener: in tasks of the engine's loop, or on threads of their own.

At most `consume_thread_min` calls run at once, which is RocketMQ's core pool size, until `resize`. An
exception of a listener is its answer, and never ends the caller.
"""

import asyncio
import inspect
import logging
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

from pyromq.client.consumer.incoming import first_unreadable
from pyromq.client.consumer.running_report import LISTENER_TASK
from pyromq.client.hooks import ConsumeHook, Consuming, after_consume, before_consume
from pyromq.client.push.consume_outcome import Work, as_result
from pyromq.client.push.delivery import BatchListener, ConsumeResult, Listener
from pyromq.clock import Clock
from pyromq.errors import ConfigError, PyroError
from pyromq.model import ReceivedMessage

_log = logging.getLogger("pyromq.client")

#: Calls that did not wait after which a task lets others have their turn.
CALLS_A_TURN = 64

_NO_COROUTINE = "the listener of a blocking PushConsumer is a coroutine function; use pyromq.aio.PushConsumer"

#: Takes a work that ended, on the engine's loop.
Done: TypeAlias = Callable[[Work], None]


@dataclass(frozen=True, slots=True)
class Listening:
    """The listener, with the hooks around it. `call` returns what the listener does."""

    group: str
    call: Callable[[Work], object]
    hooks: tuple[ConsumeHook, ...] = ()
    namespace: str = ""

    def start(self, work: Work, now_ms: int) -> Awaitable[object] | None:
        """Call the listener, and return what is to be awaited, if it returns that."""
        if work.state is not None:
            work.state.start(work.messages, now_ms)
        if self.hooks:
            work.consuming = Consuming(self.group, work.queue, work.messages, self.namespace)
            before_consume(self.hooks, work.consuming)
        unreadable = first_unreadable(work.messages)
        if unreadable is not None:
            note_unreadable(work, work.messages[unreadable])
            return None
        try:
            answer = self.call(work)
            if answer is not None and answer is not True and inspect.isawaitable(answer):
                return cast(Awaitable[object], answer)
            note(work, answer)
        except Exception as error:  # noqa: BLE001  the border to the application: its errors are its answer
            note_error(work, error)
        return None

    def end(self, work: Work, spent_ms: int) -> None:
        """Note how long the listener took, and call the hooks after it."""
        work.spent_ms = spent_ms
        if work.consuming is not None:
            work.consuming.is_success = work.verdict in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT)
            work.consuming.error = work.error
            after_consume(self.hooks, work.consuming)


class ListenerCaller(Protocol):
    """Whoever calls the listener."""

    def submit(self, work: Work, done: Done) -> None:
        """Have a work done when its turn comes; on the engine's loop."""
        ...

    async def close(self, grace_s: float) -> None:
        """Begin no further work, and wait for what runs, but not longer than that."""
        ...

    async def rest(self, patience_s: float) -> None:
        """Return when no call runs or waits, or after that time; on the engine's loop."""
        ...

    def is_calling_here(self) -> bool:
        """Whether whoever asks is a listener that this calls now, on its thread or in its task."""
        ...

    @property
    def size(self) -> int:
        """The number of calls that may run at once."""
        ...

    def resize(self, size: int) -> None:
        """Let that many run at once; calls that run already end first. On the engine's loop."""
        ...


async def call_now(caller: ListenerCaller, work: Work) -> None:
    """Have a work done, and return when it has ended."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(_work: Work) -> None:
        if not ended.done():
            ended.set_result(None)

    caller.submit(work, done)
    await ended


def calls(
    listener: Listener | None, batch_listener: BatchListener | None, *, on_threads: bool = False
) -> Callable[[Work], object]:
    """Return how the one given listener is called; its second parameter, if it has one, is the delivery."""
    if listener is not None and batch_listener is not None:
        raise ConfigError("a listener and a batch_listener are given; give one of them")
    if on_threads and inspect.iscoroutinefunction(listener or batch_listener):
        raise ConfigError(_NO_COROUTINE)
    if listener is not None:
        function: Callable[..., object] = listener
        if _wants_delivery(function):
            return lambda work: function(work.messages[0], work.delivery)
        return lambda work: function(work.messages[0])
    if batch_listener is not None:
        many: Callable[..., object] = batch_listener
        if _wants_delivery(many):
            return lambda work: many(list(work.messages), work.delivery)
        return lambda work: many(list(work.messages))
    raise ConfigError("a push consumer needs a listener: PushConsumer(group, listener=handle)")


class TaskCaller:
    """Calls on the engine's loop. A plain function runs to its end; a coroutine lets others run meanwhile."""

    def __init__(self, listening: Listening, size: int, clock: Clock) -> None:
        self._listening = listening
        self._size = size
        self._clock = clock
        self._waiting: deque[tuple[Work, Done]] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        #: How many of them wait for a listener's coroutine; any other takes what comes.
        self._awaiting = 0
        self._is_closed = False

    @property
    def size(self) -> int:
        """The number of calls that may run at once."""
        return self._size

    def resize(self, size: int) -> None:
        """Let that many run at once; calls that run already end first."""
        self._size = size
        # The first call of it that waits starts the next.
        self._see_to_it()

    def submit(self, work: Work, done: Done) -> None:
        """Have a work done when its turn comes."""
        if self._is_closed:
            _skip(work, done)
            return
        self._waiting.append((work, done))
        self._see_to_it()

    async def close(self, grace_s: float) -> None:
        """Begin no further work, wait for what runs, and cancel what does not end in time."""
        self._is_closed = True
        while self._waiting:
            _skip(*self._waiting.popleft())
        workers = {task for task in self._workers if task is not asyncio.current_task()}
        if not workers:
            return
        _, late = await asyncio.wait(workers, timeout=grace_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    async def rest(self, patience_s: float) -> None:
        """Return when no call runs or waits, or after that time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self._workers:
                    await asyncio.wait(set(self._workers))

    def is_calling_here(self) -> bool:
        """Whether whoever asks is a listener that this calls now."""
        return asyncio.current_task() in self._workers

    def _see_to_it(self) -> None:
        """Start one more worker if something waits to be called, all of them wait, and there may be more."""
        if self._waiting and self._awaiting == len(self._workers) < self._size:
            worker = asyncio.create_task(self._work(), name=LISTENER_TASK)
            self._workers.add(worker)
            worker.add_done_callback(self._ended)

    def _ended(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        self._see_to_it()

    async def _work(self) -> None:
        calls = 0
        # There are too many after a `resize`; one that ends is no longer counted.
        while self._waiting and len(self._workers) <= self._size:
            work, done = self._waiting.popleft()
            if work.is_dropped:
                _skip(work, done)
                continue
            started_ms = self._clock.now_ms()
            answer = self._listening.start(work, started_ms)
            if answer is not None:
                await self._await(work, answer)
            self._listening.end(work, self._clock.now_ms() - started_ms)
            done(work)
            calls += 1
            if calls % CALLS_A_TURN == 0:
                await asyncio.sleep(0)
        self._workers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _await(self, work: Work, answer: Awaitable[object]) -> None:
        # Only a call that waits leaves time for another, now or when it comes.
        self._awaiting += 1
        self._see_to_it()
        try:
            note(work, await answer)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # The listener awaited something that was cancelled; that is its own affair.
            note_error(work, error)
        except Exception as error:  # noqa: BLE001  the border to the application: its errors are its answer
            note_error(work, error)
        finally:
            self._awaiting -= 1


class ThreadCaller:
    """Calls on threads; what ended is handed to the loop, many at a time when many end."""

    def __init__(self, listening: Listening, size: int, clock: Clock, *, name: str) -> None:
        self._listening = listening
        self._size = size
        self._clock = clock
        self._name = name
        self._loop = asyncio.get_running_loop()
        #: What is to be done; None wakes a thread to see whether it is one too many, or all is over.
        self._waiting: queue.SimpleQueue[tuple[Work, Done] | None] = queue.SimpleQueue()
        self._ended: deque[tuple[Work, Done]] = deque()
        self._is_waking = False
        self._under_way = 0
        #: Threads that stay, those that are to end, and those that were ever started, for their names.
        self._thread_count = 0
        self._surplus = 0
        self._surplus_lock = threading.Lock()
        self._started_count = 0
        self._here = threading.local()
        self._is_closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def size(self) -> int:
        """The number of calls that may run at once."""
        return self._size

    def resize(self, size: int) -> None:
        """Let that many run at once; calls that run already end first."""
        self._size = size
        wanted = min(size, max(self._under_way, self._thread_count))
        with self._surplus_lock:
            # Those that were to end and have not yet may stay.
            kept = min(self._surplus, max(0, wanted - self._thread_count))
            ending = max(0, self._thread_count - wanted)
            self._surplus += ending - kept
            self._thread_count += kept - ending
        for _ in range(ending):
            self._waiting.put(None)
        while self._thread_count < wanted:
            self._start_thread()

    def submit(self, work: Work, done: Done) -> None:
        """Have a work done when its turn comes."""
        if self._is_closed:
            _skip(work, done)
            return
        self._under_way += 1
        self._idle.clear()
        self._waiting.put((work, done))
        if self._thread_count < min(self._size, self._under_way):
            self._start_thread()

    async def close(self, grace_s: float) -> None:
        """Begin no further work, and wait for what runs; a thread that does not end in time is left."""
        self._is_closed = True
        self._waiting.put(None)
        try:
            async with asyncio.timeout(grace_s):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("%s: %d listener calls still ran at the end", self._name, self._under_way)

    async def rest(self, patience_s: float) -> None:
        """Return when no call runs or waits, or after that time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._idle.wait()

    def is_calling_here(self) -> bool:
        """Whether whoever asks is a listener that this calls now."""
        return getattr(self._here, "is_calling", False)

    def _start_thread(self) -> None:
        self._thread_count += 1
        self._started_count += 1
        threading.Thread(target=self._work, name=f"{self._name}-{self._started_count}", daemon=True).start()

    def _is_surplus(self) -> bool:
        """Return whether the thread that asks is to end."""
        if not self._surplus:
            return False
        with self._surplus_lock:
            is_surplus = self._surplus > 0
            self._surplus -= is_surplus
            return is_surplus

    def _work(self) -> None:
        self._here.is_calling = True
        while not self._is_surplus():
            item = self._waiting.get()
            if item is None:
                if self._is_closed and self._waiting.empty():
                    # For the next thread, until all are gone.
                    self._waiting.put(None)
                    return
                continue
            work, _ = item
            if not work.is_dropped and not self._is_closed:
                self._call(work)
            else:
                work.is_skipped = True
            self._ended.append(item)
            if not self._is_waking:
                self._is_waking = True
                try:
                    self._loop.call_soon_threadsafe(self._hand_over)
                except RuntimeError:
                    # The loop ended before this listener did.
                    return

    def _call(self, work: Work) -> None:
        started_ms = self._clock.now_ms()
        try:
            answer = self._listening.start(work, started_ms)
            if answer is not None:
                _close_unawaited(answer)
                raise ConfigError(_NO_COROUTINE)
        except BaseException as error:  # noqa: BLE001  not even exit() in a listener may end this thread
            note_error(work, error)
        self._listening.end(work, self._clock.now_ms() - started_ms)

    def _hand_over(self) -> None:
        # First: whoever ends from now on wakes the loop again.
        self._is_waking = False
        while self._ended:
            work, done = self._ended.popleft()
            self._under_way -= 1
            done(work)
        if not self._under_way:
            self._idle.set()


def _skip(work: Work, done: Done) -> None:
    work.is_skipped = True
    done(work)


def note(work: Work, answer: object) -> None:
    """Write down what a listener answered."""
    work.result = as_result(answer)


def note_unreadable(work: Work, message: ReceivedMessage) -> None:
    """Write down that a listener is not called because a message's body cannot be read here."""
    work.result = ConsumeResult.RECONSUME_LATER
    try:
        _ = message.body
    except PyroError as error:
        work.error = error
        _log.error("the listener is not called: %s", error)


def note_error(work: Work, error: BaseException) -> None:
    """Write down what a listener raised."""
    work.error = error
    work.result = ConsumeResult.RECONSUME_LATER
    first = work.messages[0]
    _log.error(
        "the listener failed on message %s (topic %s, queue %d of %s, offset %d); it comes again",
        first.message_id,
        first.topic,
        work.queue.queue_id,
        work.queue.broker_name,
        first.queue_offset,
        exc_info=error,
    )


def _wants_delivery(function: Callable[..., object]) -> bool:
    """Return whether a listener has a second parameter that must be given."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [one for one in parameters if one.kind in kinds and one.default is inspect.Parameter.empty]
    return len(needed) >= 2


def _close_unawaited(answer: Any) -> None:
    close = getattr(answer, "close", None)
    if close is not None:
        close()
