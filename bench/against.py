"""This tree's broker beside an older commit's: latency and processor time, taken in turn with one generator.

    .venv/bin/python bench/against.py f7ecb42    # p99 at 500×64, with 4 MiB bodies, and more; 5 minutes
    .venv/bin/python bench/against.py f7ecb42 --rounds 9 --only 500x64

The commit is checked out into a temporary folder and its kernel compiled there (a minute). Both brokers run
with defaults, on this Python and its packages; while one is measured the other is stopped. A figure is the
median of the rounds, beside it the least and the most: a difference within that means nothing.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from beside.quiet import say, wait_for_quiet

from pyromq.bench.bench_run import run
from pyromq.bench.workload import LoadKind, Workload

ROOT = Path(__file__).resolve().parents[1]
NOW, QUIET_S = "now", 1.0
BIG = 4 * 2**20 - 4096


@dataclass(frozen=True)
class Figure:
    """A figure of a run: its name here, and where it stands in the record."""

    name: str
    of: str
    scale: float = 1.0


FIGURES = (
    Figure("p99, ms", "p99", 1e-3),
    Figure("CPU, µs a message", "messages_per_server_cpu_s"),
    Figure("messages/s", "rate"),
)


def _send(connections: int, under_way: int, size: int = 1024) -> Workload:
    return Workload(
        kind=LoadKind.PRODUCE,
        topic=f"against-{size}",
        connections=connections,
        under_way=under_way,
        size=size,
        has_keys=size != BIG,
    )


SHAPES = {
    "500x64": _send(500, 64),
    "4MiB": _send(4, 2, BIG),
    "500x1": _send(500, 1),
    "64x1": _send(64, 1),
    "8x1": _send(8, 1),
}


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """Have a commit's sources in a folder, with its kernel compiled."""
    tree = folder / "tree"
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(tree), commit], check=True)
    try:
        say(f"compiling the kernel of {commit}")
        build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        subprocess.run(build, cwd=tree, check=True, capture_output=True)
        yield tree
    finally:
        subprocess.run([*git, "remove", "--force", str(tree)], check=True)


@contextmanager
def served(tree: Path, folder: Path) -> Iterator[dict[str, Any]]:
    """Run a name server and a broker of a tree; yield what they say of themselves, and their process."""
    options = ["up", "--json", "--no-dashboard", "--namesrv-port", "0", "--broker-port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pyromq", *options, "--data", str(folder)],
        env=os.environ | {"PYTHONPATH": str(tree / "src")},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline()) | {"process": process}
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait()
        process.stdout.close()


def one(hello: dict[str, Any], others: list[dict[str, Any]], workload: Workload) -> dict[str, Any]:
    """Run a workload on one of the brokers while the others stand still."""
    for other in others:
        other["process"].send_signal(signal.SIGSTOP)
    try:
        wait_for_quiet(QUIET_S)
        report = run(workload, name_server=hello["namesrv"], server_pid=hello["process"].pid)
    finally:
        for other in others:
            other["process"].send_signal(signal.SIGCONT)
    record = report.as_record()
    record["p99"] = (record["latency_us"] or {}).get("p99")
    record["messages_per_server_cpu_s"] = 1e6 / record["messages_per_server_cpu_s"]
    return record


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--only", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    asked = parser.parse_args()
    with ExitStack() as closing:
        folder = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="against-")))
        trees = {asked.commit: closing.enter_context(checked_out(asked.commit, folder)), NOW: ROOT}
        brokers = {name: closing.enter_context(served(tree, folder / name)) for name, tree in trees.items()}
        runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for number in range(asked.rounds):
            for shape in asked.only:
                workload = replace(SHAPES[shape], warm_up_s=0.5, duration_s=asked.seconds)
                for name in list(brokers)[:: 1 if number % 2 else -1]:
                    others = [broker for other, broker in brokers.items() if other != name]
                    record = one(brokers[name], others, workload)
                    runs.setdefault((shape, name), []).append(record)
                    refused = sum(record["refused"].values())
                    say(
                        f"{number + 1} {shape:7} {name:9} p99 {record['p99'] / 1e3:.2f} ms, {refused} refused"
                    )
    print_table(runs, asked.only, [*trees])


def print_table(
    runs: dict[tuple[str, str], list[dict[str, Any]]], shapes: list[str], names: list[str]
) -> None:
    """Print medians, and between which values they lie."""
    print(f"\n{'':8}{'':20}" + "".join(f"{name:>34}" for name in names) + f"{'now / then':>12}")
    for shape in shapes:
        for figure in FIGURES:
            values = [[record[figure.of] * figure.scale for record in runs[shape, name]] for name in names]
            cells = [f"{median(row):,.2f} ({min(row):,.2f} to {max(row):,.2f})" for row in values]
            ratio = median(values[1]) / median(values[0])
            print(f"{shape:8}{figure.name:20}" + "".join(f"{cell:>34}" for cell in cells) + f"{ratio:>12.2f}")


if __name__ == "__main__":
    main()
