"""Options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

SETTINGS = "Settings"
MACHINES = "For programs"

DEFAULT_NAME_SERVER = "127.0.0.1:9876"


class LogLevel(StrEnum):
    """How much the servers say on standard error."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def one_address(text: str | None) -> str | None:
    """Return the address of one server, if it is one; a broker's name is taken for it easily."""
    if text is not None and not is_address(text):
        raise typer.BadParameter(
            f"{text!r} is no address; expected HOST:PORT, as `pyromq cluster list` has them"
        )
    return text


def is_address(text: str) -> bool:
    """Whether a text is «host:port»."""
    host, _, port = text.strip().rpartition(":")
    return bool(host) and port.isascii() and port.isdecimal() and 0 < int(port) < 65_536


NameServer = Annotated[
    str,
    typer.Option(
        "-n",
        "--namesrv",
        metavar="HOST:PORT",
        envvar="NAMESRV_ADDR",
        help="Name servers, joined by semicolons.",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "-c",
        "--config",
        metavar="FILE",
        help="Settings file: RocketMQ's broker.conf as it is, or TOML.",
        rich_help_panel=SETTINGS,
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any setting under RocketMQ's name; may be repeated.",
        rich_help_panel=SETTINGS,
    ),
]
Listen = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="ADDRESS",
        help="Address to listen on (default 127.0.0.1); 0.0.0.0 opens it to all.",
    ),
]
Advertise = Annotated[
    str | None,
    typer.Option("--advertise", metavar="ADDRESS", help="Address that clients are told to connect to."),
]
Folder = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="Folder for all data (default: pyromq in your data folder)."),
]
PrintSettings = Annotated[
    bool,
    typer.Option(
        "--print-settings",
        help="Print each setting and where it came from, and stop.",
        rich_help_panel=SETTINGS,
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="List the given settings that have no effect here, and stop; status 1 if one would change what "
        "is promised (durability, limits, security).",
        rich_help_panel=SETTINGS,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.", rich_help_panel=MACHINES)]
ReadyFile = Annotated[
    Path | None,
    typer.Option(
        "--ready-file",
        metavar="FILE",
        help="Write the addresses there as JSON when ready; removed at the stop.",
        rich_help_panel=MACHINES,
    ),
]
Logging = Annotated[
    LogLevel, typer.Option("--log-level", help="How much to say on standard error.", rich_help_panel=MACHINES)
]


def examples(*lines: str) -> str:
    """Return the examples of a command's help."""
    # An empty line makes a paragraph of each; rich would run them together.
    return "\n\n".join(["Examples:", *(f"[cyan]{line}[/cyan]" for line in lines)])
