"""A running pipeline on the screen: a table that changes on a terminal, a line a batch elsewhere, or JSON."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

from pyromq.cli import output

if TYPE_CHECKING:
    from pyspark_rocketmq.pipelines.query_progress import BatchDone
    from pyspark_rocketmq.pipelines.spec import Pipeline


@dataclass(slots=True)
class SinkTotal:
    """The rows that a sink has taken in all, and its last batch."""

    rows: int = 0
    batches: int = 0
    rate: float = 0.0
    lag: int | None = None

    def add(self, done: "BatchDone") -> None:
        """Count a batch."""
        self.rows += done.rows
        self.batches += 1
        self.rate = done.rate
        self.lag = done.lag


@dataclass(slots=True)
class SinkTotals:
    """The totals of all sinks since the start."""

    sinks: dict[str, SinkTotal]
    began: float = field(default_factory=time.monotonic)

    def add(self, done: "BatchDone") -> SinkTotal:
        """Count a batch, and return its sink's total."""
        total = self.sinks[done.sink]
        total.add(done)
        return total


class BatchView(Protocol):
    """Shows batches as they are done, and the sum in the end."""

    def show(self, done: "BatchDone") -> None:
        """Show a batch."""

    def end(self) -> None:
        """Show the sum."""


class JsonView:
    """An object a batch, and one in the end."""

    def __init__(self, totals: SinkTotals) -> None:
        self._totals = totals

    def show(self, done: "BatchDone") -> None:
        """Print a batch."""
        total = self._totals.add(done)
        output.say_json(
            {
                "sink": done.sink,
                "batch": done.batch,
                "rows": done.rows,
                "rows_total": total.rows,
                "rows_per_second": round(done.rate, 1),
                "lag": done.lag,
                "seconds": done.seconds,
            }
        )

    def end(self) -> None:
        """Print the sums."""
        sums = {
            name: {"rows": total.rows, "batches": total.batches, "lag": total.lag}
            for name, total in self._totals.sinks.items()
        }
        output.say_json({"ended": True, "sinks": sums})


class LineView:
    """A line a batch."""

    def __init__(self, totals: SinkTotals) -> None:
        self._totals = totals
        self._width = max(len(name) for name in totals.sinks)

    def show(self, done: "BatchDone") -> None:
        """Print a batch."""
        self._totals.add(done)
        output.say(
            f"{done.sink.ljust(self._width)}  batch {done.batch}  {done.rows:,} rows  "
            f"{done.rate:,.0f} rows/s  lag {_lag(done.lag)}"
        )

    def end(self) -> None:
        """Print the sums."""
        say_sums(self._totals)


class TableView:
    """A table on the terminal, changed with each batch."""

    def __init__(self, totals: SinkTotals, live: Live) -> None:
        self._totals = totals
        self._live = live

    def show(self, done: "BatchDone") -> None:
        """Change the table."""
        self._totals.add(done)
        self._live.update(_table(self._totals))

    def end(self) -> None:
        """Leave the table, and print the sums below it."""
        self._live.stop()
        say_sums(self._totals)


@contextmanager
def progress_view(pipeline: "Pipeline", *, is_json: bool) -> Iterator[BatchView]:
    """Give what shows a pipeline's progress here."""
    totals = SinkTotals({sink.name: SinkTotal() for sink in pipeline.sinks})
    if is_json:
        yield JsonView(totals)
    elif sys.stderr.isatty():
        with Live(_table(totals), console=Console(file=sys.stderr), refresh_per_second=4) as live:
            yield TableView(totals, live)
    else:
        yield LineView(totals)


def say_sums(totals: SinkTotals) -> None:
    """Print what each sink has taken."""
    seconds = time.monotonic() - totals.began
    for name, total in totals.sinks.items():
        output.say(
            f"{name}: {total.rows:,} rows in {total.batches} batches and {seconds:.1f} s, "
            f"lag {_lag(total.lag)}"
        )


def _table(totals: SinkTotals) -> Table:
    table = Table("sink", box=None, header_style="dim")
    for heading in ("batches", "rows", "rows/s", "lag"):
        table.add_column(heading, justify="right")
    for name, total in totals.sinks.items():
        table.add_row(name, str(total.batches), f"{total.rows:,}", f"{total.rate:,.0f}", _lag(total.lag))
    return table


def _lag(lag: int | None) -> str:
    return "?" if lag is None else f"{lag:,}"
