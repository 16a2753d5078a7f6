"""All that one simulation owns: the loop, the network, the machines, the trace.

    with World(seed) as world:
        world.run(main())           # the same seed gives the same trace, byte for byte

Everything random comes from streams that are named after what they decide, so that one more draw in one place
does not change all others.
"""

import gc
import shutil
import sys
import tempfile
import warnings
from collections.abc import Coroutine
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar

from pyromq.testing.simulation.borrowed import borrowed_machine
from pyromq.testing.simulation.disk import MachineDisk, cut_database
from pyromq.testing.simulation.simulated_loop import SimulatedLoop
from pyromq.testing.simulation.simulated_machines import Machine, Process
from pyromq.testing.simulation.simulated_network import Network

T = TypeVar("T")


class World:
    """One simulation, from its first event to its last."""

    def __init__(self, seed: str | int, *, keeps_trace: bool = False, has_digest: bool = True) -> None:
        self.seed = seed
        self.loop = SimulatedLoop()
        self.network = self.loop.network = Network(self.loop, self.chance("network"))
        self.machines: dict[str, Machine] = {}
        self._keeps_trace = keeps_trace
        #: All that moved, a line for each; only when it is kept.
        self.trace_lines: list[str] = []
        self._digest = sha256()
        self._pids = 100
        self._processes: list[Process] = []
        self._boots = 0
        self._closing = ExitStack()
        self._folder = Path()
        self._folders = 0
        #: Told whatever moves; None when nobody wants to know, which is faster.
        self._tell = self.trace if has_digest or keeps_trace else None
        self.network.trace = self._tell
        self.disk_operations = 0

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            memory = Path("/dev/shm")
            self._folder = Path(
                tempfile.mkdtemp(prefix="pyromq-simulation-", dir=memory if memory.is_dir() else None)
            )
            closing.callback(shutil.rmtree, self._folder, ignore_errors=True)
            closing.callback(gc.enable)
            # What dies in a simulation must not be woken by a collection, which comes at any time.
            gc.disable()
            closing.enter_context(borrowed_machine(self.loop, self.chance("machine")))
            self._closing = closing.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                self._end()
                self._closing.close()
                gc.collect()
        finally:
            sys.unraisablehook = hook

    def _end(self) -> None:
        """Let everything be gone that waits; what it does then concerns nobody."""
        self.loop.set_exception_handler(lambda _loop, _context: None)
        for process in self._processes:
            process.is_dead, process.is_running = True, False
        self.loop.close()
        for process in self._processes:
            for task in process.tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(BaseException):
                    task.get_coro().close()
            process.tasks.clear()
        self._processes.clear()
        self.machines.clear()
        self.network.forget()

    def chance(self, name: str) -> Random:
        """Return a source of chance for one purpose."""
        return Random(f"{self.seed}/{name}")

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run until a coroutine of the test itself has ended."""
        return self.loop.run_until_complete(main)

    def folder(self, name: str) -> Path:
        """Return a real folder that is gone with the simulation."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return folder

    # The trace

    def trace(self, *what: object) -> None:
        """Write down what happened."""
        line = f"{self.loop.time():.6f} {' '.join(map(str, what))}\n"
        self._digest.update(line.encode())
        if self._keeps_trace:
            self.trace_lines.append(line)

    @property
    def digest(self) -> str:
        """A short form of the whole trace."""
        return self._digest.hexdigest()

    # Machines

    def add_machine(self, name: str, ip: str, *, has_disk: bool = False) -> Machine:
        """Add a machine."""
        machine = self.machines[name] = Machine(name, ip, self.chance(f"machine {name}"))
        self.network.machines[ip] = machine
        if has_disk:
            self._give_disk(machine, None)
        return machine

    def start(self, machine: Machine, name: str, main: Coroutine[Any, Any, None]) -> Process:
        """Start a process."""
        self._pids += 1
        process = Process(self.loop, machine, name, self._pids)
        self._processes.append(process)
        process.start(main)
        return process

    def kill(self, machine: Machine) -> None:
        """Kill what runs on a machine; its disk keeps everything that was written."""
        for process in tuple(machine.processes):
            process.kill()
        self.renew_disk(machine)

    def renew_disk(self, machine: Machine) -> None:
        """Give a machine's next process the disk as it is, without what the last one had open."""
        if machine.disk is not None:
            self._give_disk(machine, machine.disk, boot_id=machine.disk.boot_id())

    def cut_power(self, machine: Machine) -> None:
        """End everything on a machine; its disk keeps what was synced, and anything of the rest."""
        for process in tuple(machine.processes):
            process.lose_power()
        machine.is_powered = False
        if machine.disk is not None:
            self._give_disk(machine, machine.disk, is_cut=True)

    def boot(self, machine: Machine) -> None:
        """Give a machine power again."""
        if not machine.is_powered:
            machine.is_powered = True
            self.network.booted(machine)

    def _give_disk(
        self, machine: Machine, last: MachineDisk | None, *, boot_id: str = "", is_cut: bool = False
    ) -> None:
        self._boots += 1
        self._folders += 1
        folder = self._folder / f"{machine.name}-{self._folders}"
        folder.mkdir()
        image = None
        if last is not None:
            self.disk_operations += last.operations
            assert machine.databases is not None
            shutil.copytree(machine.databases, folder, dirs_exist_ok=True)
            image = last.image()
            if is_cut:
                for path in sorted(folder.glob("*.db")):
                    cut_database(path, machine.chance)
                image = last.power_cut_image(machine.chance)
        machine.databases = folder
        machine.disk = MachineDisk(
            image,
            boot_id=boot_id or f"boot {self._boots:031d}",
            databases=folder,
            name=machine.name,
            trace=self._tell,
        )
        if last is not None:
            machine.disk.capacity_bytes = last.capacity_bytes
