"""The commands for dead letters: `dlq list`, `dlq show` and `dlq replay`."""

from typing import Annotated

import typer

from pyromq.cli import options
from pyromq.cli.admin.admin_options import completed_groups
from pyromq.cli.exit_status import NOT_THERE
from pyromq.cli.options import examples

dlq = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Dead letters, which groups gave up: list them, look at one, replay them.",
)


LIST_LIMIT = 100
#: So many failures in a row have one cause, and it will not pass by itself.
STOP_AFTER = 10

CHOICE = "Which dead letters"

Group = Annotated[
    str,
    typer.Argument(
        metavar="GROUP",
        help="The group whose dead letters they are.",
        show_default=False,
        autocompletion=completed_groups,
    ),
]
Key = Annotated[str | None, typer.Option(metavar="KEY", help="Only with this key.", rich_help_panel=CHOICE)]
Tag = Annotated[
    str | None,
    typer.Option(metavar="A||B", help="Only with one of these tags.", rich_help_panel=CHOICE),
]
Topic = Annotated[
    str | None, typer.Option(metavar="TOPIC", help="Only first sent to this topic.", rich_help_panel=CHOICE)
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Only died since: 2026-01-31T12:00:00, how long ago (30m, 2h, 7d), or milliseconds since 1970.",
        rich_help_panel=CHOICE,
    ),
]
Until = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only died before this time.", rich_help_panel=CHOICE),
]
MakeReadable = Annotated[
    bool,
    typer.Option(
        "--make-readable",
        help="First allow the dead letters to be read where they may not be (brokers of old versions).",
    ),
]


@dlq.command(
    "list",
    epilog=examples(
        "pyromq dlq list",
        "pyromq dlq list billing --since 2h --tag paid",
        "pyromq dlq list billing --limit 0 --json > dead.jsonl",
    ),
)
def list_letters(
    group: Annotated[
        str | None,
        typer.Argument(
            metavar="[GROUP]",
            help="The group; none: how many each group has.",
            show_default=False,
            autocompletion=completed_groups,
        ),
    ] = None,
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    key: Key = None,
    tag: Tag = None,
    topic: Topic = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, help="At most so many, the oldest first; 0 for all.")
    ] = LIST_LIMIT,
    make_readable: MakeReadable = False,
    as_json: options.Json = False,
) -> None:
    """List a group's dead letters, the oldest first, or how many each group has."""
    from pyromq.cli.messages.dlq import LetterChoice, run_counts, run_list

    if group is None:
        run_counts(name_server, is_json=as_json)
        return
    choice = LetterChoice(
        group=group, key=key, tag=tag, topic=topic, since=since, until=until, limit=limit or None
    )
    run_list(choice, name_server, make_readable=make_readable, is_json=as_json)


@dlq.command(epilog=examples("pyromq dlq show billing 7F00000113B1251A69D744DD51240000"))
def show(
    group: Group,
    message_id: Annotated[
        str, typer.Argument(metavar="ID", help="Any id of the message.", show_default=False)
    ],
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    full: Annotated[bool, typer.Option("--full", help="The whole body, however long.")] = False,
    body_only: Annotated[bool, typer.Option("--body-only", help="Print the body, nothing else.")] = False,
    make_readable: MakeReadable = False,
    as_json: options.Json = False,
) -> None:
    """Show a dead letter: where it came from, its properties, its body, whether it was replayed.

    Status 3: the group has no such dead letter.
    """
    from pyromq.cli.messages.dlq import Detail, LetterChoice, run_show

    detail = Detail.JSON if as_json else Detail.BODY if body_only else Detail.FULL if full else Detail.PREVIEW
    choice = LetterChoice(group=group, message_id=message_id)
    if not run_show(choice, name_server, detail, make_readable=make_readable):
        raise typer.Exit(NOT_THERE)


@dlq.command(
    epilog=examples(
        "pyromq dlq replay billing --key 42 --dry-run",
        "pyromq dlq replay billing --since 2026-01-31T12:00:00 --tag 'paid||sent' --rate 50",
        "pyromq dlq replay billing --all --yes --json",
        "pyromq dlq replay billing --topic orders --to-topic",
    )
)
def replay(
    group: Group,
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    every: Annotated[bool, typer.Option("--all", help="All of them.", rich_help_panel=CHOICE)] = False,
    message_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Only with this id.", rich_help_panel=CHOICE),
    ] = None,
    key: Key = None,
    tag: Tag = None,
    topic: Topic = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="At most so many, the oldest that are left.", rich_help_panel=CHOICE
        ),
    ] = None,
    to_topic: Annotated[
        bool,
        typer.Option("--to-topic", help="To the first topic, for every group (default: this group only)."),
    ] = False,
    rate: Annotated[
        float | None, typer.Option(metavar="N", min=0.001, help="Messages a second, at most.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go where, and store nothing.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Those too that were replayed before.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask before many are replayed.")] = False,
    stop_after: Annotated[
        int, typer.Option(metavar="N", min=0, help="Stop after so many failures in a row; 0 for never.")
    ] = STOP_AFTER,
    make_readable: MakeReadable = False,
    as_json: options.Json = False,
) -> None:
    """Replay dead letters, and say of each what became of it. One that was replayed before is skipped.

    Status 0: all that were meant are replayed. 1: some failed, and the cause stands behind each.
    """
    from pyromq.cli.messages.dlq import LetterChoice
    from pyromq.cli.messages.dlq_replay import LetterReplay, run_replay

    replaying = LetterReplay(
        choice=LetterChoice(
            group=group,
            key=key,
            tag=tag,
            topic=topic,
            message_id=message_id,
            since=since,
            until=until,
            limit=limit,
        ),
        is_all=every,
        is_to_topic=to_topic,
        rate=rate,
        is_rehearsal=dry_run,
        is_again=again,
        is_sure=yes,
        stop_after=stop_after,
        make_readable=make_readable,
        is_json=as_json,
    )
    if not run_replay(replaying, name_server):
        raise typer.Exit(1)
