"""Processes that can be killed, stopped and started again.

Whoever started them takes them along: where the system has `setpriv`, a process is killed when this one is
gone, however it went.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol


class RunningProcess(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int:
        """Its id."""
        ...

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        ...

    @property
    def exit_code(self) -> int | None:
        """The exit status, or minus the signal that ended it; None while it runs."""
        ...

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if there is still somebody to take it."""
        ...

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end, and return whether it came."""
        ...


class ChildProcess:
    """A child of this process."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit status, or minus the signal that ended it; None while it runs."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if there is still somebody to take it."""
        if self.is_alive:
            os.kill(self.pid, number)

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end, and return whether it came."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True


def start(
    command: Sequence[str],
    log: Path,
    *,
    environment: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    is_appended: bool = False,
) -> ChildProcess:
    """Start a program; what it prints goes to a file.

    `environment` is added to this process's own. `prefix` is a command that becomes this one, such as
    `nsenter`.
    """
    words = [*prefix, *_bound()]
    if environment:
        words += ["env", *(f"{name}={value}" for name, value in environment.items())]
    words += command
    with log.open("ab" if is_appended else "wb") as output:
        return ChildProcess(
            subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for this process, which then stops the others in order.
                start_new_session=True,
            )
        )


@cache
def _bound() -> tuple[str, ...]:
    return ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()


#: Starts `pyromq` with arguments, a log, an environment and words that stand before the command.
Starter = Callable[[Sequence[str], Path, Mapping[str, str], Sequence[str]], RunningProcess]


def start_pyromq(
    arguments: Sequence[str], log: Path, environment: Mapping[str, str], prefix: Sequence[str]
) -> RunningProcess:
    """Start `pyromq`, which this process runs, too."""
    command = [sys.executable, "-m", "pyromq", *arguments]
    return start(command, log, environment=environment, prefix=prefix)
