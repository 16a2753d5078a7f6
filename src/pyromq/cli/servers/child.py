"""Processes that live no longer than this one: brokers of a local cluster, workers of a service.

Each is `pyromq` with some command. It is ready when it prints its hello (`--json`). Its standard error is
this process's, with its title before each line, and its standard input ends with this process, which ends it.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

from pyromq.cli import output
from pyromq.errors import PyroError

#: Seconds that it has to stop before it is killed.
STOP_S_MAX: Final = 60.0


class ChildFailed(PyroError):
    """A process ended before it was ready."""


class Child:
    """One of these processes."""

    def __init__(self, title: str, arguments: Sequence[str], *, stop_s_max: float = STOP_S_MAX) -> None:
        self.title = title
        self.arguments = tuple(arguments)
        #: What it said when it was ready.
        self.hello: dict[str, Any] = {}
        #: The status that it ended with, if it has.
        self.status: int | None = None
        self._stop_s_max = stop_s_max
        self._process: asyncio.subprocess.Process | None = None
        self._watching: list[asyncio.Task[None]] = []
        self._last_words = ""
        self._is_stopping = False

    async def start(self) -> None:
        """Return when it is ready; raise ChildFailed with its last words when it ends before."""
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "pyromq",
            *self.arguments,
            "--json",
            "--until-stdin-ends",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C is for this process, which then stops them in order.
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        relay = asyncio.create_task(self._relay(process.stderr))
        line = await process.stdout.readline()
        if not line:
            await relay
            self.status = await process.wait()
            raise ChildFailed(f"{self.title} did not start: {self._last_words or 'it said nothing'}")
        self.hello = json.loads(line)
        self._watching = [relay, asyncio.create_task(self._watch(process))]

    async def stop(self) -> None:
        """Stop it in order; if it does not within its time, kill it."""
        process = self._process
        if process is None:
            return
        self._is_stopping = True
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(self._stop_s_max):
                    await process.wait()
            except TimeoutError:
                output.warn(f"{self.title} does not stop within {self._stop_s_max:.0f} s: it is killed")
                process.kill()
        await process.wait()
        if self._watching:
            await asyncio.wait(self._watching)

    def ended(self, how: str) -> None:
        """Act when it ended by itself after it had been ready; `how` says which and how."""

    async def _relay(self, lines: asyncio.StreamReader) -> None:
        while line := await lines.readline():
            self._last_words = line.decode("utf-8", "replace").rstrip()
            sys.stderr.write(f"{self.title}: {self._last_words}\n")
            sys.stderr.flush()

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        self.status = await process.wait()
        if not self._is_stopping:
            self.ended(f"{self.title} (pid {process.pid}) {_how_it_ended(self.status)}")


async def start_all(children: Sequence[Child], closing: AsyncExitStack) -> None:
    """Start processes side by side, and have them stopped when the stack is closed."""

    async def stop_all() -> None:
        await asyncio.gather(*(child.stop() for child in children))

    closing.push_async_callback(stop_all)
    started = await asyncio.gather(*(child.start() for child in children), return_exceptions=True)
    for failure in started:
        if failure is not None:
            raise failure


def _how_it_ended(status: int) -> str:
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
