"""The machine's services, answered by the simulation: time, addresses, chance, the process's own number.

The doors of the standard library are replaced while a simulation runs, not ours: code that is written
tomorrow, and code of others, then finds virtual time too. A thread, a sleep or a real socket is refused, for
nothing that the seed does not decide may happen.
"""

import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any, Final
from unittest.mock import patch

from pyromq.client.consumer import in_use
from pyromq.testing.simulation.simulated_loop import SimulatedLoop
from pyromq.testing.simulation.simulated_machines import CURRENT

#: Wall time when a simulation begins, in milliseconds: 2026-01-01.
BEGIN_MS: Final = 1_767_225_600_000
#: Monotonic clocks do not begin at zero.
BOOTED_S: Final = 10_000.0


class SimulatedSocket:
    """As much of a socket as servers bind, and as clients ask for their own address with."""

    loop: SimulatedLoop

    def __init__(self, family: int = socket.AF_INET, type: int = socket.SOCK_STREAM, *_: Any) -> None:
        process = CURRENT.get()
        assert process is not None, "only a process has sockets"
        self._address = (process.machine.ip, 0)

    def __enter__(self) -> "SimulatedSocket":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def settimeout(self, _seconds: float | None) -> None:
        """Do nothing."""

    def setsockopt(self, *_: Any) -> None:
        """Do nothing."""

    def bind(self, address: tuple[str, int]) -> None:
        """Take an address of this machine."""
        self._address = self.loop.network.bind(address)

    def listen(self, _backlog: int = 0) -> None:
        """Do nothing: the loop listens."""

    def connect(self, _address: object) -> None:
        """Choose a way out, which is all that a datagram socket does."""

    def getsockname(self) -> tuple[str, int]:
        """Return the address."""
        return self._address

    def close(self) -> None:
        """Do nothing."""


def wall_ms(loop: SimulatedLoop) -> int:
    """Return the wall time of the process that runs."""
    process = CURRENT.get()
    ahead_ms = process.machine.clock_ahead_ms if process is not None else 0
    return BEGIN_MS + int(loop.time() * 1000) + ahead_ms


def _wall_ns(loop: SimulatedLoop) -> int:
    process = CURRENT.get()
    ahead_ms = process.machine.clock_ahead_ms if process is not None else 0
    return (BEGIN_MS + ahead_ms) * 1_000_000 + int(loop.time() * 1e9)


def _pid() -> int:
    process = CURRENT.get()
    return process.pid if process is not None else 1


@contextmanager
def borrowed_machine(loop: SimulatedLoop, chance: Random) -> Iterator[None]:
    """Let everything in this process ask the simulation."""

    def shut_down(pool: ThreadPoolExecutor, *_: Any, **__: Any) -> None:
        loop.finish(pool)

    def monotonic() -> float:
        return BOOTED_S + loop.time()

    patches: list[tuple[Any, str, Any]] = [
        (time, "time", lambda: _wall_ns(loop) / 1e9),
        (time, "time_ns", lambda: _wall_ns(loop)),
        (time, "monotonic", monotonic),
        (time, "monotonic_ns", lambda: int(monotonic() * 1e9)),
        (time, "perf_counter", monotonic),
        (time, "sleep", _refused("sleeps")),
        (os, "urandom", chance.randbytes),
        (os, "getpid", _pid),
        (random, "_urandom", chance.randbytes),
        (socket, "socket", type("Socket", (SimulatedSocket,), {"loop": loop})),
        (threading.Thread, "start", _refused("starts a thread")),
        (ThreadPoolExecutor, "shutdown", shut_down),
        (ThreadPoolExecutor, "submit", _refused("uses a thread")),
        # What the clients of one process share, and those of the next one must not.
        (in_use, "_taken", set()),
    ]
    state = random.getstate()
    with ExitStack() as undo:
        undo.callback(random.setstate, state)
        random.seed(chance.random())
        for owner, name, value in patches:
            undo.enter_context(patch.object(owner, name, value))
        yield


def _refused(what: str) -> Callable[..., None]:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError(f"a simulated process {what}; everything there happens on the loop")

    return refuse
