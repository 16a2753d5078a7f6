"""Commands of `pyromq admin` that change where groups read next."""

from typing import Annotated

import typer

from pyromq.cli.admin.admin_options import (
    DEFAULT_NAME_SERVER,
    ConsumerGroup,
    Json,
    NameServer,
    Topic,
    is_true,
    moment,
    true_or_false,
)
from pyromq.cli.admin.command_runs import operating
from pyromq.cli.exit_status import NotThere, ended_by_errors
from pyromq.cli.options import examples
from pyromq.cli.views.listing import Listing

Timestamp = Annotated[
    str,
    typer.Option(
        "-s",
        "--timestamp",
        metavar="TIME",
        help="now (the end), milliseconds since 1970, 2026-01-31#12:00:00:000, or 2h: so long ago.",
    ),
]
Force = Annotated[
    str,
    true_or_false("-f", "--force", help="false: only back, never forward."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would move, queue by queue; change nothing.")
]


def reset_offset_by_time(
    *,
    group: ConsumerGroup,
    topic: Topic,
    timestamp: Timestamp,
    force: Force = "true",
    cplus: Annotated[
        bool, typer.Option("-c", "--cplus", help="For C++ members; they are told as all others are.")
    ] = False,
    dry_run: DryRun = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Let a group go on at a time, forward or back; its members are told, whether or not any are there."""
    _reset(group, topic, timestamp, force, name_server, is_dry=dry_run, is_json=as_json)


def reset_offset_by_time_old(
    *,
    group: ConsumerGroup,
    topic: Topic,
    timestamp: Timestamp,
    force: Force = "true",
    dry_run: DryRun = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Let a group go on at a time, on the brokers only: members must be restarted to notice."""
    _reset(group, topic, timestamp, force, name_server, is_dry=dry_run, is_json=as_json, past_members=True)


def skip_accumulated_message(
    *,
    group: ConsumerGroup,
    topic: Topic,
    force: Force = "true",
    dry_run: DryRun = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Let a group go on behind the last message, and leave out what it has not read."""
    _reset(group, topic, "now", force, name_server, is_dry=dry_run, is_json=as_json)


def clone_group_offset(
    *,
    source: Annotated[
        str, typer.Option("-s", "--srcGroup", metavar="GROUP", help="The group that is there.")
    ],
    target: Annotated[str, typer.Option("-d", "--destGroup", metavar="GROUP", help="The group to be there.")],
    topic: Topic,
    offline: Annotated[str, true_or_false("-o", "--offline", help="Kept for RocketMQ's tools.")] = "false",
    dry_run: DryRun = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Let a group go on where another is, in one topic; its own members should be stopped.

    Status 3: the group that is there has read nothing of the topic.
    """
    from pyromq.cli.views.offset_views import move_record
    from pyromq.client.plans.admin.offset_changes import Target, To

    with operating(name_server) as admin:
        if dry_run:
            seen = admin.look_at_reset(source, topic, Target(To.FIRST))
            records = [
                {"broker": move.queue.broker_name, "queue": move.queue.queue_id, "after": move.before}
                for move in seen.moves
                if move.before is not None
            ]
        else:
            moves = admin.clone_offsets(source, target, topic)
            records = [move_record(move, is_done=True) for move in moves]
        if not records:
            raise NotThere(f"group {source!r} has no progress in topic {topic!r}: nothing is changed")
    columns = [("#brokerName", "broker"), ("#queueId", "queue"), ("#before", "before"), ("#offset", "after")]
    done = f"clone group offset success. srcGroup[{source}], destGroup=[{target}], topic[{topic}]"
    Listing(columns, records, ["nothing was changed" if dry_run else done]).show(is_json=as_json)


def _reset(
    group: str,
    topic: str,
    timestamp: str,
    force: str,
    name_server: str,
    *,
    is_dry: bool,
    is_json: bool,
    past_members: bool = False,
) -> None:
    from pyromq.cli.views.offset_views import ResetOptions, run_reset
    from pyromq.client.plans.admin.offset_changes import Target, To

    with ended_by_errors():
        is_end = timestamp.strip() in ("now", "-1")
        target = Target(To.LAST) if is_end else Target(To.TIME, moment(timestamp, "-s"))
    run_reset(
        ResetOptions(
            group=group,
            topic=topic,
            target=target,
            only_back=not is_true(force),
            past_members=past_members,
            is_dry=is_dry,
            is_json=is_json,
        ),
        name_server,
    )


def add_offset_commands(admin: typer.Typer) -> None:
    """Add the commands to `pyromq admin`."""
    for name, command, lines in (
        (
            "resetOffsetByTime",
            reset_offset_by_time,
            (
                "pyromq admin resetOffsetByTime -g billing -t orders -s 2h --dry-run",
                "pyromq admin resetOffsetByTime -g billing -t orders -s '2026-01-31#12:00:00:000'",
            ),
        ),
        (
            "resetOffsetByTimeOld",
            reset_offset_by_time_old,
            ("pyromq admin resetOffsetByTimeOld -g billing -t orders -s 2h",),
        ),
        (
            "skipAccumulatedMessage",
            skip_accumulated_message,
            ("pyromq admin skipAccumulatedMessage -g billing -t orders",),
        ),
        (
            "cloneGroupOffset",
            clone_group_offset,
            ("pyromq admin cloneGroupOffset -s billing -d audit -t orders",),
        ),
    ):
        admin.command(name, epilog=examples(*lines))(command)
