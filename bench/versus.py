"""PyroMQ beside Apache's broker on this machine: same settings, same generator, taken in turn.

    .venv/bin/python bench/versus.py          # under 6 minutes; writes bench/results, docs/performance.md
    .venv/bin/python bench/versus.py --quick  # under 2 minutes; writes bench/results only

Apache's servers are 4.9.7's on 4.9.8's libraries (decision 0008), fetched by Maven. All servers start once
and stand idle while another is measured. Each case is run on one broker and then on the other, round after
round; the figure is the median of the rounds. Before each run a quiet moment is waited for, though not long.
What other processes used meanwhile is written down with each run, and rounds in which it was more than a
third of a core are left out when at least two others remain; if not, the line is marked with †.

The first touch of a page of memory is slow on a virtual machine, for whoever happens to touch it: so as
much memory as the run will fill is touched first.
"""

import argparse
import json
import mmap
import os
import platform
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/interop"))

from harness.servers import (  # noqa: E402  the interop tests know how to fetch and start Apache's servers
    apache_home,
    broker_file,
    free_broker_port,
)
from harness.toolchains import Unavailable, java_classpath, tool  # noqa: E402

from pyromq.bench.frames import OPAQUE_FIRST, Queue, answers, key_prefix, send_template  # noqa: E402
from pyromq.bench.process import usage_of  # noqa: E402
from pyromq.bench.run import run  # noqa: E402
from pyromq.bench.slots import Templates  # noqa: E402
from pyromq.bench.workload import Kind, Workload  # noqa: E402
from pyromq.errors import PyroError  # noqa: E402
from pyromq.testing.waiting import eventually  # noqa: E402

APACHE, PYROMQ = "apache", "pyromq"
KINDS = (APACHE, PYROMQ)
JVM = ["-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC"]
START_TIMEOUT_S = 60.0
BACKLOG = 100_000
BACKLOG_TOPIC = "backlog"
QUIET_CORES = 0.33
SHARED = {"mappedFileSizeCommitLog": 2**30, "mappedFileSizeConsumeQueue": 6_000_000}
TOUCHED_BYTES = 6 * 2**30
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "performance.md"
MARKS = ("<!-- versus: begin -->\n", "<!-- versus: end -->\n")


@dataclass(frozen=True)
class Pace:
    """How long everything takes."""

    rounds: int
    measured_s: float
    warm_up_s: float
    jvm_warm_up_s: float
    starts: int
    quiet_wait_s: float
    budget_s: float


FULL = Pace(
    rounds=3, measured_s=2.0, warm_up_s=0.5, jvm_warm_up_s=12.0, starts=3, quiet_wait_s=4.0, budget_s=320.0
)
QUICK = Pace(
    rounds=1, measured_s=1.0, warm_up_s=0.3, jvm_warm_up_s=10.0, starts=1, quiet_wait_s=0.6, budget_s=100.0
)


@dataclass(frozen=True)
class Case:
    """A workload, the flush mode of the broker that it goes to, and the figures that matter of it."""

    name: str
    workload: Workload
    figures: tuple[str, ...] = ("rate", "messages_per_server_cpu_s", "p99")
    flush: str = "ASYNC_FLUSH"


def send(name: str, connections: int, under_way: int, size: int, **more: Any) -> Case:
    """Return a case of sends."""
    figures = more.pop("figures", Case.figures)
    flush = more.pop("flush", Case.flush)
    workload = Workload(
        kind=more.pop("kind", Kind.PRODUCE),
        topic=more.pop("topic", f"send-{size}"),
        connections=connections,
        under_way=under_way,
        size=size,
        **more,
    )
    return Case(name, workload, figures, flush)


CASES = [
    *(
        send(
            f"send {label}, {connections}×{under_way}",
            connections,
            under_way,
            size,
            figures=("rate", "messages_per_server_cpu_s", "p50", "p99"),
        )
        for size, label in ((128, "128 B"), (1024, "1 KiB"))
        for connections, under_way in ((1, 1), (8, 16), (64, 16))
    ),
    send("send 1 KiB, synchronous flush, 8×64", 8, 64, 1024, flush="SYNC_FLUSH"),
    send("send 1 KiB, batches of 32, 8×4", 8, 4, 1024, batch=32),
    Case(
        "pull 1 KiB, catching up, 8×1",
        Workload(kind=Kind.CONSUME, topic=BACKLOG_TOPIC, connections=8, under_way=1, is_repeated=True),
        ("rate", "messages_per_server_cpu_s"),
    ),
    send("send 1 KiB at 5,000/s", 8, 64, 1024, rate=5_000.0, figures=("p50", "p99")),
    send(
        "send to arrival 1 KiB at 5,000/s",
        4,
        128,
        1024,
        rate=5_000.0,
        kind=Kind.ROUNDTRIP,
        topic="trip",
        figures=("delivery_p50", "delivery_p99"),
    ),
]


@dataclass
class Broker:
    """A broker's process, and the name server that knows it."""

    kind: str
    process: subprocess.Popen[bytes]
    name_server: str
    address: str
    output: Path
    memory: dict[str, float] = field(default_factory=dict)

    @property
    def pid(self) -> int:
        """Its process's id."""
        return self.process.pid

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


# Servers ---------------------------------------------------------------------------------------------------


class Stage:
    """Starts servers in folders of their own and ends them all."""

    def __init__(self, folder: Path, closing: ExitStack) -> None:
        self._folder = folder
        self._closing = closing
        self._classpath = java_classpath("server-4.9")
        self._environment = apache_home(folder)
        self._started = 0
        self._name_servers: dict[str, str] = {}

    def name_server(self, kind: str) -> str:
        """Return the address of this kind's name server, started when first asked for."""
        if kind not in self._name_servers:
            port = free_broker_port()
            settings = self._folder / f"namesrv-{kind}.conf"
            settings.write_text(f"listenPort={port}\n")
            ours = ["namesrv", "-p", str(port), "--data", str(self._folder / "namesrv")]
            command = (
                self._java("namesrv.NamesrvStartup", settings) if kind == APACHE else self._pyromq(*ours)
            )
            process = self._spawn(command, self._folder / f"namesrv-{kind}.out")
            self._closing.callback(_end, process)
            eventually(lambda: _accepts(f"127.0.0.1:{port}"), START_TIMEOUT_S, what=f"{kind} name server")
            self._name_servers[kind] = f"127.0.0.1:{port}"
        return self._name_servers[kind]

    def broker(self, kind: str, flush: str) -> Broker:
        """Start a broker on an empty folder and do not wait for it."""
        name_server = self.name_server(kind)
        self._started += 1
        name, port = f"broker-{self._started}", free_broker_port()
        apache_only: dict[str, Any] = {"brokerIP2": "127.0.0.1", "haListenPort": port + 1}
        settings = broker_file(
            self._folder,
            name,
            port,
            namesrvAddr=name_server,
            # A cluster for each broker: a topic is created on one of them only.
            brokerClusterName=name,
            flushDiskType=flush,
            **SHARED,
            **(apache_only if kind == APACHE else {}),
        )
        command = (
            self._java("broker.BrokerStartup", settings)
            if kind == APACHE
            else self._pyromq("broker", "-c", str(settings), "-n", name_server)
        )
        output = self._folder / f"{name}.out"
        process = self._spawn(command, output)
        return Broker(kind, process, name_server, f"127.0.0.1:{port}", output)

    def _java(self, main: str, settings: Path) -> list[str]:
        logging = f"-Drmq.logback.configurationFile={self._folder / 'home/conf/logback_broker.xml'}"
        flags = [*JVM, f"-Duser.home={self._folder}", logging, "-cp", self._classpath]
        return [tool("java"), *flags, f"org.apache.rocketmq.{main}", "-c", str(settings)]

    def _pyromq(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "pyromq", *arguments]

    def _spawn(self, command: list[str], output: Path) -> "subprocess.Popen[bytes]":
        with output.open("wb") as out:
            return subprocess.Popen(
                command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def first_send(broker: Broker) -> None:
    """Try until the broker acknowledges a message."""
    host, _, port = broker.address.rpartition(":")
    row = send_template(Queue(broker.address, "", "first", 0), size=100, batch=1, prefix=key_prefix())
    templates = Templates([row], 0)
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if broker.process.poll() is not None:
            raise SystemExit(f"{broker.kind} broker ended:\n{broker.output.read_text()[-3000:]}")
        try:
            with socket.create_connection((host, int(port)), 1) as link:
                link.sendall(templates.write(OPAQUE_FIRST, 0, time.time_ns() // 1_000_000, is_stamped=False))
                found = [*answers(link.recv(65_536))]
            if found and found[0].code == 0:
                return
        except OSError:
            pass
        time.sleep(0.01)
    raise SystemExit(f"no acknowledged send on the {broker.kind} broker after {START_TIMEOUT_S:g} s")


def memory_of(pid: int) -> float:
    """Return a process's resident memory in MiB, without the files that it maps."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return round(int(line.split()[1]) / 1024, 1)
    raise SystemExit(f"/proc/{pid}/status does not tell RssAnon")


# Measuring -------------------------------------------------------------------------------------------------


def touch_memory() -> None:
    """Have the host give us the pages that the servers' files will need."""
    with mmap.mmap(-1, TOUCHED_BYTES) as pages:
        for at in range(0, TOUCHED_BYTES, 4096):
            pages[at] = 1


def measure_starts(stage: Stage, pace: Pace) -> dict[str, list[float]]:
    """Return how many seconds from the start of a broker to its first acknowledged send."""
    took: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(pace.starts):
        for kind in KINDS:
            stage.name_server(kind)
            began_at = time.monotonic()
            broker = stage.broker(kind, "ASYNC_FLUSH")
            try:
                first_send(broker)
                took[kind].append(round(time.monotonic() - began_at, 3))
            finally:
                broker.stop()
            print(f"  start to first acknowledged send: {kind} {took[kind][-1]:.2f} s", flush=True)
    return took


def start_all(stage: Stage, closing: ExitStack) -> dict[tuple[str, str], Broker]:
    """Start one broker for each kind and flush mode."""
    brokers = {}
    for flush in ("ASYNC_FLUSH", "SYNC_FLUSH"):
        for kind in KINDS:
            broker = stage.broker(kind, flush)
            closing.callback(broker.stop)
            first_send(broker)
            brokers[kind, flush] = broker
    return brokers


def prepare(brokers: dict[tuple[str, str], Broker], pace: Pace) -> None:
    """Note the memory, fill the backlog that is pulled, and run everything once so that it is warm."""
    for (kind, flush), broker in brokers.items():
        broker.memory["idle"] = memory_of(broker.pid)
        if flush == "ASYNC_FLUSH":
            fill = send("fill", 8, 4, 1024, topic=BACKLOG_TOPIC, count=BACKLOG, batch=8).workload
            one_run(broker, fill)
            broker.memory[f"after {BACKLOG:,} messages"] = memory_of(broker.pid)
        # The JVM compiles what it has seen for a while; ours needs only its files.
        seconds = pace.jvm_warm_up_s if kind == APACHE else 3.0
        for case in CASES:
            if case.flush == flush:
                parts = sum(other.flush == flush for other in CASES)
                one_run(broker, replace(case.workload, warm_up_s=0.0, duration_s=max(seconds / parts, 0.5)))
        print(f"  warm: {kind} {flush}", flush=True)


def wait_for_quiet(seconds: float) -> None:
    """Wait, for a while, until others leave the machine alone."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        busy = _busy_s()
        time.sleep(0.3)
        if (_busy_s() - busy) / 0.3 <= QUIET_CORES:
            return


def one_run(broker: Broker, workload: Workload, *, quiet_wait_s: float = 0.0) -> dict[str, Any]:
    """Run a workload on a broker; tell what the rest of the machine did meanwhile."""
    workload = replace(workload, topic=f"{workload.topic}-{broker.pid}")
    wait_for_quiet(quiet_wait_s)
    busy, theirs, ours = _busy_s(), usage_of(broker.pid).cpu_s, _own_s()
    began_at = time.monotonic()
    record = run(workload, name_server=broker.name_server, server_pid=broker.pid).as_record()
    wall_s = time.monotonic() - began_at
    others = (_busy_s() - busy) - (usage_of(broker.pid).cpu_s - theirs) - (_own_s() - ours)
    record["others_cores"] = round(max(others, 0.0) / wall_s, 2)
    for name, table in (("", record["latency_us"]), ("delivery_", record["delivery_us"])):
        record.update({f"{name}{key}": value for key, value in (table or {}).items()})
    return record


def _busy_s() -> float:
    # user nice system idle iowait irq softirq …
    ticks = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure_cases(
    brokers: dict[tuple[str, str], Broker], pace: Pace, ends_at: float
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the runs of each case and kind."""
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {
        case.name: {kind: [] for kind in KINDS} for case in CASES
    }
    for number in range(pace.rounds):
        for case in CASES:
            if number and time.monotonic() > ends_at:
                print("  the time is over: fewer rounds than planned", flush=True)
                return runs
            workload = replace(case.workload, warm_up_s=pace.warm_up_s, duration_s=pace.measured_s)
            # Whoever comes second finds the machine as the first left it: take turns in that too.
            for kind in KINDS if number % 2 == 0 else KINDS[::-1]:
                record = one_run(brokers[kind, case.flush], workload, quiet_wait_s=pace.quiet_wait_s)
                runs[case.name][kind].append(record)
                print(
                    f"  {case.name:36} {kind:7} {record['rate']:10,.0f}/s"
                    f"  others {record['others_cores']:.2f} cores",
                    flush=True,
                )
    return runs


# Results ---------------------------------------------------------------------------------------------------

FIGURES: dict[str, tuple[str, Callable[[float], str], bool]] = {
    # name → (what it is called, how it is written, whether more is better)
    "rate": ("messages/s", lambda value: f"{value:,.0f}", True),
    "messages_per_server_cpu_s": ("messages per server CPU-second", lambda value: f"{value:,.0f}", True),
    "p50": ("p50, ms", lambda value: f"{value / 1e3:.2f}", False),
    "p99": ("p99, ms", lambda value: f"{value / 1e3:.2f}", False),
    "delivery_p50": ("p50, ms", lambda value: f"{value / 1e3:.2f}", False),
    "delivery_p99": ("p99, ms", lambda value: f"{value / 1e3:.2f}", False),
}


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    case: str
    figure: str
    apache: str
    pyromq: str
    ahead: float
    is_quiet: bool = True

    def cells(self) -> list[str]:
        """Return the line's texts."""
        mark = "" if self.is_quiet else " †"
        return [self.case, self.figure, self.apache, self.pyromq, f"{self.ahead:.2f} ×{mark}"]


def quiet_runs(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs during which others left the machine alone."""
    return [record for record in records if record["others_cores"] <= QUIET_CORES]


def middle(records: list[dict[str, Any]], figure: str) -> float:
    """Return the median of the quiet runs, or of all when fewer than two were quiet."""
    quiet = quiet_runs(records)
    chosen = quiet if len(quiet) >= min(2, len(records)) else records
    return median(float(record.get(figure) or 0.0) for record in chosen)


def rows_of(
    runs: dict[str, dict[str, list[dict[str, Any]]]],
    starts: dict[str, list[float]],
    brokers: dict[tuple[str, str], Broker],
) -> list[Row]:
    """Return the table's lines."""
    rows = []
    for case in CASES:
        of_case = runs[case.name]
        is_quiet = all(len(quiet_runs(of_case[kind])) >= min(2, len(of_case[kind])) for kind in KINDS)
        for figure in case.figures:
            label, text, is_more_better = FIGURES[figure]
            apache, pyromq = (middle(runs[case.name][kind], figure) for kind in KINDS)
            ahead = _ahead(apache, pyromq, is_more_better)
            rows.append(Row(case.name, label, text(apache), text(pyromq), ahead, is_quiet))
    apache, pyromq = (median(starts[kind]) for kind in KINDS)
    rows.append(
        Row("start to first acknowledged send", "s", f"{apache:.2f}", f"{pyromq:.2f}", _ahead(apache, pyromq))
    )
    memories = [brokers[kind, "ASYNC_FLUSH"].memory for kind in KINDS]
    for name in memories[0]:
        apache, pyromq = (memory[name] for memory in memories)
        case = f"resident memory, {name}"
        rows.append(Row(case, "MiB", f"{apache:.0f}", f"{pyromq:.0f}", _ahead(apache, pyromq)))
    return rows


def _ahead(apache: float, pyromq: float, is_more_better: bool = False) -> float:  # noqa: FBT001, FBT002
    if not apache or not pyromq:
        return 0.0
    return pyromq / apache if is_more_better else apache / pyromq


def table_of(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    head = ["case", "figure", "Apache 4.9", "PyroMQ", "PyroMQ ahead"]
    lines = [head, ["---", "---", "---:", "---:", "---:"], *(row.cells() for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def machine() -> dict[str, str]:
    """Return what this was measured on."""
    model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    java = subprocess.run([tool("java"), "-version"], capture_output=True, text=True, check=True).stderr
    return {
        "cores": str(os.cpu_count()),
        "processor": model[0].partition(":")[2].strip() if model else platform.processor(),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": java.splitlines()[0],
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip(),
    }


def write_page(table: str, seen: dict[str, str], at: str) -> None:
    """Put the table between its marks in the documentation."""
    page = PAGE.read_text()
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    where = f"{seen['cores']} cores ({seen['processor']}), {seen['memory']}, Linux {seen['kernel']}"
    note = f"{at}, {where}, Python {seen['python']}, {seen['java']}, commit {seen['commit']}.\n\n"
    PAGE.write_text(f"{before}{MARKS[0]}{note}{table}{MARKS[1]}{after}")


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description="PyroMQ beside Apache's broker on this machine.")
    parser.add_argument("--quick", action="store_true", help="one short round, under two minutes")
    parser.add_argument("--keep-page", action="store_true", help="leave docs/performance.md as it is")
    options = parser.parse_args()
    pace = QUICK if options.quick else FULL
    began_at = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as closing:
            stage = Stage(Path(folder), closing)
            touch_memory()
            starts = measure_starts(stage, pace)
            brokers = start_all(stage, closing)
            prepare(brokers, pace)
            runs = measure_cases(brokers, pace, began_at + pace.budget_s)
            rows = rows_of(runs, starts, brokers)
    except (Unavailable, PyroError) as error:
        raise SystemExit(f"versus: {error}") from error
    table, seen, at = table_of(rows), machine(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    print(table)
    print(f"took {time.monotonic() - began_at:.0f} s")
    RESULTS.mkdir(exist_ok=True)
    record = {
        "at": at,
        "machine": seen,
        "settings": {**SHARED, "jvm": JVM, "pace": vars(pace)},
        "starts_s": starts,
        "memory_mib": {kind: brokers[kind, "ASYNC_FLUSH"].memory for kind in KINDS},
        "rows": [row.cells() for row in rows],
        "runs": runs,
    }
    name = "versus-quick.json" if options.quick else "versus.json"
    (RESULTS / name).write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    if not options.quick and not options.keep_page:
        write_page(table, seen, at)


if __name__ == "__main__":
    main()
