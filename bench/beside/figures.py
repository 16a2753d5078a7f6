"""Which servers are compared, which figures matter, and how it is judged whether a goal is reached."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any

APACHE_4, APACHE_5, PYROMQ, ECHO = "apache-4.9", "apache-5.5", "pyromq", "echo"
#: Those with a column of their own, in its order; a run need not have all of them.
KINDS = (APACHE_4, APACHE_5, PYROMQ)
TITLES = {APACHE_4: "Apache 4.9", APACHE_5: "Apache 5.5", PYROMQ: "PyroMQ", ECHO: "echo"}

#: Where our processor time is at most so many times the echo server's, what is left is the system's.
FLOOR_TIMES = 1.5


class Bound(StrEnum):
    """How a goal is meant."""

    TIMES = "times"
    """Ours is at least so many times better than the rival's: Apache 4.9, or 5.5 where its proxy is meant."""
    LEAST = "least"
    """Ours is at least this."""
    MOST = "most"
    """Ours is at most this."""


@dataclass(frozen=True)
class Figure:
    """A number that a run shows, how it is written, and what it should be."""

    name: str
    goal: float | None = None
    label: str = ""
    is_more_better: bool = False
    write: Callable[[float], str] = lambda value: f"{value:,.2f}"
    bound: Bound = Bound.TIMES
    pick: Callable[[Sequence[float]], float] = median
    """How the rounds become one figure."""

    def ahead(self, theirs: float | None, ours: float | None) -> float | None:
        """Return how many times better ours is; 1 is as good."""
        if not theirs or not ours:
            return None
        return ours / theirs if self.is_more_better else theirs / ours

    def written_goal(self) -> str:
        """Return what is to be reached, or nothing."""
        if self.goal is None:
            return ""
        if self.bound is Bound.TIMES:
            return f"≥ {self.goal:g} ×"
        return f"{'≥' if self.bound is Bound.LEAST else '≤'} {self.write(self.goal)}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _ms(value: float) -> str:
    return f"{value / 1e3:.2f}"


def _share(value: float) -> str:
    return f"{value:.0%}"


def rate(goal: float | None = None) -> Figure:
    """Messages a second."""
    return Figure("rate", goal, "messages/s", is_more_better=True, write=_count)


def per_cpu(goal: float | None = None, bound: Bound = Bound.TIMES) -> Figure:
    """Messages for each second of the server's processor time."""
    label = "messages per server CPU-second"
    return Figure("messages_per_server_cpu_s", goal, label, is_more_better=True, write=_count, bound=bound)


def per_client_cpu(goal: float | None = None) -> Figure:
    """Messages for each second of the client's processor time."""
    label = "messages per client CPU-second"
    return Figure("messages_per_client_cpu_s", goal, label, is_more_better=True, write=_count)


def latency(name: str, goal: float | None = None) -> Figure:
    """A percentile, or a delivery's when the name begins with that."""
    return Figure(name, goal, f"{name.removeprefix('delivery_')}, ms", write=_ms)


SECONDS = Figure("seconds", 5.0, "s")
SPREAD = Figure(
    "ratio", 0.8, "rate, of that to 1 topic", is_more_better=True, write=_share, bound=Bound.LEAST
)
SYNC_COST = Figure("cost", 0.10, "rate lost to synchronous replication", write=_share, bound=Bound.MOST)
#: The first round has it all: later ones find the memory that the first needed.
IDLE_KIB = Figure(
    "idle_kib",
    10.0,
    "KiB for an idle connection",
    write=lambda kib: f"{kib:.1f}",
    bound=Bound.MOST,
    pick=max,
)


def memory(goal: float) -> Figure:
    """Resident memory."""
    return Figure("mib", goal, "MiB", write=_count)


@dataclass(frozen=True)
class Row:
    """A line of the table: one figure of one case."""

    case: str
    figure: Figure
    values: dict[str, float | None]
    is_quiet: bool = True
    refused: dict[str, float] = field(default_factory=dict)
    """For each kind which part of its requests was refused, if it is at least one in a thousand."""
    rival: str = APACHE_4
    """The kind that a goal is set against."""

    @property
    def reached(self) -> float | None:
        """How many times better than the rival; where the goal is no comparison, the figure itself."""
        ours = self.values.get(PYROMQ)
        if self.figure.bound is not Bound.TIMES:
            return ours
        return self.figure.ahead(self.values.get(self.rival), ours)

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None when there is none, or nothing was measured."""
        if self.figure.goal is None or self.reached is None:
            return None
        if self.figure.bound is Bound.MOST:
            return self.reached <= self.figure.goal
        return self.reached >= self.figure.goal

    @property
    def above_floor(self) -> float | None:
        """How many times the echo server's processor time ours is; None where there is no echo."""
        if self.figure.name != "messages_per_server_cpu_s":
            return None
        return self.figure.ahead(self.values.get(PYROMQ), self.values.get(ECHO))

    @property
    def is_at_floor(self) -> bool:
        """Whether ours is so near to the echo server that what is left is the system's."""
        return self.above_floor is not None and self.above_floor <= FLOOR_TIMES

    def written_reached(self) -> str:
        """Return what was reached of the goal, as the goal is written."""
        if self.reached is None:
            return "–"
        return _times(self.reached) if self.figure.bound is Bound.TIMES else self.figure.write(self.reached)

    def cells(self, kinds: Sequence[str]) -> list[str]:
        """Return the line's texts, with columns for these kinds."""
        figure = self.figure
        values = [
            figure.write(value) + " ‡" * (kind in self.refused)
            if (value := self.values.get(kind)) is not None
            else ""
            for kind in kinds
        ]
        ours = self.values.get(PYROMQ)
        ahead = [
            _times(figure.ahead(self.values.get(kind), ours)) if figure.bound is Bound.TIMES else ""
            for kind in kinds
            if kind != PYROMQ
        ]
        verdict = {True: "met", False: "**missed**", None: ""}[self.is_met]
        mark = "" if self.is_quiet or not verdict else " †"
        return [
            self.case,
            figure.label,
            *values,
            *ahead,
            figure.written_goal(),
            verdict + mark,
            _times(self.above_floor),
        ]

    def as_record(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "case": self.case,
            "figure": self.figure.name,
            "unit": self.figure.label,
            "values": self.values,
            "reached": self.reached,
            "goal": self.figure.goal,
            "bound": self.figure.bound,
            "is_met": self.is_met,
            "above_floor": self.above_floor,
            "is_quiet": self.is_quiet,
            "refused": self.refused,
        }


def _times(ahead: float | None) -> str:
    return "" if ahead is None else f"{ahead:.2f} ×"


def kinds_of(rows: Sequence[Row]) -> list[str]:
    """Return the kinds that have a column: those of which something was measured."""
    return [kind for kind in KINDS if any(row.values.get(kind) is not None for row in rows)]


def _head(kinds: Sequence[str]) -> list[str]:
    ahead = [f"ahead of {TITLES[kind].removeprefix('Apache ')}" for kind in kinds if kind != PYROMQ]
    return ["case", "figure", *(TITLES[kind] for kind in kinds), *ahead, "goal", "", "CPU, of an echo's"]


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    """Return the head and the rows' texts; the echo server's column only where it was measured."""
    kinds = kinds_of(rows)
    lines = [_head(kinds), *(row.cells(kinds) for row in rows)]
    return lines if any(row.above_floor for row in rows) else [line[:-1] for line in lines]


def table_of(rows: Sequence[Row]) -> str:
    """Return the rows as a Markdown table."""
    head, *texts = _lines(rows)
    verdict_at = head.index("")
    rule = ["---" if at in (0, 1, verdict_at) else "---:" for at in range(len(head))]
    lines = [head, rule, *texts]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def aligned(rows: Sequence[Row]) -> str:
    """Return the rows as a table for a terminal."""
    lines = _lines(rows)
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    texts = (0, 1, lines[0].index(""))
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at in texts else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def verdict_of(rows: Sequence[Row]) -> str:
    """Return one line: how many goals are met, and which are missed by how much."""
    judged = [row for row in rows if row.is_met is not None]
    missed = [
        f"{row.case}, {row.figure.label} ({row.written_reached()}, goal {row.figure.written_goal()})"
        for row in judged
        if not row.is_met
    ]
    said = f"{len(judged) - len(missed)} of {len(judged)} goals met"
    if not missed:
        return said
    at_floor = sum(not row.is_met and row.is_at_floor for row in judged)
    near = f" ({at_floor} of the others within {FLOOR_TIMES} × of the echo server)" if at_floor else ""
    return f"{said}{near}; missed: {'; '.join(missed)}"


def refusals_of(rows: Sequence[Row]) -> str:
    """Return what the mark ‡ means, or nothing when it is not used."""
    seen = {(row.case, kind): share for row in rows for kind, share in row.refused.items()}
    said = [f"{TITLES[kind]} {share:.1%} in «{case}»" for (case, kind), share in seen.items()]
    return f"‡ Requests that were refused (flow control) and sent anew: {'; '.join(said)}" if said else ""
