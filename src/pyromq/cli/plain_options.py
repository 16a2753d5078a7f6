"""Options of commands, defined once for both parsers: the small one of servers and typer.

A command whose options are a dataclass of fields made by `option` can be started without typer, whose import
takes longer than a name server's start and 12 MiB for as long as the server runs. `plain_parser.py` reads
such options from the words of a command line; `typer_program.py` makes a typer command of the same dataclass,
for help, completion and complaints.
"""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

SETTINGS = "Settings"
MACHINES = "For programs"

_METADATA = "option"


class LogLevel(StrEnum):
    """The level from which the servers log to standard error."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class PlainOption:
    """An option's names, and its words and place in the help."""

    names: tuple[str, ...]
    help: str | None = None
    metavar: str | None = None
    panel: str | None = None
    #: Smallest and largest number.
    least: int | None = None
    most: int | None = None
    is_hidden: bool = False


def field_of(option: PlainOption, *, default: Any = None) -> Any:
    """Return a field of a dataclass of options, for an option that several commands have."""
    return field(default=default, metadata={_METADATA: option})


def option(*names: str, default: Any = None, **facts: Any) -> Any:
    """Return a field of a dataclass of options, with the facts of a PlainOption."""
    return field_of(PlainOption(names, **facts), default=default)


def options_of(kind: type) -> dict[str, PlainOption]:
    """Return the options of a dataclass by the name of their field."""
    return {each.name: each.metadata[_METADATA] for each in fields(kind)}


CONFIG_FILE = PlainOption(
    ("-c", "--config"),
    metavar="FILE",
    help="Settings file: RocketMQ's broker.conf as it is, or TOML.",
    panel=SETTINGS,
)
ASSIGNMENTS = PlainOption(
    ("--set",),
    metavar="KEY=VALUE",
    help="Any setting under RocketMQ's name; may be repeated.",
    panel=SETTINGS,
)
JSON = PlainOption(("--json",), help="One JSON object a line.", panel=MACHINES)
READY_FILE = PlainOption(
    ("--ready-file",),
    metavar="FILE",
    help="Write the addresses there as JSON when ready; removed at the stop.",
    panel=MACHINES,
)
LOG_LEVEL = PlainOption(("--log-level",), help="How much to say on standard error.", panel=MACHINES)
