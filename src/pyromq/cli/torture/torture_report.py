"""The report of `pyromq torture`, for people: each promise, how often it was checked, and what broke it."""

import re
import sys
from typing import TYPE_CHECKING

from pyromq.torture.history import History
from pyromq.torture.pauses import WaitSpan
from pyromq.torture.run_outcome import RunOutcome, events_around

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: What is told of one broken promise, and of the events around it.
_TEXTS_MAX = 5
_EVENTS_MAX = 30
_PIPE_WIDTH = 140
_NUMBER = re.compile(r"message (\d+)")


def say_outcome(outcome: RunOutcome, history: History) -> None:
    """Print the table, the pauses, and what is needed to look into what broke."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)
    console.print(promises_table(outcome))
    for line in _figures(outcome):
        console.print(line)
    if outcome.broken:
        _say_broken(console, outcome, history)
        return
    checked = sum(verdict.checked for verdict in outcome.verdicts)
    word = "interrupted; " if outcome.is_interrupted else ""
    console.print(f"[bold green]{word}every promise was kept[/] ({checked:,} checks)")


def promises_table(outcome: RunOutcome) -> "Table":
    """Return the promises as a table."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        box=SIMPLE_HEAD,
        title=f"{outcome.cluster}, seed {outcome.seed}",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("PROMISE")
    table.add_column("CHECKED", justify="right")
    table.add_column("BROKEN", justify="right")
    for verdict in outcome.verdicts:
        if verdict.checked or verdict.broken:
            broken = f"[bold red]{len(verdict.broken):,}[/]" if verdict.broken else "[green]0[/]"
            table.add_row(verdict.promise, f"{verdict.checked:,}", broken)
    return table


def say_rounds(outcomes: list[RunOutcome]) -> None:
    """Print what came of several runs."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title=f"{len(outcomes)} rounds", title_justify="left", title_style="bold")
    for heading in ("SEED", "ACKED", "DELIVERED", "FAULTS", "CHECKED", "PAUSE s", "SETTLED s", "BROKEN"):
        table.add_column(heading, justify="right")
    for outcome in outcomes:
        broken = f"[bold red]{len(outcome.broken)}[/]" if outcome.broken else "[green]0[/]"
        table.add_row(
            str(outcome.seed),
            f"{outcome.acknowledged:,}",
            f"{outcome.delivered:,}",
            str(sum(outcome.faults.values())),
            f"{sum(verdict.checked for verdict in outcome.verdicts):,}",
            f"{outcome.pauses.producer.seconds:.1f}",
            f"{outcome.settled_s:.1f}",
            broken,
        )
    kept = sum(not outcome.broken for outcome in outcomes)
    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)
    console.print(table)
    console.print(f"{kept} of {len(outcomes)} rounds kept every promise")


def _figures(outcome: RunOutcome) -> list[str]:
    faults = ", ".join(f"{count} × {name}" for name, count in outcome.faults.most_common())
    unseen = [verdict.promise for verdict in outcome.verdicts if not (verdict.checked or verdict.broken)]
    lines = [f"[dim]not in this run: {'; '.join(unseen)}[/]", ""] if unseen else []
    lines += [
        f"[dim]messages[/]       {outcome.acknowledged:,} acknowledged, {outcome.delivered:,} delivered, "
        f"{outcome.failed_sends:,} sends without an answer, in {outcome.seconds:,.0f} s",
        f"[dim]faults[/]         {faults or 'none'}",
        f"[dim]longest pause[/]  {_pause(outcome.pauses.producer)} for a producer, "
        f"{_pause(outcome.pauses.consumer)} for a consumer",
        f"[dim]settled[/]        {outcome.settled_s:.1f} s after the last fault was healed",
    ]
    if outcome.picture is not None:
        lines.append(f"[dim]picture[/]        {outcome.picture}")
    if outcome.history_file is not None:
        lines.append(f"[dim]history[/]        {outcome.history_file}")
    return lines


def _pause(pause: WaitSpan) -> str:
    return f"{pause.seconds:.1f} s" + (f" ({pause.who}, at {pause.until_s:.0f} s)" if pause.who else "")


def _say_broken(console: "Console", outcome: RunOutcome, history: History) -> None:
    numbers: list[int] = []
    for verdict in outcome.broken:
        console.print(f"\n[bold red]broken:[/] [bold]{verdict.promise}[/]")
        for text in verdict.broken[:_TEXTS_MAX]:
            console.print(f"    {text}", markup=False, soft_wrap=True)
            numbers += [int(number) for number in _NUMBER.findall(text)[:1]]
        if len(verdict.broken) > _TEXTS_MAX:
            console.print(f"    … and {len(verdict.broken) - _TEXTS_MAX:,} more")
    events = events_around(history, numbers[:1])
    if events:
        console.print("\nwhat happened to the first of them:")
        for line in events[:_EVENTS_MAX]:
            console.print(f"  {line}", markup=False, soft_wrap=True)
    console.print(f"\nseed      {outcome.seed}", soft_wrap=True)
    console.print(f"data      {outcome.folder}", markup=False, soft_wrap=True)
    console.print(f"history   {outcome.history_file}", markup=False, soft_wrap=True)
    console.print(f"again     {outcome.command}", markup=False, soft_wrap=True)
