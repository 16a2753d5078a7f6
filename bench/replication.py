"""What synchronous replication costs, and how long a switch takes; both on this machine, in one run.

    .venv/bin/python bench/replication.py            # about 7 minutes; writes bench/results and the page
    .venv/bin/python bench/replication.py --quick    # about 1 minute; only prints
    .venv/bin/python bench/replication.py --only cost
    .venv/bin/python bench/replication.py --only switch

**Cost.** Two groups of one master and one slave each, real processes on files of the default size,
asynchronous flush: in one the master answers at once (ASYNC_MASTER), in the other when the slave has the
message (SYNC_MASTER). 64 senders on 64 connections send 1 KiB, each the next when the last is acknowledged,
and then 64 at a time on each; the generator is that of bench/versus.py. The groups take turns, round after
round; a run begins and ends when the slave has all, in both groups, so that neither puts work off. What is
compared is the median of the rounds' ratios. Master, slave and generator share the processors, in both groups
alike. The goal: at most 10 % less.

**Switch.** A group of two with all settings at their defaults but brokerRole=SYNC_MASTER, failover by an etcd
of one member. Producers send all the time, one message after the other. The master is killed (SIGKILL), and
it is measured until each producer's first acknowledgement by another broker. Then the killed one comes back,
and the next round begins when it is in sync. The goal: under 5 s. Java's clients ask the name server every 30
s and so long may be without a master; they are run with pollNameServerInterval=1000, and once more as they
are.
"""

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/interop"))  # which know how to start groups, and Java's clients

from beside.quiet import QUIET_CORES, busy_s, own_s, wait_for_quiet  # noqa: E402
from beside.results import machine, where  # noqa: E402
from harness.observer import Observer  # noqa: E402
from harness.replicas import OURS, Replica, start_name_server  # noqa: E402
from harness.switching import JavaClients, PythonClients, SwitchingGroup, micros  # noqa: E402
from harness.toolchains import Unavailable  # noqa: E402

from pyromq import Admin  # noqa: E402
from pyromq.bench.bench_run import find_target, run_on  # noqa: E402
from pyromq.bench.process import usage_of  # noqa: E402
from pyromq.bench.workload import LoadKind, Workload  # noqa: E402
from pyromq.errors import PyroError  # noqa: E402
from pyromq.testing.waiting import eventually  # noqa: E402

RESULT = ROOT / "bench" / "results" / "replication.json"
PAGE = ROOT / "docs" / "performance.md"
MARKS = ("<!-- replication: begin -->\n", "<!-- replication: end -->\n")
ASYNC, SYNC = "ASYNC_MASTER", "SYNC_MASTER"
COST_MAX = 0.10
SWITCH_S_MAX = 5.0
TOPIC, QUEUES = "replicated", 8
PATIENCE_S = 60
#: The settings of a group for tests, put back to what they are by default.
DEFAULTS: dict[str, str | int] = {
    "mappedFileSizeCommitLog": 2**30,
    "maxMessageSize": 4 * 2**20,
    "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    "flushConsumerOffsetInterval": 5_000,
    "flushDelayOffsetInterval": 10_000,
}
WORKLOADS = {
    "64 × 1": Workload(kind=LoadKind.PRODUCE, topic=TOPIC, connections=64, under_way=1, size=1024),
    "64 × 64": Workload(kind=LoadKind.PRODUCE, topic=TOPIC, connections=64, under_way=64, size=1024),
}
GOAL_SENDERS = "64 × 1"
PYTHON, JAVA, JAVA_DEFAULT = "Python", "Java, asking every 1 s", "Java, asking every 30 s"


@dataclass(frozen=True)
class Pace:
    """How long it takes."""

    rounds: int
    warm_up_s: float
    measured_s: float
    quiet_wait_s: float
    switches: int
    is_java_default: bool


FULL = Pace(rounds=7, warm_up_s=0.5, measured_s=3.0, quiet_wait_s=3.0, switches=5, is_java_default=True)
QUICK = Pace(rounds=2, warm_up_s=0.3, measured_s=1.0, quiet_wait_s=0.5, switches=1, is_java_default=False)


@dataclass(frozen=True)
class Run:
    """One group in one round."""

    role: str
    senders: str
    per_second: float
    p50_ms: float
    p99_ms: float
    master_us: float
    """Processor time of the master for each message."""
    slave_us: float
    refused: dict[str, int]
    others_cores: float


@dataclass
class Found:
    """All that was measured."""

    runs: list[Run] = field(default_factory=list)
    switches: dict[str, list[float]] = field(default_factory=dict)

    def of(self, role: str, senders: str) -> list[Run]:
        """Return the runs of one line of the table."""
        return [run for run in self.runs if run.role == role and run.senders == senders]

    def pairs(self, senders: str) -> list[tuple[Run, Run]]:
        """Return both groups' runs of each round; not of disturbed rounds, if two others remain."""
        pairs = [*zip(self.of(ASYNC, senders), self.of(SYNC, senders), strict=True)]
        quiet = [pair for pair in pairs if all(run.others_cores <= QUIET_CORES for run in pair)]
        return quiet if len(quiet) >= min(2, len(pairs)) else pairs

    def cost(self, senders: str) -> float:
        """Return which part of the sends synchronous replication costs: the median of the rounds."""
        return 1 - median(sync.per_second / free.per_second for free, sync in self.pairs(senders))

    def is_quiet(self, senders: str) -> bool:
        """Return whether other processes left the machine alone in the rounds that count."""
        return all(run.others_cores <= QUIET_CORES for pair in self.pairs(senders) for run in pair)


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"  {text}", flush=True)


# Cost ------------------------------------------------------------------------------------------------------


class Pair:
    """A master and its slave, with a name server of their own."""

    def __init__(self, folder: Path, closing: ExitStack, role: str) -> None:
        folder.mkdir()
        self.role = role
        self.name_server = start_name_server(OURS, folder / "names", closing)
        self._observer = Observer(self.name_server)
        given = [DEFAULTS | {"brokerRole": role}, DEFAULTS]
        self.master, self._slave = (
            Replica(OURS, folder / f"replica-{number}", self.name_server, number, **settings)
            for number, settings in enumerate(given)
        )
        for replica in (self.master, self._slave):
            closing.callback(replica.kill)
            replica.start()
        with Admin(self.name_server) as admin:
            admin.create_topic(TOPIC, QUEUES)
        eventually(lambda: self._observer.queues(TOPIC), PATIENCE_S, what="the topic has a route")

    def wait_until_whole(self) -> None:
        """Wait until the slave has all that the master has."""
        for queue in range(QUEUES):
            end = self._observer.end(self.master.address, TOPIC, queue)
            eventually(
                lambda queue=queue, end=end: self._observer.end(self._slave.address, TOPIC, queue) == end,
                PATIENCE_S,
                what="the slave has all",
            )

    def run(self, senders: str, pace: Pace) -> Run:
        """Send for a while, and return what was seen."""
        self.wait_until_whole()
        lasts_s = pace.warm_up_s + pace.measured_s
        workload = replace(WORKLOADS[senders], warm_up_s=0.0, duration_s=lasts_s)
        target = find_target(workload, self.name_server)
        wait_for_quiet(pace.quiet_wait_s)
        pids = (self.master.server.pid, self._slave.server.pid)
        busy, slave_s, used = busy_s(), usage_of(pids[1]).cpu_s, own_s() + usage_of(pids[0]).cpu_s
        began_at = time.monotonic()
        record = run_on(target, workload, server_pid=pids[0]).as_record()
        sent_at = time.monotonic()
        self.wait_until_whole()
        late_s = time.monotonic() - sent_at
        wall_s = time.monotonic() - began_at
        slave_s = usage_of(pids[1]).cpu_s - slave_s
        used = own_s() + usage_of(pids[0]).cpu_s - used + slave_s
        return Run(
            role=self.role,
            senders=senders,
            per_second=record["messages_in_all"] / (record["seconds"] + late_s),
            p50_ms=record["latency_us"]["p50"] / 1e3,
            p99_ms=record["latency_us"]["p99"] / 1e3,
            master_us=1e6 / record["messages_per_server_cpu_s"],
            slave_us=1e6 * slave_s / max(record["messages_in_all"], 1),
            refused=record["refused"],
            others_cores=round(max(busy_s() - busy - used, 0.0) / wall_s, 2),
        )


def measure_cost(pace: Pace) -> list[Run]:
    """Return the runs of both groups, taken in turn."""
    runs = []
    with tempfile.TemporaryDirectory(prefix="replication-") as name, ExitStack() as closing:
        pairs = [Pair(Path(name) / role, closing, role) for role in (ASYNC, SYNC)]
        for pair in pairs:
            pair.run("64 × 64", QUICK)  # what is slow the first time is slow in both
        for number in range(pace.rounds):
            for senders in WORKLOADS:
                # Whoever comes second finds the machine as the first left it: take turns in that too.
                for pair in pairs if number % 2 else pairs[::-1]:
                    run = pair.run(senders, pace)
                    runs.append(run)
                    refused = f", refused {run.refused}" if run.refused else ""
                    say(
                        f"{number + 1}/{pace.rounds} {senders:8} {run.role:12} {run.per_second:9,.0f}/s"
                        f", p99 {run.p99_ms:.2f} ms, CPU {run.master_us:.1f} + {run.slave_us:.1f} µs{refused}"
                        f" (others {run.others_cores:.2f} cores)"
                    )
    return runs


# Switch ----------------------------------------------------------------------------------------------------


def measure_switches(pace: Pace) -> dict[str, list[float]]:
    """Return for each producer how many seconds it was without an acknowledgement after each kill."""
    with tempfile.TemporaryDirectory(prefix="switch-") as name, ExitStack() as closing:
        folder = Path(name)
        group = SwitchingGroup(folder, closing, name_server=OURS, **DEFAULTS)
        group.start()
        with Admin(group.name_server) as admin:
            admin.create_topic(TOPIC, QUEUES)
        eventually(lambda: Observer(group.name_server).queues(TOPIC), PATIENCE_S)
        producers: dict[str, PythonClients | JavaClients] = {PYTHON: PythonClients(group.name_server)}
        try:
            producers[JAVA] = JavaClients.start(folder / "java", group.name_server)
            if pace.is_java_default:
                producers[JAVA_DEFAULT] = JavaClients.start(
                    folder / "java-30", group.name_server, poll_ms=30_000
                )
        except Unavailable as reason:
            print(f"without Java: {reason}")
        for producer in producers.values():
            closing.callback(producer.close)
            producer.produce(TOPIC, QUEUES)
        took: dict[str, list[float]] = {title: [] for title in producers}
        for number in range(pace.switches):
            wait_for_quiet(pace.quiet_wait_s)
            for title, seconds in one_switch(group, producers).items():
                took[title].append(seconds)
            shown = ", ".join(f"{title}: {seconds[-1]:.2f} s" for title, seconds in took.items())
            say(f"{number + 1}/{pace.switches} switch: {shown}")
    return took


def one_switch(group: SwitchingGroup, producers: dict[str, PythonClients | JavaClients]) -> dict[str, float]:
    """Kill the master, and return after how many seconds each producer heard of another."""
    master = group.master()
    port = int(master.address.rpartition(":")[2])
    for title, producer in producers.items():
        eventually(lambda producer=producer: producer.sent[-1:], PATIENCE_S, what=f"{title} sends")
        eventually(lambda producer=producer: producer.sent[-1].port == port, PATIENCE_S, what=title)
    killed_at = micros()
    master.kill()
    took = {}
    for title, producer in producers.items():
        eventually(lambda producer=producer: producer.sent[-1].port != port, PATIENCE_S, what=title)
        first = next(one.at for one in producer.sent if one.at > killed_at and one.port != port)
        took[title] = round((first - killed_at) / 1e6, 3)
    master.start()
    group.wait_until_whole()
    return took


# Result ----------------------------------------------------------------------------------------------------


def cost_rows(found: Found) -> list[list[str]]:
    """Return the table of what synchronous replication costs."""
    rows = [
        [
            "senders",
            "replication",
            "messages/s",
            "p50, ms",
            "p99, ms",
            "master's CPU, µs",
            "slave's CPU, µs",
            "cost",
        ]
    ]
    for senders in WORKLOADS:
        for role, title in ((ASYNC, "asynchronous"), (SYNC, "synchronous")):
            runs = [pair[role == SYNC] for pair in found.pairs(senders)]
            rows.append(
                [
                    senders,
                    title,
                    f"{median(run.per_second for run in runs):,.0f}",
                    f"{median(run.p50_ms for run in runs):.2f}",
                    f"{median(run.p99_ms for run in runs):.2f}",
                    f"{median(run.master_us for run in runs):.1f}",
                    f"{median(run.slave_us for run in runs):.1f}",
                    f"{found.cost(senders):.0%}" if role == SYNC else "",
                ]
            )
    return rows


def switch_rows(found: Found) -> list[list[str]]:
    """Return the table of how long producers were without a master."""
    rows = [["producer", "kills", "median, s", "longest, s"]]
    for title, seconds in found.switches.items():
        rows.append([title, str(len(seconds)), f"{median(seconds):.2f}", f"{max(seconds):.2f}"])
    return rows


def verdicts(found: Found) -> list[str]:
    """Return which of the goals are met."""
    said = []
    if found.runs:
        cost = found.cost(GOAL_SENDERS)
        word = _word(is_met=cost <= COST_MAX)
        if not found.is_quiet(GOAL_SENDERS):
            word = "not known, for other processes took processor time in every round; processor times hold"
        said.append(
            f"synchronous replication costs at most {COST_MAX:.0%} at {GOAL_SENDERS} senders: {word}"
            f" ({cost:.1%})"
        )
    for title in (PYTHON, JAVA):
        if seconds := found.switches.get(title):
            word = _word(is_met=max(seconds) < SWITCH_S_MAX)
            said.append(
                f"{title}: acknowledged again within {SWITCH_S_MAX:g} s of a kill: {word}"
                f" (longest {max(seconds):.2f} s of {len(seconds)})"
            )
    if seconds := found.switches.get(JAVA_DEFAULT):
        said.append(
            f"{JAVA_DEFAULT}, its default: up to {max(seconds):.0f} s; it hears of the new master no sooner"
        )
    return said


def _word(*, is_met: bool) -> str:
    return "met" if is_met else "MISSED"


def aligned(rows: list[list[str]]) -> str:
    """Return a table for the terminal."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def as_markdown(rows: list[list[str]]) -> str:
    """Return a table for the page."""
    head, *rest = rows
    line = ["---"] + ["---:"] * (len(head) - 1)
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, line, *rest))


def write_results(found: Found, pace: Pace) -> None:
    """Write everything for programs, and the tables into the page."""
    seen, at = machine(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    record = {
        "at": at,
        "machine": seen,
        "pace": asdict(pace),
        "cost": {senders: round(found.cost(senders), 4) for senders in WORKLOADS},
        "switches_s": found.switches,
        "runs": [asdict(run) for run in found.runs],
    }
    RESULT.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    page = PAGE.read_text()
    before, mark, rest = page.partition(MARKS[0])
    if mark:
        said = "".join(f"- {text}\n" for text in verdicts(found))
        tables = f"{as_markdown(cost_rows(found))}\n{as_markdown(switch_rows(found))}"
        after = rest.partition(MARKS[1])[2]
        PAGE.write_text(f"{before}{MARKS[0]}{where(seen, at)}\n\n{tables}\n{said}{MARKS[1]}{after}")


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="less of everything; only prints")
    parser.add_argument("--only", choices=("cost", "switch"), help="one part; only prints")
    options = parser.parse_args()
    pace = QUICK if options.quick else FULL
    found = Found()
    began_at = time.monotonic()
    try:
        if options.only != "switch":
            found.runs = measure_cost(pace)
        if options.only != "cost":
            found.switches = measure_switches(pace)
    except PyroError as error:
        raise SystemExit(f"replication: {error}") from error
    if found.runs:
        print(f"\n{aligned(cost_rows(found))}")
    if found.switches:
        print(f"\n{aligned(switch_rows(found))}")
    print("\n" + "\n".join(verdicts(found)))
    print(f"took {time.monotonic() - began_at:.0f} s")
    if not options.quick and not options.only:
        write_results(found, pace)


if __name__ == "__main__":
    main()
