"""Tasks of Celery that do nothing, through PyroMQ and Redis in turn: tasks a second, and processor time.

python bench/celery_transports.py [--tasks 1000] [--rounds 3] [--pool prefork] [--concurrency 2]

A round sends all tasks with one client while no worker runs, then starts a worker and counts what it does.
The worker writes a byte for each task; its processor time has its start in it. Times of a busy machine mean
nothing by themselves; look at the ratios.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "interop"), str(ROOT / "bench")]

from beside.transports import broker_of_its_own, print_medians, redis_used_s, until, used_s  # noqa: E402

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
    print_medians(found)


if __name__ == "__main__":
    main()
