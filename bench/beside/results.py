"""The table of what was measured beside what was to be reached, for people and for programs."""

import os
import platform
import subprocess
from pathlib import Path

from harness.toolchains import tool

from beside.cases import CASES, CLIENT_WORKS, COSTS
from beside.figures import PYROMQ, SECONDS, SPREAD, Figure, Row, memory
from beside.measuring import Found, Runs, chosen_runs, quiet_runs
from beside.methods import Run
from pyromq.kernel import describe

ROOT = Path(__file__).resolve().parents[2]


def rows_of(found: Found) -> list[Row]:
    """Return the table's lines, in the order of the cases."""
    rows: list[Row] = []
    for case in CASES:
        if case.key in found.runs:
            runs = found.runs[case.key]
            refused = _refused(runs)
            rows += [Row(case.name, figure, *_middles(runs, figure), refused) for figure in case.figures]
    rows += [_cost(found, *each) for each in COSTS if {each[1], each[2]} <= found.runs.keys()]
    if found.crowd is not None:
        crowd = found.crowd
        name = f"send 128 B to {crowd['topics']:,} topics × {crowd['queues']}"
        rows.append(Row(name, SPREAD, {PYROMQ: crowd["ratio"]}))
    if found.starts_s:
        rows.append(Row("start to first acknowledged send", SECONDS, *_middles(found.starts_s, SECONDS)))
    for name in next(iter(found.memory.values()), {}):
        values: dict[str, float | None] = {kind: found.memory[kind][name] for kind in found.memory}
        rows.append(Row(f"resident memory, {name}", memory(10.0 if name == "idle" else 30.0), values))
    for work, (name, figure) in CLIENT_WORKS.items():
        if work in found.clients:
            rows.append(Row(name, figure, {**found.clients[work]}))
    return rows


def _middles(runs: Runs, figure: Figure) -> tuple[dict[str, float | None], bool]:
    is_quiet = all(len(quiet_runs(runs[kind])) >= min(2, len(runs[kind])) for kind in runs)
    return {kind: _picked(runs[kind], figure) for kind in runs}, is_quiet


def _picked(records: list[Run], figure: Figure) -> float | None:
    values = [float(record[figure.name]) for record in chosen_runs(records) if record.get(figure.name)]
    return figure.pick(values) if values else None


def _cost(found: Found, name: str, base: str, other: str, figure: Figure) -> Row:
    """Return which part of the base's rate the other case loses: the median of the rounds' ratios."""
    values: dict[str, float | None] = {}
    for kind in found.runs[base]:
        pairs = zip(found.runs[base][kind], found.runs[other].get(kind, []), strict=False)
        costs = [1 - costly["rate"] / free["rate"] for free, costly in pairs if free["rate"]]
        values[kind] = figure.pick(costs) if costs else None
    both = [found.runs[key][PYROMQ] for key in (base, other)]
    return Row(name, figure, values, all(len(quiet_runs(runs)) >= min(2, len(runs)) for runs in both))


def _refused(runs: Runs) -> dict[str, float]:
    shares = {}
    for kind in runs:
        refused = sum(sum(run["refused"].values()) for run in runs[kind])
        done = sum(run["messages_in_all"] / run["batch"] for run in runs[kind])
        if refused and refused >= (refused + done) / 1000:
            shares[kind] = round(refused / (refused + done), 4)
    return shares


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
        "pyromq": describe(),
        "commit": subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip(),
    }


def where(seen: dict[str, str], at: str) -> str:
    """Return one line on when and where it was measured."""
    return (
        f"{at}, {seen['cores']} cores ({seen['processor']}), {seen['memory']}, Linux {seen['kernel']},"
        f" Python {seen['python']}, {seen['java']}, PyroMQ {seen['commit']} ({seen['pyromq']})."
    )
