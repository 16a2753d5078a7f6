"""The output of a command: a table for people, a line of JSON a row for programs, once or repeatedly.

On a terminal the table is drawn so that nothing is cut off: names and ids go on in the next line where there
is no room. In a pipe it is aligned text without colours, with the heads that mqadmin's tables have, which
scripts look for.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

from pyromq.cli import bars, output
from pyromq.cli.exit_status import DONE, IN_PART, say_next_step
from pyromq.cli.messages.bodies import safe
from pyromq.cli.times import written, written_short
from pyromq.errors import NetworkError, PyroError

if TYPE_CHECKING:
    from pyromq.client.plans.admin.targets import Silence

_NOTHING = "-"
#: Cells that are numbers stand at the right.
_NUMBERS = (int, float)
#: Cells up to this many characters are never broken.
_SHORT = 12


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows, and how people see them: the head of each column, and the name of its field."""

    columns: Sequence[tuple[str, str]]
    records: Sequence[Mapping[str, Any]]
    #: Below the table, for people only.
    notes: Sequence[str] = ()
    #: On standard error.
    warnings: Sequence[str] = field(default=())
    #: What the command ends with.
    status: int = DONE

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
        say_next_step(self.warnings)

    def without(self, silence: "Silence") -> "Listing":
        """Return it with a warning for each broker that did not answer, and the status that says so."""
        if not silence.why:
            return self
        missing = [did_not_answer(place.broker_name, why) for place, why in sorted(silence.why.items())]
        return replace(self, warnings=[*missing, *self.warnings], status=self.status or IN_PART)

    def _print(self) -> None:
        if sys.stdout.isatty():
            from rich.console import Console

            Console().print(self.drawn())
            return
        rows = [[head for head, _ in self.columns], *self._rows(cell)]
        for line in output.columns(rows):
            output.say(line)

    def drawn(self) -> Any:
        """Return it as rich draws it."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, header_style="bold cyan", pad_edge=False)
        rows = self._rows(_short_cell)
        for at, (head, name) in enumerate(self.columns):
            width = max((len(row[at]) for row in rows), default=0)
            is_moment = name.endswith("_ms")
            is_number = bool(rows) and all(_is_number(one.get(name)) for one in self.records)
            table.add_column(
                _broken(head.lstrip("#"), width),
                justify="right" if is_number and not is_moment else "left",
                no_wrap=is_number or is_moment or width <= _SHORT,
                overflow="fold",
            )
        for row in rows:
            # Text, for a key may be `[/b]`, which rich would take for its own.
            table.add_row(*map(Text, row))
        return table

    def _rows(self, show: Callable[[str, Any], str]) -> list[list[str]]:
        return [[show(name, record.get(name)) for _, name in self.columns] for record in self.records]


def did_not_answer(broker: str, why: str) -> str:
    """Return the warning that something of a broker's is missing."""
    return f"what {broker} has is missing here: {why}"


def unknown(silence: "Silence", what: str) -> NetworkError:
    """Return the error that what is asked cannot be said, since brokers did not answer that may have it."""
    missing = "; ".join(f"{place.broker_name}: {why}" for place, why in sorted(silence.why.items()))
    return NetworkError(f"nobody that answers knows {what}, and not all answer: {missing}")


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _broken(head: str, width: int) -> str:
    """Return the head of a column in two lines if what is below it is narrower."""
    return head.replace(" ", "\n", 1) if len(head) > width else head


def _short_cell(name: str, value: Any) -> str:
    if name.endswith("_ms") and isinstance(value, int) and value > 0:
        return written_short(value)
    return cell(name, value)


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
        return safe(", ".join(str(one) for one in value)) or _NOTHING
    return safe(str(value))


def show_again(look: Callable[[], Listing], every_s: float | None, *, is_json: bool) -> Listing:
    """Show what `look` finds, once, or every so many seconds until the command is interrupted.

    The first look must succeed. A later one that fails says why, and the next is taken: whoever watches a
    cluster wants to see it come back.
    """
    found = look()
    if every_s is not None:
        _watch(look, found, every_s, is_json=is_json)
    found.show(is_json=is_json)
    return found


def pause(seconds: float) -> None:
    """Let time pass between two looks."""
    time.sleep(seconds)


def _watch(look: Callable[[], Listing], found: Listing, every_s: float, *, is_json: bool) -> NoReturn:
    if not is_json and sys.stdout.isatty():
        _show_live(look, found, every_s)
    while True:
        found.show(is_json=is_json)
        pause(every_s)
        found = _look_again(look, Listing((), ()))


def _show_live(look: Callable[[], Listing], found: Listing, every_s: float) -> NoReturn:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    with bars.hidden(), Live(auto_refresh=False, screen=False) as live:
        while True:
            below = [Text(note) for note in found.notes]
            below += [Text(f"warning: {warning}", "yellow") for warning in found.warnings]
            live.update(Group(found.drawn(), *below), refresh=True)
            pause(every_s)
            found = _look_again(look, found)


def _look_again(look: Callable[[], Listing], before: Listing) -> Listing:
    try:
        return look()
    except PyroError as error:
        return replace(before, warnings=[f"{error}; looking again"])
