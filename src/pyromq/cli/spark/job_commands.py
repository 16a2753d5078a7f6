"""The commands for work on whole topics with Spark: `job archive`, `verify`, `replay` and `mirror`."""

from pathlib import Path
from typing import Annotated

import typer

from pyromq.cli import options
from pyromq.cli.options import examples

job = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Whole topics with Spark: archive, verify, replay, mirror; each goes on where it was stopped.",
)


SPARK = "Spark"
CHOICE = "Which messages"

Topics = Annotated[
    list[str], typer.Argument(metavar="TOPIC", help="The topics, each by its name.", show_default=False)
]
Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="Spark's master (default: local[*], this machine).", rich_help_panel=SPARK
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A Spark Connect server, sc://HOST:15002.", rich_help_panel=SPARK),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="A setting of Spark; may be repeated.", rich_help_panel=SPARK
    ),
]
Connection = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        "--option",
        metavar="KEY=VALUE",
        help="An option of format('rocketmq'), as accessKey=…, secretKey=…, tls=true; may be repeated.",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Only stored since: 2026-01-31T12:00:00, how long ago (30m, 2h, 7d), or ms since 1970.",
        rich_help_panel=CHOICE,
    ),
]
Until = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only stored before this time.", rich_help_panel=CHOICE),
]

ArchiveToReplay = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Messages of this archive; with --topic.", rich_help_panel=CHOICE),
]
TopicToReplay = Annotated[
    list[str] | None,
    typer.Option(metavar="TOPIC", help="A topic of the archive; may be repeated.", rich_help_panel=CHOICE),
]
DeadLettersOf = Annotated[
    str | None, typer.Option(metavar="GROUP", help="Dead letters of this group.", rich_help_panel=CHOICE)
]
Where = Annotated[
    str | None,
    typer.Option(
        metavar="SQL",
        help="Only those of which this is true, as \"tags = 'paid'\".",
        rich_help_panel=CHOICE,
    ),
]
ToTopic = Annotated[str | None, typer.Option(metavar="TOPIC", help="Send them to this topic.")]
Rate = Annotated[float | None, typer.Option(metavar="N", min=0.001, help="Messages a second, at most.")]
State = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where to note how far it is (default: in your data folder)."),
]
SourceNameServer = Annotated[
    str,
    typer.Option("--from", metavar="HOST:PORT", help="Name servers of the source.", show_default=False),
]
TargetNameServer = Annotated[
    str, typer.Option("--to", metavar="HOST:PORT", help="Name servers of the target.", show_default=False)
]
Start = Annotated[
    str,
    typer.Option(metavar="WHERE", help="The first time, begin at the earliest or the latest message."),
]
ProgressGroup = Annotated[
    str | None,
    typer.Option(metavar="GROUP", help="Show the progress as this consumer group's, at the source."),
]
SourceName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="What the source is called (default: its cluster's name)."),
]
TargetName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="What the target is called (default: its cluster's name)."),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Where to note how far it is (default: in your data folder)."),
]
SourceOptions = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="An option of the source, as accessKey=…; may be repeated."),
]
TargetOptions = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="An option of the target; may be repeated."),
]


@job.command(
    epilog=examples(
        "pyromq job archive orders payments --to /data/archive",
        "pyromq job archive orders --to /data/archive --follow --interval 15m",
        "pyromq job archive orders --to /data/archive --master spark://HOST:7077 --json",
    )
)
def archive(
    topics: Topics,
    *,
    to: Annotated[
        str,
        typer.Option(
            metavar="DIR", help="The archive: a path, or a URI as s3://bucket/orders.", show_default=False
        ),
    ],
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what comes, until it is stopped.")
    ] = False,
    interval: Annotated[
        str, typer.Option(metavar="TIME", help="With --follow: how often, as 90s, 15m, 2h.")
    ] = "5m",
    round_messages: Annotated[
        int,
        typer.Option("--round", metavar="N", min=1, help="Messages for each commit, which a kill can cost."),
    ] = 1_000_000,
    accept_gaps: Annotated[
        bool,
        typer.Option("--accept-gaps", help="Note what brokers dropped before it was archived, and go on."),
    ] = False,
    connection: Connection = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    as_json: options.Json = False,
) -> None:
    """Write the messages of topics to Parquet files; a second run goes on where the first ended.

    Status 0: all that was there is archived. 1: it failed, and what was archived before stays. 130: stopped.
    """
    from pyromq.cli.spark.job_archive import run_archive
    from pyromq.cli.spark.job_place import JobPlace

    place = JobPlace(master, remote, tuple(conf or ()), is_json=as_json)
    run_archive(
        place,
        topics=topics,
        folder=to,
        name_server=name_server,
        interval=interval if follow else None,
        accepts_gaps=accept_gaps,
        round_messages=round_messages,
        assignments=connection or [],
    )


@job.command(
    epilog=examples(
        "pyromq job verify /data/archive",
        "pyromq job verify /data/archive --files-only --json",
    )
)
def verify(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The archive.", show_default=False)],
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC", help="Only this topic; may be repeated.")
    ] = None,
    files_only: Annotated[
        bool, typer.Option("--files-only", help="Compare the files with the manifest, and ask no broker.")
    ] = False,
    connection: Connection = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    as_json: options.Json = False,
) -> None:
    """Compare an archive with its manifest and with what brokers still have, range by range.

    Status 0: all of it is as it was written. 1: a file is damaged, or a broker has something else.
    """
    from pyromq.cli.spark.job_archive import run_verify
    from pyromq.cli.spark.job_place import JobPlace

    place = JobPlace(master, remote, tuple(conf or ()), is_json=as_json)
    is_good = run_verify(
        place,
        folder=folder,
        name_server=None if files_only else name_server,
        topics=topic or [],
        assignments=connection or [],
    )
    if not is_good:
        raise typer.Exit(1)


@job.command(
    epilog=examples(
        "pyromq job replay --archive /archive --topic orders --to again --where \"tags = 'x'\" --dry-run",
        "pyromq job replay --archive /data/archive --topic orders --since 7d --to orders-again --rate 500",
        "pyromq job replay --dlq billing --where \"properties['city'] = 'Oslo'\" --to-origin",
    )
)
def replay(
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    archive: ArchiveToReplay = None,
    topic: TopicToReplay = None,
    dlq: DeadLettersOf = None,
    where: Where = None,
    since: Since = None,
    until: Until = None,
    to: ToTopic = None,
    to_origin: Annotated[
        bool, typer.Option("--to-origin", help="Send each to the topic it was first sent to.")
    ] = False,
    rate: Rate = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count them, and send nothing.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also if the same was replayed before.")] = False,
    at_least_once: Annotated[
        bool,
        typer.Option("--at-least-once", help="For brokers of Apache's, which cannot do it exactly once."),
    ] = False,
    state: State = None,
    connection: Connection = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    as_json: options.Json = False,
) -> None:
    """Send messages of an archive, or dead letters, again: each once, also if this is killed and run again.

    Status 0: all that were meant are sent. 1: it failed. 130: stopped; run it again, and it goes on.
    """
    from pyromq.cli.spark.job_place import JobPlace
    from pyromq.cli.spark.job_replay import JobReplay, run_replay

    place = JobPlace(master, remote, tuple(conf or ()), is_json=as_json)
    run_replay(
        place,
        JobReplay(
            name_server=name_server,
            archive=archive,
            topics=tuple(topic or ()),
            dead_letters_of=dlq,
            where=where,
            since=since,
            until=until,
            to=to,
            is_to_origin=to_origin,
            rate=rate,
            is_rehearsal=dry_run,
            is_again=again,
            delivery="at-least-once" if at_least_once else "exactly-once",
            state=state,
            assignments=tuple(connection or ()),
        ),
    )


@job.command(
    epilog=examples(
        "pyromq job mirror orders --from ns-a:9876 --to ns-b:9876 --group mirror-b",
        "pyromq job mirror orders payments --from ns-a:9876 --to ns-b:9876 --once",
    )
)
def mirror(
    topics: Topics,
    *,
    source: SourceNameServer,
    target: TargetNameServer,
    once: Annotated[bool, typer.Option("--once", help="Copy what is there now, and end.")] = False,
    start: Start = "earliest",
    group: ProgressGroup = None,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Messages of a batch, at most.")] = 500_000,
    source_name: SourceName = None,
    target_name: TargetName = None,
    at_least_once: Annotated[
        bool,
        typer.Option("--at-least-once", help="For a target of Apache's, which cannot do it exactly once."),
    ] = False,
    checkpoint: Checkpoint = None,
    source_option: SourceOptions = None,
    target_option: TargetOptions = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
    as_json: options.Json = False,
) -> None:
    """Copy the messages of topics to another cluster as they come: same ids, same queues, each once.

    Status 0: all is copied (--once). 1: it failed. 130: stopped; run it again, and it goes on.
    """
    from pyromq.cli.spark.job_mirror import Mirroring, run_mirror
    from pyromq.cli.spark.job_place import JobPlace

    place = JobPlace(master, remote, tuple(conf or ()), is_json=as_json)
    run_mirror(
        place,
        Mirroring(
            topics=tuple(topics),
            source=source,
            target=target,
            is_once=once,
            start=start,
            group=group,
            batch=batch,
            source_name=source_name,
            target_name=target_name,
            delivery="at-least-once" if at_least_once else "exactly-once",
            checkpoint=checkpoint,
            source_assignments=tuple(source_option or ()),
            target_assignments=tuple(target_option or ()),
        ),
    )
