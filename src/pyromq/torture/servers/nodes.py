"""A server of a run: its process, its data, and what was done to it."""

import asyncio
import re
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyromq.torture.servers.node_disk import Disk
from pyromq.torture.servers.process_clock import ProcessClock, forget
from pyromq.torture.servers.processes import RunningProcess, Starter

#: Generous, because a machine that is busy with other things is no fault of the server's.
STOP_S_MAX = 60.0
_NO_ROOM = "No space left on device"
#: All that has no place in a server's log, whatever is done to its surroundings.
ALARMS = ("Traceback", "CRITICAL")


@dataclass
class ServerNode:
    """A broker, or a name server."""

    number: int
    #: What it is called: `broker-a`, its first replica `broker-a-1`.
    title: str
    group: str
    #: What the process prints at each start, and what it says when it is ready.
    folder: Path
    #: What it keeps, as the process finds it.
    data: Path
    arguments: list[str]
    #: The settings among the arguments that say how files are laid out.
    layout: list[str]
    start_process: Starter
    prefix: Sequence[str] = ()
    disk: Disk | None = None
    clock: ProcessClock | None = None
    process: RunningProcess | None = None
    starts: int = 0
    is_stopped: bool = False
    complaints: list[str] = field(default_factory=list)
    _is_wanted: bool = False

    @property
    def is_up(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.is_alive

    @property
    def store(self) -> Path:
        """The folder with its log, as this process finds it."""
        data = self.data if self.disk is None else self.disk.outside
        return data / self.group

    @property
    def is_ready(self) -> bool:
        """Whether it said since its start that it serves."""
        return (self.folder / "ready.json").exists()

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self.is_up:
            return
        self.look_after()
        self.starts += 1
        self._is_wanted, self.is_stopped = True, False
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        self.process = self.start_process(
            [*self.arguments, "--ready-file", str(ready)],
            self.folder / f"{self.starts}.log",
            {} if self.clock is None else self.clock.environment(),
            [*self.prefix, *(() if self.disk is None else self.disk.prefix)],
        )

    async def kill(self) -> None:
        """Kill the process, whatever it is doing."""
        await self._end(signal.SIGKILL)

    async def terminate(self) -> None:
        """Ask the process to stop, and wait until it has."""
        await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> None:
        process = self.process
        if process is None or not process.is_alive:
            return
        self._is_wanted = self.is_stopped = False
        process.signal(number)
        process.signal(signal.SIGCONT)
        if not await asyncio.to_thread(process.wait, STOP_S_MAX):
            self.complaints.append(f"{self.title} did not end within {STOP_S_MAX:.0f} s of {number.name}")
            process.signal(signal.SIGKILL)
            await asyncio.to_thread(process.wait, STOP_S_MAX)
        forget(process.pid)

    def stop(self) -> None:
        """Stop the process where it is, without its noticing."""
        if self.process is not None:
            self.is_stopped = True
            self.process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a stopped process go on."""
        self.is_stopped = False
        if self.process is not None:
            self.process.signal(signal.SIGCONT)

    def look_after(self) -> None:
        """Complain about a process that ended by itself."""
        if self._is_wanted and self.process is not None and not self.process.is_alive:
            self._is_wanted = False
            log = (self.folder / f"{self.starts}.log").read_text(errors="replace")[-1500:]
            if "pyromq: " in log and _NO_ROOM in log.splitlines()[-1]:
                # Not a byte can be written, so nothing can begin here; it is said, and started again later.
                return
            self.complaints.append(
                f"{self.title} ended by itself with status {self.process.exit_code}: {log}"
            )

    def errors(self) -> Counter[str]:
        """Return what the logs call errors, without numbers, and how often."""
        found: Counter[str] = Counter()
        for log in sorted(self.folder.glob("*.log")):
            for line in log.read_text(errors="replace").splitlines():
                _, is_error, what = line.partition(" ERROR ")
                if is_error:
                    found[re.sub(r"[\d.:]*\d", "N", what.strip())[:160]] += 1
        return found

    def alarms(self) -> list[str]:
        """Return what the logs say that they must not say."""
        found = []
        for log in sorted(self.folder.glob("*.log")):
            text = log.read_text(errors="replace")
            for alarm in ALARMS:
                if alarm in text:
                    found.append(f"{log}: {_excerpt(text, text.index(alarm))}")
        return found


def _excerpt(text: str, at: int) -> str:
    """Return a trace from the line before it to its end."""
    lines = text[text.rfind("\n", 0, max(0, text.rfind("\n", 0, at))) + 1 :].splitlines()
    ends = next((number for number, line in enumerate(lines[2:], 2) if not line.startswith(" ")), len(lines))
    return "\n".join(lines[: ends + 1])
