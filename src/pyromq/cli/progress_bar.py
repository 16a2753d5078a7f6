"""A progress bar on standard error."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from pyromq.cli.bars import Advance


@contextmanager
def progress_bar(verb: str, total: int | None) -> Iterator[Advance]:
    """Show a bar while the block runs; call what it is given once for each thing done, or with how many."""
    columns = (TextColumn(verb), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(verb, total=total)
        yield lambda count=1: progress.advance(task, count)


@contextmanager
def byte_progress_bar(verb: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; call what it is given with the bytes that were done."""
    columns = (TextColumn(verb), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(verb, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def row_progress_bar(verb: str) -> Iterator[Callable[[int, int | None, str], None]]:
    """Show a bar while the block runs; call what it is given with the rows done, those left, and a note."""
    columns = (
        TextColumn(verb),
        BarColumn(),
        TextColumn("{task.completed:,.0f} messages"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(verb, total=None, rate="", note="")
        before: list[int] = []

        def show(done: int, left: int | None, note: str) -> None:
            # What earlier runs did is no part of the rate.
            before.append(done)
            del before[1:]
            seconds = progress.tasks[0].elapsed or 0.0
            rate = f"{(done - before[0]) / seconds:,.0f}/s" if seconds > 1 else ""
            waiting = "" if left is None else f"{left:,} left"
            progress.update(
                task,
                completed=done,
                total=None if left is None else done + left,
                rate=rate,
                note=" ".join(part for part in (waiting, note) if part),
            )

        yield show


@contextmanager
def looking_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show a bar while the block runs; call what it is given with what is looked at, how far, of how much."""
    columns = (TextColumn("looking at {task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task("the cluster", total=None)
        yield lambda what, done, total: progress.update(task, description=what, completed=done, total=total)
