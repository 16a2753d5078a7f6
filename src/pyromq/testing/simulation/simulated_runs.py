"""Runs many schedules on several cores, and tells what came of them."""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing import get_context

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pyromq.testing.simulation.simulated_run import SimulatedOutcome, run_seed
from pyromq.torture.history import HistoryEvent

#: Events that are shown of a run that broke a promise.
LAST_EVENTS = 25
#: Runs after which a process is replaced by a fresh one.
_RUNS_A_PROCESS = 100


@dataclass(slots=True)
class Summary:
    """One run, without its history."""

    seed: int
    schedule: str
    simulated_s: float
    messages: int
    faults: dict[str, int]
    checked: dict[str, int]
    broken: list[tuple[str, str]]
    last_events: list[str]


@dataclass(slots=True)
class RunsTotal:
    """All runs."""

    schedules: int = 0
    simulated_s: float = 0.0
    messages: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    broken: Counter[str] = field(default_factory=Counter)
    failed: list[Summary] = field(default_factory=list)

    def add(self, summary: Summary) -> None:
        """Count a run."""
        self.schedules += 1
        self.simulated_s += summary.simulated_s
        self.messages += summary.messages
        self.faults.update(summary.faults)
        self.checked.update(summary.checked)
        if summary.broken:
            self.failed.append(summary)
            self.broken.update(promise for promise, _ in summary.broken)


def summary_of(seed: int) -> Summary:
    """Run a seed, and return what a person wants to know of it."""
    outcome = run_seed(seed, has_digest=False)
    return Summary(
        seed=seed,
        schedule=str(outcome.schedule),
        simulated_s=outcome.simulated_s,
        messages=outcome.messages,
        faults=outcome.faults,
        checked={verdict.promise: verdict.checked for verdict in outcome.verdicts},
        broken=outcome.broken,
        last_events=[str(event)[:240] for event in telling_events(outcome)] if outcome.broken else [],
    )


def telling_events(outcome: SimulatedOutcome) -> list[HistoryEvent]:
    """Return the events that tell a broken run: what happened to the cluster, and the last of the others."""
    plot = {
        "fault",
        "healed",
        "leader",
        "leaderless",
        "started",
        "server_failed",
        "unhandled",
        "unleased_ack",
        "settled",
    }
    told = [event for event in outcome.events if event.kind in plot]
    others = [event for event in outcome.events if event.kind not in plot and event.kind != "log"]
    return sorted([*told[-LAST_EVENTS:], *others[-LAST_EVENTS:]], key=lambda event: event.at_s)


def run_many(first: int, count: int, minutes: float, jobs: int, console: Console) -> RunsTotal:
    """Run seeds until there are enough of them, or the time is over."""
    total = RunsTotal()
    columns = (
        TextColumn("simulate"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[simulated]} simulated, {task.fields[broken]} broken"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=count, simulated="0 min", broken=0)
        for summary in _summaries(iter(range(first, first + count)), minutes, jobs):
            total.add(summary)
            if summary.broken:
                tell_failure(summary, console)
            simulated = f"{total.simulated_s / 60:.0f} min"
            progress.update(task, advance=1, simulated=simulated, broken=len(total.failed))
    return total


def _summaries(seeds: Iterator[int], minutes: float, jobs: int) -> Iterator[Summary]:
    end_at = time.monotonic() + minutes * 60
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, context, max_tasks_per_child=_RUNS_A_PROCESS) as pool:
        under_way: set[Future[Summary]] = set()
        while True:
            while len(under_way) < jobs * 2 and time.monotonic() < end_at:
                seed = next(seeds, None)
                if seed is None:
                    break
                under_way.add(pool.submit(summary_of, seed))
            if not under_way:
                return
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def tell_failure(summary: Summary, console: Console) -> None:
    """Print what a person needs to know of a broken run."""
    console.print(f"\n[bold red]seed {summary.seed}[/]: {summary.schedule}", highlight=False)
    for promise, text in summary.broken[:5]:
        console.print(f"  [red]{promise}[/]: {text[:400]}", highlight=False, markup=True)
    if len(summary.broken) > 5:
        console.print(f"  and {len(summary.broken) - 5} more")
    for line in summary.last_events:
        console.print(f"    {line}", highlight=False, markup=False)
    console.print(f"  again: {replay_command(summary.seed)}", highlight=False)


def replay_command(seed: int) -> str:
    """Return what a person types to see a run again."""
    return f"{os.path.relpath(sys.executable)} tools/simulate.py --replay {seed}"


def tell_total(total: RunsTotal, console: Console, elapsed_s: float) -> None:
    """Print the final tables."""
    table = Table(title="Simulated runs", show_header=False)
    table.add_row("schedules", f"{total.schedules:,}")
    table.add_row("simulated time", f"{total.simulated_s / 60:,.1f} minutes in {elapsed_s / 60:.1f}")
    table.add_row("messages acknowledged", f"{total.messages:,}")
    table.add_row("faults", f"{sum(total.faults.values()):,}")
    for kind, count in sorted(total.faults.items()):
        table.add_row(f"  {kind}", f"{count:,}")
    console.print(table)
    promises = Table("Promise", "Checked", "Broken", title="Promises")
    for promise in {**dict.fromkeys(total.checked), **dict.fromkeys(total.broken)}:
        broken = total.broken[promise]
        promises.add_row(promise, f"{total.checked[promise]:,}", f"[red]{broken:,}[/]" if broken else "0")
    console.print(promises)
    if total.failed:
        seeds = " ".join(str(summary.seed) for summary in total.failed)
        console.print(
            f"[red]{len(total.failed)} schedules broke a promise[/], seeds {seeds}", highlight=False
        )
