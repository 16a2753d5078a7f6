"""What benches share that compare PyroMQ with Redis below the same Python framework."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from contextlib import closing as closing_of
from pathlib import Path

import redis


def until(count: Path, size: int) -> float:
    """Return when so many tasks were done."""
    end = time.perf_counter() + 300
    while not count.exists() or count.stat().st_size < size:
        if time.perf_counter() > end:
            raise TimeoutError(f"fewer than {size} were done in 300 s")
        time.sleep(0.005)
    return time.perf_counter()


def used_s(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def redis_used_s(port: int) -> float:
    """Return the processor time of a Redis server."""
    with closing_of(redis.Redis(port=port)) as client:
        told = client.info("cpu")
    return float(told["used_cpu_user"]) + float(told["used_cpu_sys"])


def broker_of_its_own(closing: ExitStack) -> tuple[str, int]:
    """Start a name server and a broker in a process of their own; return the address and the process's id."""
    folder = Path(closing.enter_context(tempfile.TemporaryDirectory()))
    ready = folder / "ready.json"
    ports = ["--namesrv-port", "0", "--broker-port", "0", "--ready-file", str(ready)]
    process = subprocess.Popen(
        [sys.executable, "-m", "pyromq", "up", *ports],
        env=os.environ | {"XDG_DATA_HOME": str(folder)},
        stdout=subprocess.DEVNULL,
    )
    closing.callback(process.wait, 60)
    closing.callback(process.terminate)
    while not ready.exists():
        time.sleep(0.05)
    return str(json.loads(ready.read_text())["namesrv"]), process.pid


def print_medians(found: Mapping[str, Sequence[tuple[float, ...]]]) -> None:
    """Print a line for each transport: rates and processor times of sending and of doing."""
    print(f"{'':8} {'sent/s':>8} {'µs CPU':>8} {'done/s':>8} {'µs CPU':>8} {'server':>8}")
    for name, rounds in found.items():
        medians = [statistics.median(values) for values in zip(*rounds, strict=True)]
        print(f"{name:8} " + " ".join(f"{value:8.0f}" for value in medians))
