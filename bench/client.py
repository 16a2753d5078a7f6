"""Our Python client beside the official Java client and the C++ wheel, on one broker, in one run.

    .venv/bin/python bench/client.py                 # 3 rounds, about 4 minutes
    .venv/bin/python bench/client.py --quick         # 1 round
    .venv/bin/python bench/client.py --json FILE     # the figures for programs, too

The broker is ours. Clients take turns, one at a time, each in a process of its own that measures itself after
a warm-up: messages a second, and messages for each second of processor time that the client's process used
(all of its threads). A figure is the median of the rounds. *sync*: one thread sends one message after the
other. *async*: 256 sends are under way. *push*: a push consumer empties a topic; its listener counts.

The goal (issue 5): async producer and push consumer ahead of the C++ wheel, and at least half of the Java
client's messages for a second of processor time.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/interop"))  # which know how to fetch the other clients

from beside.results import machine  # noqa: E402
from beside.servers import ASYNC, PYROMQ, Stage, first_send  # noqa: E402
from harness.toolchains import Unavailable, cpp_client, java_classpath, tool  # noqa: E402

from pyromq import Message  # noqa: E402
from pyromq.aio import Producer  # noqa: E402

CLIENTS = ROOT / "bench" / "clients"
OURS, OURS_ASYNC, JAVA, CPP = "PyroMQ", "PyroMQ, asyncio", "Java 4.9.8", "C++ wheel 0.4.4"
BATCH = 200
RUN_TIMEOUT_S = 300


@dataclass(frozen=True)
class Case:
    """One client at one kind of work; `mode` is what its program calls that."""

    work: str
    client: str
    mode: str


CASES = (
    Case("sync", OURS, "sync"),
    Case("sync", JAVA, "sync"),
    Case("sync", CPP, "sync"),
    Case("async", OURS_ASYNC, "async"),
    Case("async", JAVA, "async"),
    Case("async", CPP, "async"),
    Case("push", OURS, "push"),
    Case("push", OURS_ASYNC, "push_async"),
    Case("push", JAVA, "push"),
    Case("push", CPP, "push"),
)


@dataclass(frozen=True)
class Figure:
    """What a client did."""

    work: str
    client: str
    per_second: float
    per_cpu_second: float


@dataclass(frozen=True)
class Pace:
    """How long it takes."""

    rounds: int
    warm_s: float
    run_s: float
    backlog: int


def commands(folder: Path) -> dict[str, list[str]]:
    """Return how each client's program is run; one that cannot be had is left out, and it is said why."""
    ours = [sys.executable, str(CLIENTS / "ours.py")]
    found = {OURS: ours, OURS_ASYNC: ours}
    try:
        java = [tool("java"), "-Xmx512m", f"-Duser.home={folder}", "-cp", java_classpath("client-4.9.8")]
        found[JAVA] = [*java, str(CLIENTS / "JavaClient.java")]
    except Unavailable as reason:
        print(f"without {JAVA}: {reason}")
    try:
        found[CPP] = [cpp_client()[0], str(CLIENTS / "cpp_wheel.py")]
    except Unavailable as reason:
        print(f"without {CPP}: {reason}")
    return found


async def fill(name_server: str, topic: str, count: int, size: int) -> None:
    """Send what consumers will read."""
    batch = [Message(topic, b"x" * size) for _ in range(BATCH)]
    async with Producer("bench_filler", name_server) as producer:
        for _ in range(count // BATCH):
            await producer.send_batch(batch)


def run(
    command: list[str], case: Case, name_server: str, size: int, pace: Pace, folder: Path
) -> Figure | None:
    """Let one client work, and return what it says of itself."""
    topic = "backlog" if case.work == "push" else case.work
    words = [name_server, case.mode, topic, str(size), str(pace.warm_s), str(pace.run_s), str(pace.backlog)]
    ended = subprocess.run(
        [*command, *words],
        cwd=folder,
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    if not lines:
        print(f"{case.client} {case.work}: no result (status {ended.returncode})\n{ended.stderr[-2000:]}")
        return None
    said = json.loads(lines[-1])
    return Figure(
        case.work, case.client, said["messages"] / said["seconds"], said["messages"] / said["cpu_seconds"]
    )


def measure(pace: Pace, size: int, works: list[str]) -> list[Figure]:
    """Start a broker, and let the clients take turns; return the medians."""
    runs: dict[Case, list[Figure]] = {}
    with tempfile.TemporaryDirectory(prefix="client-bench-") as name, ExitStack() as closing:
        folder = Path(name)
        programs = commands(folder)
        broker = Stage(folder, closing).broker(PYROMQ, ASYNC)
        closing.callback(broker.stop)
        first_send(broker)
        if "push" in works:
            asyncio.run(fill(broker.name_server, "backlog", pace.backlog, size))
        for turn in range(pace.rounds):
            for case in CASES:
                if case.client not in programs or case.work not in works:
                    continue
                figure = run(programs[case.client], case, broker.name_server, size, pace, folder)
                if figure is not None:
                    runs.setdefault(case, []).append(figure)
                    print(
                        f"round {turn + 1}: {case.work} {case.client}: {figure.per_second:,.0f}/s, "
                        f"{figure.per_cpu_second:,.0f} a CPU-second"
                    )
    return [
        Figure(
            case.work,
            case.client,
            median(figure.per_second for figure in figures),
            median(figure.per_cpu_second for figure in figures),
        )
        for case, figures in runs.items()
    ]


def table(figures: list[Figure]) -> list[str]:
    """Return the figures as lines, with each client's part of Java's and of C++'s."""
    by_name = {(figure.work, figure.client): figure for figure in figures}

    def part(figure: Figure, other: str) -> str:
        base = by_name.get((figure.work, other))
        return "" if base is None else f"{figure.per_cpu_second / base.per_cpu_second:.2f}"

    rows = [["work", "client", "messages/s", "per CPU-second", "of Java's", "of C++'s"]]
    rows += [
        [
            figure.work,
            figure.client,
            f"{figure.per_second:,.0f}",
            f"{figure.per_cpu_second:,.0f}",
            part(figure, JAVA),
            part(figure, CPP),
        ]
        for figure in figures
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if at < 2 else cell.rjust(width) for at, (cell, width) in enumerate(pairs)
        )
        for pairs in ([*zip(row, widths, strict=True)] for row in rows)
    ]
    return [line.rstrip() for line in lines]


def verdicts(figures: list[Figure]) -> list[str]:
    """Return which of the goals are met."""
    by_name = {(figure.work, figure.client): figure for figure in figures}
    said = []
    for work in ("async", "push"):
        ours = by_name.get((work, OURS_ASYNC))
        java, cpp = by_name.get((work, JAVA)), by_name.get((work, CPP))
        if ours is not None and cpp is not None:
            is_met = ours.per_second > cpp.per_second and ours.per_cpu_second > cpp.per_cpu_second
            said.append(f"{work}: {'' if is_met else 'NOT '}ahead of the C++ wheel")
        if ours is not None and java is not None:
            is_met = ours.per_cpu_second * 2 >= java.per_cpu_second
            said.append(f"{work}: {'' if is_met else 'NOT '}at least half of Java's per CPU-second")
    return said


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--size", type=int, default=128, help="bytes of a body")
    parser.add_argument("--only", nargs="*", default=["sync", "async", "push"], help="kinds of work")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    options = parser.parse_args()
    pace = Pace(1, 2.0, 3.0, 100_000) if options.quick else Pace(3, 3.0, 5.0, 200_000)
    figures = measure(pace, options.size, options.only)
    print("\n".join(["", *table(figures), "", *verdicts(figures)]))
    if options.json:
        record = {"machine": machine(), "size": options.size, "figures": [asdict(one) for one in figures]}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
