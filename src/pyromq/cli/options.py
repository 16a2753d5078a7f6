"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pyromq.cli.plain_options import (
    ASSIGNMENTS,
    CONFIG_FILE,
    JSON,
    LOG_LEVEL,
    READY_FILE,
    LogLevel,
    PlainOption,
)

DEFAULT_NAME_SERVER = "127.0.0.1:9876"


def typer_option(option: PlainOption) -> Any:
    """Return an option as typer takes it, in an annotation."""
    return typer.Option(
        *option.names,
        metavar=option.metavar,
        help=option.help,
        min=option.least,
        max=option.most,
        rich_help_panel=option.panel,
        hidden=option.is_hidden,
    )


def one_address(text: str | None) -> str | None:
    """Return the address of one server, if it is one; a broker's name is taken for it easily."""
    if text is not None and not is_address(text):
        raise typer.BadParameter(
            f"{text!r} is no address; expected HOST:PORT, as `pyromq cluster list` has them"
        )
    return text


def is_address(text: str) -> bool:
    """Whether a text is `host:port`."""
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
ConfigFile = Annotated[Path | None, typer_option(CONFIG_FILE)]
Assignments = Annotated[list[str] | None, typer_option(ASSIGNMENTS)]
Json = Annotated[bool, typer_option(JSON)]
ReadyFile = Annotated[Path | None, typer_option(READY_FILE)]
Logging = Annotated[LogLevel, typer_option(LOG_LEVEL)]


def examples(*lines: str) -> str:
    """Return the examples of a command's help."""
    # An empty line makes a paragraph of each; rich would run them together.
    return "\n\n".join(["Examples:", *(f"[cyan]{line}[/cyan]" for line in lines)])
