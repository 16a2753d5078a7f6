"""Runs on one broker after the other, and what the rest of the machine did meanwhile."""

import mmap
import os
import resource
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from beside.cases import BACKLOG, BACKLOG_TOPIC, Case, fill
from beside.servers import ASYNC, KINDS, PYROMQ, Broker, Stage, awake, first_send, forget_old_files, target_on
from pyromq.bench.bench_run import run_on
from pyromq.bench.crowd import Crowd, run_many
from pyromq.bench.process import usage_of
from pyromq.bench.workload import LoadKind, Workload
from pyromq.errors import PyroError

QUIET_CORES = 0.33
DIRTY_BYTES = 64 * 2**20
#: Left alone when memory is touched: for the servers' own.
MEMORY_LEFT = 6 * 2**30

Run = dict[str, Any]
Runs = dict[str, list[Run]]


@dataclass(frozen=True)
class Pace:
    """How long everything takes, and how much of it."""

    rounds: int
    measured_s: float
    warm_up_s: float
    jvm_warm_up_s: float
    starts: int
    quiet_wait_s: float
    budget_s: float
    touched_bytes: int
    memory_messages: int
    crowd: Crowd


FULL = Pace(
    rounds=5,
    measured_s=2.0,
    warm_up_s=0.5,
    jvm_warm_up_s=20.0,
    starts=3,
    quiet_wait_s=4.0,
    budget_s=740.0,
    touched_bytes=14 * 2**30,
    memory_messages=1_000_000,
    crowd=Crowd(connections=10_000, topics=10_000, queues=8, groups=1_000, rounds=3),
)
QUICK = Pace(
    rounds=1,
    measured_s=1.0,
    warm_up_s=0.3,
    jvm_warm_up_s=8.0,
    starts=1,
    quiet_wait_s=0.6,
    budget_s=120.0,
    touched_bytes=6 * 2**30,
    memory_messages=100_000,
    crowd=Crowd(connections=1_000, topics=10_000, queues=1, groups=100, rounds=1),
)


@dataclass
class Found:
    """All that was measured: runs by case and kind."""

    runs: dict[str, Runs] = field(default_factory=dict)
    starts_s: Runs = field(default_factory=dict)
    memory: dict[str, dict[str, float]] = field(default_factory=dict)
    crowd: Run | None = None


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"  {text}", flush=True)


# The machine -----------------------------------------------------------------------------------------------


def touch_memory(wanted: int) -> None:
    """Have the host give us the pages that the servers' files will need."""
    available = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable")
    )
    size = max(min(wanted, available - MEMORY_LEFT), 0) // 4096 * 4096
    if not size:
        return
    began_at = time.monotonic()
    with mmap.mmap(-1, size) as pages:
        zeros = bytes(2**20)
        for _ in range(size // len(zeros)):
            pages.write(zeros)
    say(f"touched {size / 2**30:.0f} GiB of memory in {time.monotonic() - began_at:.1f} s")


def wait_for_quiet(seconds: float) -> None:
    """Wait, for a while, until others leave the processors alone and the disk has what it was given."""
    deadline = time.monotonic() + seconds
    os.sync()
    while time.monotonic() < deadline:
        busy = busy_s()
        time.sleep(0.2)
        if (busy_s() - busy) / 0.2 <= QUIET_CORES and _dirty_bytes() < DIRTY_BYTES:
            return


def _dirty_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Dirty:", "Writeback:")))


def busy_s() -> float:
    """Return for how many seconds of processor time the machine has worked."""
    # user nice system idle iowait irq softirq …
    ticks = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def own_s() -> float:
    """Return the processor time of this process and of those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def one_run(broker: Broker, workload: Workload, *, quiet_wait_s: float = 0.0) -> Run:
    """Run a workload on a broker; tell what the rest of the machine did meanwhile."""
    target = target_on(broker, workload)
    if quiet_wait_s:
        wait_for_quiet(quiet_wait_s)
    busy, theirs, ours = busy_s(), usage_of(broker.pid).cpu_s, own_s()
    began_at = time.monotonic()
    record = run_on(target, workload, server_pid=broker.pid).as_record()
    wall_s = time.monotonic() - began_at
    others = (busy_s() - busy) - (usage_of(broker.pid).cpu_s - theirs) - (own_s() - ours)
    record["others_cores"] = round(max(others, 0.0) / wall_s, 2)
    for name, table in (("", record["latency_us"]), ("delivery_", record["delivery_us"])):
        record.update({f"{name}{key}": value for key, value in (table or {}).items()})
    forget_old_files(broker)
    return record


# What is measured ------------------------------------------------------------------------------------------


def measure_starts(stage: Stage, pace: Pace) -> Runs:
    """Return how many seconds from the start of a broker to its first acknowledged send."""
    took: Runs = {kind: [] for kind in KINDS}
    for _ in range(pace.starts):
        for kind in KINDS:
            stage.name_server(kind)
            wait_for_quiet(pace.quiet_wait_s)
            began_at, busy, ours = time.monotonic(), busy_s(), own_s()
            broker = stage.broker(kind, ASYNC)
            try:
                first_send(broker)
                seconds = time.monotonic() - began_at
                others = (busy_s() - busy) - usage_of(broker.pid).cpu_s - (own_s() - ours)
                cores = round(max(others, 0.0) / seconds, 2)
                took[kind].append({"seconds": round(seconds, 3), "others_cores": cores})
            finally:
                broker.stop()
            say(f"start to first acknowledged send: {kind} {seconds:.2f} s")
    return took


class Bench:
    """The brokers that stay up, and the runs on them."""

    def __init__(self, stage: Stage, closing: ExitStack, cases: list[Case], pace: Pace) -> None:
        """Start a broker of each kind, and another that syncs if a case wants that."""
        self._cases = cases
        self._pace = pace
        self._brokers: dict[tuple[str, str], Broker] = {}
        for flush in sorted({ASYNC, *(case.flush for case in cases)}):
            for kind in KINDS:
                broker = stage.broker(kind, flush)
                closing.callback(broker.stop)
                first_send(broker)
                self._brokers[kind, flush] = broker

    def measure_memory(self) -> dict[str, dict[str, float]]:
        """Return what each kind's broker needs, idle and after many messages."""
        wait_for_quiet(self._pace.quiet_wait_s)
        count = self._pace.memory_messages
        found = {}
        for kind in KINDS:
            broker = self._brokers[kind, ASYNC]
            idle = broker.private_mib
            record = self._run(broker, fill(count, 128, "memory"))
            found[kind] = {"idle": idle, f"after {count:,} messages": broker.private_mib}
            say(f"memory: {kind} {found[kind]} MiB (sent at {record['rate']:,.0f}/s)")
        return found

    def warm(self) -> None:
        """Fill the backlog that is pulled, and run everything so often that it is warm."""
        for (kind, flush), broker in self._brokers.items():
            mine = [case for case in self._cases if case.flush == flush]
            if any(case.workload.topic == BACKLOG_TOPIC for case in mine):
                self._run(broker, fill(BACKLOG, 1024, BACKLOG_TOPIC, batch=8))
            # The JVM compiles what it has seen for a while; ours needs only its files.
            seconds = 2.0 if kind == PYROMQ else self._pace.jvm_warm_up_s
            refused: dict[str, int] = {}
            for case in mine:
                part_s = max(seconds / len(mine), 0.5)
                record = self._run(broker, replace(case.workload, warm_up_s=0.0, duration_s=part_s))
                for code, number in record["refused"].items():
                    refused[code] = refused.get(code, 0) + number
            say(f"warm: {kind} {flush}{f', meanwhile refused with code: {refused}' if refused else ''}")

    def measure_cases(self, ends_at: float) -> dict[str, Runs]:
        """Return the runs of each case and kind, taken in turn."""
        runs: dict[str, Runs] = {case.key: {kind: [] for kind in KINDS} for case in self._cases}
        for number in range(self._pace.rounds):
            if number and time.monotonic() > ends_at:
                say("the time is over: fewer rounds than planned")
                break
            for case in self._cases:
                # Whoever comes second finds the machine as the first left it: take turns in that too.
                turn = number % len(KINDS)
                for kind in (*KINDS[turn:], *KINDS[:turn]):
                    self._measure(number, case, kind, runs[case.key][kind])
        return runs

    def _measure(self, number: int, case: Case, kind: str, into: list[Run]) -> None:
        pace = self._pace
        workload = replace(case.workload, warm_up_s=pace.warm_up_s, duration_s=pace.measured_s)
        record = self._run(self._brokers[kind, case.flush], workload, quiet_wait_s=pace.quiet_wait_s)
        into.append(record)
        figures = ", ".join(
            f"{figure.write(record[figure.name])} {figure.label}" for figure in case.figures[:2]
        )
        refused = f", refused {record['refused']}" if record["refused"] else ""
        say(
            f"{number + 1}/{pace.rounds} {case.key:9} {kind:10} {figures}{refused}"
            f" (others {record['others_cores']:.2f} cores, generator {record['generator_share']:.0%})"
        )

    def _run(self, broker: Broker, workload: Workload, *, quiet_wait_s: float = 0.0) -> Run:
        with awake(broker, self._brokers.values()):
            try:
                return one_run(broker, workload, quiet_wait_s=quiet_wait_s)
            except PyroError as error:
                said = broker.output.read_text()[-2000:]
                raise SystemExit(f"{broker.kind} broker: {error}\n{said}") from error


def measure_topics(stage: Stage, pace: Pace) -> Run:
    """Return what sends to many topics come to, on a broker of ours that has nothing else to do."""
    broker = stage.broker(PYROMQ, ASYNC)
    try:
        first_send(broker)
        workload = Workload(
            kind=LoadKind.PRODUCE,
            topic="alone",
            connections=16,
            under_way=64,
            size=128,
            warm_up_s=pace.warm_up_s,
            duration_s=pace.measured_s,
        )
        report = run_many(
            pace.crowd, workload, name_server=broker.name_server, server_pid=broker.pid, say=say
        )
        record = report.as_record()
        say(
            f"{record['rate_alone']:,.0f}/s before, {record['rate_to_one']:,.0f}/s to one topic,"
            f" {record['rate_to_all']:,.0f}/s to all; {record['bytes_per_connection']:,} bytes a connection,"
            f" {record['bytes_per_queue']:,} a queue"
        )
        return record
    finally:
        broker.stop()


def quiet_runs(records: list[Run]) -> list[Run]:
    """Return the runs during which others left the machine alone."""
    return [record for record in records if record["others_cores"] <= QUIET_CORES]


def middle(records: list[Run], figure: str) -> float | None:
    """Return the median of the quiet runs, or of all when fewer than two were quiet."""
    quiet = quiet_runs(records)
    chosen = quiet if len(quiet) >= min(2, len(records)) else records
    return median(float(record.get(figure) or 0.0) for record in chosen) if chosen else None
