"""The table of what was measured beside what was to be reached, for people and for programs."""

import os
import platform
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.toolchains import tool

from beside.cases import CASES, MEMORY, SECONDS, SPREAD, Figure
from beside.measuring import Found, Runs, middle, quiet_runs
from beside.servers import APACHE_4, APACHE_5, KINDS, PYROMQ, TITLES
from pyromq.kernel import describe

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Row:
    """A line of the table: one figure of one case."""

    case: str
    figure: Figure
    values: dict[str, float | None]
    is_quiet: bool = True
    refused: dict[str, float] = field(default_factory=dict)
    """For each kind which part of its requests was refused, if it is at least one in a thousand."""

    @property
    def reached(self) -> float | None:
        """How many times better than Apache 4.9; for what has no counterpart there, the figure itself."""
        if APACHE_4 not in self.values:
            return self.values[PYROMQ]
        return self.figure.ahead(self.values[APACHE_4], self.values[PYROMQ])

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None when there is none, or nothing was measured."""
        if self.figure.goal is None or self.reached is None:
            return None
        return self.reached >= self.figure.goal

    def cells(self) -> list[str]:
        """Return the line's texts."""
        figure = self.figure
        values = [
            figure.write(value) + " ‡" * (kind in self.refused)
            if (value := self.values.get(kind)) is not None
            else ""
            for kind in KINDS
        ]
        ahead = [
            _times(figure.ahead(self.values.get(kind), self.values[PYROMQ])) for kind in (APACHE_4, APACHE_5)
        ]
        goal = ""
        if figure.goal is not None:
            goal = f"≥ {figure.goal:g} ×" if APACHE_4 in self.values else f"≥ {figure.write(figure.goal)}"
        verdict = {True: "met", False: "**missed**", None: ""}[self.is_met]
        return [
            self.case,
            figure.label,
            *values,
            *ahead,
            goal,
            verdict + ("" if self.is_quiet or not verdict else " †"),
        ]

    def as_record(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "case": self.case,
            "figure": self.figure.name,
            "unit": self.figure.label,
            "values": self.values,
            "ahead": self.reached,
            "ahead_of_5": self.figure.ahead(self.values.get(APACHE_5), self.values[PYROMQ]),
            "goal": self.figure.goal,
            "is_met": self.is_met,
            "is_quiet": self.is_quiet,
            "refused": self.refused,
        }


def _times(ahead: float | None) -> str:
    return "" if ahead is None else f"{ahead:.2f} ×"


def rows_of(found: Found) -> list[Row]:
    """Return the table's lines."""
    rows = []
    for case in CASES:
        if case.key in found.runs:
            runs = found.runs[case.key]
            refused = _refused(runs)
            rows += [Row(case.name, figure, *_middles(runs, figure), refused) for figure in case.figures]
    if found.starts_s:
        rows.append(Row("start to first acknowledged send", SECONDS, *_middles(found.starts_s, SECONDS)))
    for name in next(iter(found.memory.values()), {}):
        values: dict[str, float | None] = {kind: found.memory[kind][name] for kind in KINDS}
        rows.append(Row(f"resident memory, {name}", MEMORY, values))
    if found.crowd is not None:
        crowd = found.crowd
        name = f"send 128 B to {crowd['topics']:,} topics × {crowd['queues']}"
        rows.append(Row(name, SPREAD, {PYROMQ: crowd["ratio"]}))
    return rows


def _middles(runs: Runs, figure: Figure) -> tuple[dict[str, float | None], bool]:
    is_quiet = all(len(quiet_runs(runs[kind])) >= min(2, len(runs[kind])) for kind in KINDS)
    return {kind: middle(runs[kind], figure.name) for kind in KINDS}, is_quiet


def _refused(runs: Runs) -> dict[str, float]:
    shares = {}
    for kind in KINDS:
        refused = sum(sum(run["refused"].values()) for run in runs[kind])
        done = sum(run["messages_in_all"] / run["batch"] for run in runs[kind])
        if refused and refused >= (refused + done) / 1000:
            shares[kind] = round(refused / (refused + done), 4)
    return shares


def refusals_of(rows: list[Row]) -> str:
    """Return what the mark ‡ means, or nothing when it is not used."""
    seen = {(row.case, kind): share for row in rows for kind, share in row.refused.items()}
    said = [f"{TITLES[kind]} {share:.1%} in «{case}»" for (case, kind), share in seen.items()]
    return f"‡ Requests that were refused (flow control) and sent anew: {'; '.join(said)}" if said else ""


def table_of(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    ahead = [f"ahead of {TITLES[kind].removeprefix('Apache ')}" for kind in (APACHE_4, APACHE_5)]
    head = ["case", "figure", *(TITLES[kind] for kind in KINDS), *ahead, "goal", ""]
    lines = [head, ["---", "---", *(["---:"] * 6), "---"], *(row.cells() for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def aligned(rows: list[Row]) -> str:
    """Return the rows as a table for a terminal."""
    ahead = [f"of {TITLES[kind].removeprefix('Apache ')}" for kind in (APACHE_4, APACHE_5)]
    head = ["case", "figure", *(TITLES[kind] for kind in KINDS), *ahead, "goal", ""]
    lines = [head, *(row.cells() for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if 2 <= at <= 7 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def verdict_of(rows: list[Row]) -> str:
    """Return one line: how many goals are met, and which are missed by how much."""
    judged = [row for row in rows if row.is_met is not None]
    missed = [
        f"{row.case}, {row.figure.label} ({row.reached:.2f} of {row.figure.goal:g})"
        for row in judged
        if not row.is_met
    ]
    said = f"{len(judged) - len(missed)} of {len(judged)} goals met"
    return f"{said}; missed: {'; '.join(missed)}" if missed else said


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
