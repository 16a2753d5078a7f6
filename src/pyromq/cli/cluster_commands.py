"""`pyromq cluster`: the brokers and name servers."""

from typing import Annotated

import typer

from pyromq.cli.admin.admin_options import (
    DEFAULT_NAME_SERVER,
    Json,
    NameServer,
    Watch,
)
from pyromq.cli.admin.command_runs import look, order
from pyromq.cli.options import examples, one_address

AtBroker = Annotated[
    str | None,
    typer.Option("--broker", "-b", metavar="HOST:PORT", help="This broker only.", callback=one_address),
]

cluster = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Brokers and name servers: list, figures, settings.",
)


@cluster.command("list", epilog=examples("pyromq cluster list", "pyromq cluster list --watch 5"))
def list_brokers(
    *,
    totals: Annotated[bool, typer.Option("--totals", help="Messages of yesterday and today.")] = False,
    watch: Watch = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """List all brokers with their rates and disks."""
    from pyromq.cli.admin.scaling_views import run_cluster_list
    from pyromq.cli.exit_status import ended_by_errors

    with ended_by_errors():
        status = run_cluster_list(
            name_server=name_server, with_totals=totals, interval_s=watch, is_json=as_json
        )
    if status:
        raise typer.Exit(status)


@cluster.command("status", epilog=examples("pyromq cluster status -b 10.0.0.7:10911 --watch 2"))
def status(
    *,
    broker: AtBroker = None,
    watch: Watch = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Show all that brokers say of themselves."""
    from pyromq.cli.views import broker_views

    look(
        name_server,
        lambda admin: broker_views.status(admin, cluster=None, address=broker),
        is_json=as_json,
        watch=watch,
    )


@cluster.command(
    "settings", epilog=examples("pyromq cluster settings", "pyromq cluster settings --name-servers")
)
def settings(
    *,
    broker: AtBroker = None,
    name_servers: Annotated[bool, typer.Option("--name-servers", help="Of the name servers.")] = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Show the settings of brokers or name servers; secret values are hidden."""
    from pyromq.cli.views import broker_views

    if name_servers:
        look(name_server, broker_views.name_server_config, is_json=as_json)
        return
    look(name_server, lambda admin: broker_views.config(admin, cluster=None, address=broker), is_json=as_json)


@cluster.command("set", epilog=examples("pyromq cluster set fileReservedTime 48"))
def change(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The setting, under RocketMQ's name.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="What it is to be.")],
    *,
    broker: AtBroker = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Change a live setting of all masters, or of one broker."""
    order(
        name_server,
        lambda admin: admin.update_broker_config({key: value}, address=broker),
        said=f"{key} is {value} at {{}}",
        is_json=as_json,
        key=key,
    )
