"""Tasks of Celery that do nothing, through PyroMQ and Redis in turn: tasks a second, and processor time.

python bench/celery_transports.py [--tasks 1000] [--rounds 3] [--pool prefork] [--concurrency 2]

A round sends all tasks with one client while no worker runs, then starts a worker and counts what it does.
The worker writes a byte for each task; its processor time has its start in it. Times of a busy machine mean
nothing by themselves; look at the ratios.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from contextlib import closing as closing_of
from functools import partial
from pathlib import Path
from typing import NamedTuple

import redis

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "interop")]

APPLICATION = """
import os
from celery import Celery
app = Celery("bench", broker=os.environ["BENCH_BROKER"])
app.conf.update(
    broker_transport=os.environ["BENCH_TRANSPORT"] or None, task_ignore_result=True, worker_log_color=False,
    broker_connection_retry_on_startup=True,
)
COUNT = os.open(os.environ["BENCH_COUNT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
@app.task(name="nothing", acks_late=True)
def nothing():
    os.write(COUNT, b".")
"""
SEND = """
import sys, time
from nothing_app import app, nothing
nothing.delay()
begin, cpu = time.perf_counter(), time.process_time()
for _ in range(int(sys.argv[1]) - 1):
    nothing.delay()
print(time.perf_counter() - begin, time.process_time() - cpu)
app.producer_pool.force_close_all()
"""


class Measured(NamedTuple):
    """One round of one transport: a second, and microseconds of processor time for a task."""

    sent: float
    send_us: float
    done: float
    worker_us: float
    server_us: float


def measure(url: str, transport: str, server_s: Callable[[], float], options: argparse.Namespace) -> Measured:
    """Send and do all tasks once; `server_s` says how much processor time the server used so far."""
    server_before_s = server_s()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "nothing_app.py").write_text(APPLICATION)
        count = folder / "count"
        environment = os.environ | {
            "BENCH_BROKER": url,
            "BENCH_TRANSPORT": transport,
            "BENCH_COUNT": str(count),
        }
        sending = subprocess.run(
            [sys.executable, "-c", SEND, str(options.tasks)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        send_s, send_cpu_s = map(float, sending.stdout.split())
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        arguments = ["worker", "-P", options.pool, "-c", str(options.concurrency), "--without-heartbeat"]
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "nothing_app", "-q", *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            began = until(count, options.tasks // 10)
            ended = until(count, options.tasks)
        finally:
            worker.terminate()
            worker.wait(60)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        rest = options.tasks - options.tasks // 10
        each_us = 1e6 / options.tasks
        return Measured(
            sent=options.tasks / send_s,
            send_us=send_cpu_s * each_us,
            done=rest / (ended - began),
            worker_us=cpu_s * each_us,
            server_us=(server_s() - server_before_s) * each_us,
        )


def until(count: Path, size: int) -> float:
    """Return when so many tasks were done."""
    end = time.perf_counter() + 300
    while not count.exists() or count.stat().st_size < size:
        if time.perf_counter() > end:
            raise TimeoutError(f"fewer than {size} tasks were done in 300 s")
        time.sleep(0.005)
    return time.perf_counter()


def main() -> None:
    """Run both transports in turn, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pool", default="prefork")
    parser.add_argument("--concurrency", type=int, default=2)
    options = parser.parse_args()
    from redis_server import running_redis

    with ExitStack() as closing:
        port = closing.enter_context(running_redis())
        address, pid = broker_of_its_own(closing)
        both = {
            "pyromq": (f"pyromq://{address}", "pyromq.kombu:Transport", partial(used_s, pid)),
            "redis": (f"redis://127.0.0.1:{port}/0", "", partial(redis_used_s, port)),
        }
        found: dict[str, list[Measured]] = {name: [] for name in both}
        for _ in range(options.rounds):
            for name, (url, transport, server_s) in both.items():
                found[name].append(measure(url, transport, server_s, options))
    print(f"{options.tasks} tasks, {options.rounds} rounds, {options.pool} -c {options.concurrency}; medians")
    print(f"{'':8} {'sent/s':>8} {'µs CPU':>8} {'done/s':>8} {'µs CPU':>8} {'server':>8}")
    for name, rounds in found.items():
        medians = [statistics.median(values) for values in zip(*rounds, strict=True)]
        print(f"{name:8} " + " ".join(f"{value:8.0f}" for value in medians))


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


if __name__ == "__main__":
    main()
