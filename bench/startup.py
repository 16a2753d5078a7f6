"""How long from the command `pyromq up` to the first acknowledged send, and how much memory it takes.

The send goes over a plain socket, so that no client's start is counted. Prints medians of several runs and
asserts nothing: the machine decides.
"""

import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyromq.codes import RequestCode, ResponseCode
from pyromq.wire.command import Command, CommandReader, encode
from pyromq.wire.header import write_header
from pyromq.wire.headers.send_headers import SendMessage

RUNS = 5
PYROMQ = Path(sys.executable).with_name("pyromq")


@dataclass(frozen=True, slots=True)
class Run:
    """What one start took."""

    ready_s: float
    first_send_s: float
    rss_mib: float
    stop_s: float


def main() -> None:
    """Run and print."""
    runs = [measure() for _ in range(RUNS)]
    print(f"pyromq up, median of {RUNS} runs")
    print(f"  ready                    {median(run.ready_s for run in runs):6.2f} s")
    print(f"  first acknowledged send  {median(run.first_send_s for run in runs):6.2f} s   (aim: 2 s)")
    print(f"  resident memory          {median(run.rss_mib for run in runs):6.1f} MiB (aim: 120 MB)")
    print(f"  stop after SIGTERM       {median(run.stop_s for run in runs):6.2f} s")


def measure() -> Run:
    """Start it on an empty folder, send, look at its memory, stop it."""
    with tempfile.TemporaryDirectory() as folder:
        began_at = time.monotonic()
        server = subprocess.Popen(
            [PYROMQ, "up", "--json", "--data", folder, "--namesrv-port", "0", "--broker-port", "0"],
            stdout=subprocess.PIPE,
        )
        assert server.stdout is not None
        try:
            hello = json.loads(server.stdout.readline())
            ready_s = time.monotonic() - began_at
            send(hello["broker"])
            first_send_s = time.monotonic() - began_at
            rss_mib = resident_mib(server.pid)
            stop_at = time.monotonic()
            server.send_signal(signal.SIGTERM)
            server.wait()
        finally:
            server.kill()
            server.stdout.close()
        return Run(ready_s, first_send_s, rss_mib, time.monotonic() - stop_at)


def send(address: str) -> None:
    """Send one message and wait for its answer."""
    host, _, port = address.rpartition(":")
    header = SendMessage(
        producer_group="bench",
        topic="bench",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=int(time.time() * 1_000),
        flag=0,
    )
    command = Command(code=RequestCode.SEND_MESSAGE, opaque=1, ext=write_header(header), body=b"x" * 100)
    with socket.create_connection((host, int(port))) as link:
        link.sendall(encode(command))
        reader = CommandReader()
        while (answer := reader.next_command()) is None:
            reader.feed(link.recv(65_536))
    assert answer.code == ResponseCode.SUCCESS, answer


def resident_mib(pid: int) -> float:
    """Return a process's resident memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4_096 / 2**20


if __name__ == "__main__":
    main()
