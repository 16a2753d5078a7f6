"""`pyromq group`: consumer groups: who, how far behind, and where they go on."""

from typing import Annotated

import typer

from pyromq.cli.admin.admin_options import (
    DEFAULT_NAME_SERVER,
    Json,
    NameServer,
    TheGroup,
    Watch,
    completed_groups,
    completed_topics,
    moment,
)
from pyromq.cli.admin.command_runs import look, operating, order
from pyromq.cli.confirmation import OR_LOOK_FIRST, Yes, check_asked, confirm
from pyromq.cli.exit_status import ended_by_errors
from pyromq.cli.options import examples
from pyromq.errors import ConfigError

OfTopic = Annotated[
    str | None,
    typer.Option("--topic", "-t", metavar="TOPIC", help="This topic only.", autocompletion=completed_topics),
]

group = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Consumer groups: list, lag, members, and where they go on.",
)


@group.command("list", epilog=examples("pyromq group list", "pyromq group list --watch 5"))
def list_groups(
    *,
    with_internal: Annotated[bool, typer.Option("--all", help="RocketMQ's own as well.")] = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    watch: Watch = None,
    as_json: Json = False,
) -> None:
    """List groups with their members, rates and lag."""
    from pyromq.cli.views import group_views

    look(
        name_server,
        lambda admin: group_views.listed(admin, with_internal=with_internal),
        is_json=as_json,
        watch=watch,
    )


@group.command(
    "lag", epilog=examples("pyromq group lag billing --watch 2", "pyromq group lag billing -t orders")
)
def lag(
    name: TheGroup,
    *,
    topic: OfTopic = None,
    with_clients: Annotated[bool, typer.Option("--members", help="Which member has each queue.")] = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    watch: Watch = None,
    as_json: Json = False,
) -> None:
    """Show how far behind a group is, queue by queue.

    Status 3: it never read anything.
    """
    from pyromq.cli.views import group_views

    look(
        name_server,
        lambda admin: group_views.progress(admin, name, topic, with_clients=with_clients),
        is_json=as_json,
        watch=watch,
    )


@group.command("members", epilog=examples("pyromq group members billing"))
def members(name: TheGroup, *, name_server: NameServer = DEFAULT_NAME_SERVER, as_json: Json = False) -> None:
    """List who is connected, and what they subscribe to.

    Status 3: nobody is.
    """
    from pyromq.cli.views import group_views

    look(name_server, lambda admin: group_views.connections(admin, name, None), is_json=as_json)


@group.command("show", epilog=examples("pyromq group show billing"))
def show(name: TheGroup, *, name_server: NameServer = DEFAULT_NAME_SERVER, as_json: Json = False) -> None:
    """Show a group's settings on each broker.

    Status 3: no broker has it.
    """
    from pyromq.cli.views import group_views

    look(name_server, lambda admin: group_views.configs(admin, name), is_json=as_json)


@group.command(
    "create", epilog=examples("pyromq group create billing --retries 5", "pyromq group create billing --fifo")
)
def create(
    name: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    *,
    retries: Annotated[
        int, typer.Option("--retries", metavar="N", help="Tries before a message is a dead letter.")
    ] = 16,
    may_read: Annotated[bool, typer.Option("--enabled/--disabled", help="Whether it may read.")] = True,
    may_broadcast: Annotated[
        bool, typer.Option("--broadcast/--no-broadcast", help="Whether it may broadcast.")
    ] = True,
    is_fifo: Annotated[
        bool, typer.Option("--fifo/--no-fifo", help="Members that pop get a queue's messages in order.")
    ] = False,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="NAME", help="Only on this cluster's brokers.")
    ] = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Create a group on all masters, or change it."""
    from pyromq.client.names import check_group
    from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig

    with ended_by_errors():
        check_group(name)
    config = SubscriptionGroupConfig(
        group_name=name,
        retry_max_times=retries,
        consume_enable=may_read,
        consume_broadcast_enable=may_broadcast,
        consume_message_orderly=is_fifo or None,
    )
    order(
        name_server,
        lambda admin: admin.update_group(config, cluster=cluster),
        said=f"{name} is on {{}}",
        is_json=as_json,
        group=name,
    )


@group.command("delete", epilog=examples("pyromq group delete billing --yes"))
def delete(
    name: TheGroup,
    *,
    keep_offsets: Annotated[bool, typer.Option("--keep-offsets", help="Its progress stays.")] = False,
    keep_topics: Annotated[
        bool, typer.Option("--keep-topics", help="Its retry and dead-letter topics stay.")
    ] = False,
    yes: Yes = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Delete a group, its progress, its retries and its dead letters.

    Status 3: no broker has it.
    """
    from pyromq.cli.views.group_views import check_group

    question = f"Delete group {name}, with its progress and its dead letters?"
    check_asked(question, is_yes=yes)
    with operating(name_server) as admin:
        check_group(admin, name)
    confirm(question, is_yes=yes)
    order(
        name_server,
        lambda admin: admin.delete_group(name, removes_offsets=not keep_offsets, keeps_topics=keep_topics),
        said=f"{name} is gone from {{}}",
        is_json=as_json,
        group=name,
    )


@group.command(
    "reset",
    epilog=examples(
        "pyromq group reset billing --topic orders --to first --dry-run",
        "pyromq group reset billing -t orders --time 2h",
        "pyromq group reset billing -t orders --time 2026-01-31T12:00:00 --back-only",
        "pyromq group reset billing -t orders --to 1500 --queue broker-a:3",
    ),
)
def reset(
    name: TheGroup,
    *,
    topic: Annotated[
        str,
        typer.Option("--topic", "-t", metavar="TOPIC", help="The topic.", autocompletion=completed_topics),
    ],
    to: Annotated[
        str | None, typer.Option("--to", metavar="first|last|OFFSET", help="Where to go on.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--time", metavar="TIME", help="Or the first message stored then, or so long ago as 2h."
        ),
    ] = None,
    queues: Annotated[
        list[str] | None,
        typer.Option("--queue", metavar="BROKER:ID", help="Only this queue; may be repeated."),
    ] = None,
    back_only: Annotated[bool, typer.Option("--back-only", help="Never forward.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would move, queue by queue; change nothing.")
    ] = False,
    yes: Yes = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Let a group go on elsewhere, forward or back, whether or not members are connected.

    What moves is shown first, and asked about; without a terminal it needs --yes. Status 1: a queue was not
    changed, or members are connected to a broker of Apache's that cannot tell them.
    """
    from pyromq.cli.views.offset_views import ResetOptions, run_reset, target_of

    if not dry_run:
        check_asked(f"Change the progress of {name} in {topic}?", is_yes=yes, or_else=OR_LOOK_FIRST)
    with ended_by_errors():
        if (to is None) == (at is None):
            raise ConfigError("say where to: --to first, last or an offset, or --time TIME")
        if to is not None and to not in ("first", "last") and not to.isdecimal():
            raise ConfigError(f"--to {to}: expected first, last or an offset")
        chosen = ResetOptions(
            group=name,
            topic=topic,
            target=target_of(to=to or "", at_ms=None if at is None else moment(at, "--time")),
            queues=[queue_of(text) for text in queues or ()],
            only_back=back_only,
            warns_of_unknown=True,
            is_dry=dry_run,
            is_yes=yes,
            is_json=as_json,
        )
    run_reset(chosen, name_server)


@group.command("clone", epilog=examples("pyromq group clone billing audit --topic orders --yes"))
def clone(
    source: Annotated[
        str,
        typer.Argument(metavar="FROM", help="The group that is there.", autocompletion=completed_groups),
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="The group to be there.")],
    *,
    topic: Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="The topic.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing.")] = False,
    yes: Yes = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Let a group go on where another is; the progress that it had is lost."""
    from pyromq.cli.admin.offset_admin import clone_group_offset

    if not dry_run:
        question = f"Replace the progress of {target} in {topic} by that of {source}?"
        confirm(question, is_yes=yes, or_else=OR_LOOK_FIRST)
    clone_group_offset(
        source=source, target=target, topic=topic, dry_run=dry_run, name_server=name_server, as_json=as_json
    )


def queue_of(text: str) -> tuple[str, int]:
    """Return the broker's name and the queue's id of `broker-a:3`."""
    broker, separator, number = text.rpartition(":")
    if not separator or not number.isdecimal():
        raise ConfigError(f"{text}: expected BROKER:ID, as broker-a:3")
    return broker, int(number)
