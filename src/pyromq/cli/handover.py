"""A server without the command line that started it.

The command line and what it imports take 12 MiB, which a server would hold as long as it runs. So a command
that serves, once it has read the settings, lets the process become a new one: with the same id, arguments and
open files, and only the server in it. What to serve comes through a pipe, whose number is in the environment.
"""

import os
import pickle
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyromq.errors import PyroError

#: The number of the pipe, where a server was handed over.
VARIABLE = "PYROMQ_HANDED_OVER"

_PROGRAM = "pyromq"


def serve_alone(run: str, process: object, start: Mapping[str, Any], *, log_level: str) -> None:
    """Serve with a function of `servers` until it ends, in a process that was made new if that is possible.

    `start` has the fields of `servers.Start`, which is not imported here.
    """
    handed = (run, process, start, log_level)
    if os.name == "posix":
        _become_new(pickle.dumps(handed))
    _serve(*handed)


def serve_handed() -> bool:
    """Serve what the process was handed before it was made new, if it was; return whether it was.

    An error ends the process with its status.
    """
    number = os.environ.pop(VARIABLE, None)
    if number is None:
        return False
    with open(int(number), "rb") as pipe:
        handed = pickle.load(pipe)
    try:
        _serve(*handed)
    except (PyroError, OSError, KeyboardInterrupt):
        # Only now: the command line comes back with it.
        from pyromq.cli.main import border

        with border():
            raise
    return True


def _serve(run: str, process: object, start: Mapping[str, Any], log_level: str) -> None:
    from pyromq.cli import serve, servers
    from pyromq.cli import start as first_steps

    first_steps.imported()
    serve.log_to_standard_error(log_level)
    getattr(servers, run)(process, servers.Start(**start))


def _become_new(handed: bytes) -> None:
    """Return only when it is not possible; the server is only larger then."""
    command = _command(sys.orig_argv, sys.argv[1:])
    if command is None:
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with open(writing, "wb", buffering=0) as pipe:
        taken = pipe.write(handed)
    if taken == len(handed):
        os.set_inheritable(reading, True)  # noqa: FBT003
        with suppress(OSError):
            os.execve(sys.executable, command, os.environ | {VARIABLE: str(reading)})
    os.close(reading)


def _command(original: list[str], arguments: list[str]) -> list[str] | None:
    """Return the arguments that start Python with this program again; None when it is a part of another."""
    head = original[: len(original) - len(arguments)]
    if head[-2:] == ["-m", _PROGRAM]:
        return [*head, *arguments]
    if head and Path(head[-1]).name == _PROGRAM:
        # As with the script: nothing is imported from the folder in which it was called.
        return [*head[:-1], "-P", "-m", _PROGRAM, *arguments]
    return None
