"""What clients see of one broker and of two, each on a core of its own: `pyromq up --brokers N`."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from beside.quiet import say, wait_for_quiet
from pyromq.bench.bench_run import run
from pyromq.bench.process import usage_of
from pyromq.bench.workload import LoadKind, Workload

COUNTS = (1, 2)
#: The generator takes its share of the same cores, so loads that need little of it come first.
SHAPES = {
    "batches of 32, 8×4": Workload(
        kind=LoadKind.PRODUCE, topic="cores", connections=8, under_way=4, batch=32, size=1024
    ),
    "64×1": Workload(kind=LoadKind.PRODUCE, topic="cores", connections=64, under_way=1, has_keys=True),
    "64×16": Workload(kind=LoadKind.PRODUCE, topic="cores", connections=64, under_way=16, has_keys=True),
    "64 connections, 20,000/s": Workload(
        kind=LoadKind.PRODUCE, topic="cores", connections=64, under_way=64, rate=20_000.0
    ),
}


def measure_brokers(folder: Path, rounds: int, seconds: float) -> dict[str, Any]:
    """Return the runs of each load with one broker and with two, and their table."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for number in range(rounds):
        for count in COUNTS:
            with _cluster(folder / f"cores-{number}-{count}", count) as hello:
                pids = [broker["pid"] for broker in hello["brokers"]] if count > 1 else [hello["pid"]]
                for name, workload in SHAPES.items():
                    runs.setdefault(f"{name}|{count}", []).append(
                        _one(workload, hello["namesrv"], pids, seconds)
                    )
                    shown = runs[f"{name}|{count}"][-1]
                    say(f"{count} brokers, {name}: {shown['rate']:,.0f}/s, p99 {shown['p99_ms']:.2f} ms")
    return {"runs": runs, "table": _table(runs)}


@contextmanager
def _cluster(folder: Path, count: int) -> Iterator[dict[str, Any]]:
    options = ["up", "--json", "--no-dashboard", "--namesrv-port", "0", "--broker-port", "0"]
    more = ["--brokers", str(count), "--set", "autoCreateOnAll=true"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pyromq", *options, *more, "--data", str(folder)],
        env=os.environ,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        hello = json.loads(process.stdout.readline())
        yield hello | {"pid": hello.get("pid", process.pid)}
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _one(workload: Workload, name_server: str, pids: list[int], seconds: float) -> dict[str, Any]:
    wait_for_quiet(1.0)
    before = sum(usage_of(pid).cpu_s for pid in pids)
    report = run(replace(workload, warm_up_s=0.3, duration_s=seconds), name_server=name_server)
    cpu_s = sum(usage_of(pid).cpu_s for pid in pids) - before
    record = report.as_record()
    record["us"] = 1e6 * cpu_s / max(record["messages_in_all"], 1)
    record["p99_ms"] = (record["latency_us"] or {"p99": 0.0})["p99"] / 1e3
    return record


def _table(runs: dict[str, list[dict[str, Any]]]) -> str:
    """Return a table: for each load and number of brokers the medians."""
    lines = [
        "### One broker and two, on two cores that the generator shares\n\n",
        "| load | brokers | messages/s | p99, ms | CPU of all, µs a message | the generator's cores |\n",
        "| --- | ---: | ---: | ---: | ---: | ---: |\n",
    ]
    for key, records in runs.items():
        name, _, count = key.partition("|")
        rate, p99, cost, share = (
            median(record[figure] for record in records)
            for figure in ("rate", "p99_ms", "us", "generator_share")
        )
        lines.append(f"| {name} | {count} | {rate:,.0f} | {p99:.2f} | {cost:.2f} | {share:.0%} |\n")
    return "".join(lines)
