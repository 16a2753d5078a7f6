"""Processes of `pyromq` that can be killed, stopped and started again.

They are forked from a server that has imported the program already (tests/support/forked_command.py), which
saves half a second of a core at each start; one with a clock of its own is executed, because a library must
be loaded before it.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import forked_command


class Running:
    """A process that was started."""

    def __init__(self, process: "ForkServerProcess | subprocess.Popen[bytes]") -> None:
        self._process = process
        assert process.pid is not None
        self.pid: int = process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        if isinstance(self._process, subprocess.Popen):
            return self._process.poll() is None
        return self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        """How it ended: a status, or minus a signal; None while it runs."""
        if isinstance(self._process, subprocess.Popen):
            return self._process.poll()
        return self._process.exitcode

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if there is still somebody to take it."""
        if self.is_alive:
            os.kill(self.pid, number)

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end, and return whether it came."""
        if isinstance(self._process, subprocess.Popen):
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return False
            return True
        self._process.join(timeout_s)
        return not self._process.is_alive()


def start_pyromq(
    arguments: Sequence[str],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    namespace: str | None = None,
) -> Running:
    """Start `pyromq`; what it prints goes to a file. A namespace is one of `ip netns`."""
    if environment is None and namespace is None:
        return Running(forked_command.start_pyromq(arguments, log))
    prefix = [] if namespace is None else ["ip", "netns", "exec", namespace]
    with log.open("wb") as output:
        return Running(
            subprocess.Popen(
                [*prefix, sys.executable, "-m", "pyromq", *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
            )
        )
