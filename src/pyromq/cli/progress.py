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


@contextmanager
def progress_bar(verb: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar while the block runs; call what it is given once for each thing done."""
    columns = (TextColumn(verb), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(verb, total=total)
        yield lambda: progress.advance(task)


@contextmanager
def byte_progress_bar(verb: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar while the block runs; call what it is given with the bytes that were done."""
    columns = (TextColumn(verb), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(verb, total=total)
        yield lambda count: progress.advance(task, count)
