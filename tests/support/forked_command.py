"""The program `pyromq` in processes of its own that have imported it already.

A fork server imports the program once, and forks for each start. What runs is what the command runs, in a
process that can be killed like any other; only the half second of imports is gone, which a test that starts a
broker a hundred times would spend on nothing.
"""

import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

#: What a broker imports; one that is not there is passed over.
_PRELOADED = [
    "__main__",
    "forked_command",
    "pyromq.cli.program",
    "pyromq.cli.servers.server_commands",
    "pyromq.cli.servers.serve",
    "pyromq.cli.servers.broker_servers",
    "uvloop",
]
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(_PRELOADED)


def start_pyromq(arguments: Sequence[str], log: Path) -> ForkServerProcess:
    """Start `pyromq` with arguments; what it prints goes to a file."""
    process = _SERVER.Process(target=_run, args=(list(arguments), log), daemon=True)
    process.start()
    return process


def _run(arguments: list[str], log: Path) -> None:
    from pyromq.cli.program import main

    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(file, sys.stdout.fileno())
    os.dup2(file, sys.stderr.fileno())
    sys.argv = ["pyromq", *arguments]
    main()
