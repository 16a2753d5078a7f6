"""An etcd of the test's own, which can be killed, stopped and started again on its data."""

import asyncio
import base64
import json
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from etcd import program
from harness.ports import free_broker_port

from torture.processes import Running


class Etcd:
    """One member, on free ports of an address."""

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self.folder = folder
        self.host = host
        self.port = free_broker_port()
        self._peer_port = self.port + 1
        self.process: Running | None = None

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"http://{self.host}:{self.port}"

    def start(self) -> None:
        """Start it on its data."""
        peer = f"http://{self.host}:{self._peer_port}"
        # A quick etcd, on a machine that has better things to do.
        options = ["--heartbeat-interval", "100", "--election-timeout", "500", "--logger", "zap"]
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self.process = Running(
                subprocess.Popen(
                    [
                        program(),
                        *("--name", "one", "--data-dir", str(self.folder / "data")),
                        *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
                        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                        *("--initial-cluster", f"one={peer}", *options),
                    ],
                    stdout=log,
                    stderr=log,
                )
            )

    def kill(self) -> None:
        """Kill it."""
        if self.process is not None:
            self.process.signal(signal.SIGCONT)
            self.process.signal(signal.SIGKILL)
            self.process.wait(60)

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
        return (
            (json.loads(base64.b64decode(found[0]["value"])), int(found[0]["mod_revision"]))
            if found
            else None
        )
