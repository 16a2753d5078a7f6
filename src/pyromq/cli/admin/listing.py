"""What a command shows: a table for people, a line of JSON for each row for programs, once or repeatedly.

On a terminal the table is drawn; in a pipe it is aligned text without colours, with the heads that mqadmin's
tables have, which scripts look for.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyromq.cli import bars, output
from pyromq.cli.times import written

_NOTHING = "-"
#: Cells that are numbers stand at the right.
_NUMBERS = (int, float)


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows, and how people see them: the head of each column, and the name of its field."""

    columns: Sequence[tuple[str, str]]
    records: Sequence[Mapping[str, Any]]
    #: Below the table, for people only.
    notes: Sequence[str] = ()
    #: On standard error.
    warnings: Sequence[str] = field(default=())

    def show(self, *, is_json: bool) -> None:
        """Print it."""
        if is_json:
            for record in self.records:
                output.say_json(record)
        else:
            if self.columns and (self.records or not self.notes):
                self._print()
            for note in self.notes:
                output.say(note)
        for warning in self.warnings:
            output.warn(warning)

    def _print(self) -> None:
        if sys.stdout.isatty():
            from rich.console import Console

            Console().print(self.drawn())
            return
        rows = [[head for head, _ in self.columns], *self._rows()]
        for line in output.columns(rows):
            output.say(line)

    def drawn(self) -> Any:
        """Return it as rich draws it."""
        from rich.table import Table

        table = Table(box=None, header_style="bold cyan", pad_edge=False)
        for head, name in self.columns:
            is_number = all(
                isinstance(record.get(name), _NUMBERS) and not name.endswith("_ms") for record in self.records
            )
            table.add_column(head.lstrip("#"), justify="right" if is_number and self.records else "left")
        for row in self._rows():
            table.add_row(*row)
        return table

    def _rows(self) -> list[list[str]]:
        return [[cell(name, record.get(name)) for _, name in self.columns] for record in self.records]


def cell(name: str, value: Any) -> str:
    """Return a value as people read it; fields that end with _ms are moments."""
    if value is None or value == "":
        return _NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_ms") and isinstance(value, int):
        return written(value) if value > 0 else _NOTHING
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list | tuple):
        return ", ".join(str(one) for one in value) or _NOTHING
    return str(value)


def show_again(look: Callable[[], Listing], every_s: float | None, *, is_json: bool) -> None:
    """Show what `look` finds, once, or every so many seconds until the command is interrupted."""
    if every_s is None:
        look().show(is_json=is_json)
        return
    if is_json or not sys.stdout.isatty():
        while True:
            look().show(is_json=is_json)
            pause(every_s)
    _show_live(look, every_s)


def pause(seconds: float) -> None:
    """Let time pass between two looks."""
    time.sleep(seconds)


def _show_live(look: Callable[[], Listing], every_s: float) -> None:
    from rich.console import Group
    from rich.live import Live

    found = look()
    with bars.hidden(), Live(auto_refresh=False, screen=False) as live:
        while True:
            live.update(Group(found.drawn(), *found.notes, *found.warnings), refresh=True)
            pause(every_s)
            found = look()
