"""An etcd of the test's own, on free ports of the loopback address, with its data in the test's folder.

The program is the one on the path. Where there is none, Debian's package is fetched and unpacked into
.cache, as `apt-get install etcd-server` would, without installing anything; without that the test fails.
"""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from debian_packages import unpacked
from harness.ports import free_broker_port

from pyromq.testing.waiting import eventually


class EtcdServer:
    """One member. It can be killed, stopped for a while, and started again on its data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # It comes back at these.
        self.port = free_broker_port()
        self._peer_port = self.port + 1
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where clients find it, as `--failover` takes it."""
        return f"etcd://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and return when it answers."""
        client, peer = (f"http://127.0.0.1:{port}" for port in (self.port, self._peer_port))
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    program(),
                    *("--data-dir", str(self._folder / "data"), "--logger", "zap", "--log-level", "warn"),
                    *("--listen-client-urls", client, "--advertise-client-urls", client),
                    *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                    *("--initial-cluster", f"default={peer}"),
                ],
                stdout=log,
                stderr=log,
            )
        eventually(self._answers, 60, what="etcd answers")

    def kill(self) -> None:
        """Kill it; its data stays."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Let it stand still: connections are taken and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.send_signal(signal.SIGCONT)
            self._process.wait(60)
            self._process = None

    def _answers(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/health", timeout=1) as answer:
                return b"true" in answer.read()
        except (OSError, URLError):
            return False


@contextmanager
def running_etcd(folder: Path) -> Iterator[EtcdServer]:
    """Run one for the block."""
    server = EtcdServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def program() -> str:
    """Return the path of etcd."""
    found = shutil.which("etcd")
    if found is not None:
        return found
    fetched = unpacked("etcd", ["etcd-server"]) / "usr" / "bin" / "etcd"
    if not fetched.exists():
        pytest.fail(f"{fetched} is not there: remove .cache/etcd, and it is fetched again")
    return str(fetched)
