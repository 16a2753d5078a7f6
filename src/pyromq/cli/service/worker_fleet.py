"""Several workers, or workers that are started anew when a file changes: a process each, watched by this one.

A worker that ends by itself is started again, after a pause that doubles as long as it keeps ending. All stop
when this process is told to: each takes no further messages and ends the handlers that run.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final

from pyromq.cli import output
from pyromq.cli.servers.child import Child, ChildFailed, start_all
from pyromq.cli.servers.serve import serve
from pyromq.cli.service.app_worker import RunOptions, greet
from pyromq.net.loop import run as run_loop

log = logging.getLogger("pyromq.app")

PAUSE_S: Final = 1.0
PAUSE_S_MAX: Final = 30.0
#: A worker that ran for so long has recovered: its next pause is the first one again.
RECOVERED_S: Final = 60.0
#: Seconds between two looks at the files.
LOOK_S: Final = 0.5
#: Beyond the handlers' own time: for clients to say goodbye.
FAREWELL_S: Final = 10.0


def run_workers(service: RunOptions) -> None:
    """Run the workers until a signal comes."""

    async def begin(closing: AsyncExitStack) -> Mapping[str, Any]:
        fleet = Fleet(service)
        await fleet.start(closing)
        pids = [worker.hello.get("pid") for worker in fleet.workers]
        hello = {"application": service.target, "handlers": [], **fleet.hello, "workers": pids}
        if service.is_json:
            output.say_json(hello)
        else:
            greet(hello, workers=service.workers)
        return hello

    run_loop(serve(begin, service.ready_file, until_stdin_ends=service.until_stdin_ends))


class WorkerProcess(Child):
    """One worker's process."""

    def __init__(self, service: RunOptions, number: int) -> None:
        super().__init__(
            f"worker {number + 1}", _arguments(service, number), stop_s_max=service.grace_s + FAREWELL_S
        )
        self.started_at = time.monotonic()
        self.has_ended = asyncio.Event()

    def ended(self, how: str) -> None:
        """Have it started again."""
        output.warn(f"{how}; it is started again")
        self.has_ended.set()


class Fleet:
    """The workers of a service."""

    def __init__(self, service: RunOptions) -> None:
        self._service = service
        self.workers = [WorkerProcess(service, number) for number in range(service.workers)]
        #: One change of the workers at a time: a restart, a reload, the stop.
        self._changing = asyncio.Lock()

    @property
    def hello(self) -> dict[str, Any]:
        """The facts that a worker told when it was ready."""
        return next((worker.hello for worker in self.workers if worker.hello), {})

    async def start(self, closing: AsyncExitStack) -> None:
        """Start all workers; one that does not start at first ends the command, for a reload is waited."""
        closing.push_async_callback(self._stop_all)
        try:
            async with AsyncExitStack() as starting:
                await start_all(self.workers, starting)
                starting.pop_all()
        except ChildFailed:
            if not self._service.is_reloading:
                raise
        tasks = [asyncio.create_task(self._watch(number)) for number in range(len(self.workers))]
        if self._service.is_reloading:
            tasks.append(asyncio.create_task(self._reload()))
        closing.push_async_callback(_cancel, tasks)

    async def _watch(self, number: int) -> None:
        """Start a worker again whenever it ended by itself."""
        pause_s = PAUSE_S
        while True:
            worker = self.workers[number]
            await worker.has_ended.wait()
            if time.monotonic() - worker.started_at > RECOVERED_S:
                pause_s = PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
            async with self._changing:
                if self.workers[number] is worker:
                    await self._replace(number)

    async def _replace(self, number: int) -> None:
        worker = self.workers[number] = WorkerProcess(self._service, number)
        try:
            await worker.start()
        except ChildFailed as error:
            output.warn(f"{error}")
            if not self._service.is_reloading:
                worker.has_ended.set()

    async def _reload(self) -> None:
        """Start all workers anew whenever a file changed."""
        folders = self._service.reload_folders or (Path.cwd(),)
        seen = await asyncio.to_thread(_stamps, folders)
        while True:
            await asyncio.sleep(LOOK_S)
            now = await asyncio.to_thread(_stamps, folders)
            changed = {path for path in seen.keys() | now.keys() if seen.get(path) != now.get(path)}
            if not changed:
                continue
            seen = now
            output.say(f"{min(changed)} changed: the workers are started anew")
            async with self._changing:
                await asyncio.gather(*(worker.stop() for worker in self.workers))
                await asyncio.gather(*(self._replace(number) for number in range(len(self.workers))))

    async def _stop_all(self) -> None:
        async with self._changing:
            await asyncio.gather(*(worker.stop() for worker in self.workers))


async def _cancel(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task


def _arguments(service: RunOptions, number: int) -> list[str]:
    """Return what `pyromq` is told to become a worker."""
    arguments = ["run", service.target, "--grace", f"{service.grace_s:g}", "--log-level", service.log_level]
    if service.metrics_port is not None:
        port = service.metrics_port and service.metrics_port + number
        arguments += ["--metrics-port", str(port), "--metrics-host", service.metrics_host]
    return arguments


def _stamps(folders: tuple[Path, ...]) -> dict[Path, int]:
    """Return when each Python file below the folders was written last."""
    stamps: dict[Path, int] = {}
    for folder in folders:
        for path in folder.rglob("*.py"):
            # A file may go away between the look and the question.
            with suppress(OSError):
                stamps[path] = path.stat().st_mtime_ns
    return stamps
