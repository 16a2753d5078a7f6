"""Machines and the processes on them.

A process is a context: every handle of the loop carries the process that scheduled it. So a process that is
killed is simply not run any more, from one handle to the next, and one that is stopped (SIGSTOP) finds
everything that happened meanwhile when it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyromq.testing.simulation.disk import MachineDisk
    from pyromq.testing.simulation.simulated_loop import SimulatedLoop
    from pyromq.testing.simulation.transport import Endpoint

#: The process that runs now; None is the test itself, which no fault reaches.
CURRENT: Final[ContextVar[Process | None]] = ContextVar("CURRENT", default=None)
#: Seconds that a thread needs to begin, and its result to be seen, on a machine that has nothing else to do.
THREAD_S: Final = (0.00005, 0.002)


class Crashed(BaseException):
    """The process that does something is dead; no handler of an ordinary error sees this."""


class Machine:
    """A machine: an address, a disk, a clock. Its processes come and go."""

    def __init__(self, name: str, ip: str, chance: Random) -> None:
        self.name = name
        self.ip = ip
        self.chance = chance
        self.is_powered = True
        #: Milliseconds that its wall clock is ahead of the stage's.
        self.clock_ahead_ms = 0
        #: Seconds that work in a thread takes longer: the threads of a broker wait for its disk.
        self.slow_s = 0.0
        self.disk: MachineDisk | None = None
        #: Where SQLite keeps its files.
        self.databases: Path | None = None
        self.processes: list[Process] = []

    def thread_s(self) -> float:
        """Draw how long a thread needs to begin, or its result to be seen."""
        return self.chance.uniform(*THREAD_S)


class Process:
    """One process of a machine, from its start to its end."""

    def __init__(self, loop: SimulatedLoop, machine: Machine, name: str, pid: int) -> None:
        self.machine = machine
        self.name = name
        self.pid = pid
        self.is_dead = False
        self.is_paused = False
        #: Whether its handles run as they come; False when it is dead or paused.
        self.is_running = True
        self.deferred: list[asyncio.Handle] = []
        #: When it went on after it was stopped.
        self.resumed_at = 0.0
        #: Its sockets and tasks; tasks stay here after its death, so that nothing of them is run again.
        self.endpoints: dict[Endpoint, None] = {}
        self.tasks: list[asyncio.Task[Any]] = []
        self.ended: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self.context: Context = copy_context()
        self.context.run(CURRENT.set, self)
        machine.processes.append(self)

    def start(self, main: Coroutine[Any, Any, None]) -> None:
        """Run the program; the process ends when it returns or raises."""
        task = self._loop.create_task(main, name=self.name, context=self.context.copy())
        task.add_done_callback(self._main_ended)

    def _main_ended(self, task: asyncio.Task[None]) -> None:
        if self.is_dead:
            return
        error = None if task.cancelled() else task.exception()
        self._loop.network.process_ended(self)
        self._end(error)

    def kill(self) -> None:
        """End it at once, as SIGKILL does; its machine closes its connections."""
        if not self.is_dead:
            self._loop.network.process_ended(self)
            self._end(None)

    def lose_power(self) -> None:
        """End it at once, and tell nobody."""
        if not self.is_dead:
            self._loop.network.machine_lost(self)
            self._end(None)

    def pause(self) -> None:
        """Stop it, as SIGSTOP does."""
        if not self.is_dead:
            self.is_paused, self.is_running = True, False

    def resume(self) -> None:
        """Let it go on."""
        if self.is_paused and not self.is_dead:
            self.is_paused, self.is_running = False, True
            self.resumed_at = self._loop.time()
            deferred, self.deferred = self.deferred, []
            self._loop.take_up(deferred)

    def _end(self, error: BaseException | None) -> None:
        self.is_dead, self.is_running = True, False
        self.deferred.clear()
        self.machine.processes.remove(self)
        if self.ended.done():
            return
        if isinstance(error, Exception):
            self.ended.set_exception(error)
            # Whoever wants to know asks; nobody has to.
            self.ended.exception()
        else:
            self.ended.set_result(None)
