"""An etcd of the run's own, which can be killed, stopped and started again on its data."""

import asyncio
import base64
import json
import shutil
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from pyromq.torture.servers.ports import free_broker_port
from pyromq.torture.servers.processes import RunningProcess, start

HOW_TO_GET_IT = "apt-get install etcd-server, or --etcd PROGRAM"


def find_program(asked: str) -> str | None:
    """Return the program for `auto` or a path; None for `none`, or where there is none."""
    if asked == "none":
        return None
    return shutil.which("etcd" if asked == "auto" else asked)


class EtcdProcess:
    """One member, on free ports of an address."""

    def __init__(self, program: str, folder: Path, host: str = "127.0.0.1") -> None:
        self._program = program
        self.folder = folder
        self.host = host
        self.port = free_broker_port()
        self._peer_port = self.port + 1
        self.process: RunningProcess | None = None

    @property
    def url(self) -> str:
        """The address for clients."""
        return f"http://{self.host}:{self.port}"

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self.process is not None and self.process.is_alive

    def start(self) -> None:
        """Start it on its data, unless it runs."""
        if self.is_up:
            return
        peer = f"http://{self.host}:{self._peer_port}"
        # A quick etcd, on a machine that has better things to do.
        options = ["--heartbeat-interval", "100", "--election-timeout", "500", "--logger", "zap"]
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [
            self._program,
            *("--name", "one", "--data-dir", str(self.folder / "data"), "--log-level", "warn"),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"one={peer}", *options),
        ]
        self.process = start(command, self.folder / "log", is_appended=True)

    def kill(self) -> None:
        """Kill it."""
        if self.process is not None:
            self.process.signal(signal.SIGKILL)
            self.process.signal(signal.SIGCONT)
            self.process.wait(60)

    def pause(self) -> None:
        """Stop it where it is."""
        if self.process is not None:
            self.process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        if self.process is not None:
            self.process.signal(signal.SIGCONT)

    async def read(self, key: str) -> Any:
        """Return the JSON value of a key; None where there is none, or nobody answers."""
        found = await asyncio.to_thread(self._read, key, 0)
        return found[0] if found else None

    async def read_past(self, key: str) -> list[Any]:
        """Return every value that a key ever had, the youngest first."""
        values: list[Any] = []
        revision = 0
        while found := await asyncio.to_thread(self._read, key, revision):
            value, changed_at = found
            values.append(value)
            if changed_at <= 1:
                break
            revision = changed_at - 1
        return values

    def _read(self, key: str, revision: int) -> tuple[Any, int] | None:
        """Return the value at a revision, or now (0), and the revision that made it."""
        question = {"key": base64.b64encode(key.encode()).decode(), "revision": str(revision)}
        request = urllib.request.Request(f"{self.url}/v3/kv/range", json.dumps(question).encode())
        try:
            with urllib.request.urlopen(request, timeout=2) as answer:
                found = json.load(answer).get("kvs")
        except (OSError, urllib.error.URLError, ValueError):
            return None
        if not found:
            return None
        return json.loads(base64.b64decode(found[0]["value"])), int(found[0]["mod_revision"])
