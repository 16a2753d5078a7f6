"""The commands of `pyromq admin`, with mqadmin's names and options."""

from typing import Annotated

import typer

from pyromq.cli import options
from pyromq.cli.admin import admin_options
from pyromq.cli.admin.access_admin import add_access_commands
from pyromq.cli.admin.broker_admin import add_broker_commands
from pyromq.cli.admin.export_admin import add_export_commands
from pyromq.cli.admin.group_admin import add_group_commands
from pyromq.cli.admin.message_admin import add_message_commands
from pyromq.cli.admin.offset_admin import add_offset_commands
from pyromq.cli.admin.read_only_commands import READ_ONLY
from pyromq.cli.admin.replicas_command import add_replicas
from pyromq.cli.admin.scaling_commands import add_scaling_commands
from pyromq.cli.admin.send_admin import add_send_commands
from pyromq.cli.admin.switch_master import add_switch_master
from pyromq.cli.admin.topic_admin import add_topic_commands
from pyromq.cli.admin.trace_admin import add_trace_command
from pyromq.cli.exit_status import FAILED, NOT_THERE, ended_by_errors

#: What a command ends with that found members of a group which want different things.
STATUS_CONFLICT = NOT_THERE

Group = Annotated[
    str,
    typer.Option(
        "-g",
        "--consumerGroup",
        metavar="GROUP",
        help="The consumer group.",
        show_default=False,
        autocompletion=admin_options.completed_groups,
    ),
]
Broker = Annotated[
    str | None,
    typer.Option(
        "-b",
        "--brokerAddr",
        metavar="HOST:PORT",
        help="Ask this broker only.",
        callback=options.one_address,
    ),
]


def consumer_status(
    *,
    group: Group,
    name_server: admin_options.NameServer = admin_options.DEFAULT_NAME_SERVER,
    client_id: Annotated[
        str | None,
        typer.Option(
            "-i",
            "--clientId",
            metavar="ID",
            help="All that this member says of itself: settings, queues, rates.",
        ),
    ] = None,
    broker: Broker = None,
    stacks: Annotated[
        bool, typer.Option("-s", "--jstack", help="The stacks of the members' threads as well.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Show the members of a consumer group, and whether they subscribe to the same.

    Status 3: members subscribe differently; what differs is printed. 1: nobody is connected.
    """
    from pyromq.cli.admin.consumer_status_view import run_consumer_status
    from pyromq.client.plans.admin.consumer_status_plans import StatusQuery

    query = StatusQuery(group, broker, client_id, stacks)
    try:
        with ended_by_errors():
            is_consistent = run_consumer_status(query, name_server=name_server, is_json=as_json)
    except SystemExit as ended:
        # That nobody is there is not that those who are there differ.
        raise SystemExit(FAILED if ended.code == NOT_THERE else ended.code) from ended
    if not is_consistent:
        raise typer.Exit(STATUS_CONFLICT)


admin = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="What mqadmin does, under its names and options, on our brokers and on Apache's.",
)
admin.command(
    "consumerStatus",
    epilog=options.examples(
        "pyromq admin consumerStatus -n 127.0.0.1:9876 -g billing",
        "pyromq admin consumerStatus -g billing -i 10.0.0.7@4711#1 -s",
        "pyromq admin consumerStatus -g billing --json",
    ),
)(consumer_status)
add_scaling_commands(admin)
add_replicas(admin)
add_switch_master(admin)
add_topic_commands(admin)
add_group_commands(admin)
add_offset_commands(admin)
add_message_commands(admin)
add_trace_command(admin)
add_send_commands(admin)
add_broker_commands(admin)
add_export_commands(admin)
add_access_commands(admin)
for each in admin.registered_commands:
    each.rich_help_panel = "Look" if f"admin {each.name}" in READ_ONLY else "Change"
