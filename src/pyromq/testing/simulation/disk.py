"""The disk of a simulated machine: `SimulatedDisk`, with an end that can come in the middle of anything."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from pyromq.testing.disk.journal import Image, Operation, Write
from pyromq.testing.disk.simulated import SimulatedDisk
from pyromq.testing.simulation.simulated_machines import Crashed

Trace = Callable[..., None]


class MachineDisk(SimulatedDisk):
    """A disk that ends its process at a given operation, and has a real folder for SQLite's files."""

    def __init__(
        self, image: Image | None = None, *, boot_id: str, databases: Path, name: str, trace: Trace | None
    ) -> None:
        super().__init__(image, boot_id=boot_id, keeps_journal=False)
        self._databases = databases
        self._owner = name
        self._trace = trace
        #: Operations until the process ends; None: it does not.
        self.ends_in: int | None = None
        #: Called when it does.
        self.on_end: Callable[[], None] = lambda: None
        self.operations = 0

    def database(self, path: Path) -> Path | None:
        """Return where SQLite keeps a database."""
        return self._databases / path.name

    def _do(self, operation: Operation) -> None:
        super()._do(operation)
        self.operations += 1
        if self._trace is not None:
            if isinstance(operation, Write):
                self._trace("disk", self._owner, operation.node.path, operation.at, len(operation.data))
            else:
                self._trace("disk", self._owner, type(operation).__name__)
        if self.ends_in is not None:
            self.ends_in -= 1
            if self.ends_in <= 0:
                self.ends_in = None
                self.on_end()
                raise Crashed


def cut_database(path: Path, chance: Random) -> None:
    """Leave of a database what a power cut leaves: any beginning of its write-ahead log."""
    log = path.with_name(path.name + "-wal")
    if log.exists():
        size = log.stat().st_size
        with log.open("r+b") as file:
            file.truncate(chance.choice((0, chance.randint(0, size), size)))
