"""Run servers until a signal comes.

A first SIGTERM or SIGINT stops everything in order, and the program ends with status 0. A second one is for
those who cannot wait: it ends the process as it would any other.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from pyromq.cli import output

#: Starts servers, leaves their `close` on the stack, says hello, and returns what the ready file holds.
Start = Callable[[AsyncExitStack], Awaitable[Mapping[str, Any]]]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_STDIN_BYTES = 4096


def log_to_standard_error(level: str) -> None:
    """Set the program's logging up."""
    logging.basicConfig(
        stream=sys.stderr,
        level=level.upper(),
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
    )


async def serve(start: Start, ready_file: Path | None, *, until_stdin_ends: bool = False) -> None:
    """Start, wait for a signal, and close what was started, the last first.

    The end of standard input may count as one: it comes when the process at its other end is gone.
    """
    output.outlive_reader()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if until_stdin_ends:
        loop.add_reader(sys.stdin.fileno(), _on_stdin, loop, stop)
    for number in _SIGNALS:
        loop.add_signal_handler(number, _on_signal, loop, stop)
    async with AsyncExitStack() as closing:
        hello = await start(closing)
        if ready_file is not None:
            closing.callback(ready_file.unlink, missing_ok=True)
            _write_whole(ready_file, hello)
        await stop.wait()


def _on_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), _STDIN_BYTES):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()


def _on_signal(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    stop.set()
    for number in _SIGNALS:
        loop.remove_signal_handler(number)


def _write_whole(path: Path, record: Mapping[str, Any]) -> None:
    """Write a file so that whoever sees it sees all of it."""
    # Only now: few ask for such a file.
    import json

    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(record) + "\n")
    beside.replace(path)
