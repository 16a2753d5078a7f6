"""An event loop whose time is the test's: when nothing is ready it jumps to the next timer.

There is no selector, no sleep and no thread. What asyncio would give to a thread is run in one piece at a
moment that the seed draws: some time after it was asked for, and some time before its result is seen.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final

from pyromq.testing.simulation.simulated_machines import CURRENT, Crashed, Process

if TYPE_CHECKING:
    from pyromq.testing.simulation.simulated_network import Network

#: Seconds that one turn of the loop takes; without it a loop that waits for nothing would never end.
TURN_S: Final = 0.00002
_CANCELLED_MIN: Final = 100


class NothingLeft(RuntimeError):
    """Everybody waits for somebody, and no timer runs."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs the handles of all processes, in one order that depends on nothing but the seed."""

    network: "Network"

    def __init__(self) -> None:
        super().__init__()
        self.set_debug(False)
        self._now = 0.0
        #: Handles that were run.
        self.steps = 0
        self._numbers = 0
        self._workers: dict[Executor, _Worker] = {}
        self.set_task_factory(_new_task)
        #: Called with what a process did not handle.
        self.on_unhandled: Callable[[Process | None, dict[str, Any]], None] | None = None
        self.set_exception_handler(_unhandled)

    def time(self) -> float:
        """Return the seconds since the simulation began."""
        return self._now

    def new_number(self) -> int:
        """Return a number that no task and no future has."""
        self._numbers += 1
        return self._numbers

    def create_future(self) -> Any:
        """Return a new future."""
        future = _Future(loop=self)
        future.number = self.new_number()
        return future

    # One turn

    def _run_once(self) -> None:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        self._drop_cancelled(scheduled)
        if ready:
            self._now += TURN_S
        elif scheduled:
            self._now = max(self._now, scheduled[0].when())
        elif not self._stopping:  # type: ignore[attr-defined]
            raise NothingLeft("every process waits, and no timer runs")
        now = self._now
        while scheduled and scheduled[0].when() <= now:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process: Process | None = handle._context.get(CURRENT)  # type: ignore[attr-defined]
            if process is not None and not process.is_running:
                if process.is_paused and not process.is_dead:
                    process.deferred.append(handle)
                continue
            self.steps += 1
            handle._run()

    def _drop_cancelled(self, scheduled: list[asyncio.TimerHandle]) -> None:
        count: int = self._timer_cancelled_count  # type: ignore[has-type]
        if count > _CANCELLED_MIN and count * 2 > len(scheduled):
            kept = [timer for timer in scheduled if not timer.cancelled()]
            for timer in scheduled:
                if timer.cancelled():
                    timer._scheduled = False  # type: ignore[attr-defined]
            scheduled[:] = kept
            heapq.heapify(scheduled)
            self._timer_cancelled_count = 0
        while scheduled and scheduled[0].cancelled():
            self._timer_cancelled_count -= 1
            heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]

    def take_up(self, handles: Iterable[asyncio.Handle]) -> None:
        """Run handles that had to wait, before everything that comes from now on."""
        self._ready.extend(handles)  # type: ignore[attr-defined]

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Call soon: there are no threads."""
        return self.call_soon(callback, *args, context=context)

    def _process_events(self, event_list: object) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    # Threads

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> Any:
        """Run a function at a later moment of this loop; one worker's functions keep their order."""
        process = CURRENT.get()
        job = _Job(self, process, func, args)
        if executor is None or getattr(executor, "_max_workers", 0) != 1:
            self.call_later(job.start_s(), job.run)
        else:
            worker = self._workers.setdefault(executor, _Worker())
            worker.put(job)
        return job.future

    def finish(self, executor: Executor) -> None:
        """Do what a shutdown of an executor waits for."""
        worker = self._workers.pop(executor, None)
        if worker is not None:
            worker.finish()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: there are no threads."""

    # Network

    async def create_server(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        """Listen on the simulated network."""
        return self.network.listen(
            protocol_factory, host, port, sock=options.get("sock"), ssl=options.get("ssl")
        )

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        """Connect over the simulated network."""
        return await self.network.connect(protocol_factory, host, port, ssl=options.get("ssl"))

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        """Return the address itself: names are not simulated."""
        return [(2, 1, 6, "", (host, port))]


class _Future(asyncio.Future[Any]):
    """A future whose place in a set depends on nothing but how many there were before."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class _Task(asyncio.Task[Any]):
    """A task of which the same holds."""

    def __init__(self, number: int, coro: Any, loop: SimulatedLoop, context: Context | None) -> None:
        # First: it is put into a set at once.
        self.number = number
        super().__init__(coro, loop=loop, context=context)

    def __hash__(self) -> int:
        return self.number


class _Job:
    """A function that a thread would run."""

    def __init__(
        self, loop: SimulatedLoop, process: Process | None, func: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self._machine = process.machine if process is not None else None
        self._process = process
        self._call = (func, args)
        self._is_done = False

    def start_s(self) -> float:
        """Draw how long it takes to begin; a slow disk takes the more."""
        if self._machine is None:
            return 0.001
        return self._machine.thread_s() + self._machine.slow_s

    def run(self) -> None:
        """Do it now, and have its result seen some time later."""
        if self._is_done:
            return
        self._is_done = True
        func, args = self._call
        error: Exception | None = None
        result = None
        try:
            result = func(*args)
        except Crashed:
            return
        except Exception as raised:  # noqa: BLE001  it goes to whoever waits, as from a thread
            error = raised
        delay_s = self._machine.thread_s() if self._machine is not None else 0.0
        self.loop.call_later(delay_s, self._tell, result, error)

    def _tell(self, result: Any, error: Exception | None) -> None:
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class _Worker:
    """The one thread of an executor."""

    def __init__(self) -> None:
        self._waiting: deque[_Job] = deque()

    def put(self, job: _Job) -> None:
        """Run a job when those before it are done."""
        self._waiting.append(job)
        if len(self._waiting) == 1:
            job.loop.call_later(job.start_s(), self._run_first)

    def _run_first(self) -> None:
        if not self._waiting:
            return
        job = self._waiting.popleft()
        job.run()
        if self._waiting:
            following = self._waiting[0]
            following.loop.call_later(following.start_s(), self._run_first)

    def finish(self) -> None:
        """Run everything that waits, now."""
        while self._waiting:
            self._waiting.popleft().run()


def _new_task(
    loop: asyncio.AbstractEventLoop, coro: Any, context: Context | None = None
) -> "asyncio.Task[Any]":
    assert isinstance(loop, SimulatedLoop)
    task = _Task(loop.new_number(), coro, loop, context)
    process = CURRENT.get() if context is None else context.get(CURRENT)
    if process is not None:
        process.tasks.append(task)
    return task


def _unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, SimulatedLoop)
    error = context.get("exception")
    if isinstance(error, Crashed):
        return
    handle = context.get("handle")
    process = handle._context.get(CURRENT) if handle is not None else CURRENT.get()
    if process is not None and process.is_dead:
        return
    if loop.on_unhandled is not None:
        loop.on_unhandled(process, context)
