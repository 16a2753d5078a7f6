"""The commands for a broker's files: `store verify`, `dump` and `backup`. None of them changes the store."""

from pathlib import Path
from typing import Annotated

import typer

from pyromq.cli import options
from pyromq.cli.options import examples

store = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Look at a broker's files or back them up, running or not; nothing is changed.",
)

Folder = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="The store, or the data folder that holds it.", show_default=False),
]


@store.command(
    epilog=examples(
        "pyromq store verify ~/.local/share/pyromq",
        "pyromq store verify ./data/broker-a --json",
        "pyromq store verify /home/rocketmq/store -c broker.conf",
    )
)
def verify(
    folder: Folder,
    *,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes to use (default: one for each core).")
    ] = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
    as_json: options.Json = False,
) -> None:
    """Check every message, checksum, queue entry, key and table of a store.

    Status 0: everything is whole. 1: faults were found, each with its file, its place and what to do.
    """
    from pyromq.cli.store_views import layout_of, run_verify

    if not run_verify(layout_of(folder, config, assignments), jobs, is_json=as_json):
        raise typer.Exit(1)


@store.command(
    epilog=examples(
        "pyromq store dump ./data --topic orders --queue 0 --from 100 --to 199",
        "pyromq store dump ./data --topic orders --key 42 --json",
        "pyromq store dump ./data --position 1073741824 --limit 10",
    )
)
def dump(
    folder: Folder,
    *,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only this topic.")] = None,
    queue: Annotated[int | None, typer.Option(metavar="ID", min=0, help="Only queues of this id.")] = None,
    first: Annotated[
        int | None, typer.Option("--from", metavar="OFFSET", min=0, help="From this queue offset on.")
    ] = None,
    last: Annotated[
        int | None, typer.Option("--to", metavar="OFFSET", min=0, help="Up to this queue offset, with it.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="Only with this key or unique id.")] = None,
    position: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="The message at this position of the log; with --limit, more."),
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many.")] = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
    as_json: options.Json = False,
) -> None:
    """Print the messages of a store, in the order in which they were stored.

    Status 1: something on the way did not read, or no message is like that.
    """
    from pyromq.cli.store_views import layout_of, run_dump
    from pyromq.store.inspect.dump import Selection

    selection = Selection(
        topic=topic,
        queue_id=queue,
        position=position,
        key=key,
        first=first,
        end=None if last is None else last + 1,
        limit=1 if limit is None and position is not None else limit,
    )
    if not run_dump(layout_of(folder, config, assignments), selection, is_json=as_json):
        raise typer.Exit(1)


@store.command(
    epilog=examples(
        "pyromq store backup ./data /backup/broker-a",
        "pyromq store backup /home/rocketmq/store /backup/broker-a --prune -c broker.conf",
        "pyromq store backup ./data ./data-before-upgrade --link",
    )
)
def backup(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE", help="The store, or the data folder that holds it.", show_default=False
        ),
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="DESTINATION",
            help="A new folder, or an older backup of this store: then only what is new is copied.",
            show_default=False,
        ),
    ],
    *,
    link: Annotated[
        bool,
        typer.Option(
            "--link",
            help="Link full files of the log instead of copying them: quick and small, on one file system; "
            "safe from mistakes, and not from a broken disk.",
        ),
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Let files go that retention removed from the store.")
    ] = False,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
    as_json: options.Json = False,
) -> None:
    """Copy a store, also while its broker runs, so that a broker can be started on the copy.

    Status 0: it is on the disk. 1: it could not be done; what was backed up before is still good. 2: that
    folder is not for this backup.
    """
    from pyromq.cli.store_views import layout_of, run_backup

    layout = layout_of(folder, config, assignments)
    run_backup(layout, folder, target, is_linked=link, is_pruned=prune, is_json=as_json)
