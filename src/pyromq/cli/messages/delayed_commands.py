"""The commands about messages that wait for their time: `delayed list`, `show` and `recall`."""

from typing import Annotated

import typer

from pyromq.cli import options
from pyromq.cli.admin.admin_options import completed_topics
from pyromq.cli.confirmation import Yes, confirm
from pyromq.cli.exit_status import FAILED, NOT_THERE, ended_by_errors
from pyromq.cli.options import examples

delayed = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Messages that wait for their time: list them, look at one, take one back.",
)


_TIME = "2026-01-31T12:00:00, +2h from now, or milliseconds since 1970"


@delayed.command(
    "list",
    epilog=examples(
        "pyromq delayed list",
        "pyromq delayed list orders --from +1h --to +2h",
        "pyromq delayed list orders --key 42",
        "pyromq delayed list orders --all --json",
    ),
)
def list_waiting(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="TOPIC",
            help="Only messages to this topic.",
            show_default=False,
            autocompletion=completed_topics,
        ),
    ] = None,
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Only with this key or id, of the newest 64."),
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help=f"Due at this time or later: {_TIME}.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Due at this time or earlier.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 20,
    is_all: Annotated[bool, typer.Option("--all", help="All of them, page by page.")] = False,
    as_json: options.Json = False,
) -> None:
    """List the messages that wait for their time, the earliest first."""
    from pyromq.cli.messages.delayed import DelayedQuery, run_list
    from pyromq.cli.times import moment_ms

    listing = DelayedQuery(
        topic=topic,
        key=key,
        begin_ms=0 if begin is None else moment_ms(begin, "--from"),
        end_ms=None if end is None else moment_ms(end, "--to"),
        limit=None if is_all else limit,
    )
    with ended_by_errors():
        run_list(listing, name_server=name_server, is_json=as_json)


@delayed.command(epilog=examples("pyromq delayed show 7F00000100010CA5D2F80000002A0001 --json"))
def show(
    message: Annotated[
        str, typer.Argument(metavar="ID", help="The message's id, or its recall handle.", show_default=False)
    ],
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    as_json: options.Json = False,
) -> None:
    """Print all there is about a message that waits.

    Status 3: no such message waits; it was delivered or recalled, or never was.
    """
    from pyromq.cli.messages.delayed import run_show

    with ended_by_errors():
        is_done = run_show(message, name_server=name_server, is_json=as_json)
    if not is_done:
        raise typer.Exit(NOT_THERE)


@delayed.command(
    epilog=examples(
        "pyromq delayed recall 7F00000100010CA5D2F80000002A0001",
        "pyromq delayed list orders --all --json | jq -r .recall_handle | pyromq delayed recall - --yes",
    )
)
def recall(
    messages: Annotated[
        list[str],
        typer.Argument(
            metavar="ID",
            help="Ids or recall handles of messages; - reads them from standard input, one a line.",
            show_default=False,
        ),
    ],
    *,
    yes: Yes = False,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    as_json: options.Json = False,
) -> None:
    """Take messages back before their time comes: they are never delivered.

    Status 1: one of them did not wait any more; the others are recalled all the same.
    """
    from pyromq.cli.messages.delayed import run_recall

    which = "the messages that standard input lists" if "-" in messages else ", ".join(messages)
    confirm(f"Recall {which}, so that nobody gets them?", is_yes=yes)
    with ended_by_errors():
        is_done = run_recall(messages, name_server=name_server, is_json=as_json)
    if not is_done:
        raise typer.Exit(FAILED)
