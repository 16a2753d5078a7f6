"""A client program under test: commands on its standard input, JSON lines on its standard output."""

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

Event = dict[str, Any]

COMMAND_TIMEOUT_S = 60


class Program:
    """One driver of a real client. `events` grows while it runs, in the order in which it printed them."""

    def __init__(self, command: Sequence[str], *, folder: Path, env: Mapping[str, str]) -> None:
        self.events: list[Event] = []
        self._news = threading.Condition()
        self._errors = folder / "program.err"
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._commands: IO[str] = self._process.stdin
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()
        self.can: frozenset[str] = frozenset(self._wait_for("ready", 0)["can"])

    def do(self, *words: object) -> list[Event]:
        """Give a command, wait until it is done, and return the events since."""
        start = len(self.events)
        self._commands.write(" ".join(map(str, words)) + "\n")
        self._commands.flush()
        self._wait_for("done", start)
        return self.events[start:]

    def refused(self, *words: object) -> str | None:
        """Give a command that may fail; return what the program says of the failure, or nothing."""
        start = len(self.events)
        self._commands.write(" ".join(map(str, words)) + "\n")
        self._commands.flush()
        event = self._next(start, "done")
        assert event["event"] != "ended", self.complaint()
        return str(event["error"]) if event["event"] == "failed" else None

    def of(self, kind: str) -> list[Event]:
        """Return the events of one kind so far."""
        with self._news:
            return [event for event in self.events if event["event"] == kind]

    def quit(self) -> int:
        """Let the program shut its client down and end; return its exit status."""
        start = len(self.events)
        self._commands.write("quit\n")
        self._commands.flush()
        self._wait_for("stopped", start)
        return self._process.wait(COMMAND_TIMEOUT_S)

    def close(self) -> None:
        """End the process, however the test ended."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        self._commands.close()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def complaint(self) -> str:
        """Say what the program's standard error holds, for a failed test."""
        return self._errors.read_text(errors="replace")[-4000:]

    def _read(self, output: IO[str]) -> None:
        for line in output:
            if not line.startswith("{"):
                continue  # a log line of the client library
            with self._news:
                self.events.append(json.loads(line))
                self._news.notify_all()
        with self._news:
            self.events.append({"event": "ended"})
            self._news.notify_all()

    def _wait_for(self, kind: str, start: int) -> Event:
        event = self._next(start, kind)
        assert event["event"] == kind, f"{event}: {self.complaint()}"
        return event

    def _next(self, start: int, kind: str, patience_s: float = COMMAND_TIMEOUT_S) -> Event:
        """Wait for an event of this kind, or for the end of the command or of the program."""

        def arrived() -> Event | None:
            return next(
                (one for one in self.events[start:] if one["event"] in (kind, "failed", "ended")), None
            )

        with self._news:
            event = self._news.wait_for(arrived, patience_s)
        assert event is not None, f"no {kind} within {patience_s} s: {self.complaint()}"
        return event
