"""`pyromq admin replicas`: who is in a group of replicas, and how far each is."""

from typing import Annotated

import msgspec
import typer

from pyromq.cli import options, output
from pyromq.cli.admin import admin_options
from pyromq.cli.exit_status import FAILED
from pyromq.wire.bodies.replica_bodies import ReplicaList, ReplicaState

_NOTHING = "-"


def replicas(
    *,
    broker: Annotated[
        str | None,
        typer.Option("-b", "--brokerName", metavar="NAME", help="This group only.", show_default=False),
    ] = None,
    name_server: admin_options.NameServer = admin_options.DEFAULT_NAME_SERVER,
    as_json: options.Json = False,
) -> None:
    """Show each group's replicas: who is master, who is in sync and may become it, who is behind.

    Status 1: of a group nobody answered.
    """
    from pyromq.cli.admin.operator import Operator
    from pyromq.client.plans.admin.replica_plans import list_replicas

    with Operator(name_server) as operator:
        groups = operator.run(lambda session, deadline: list_replicas(session, broker, deadline))
    for name, listed, reason in groups:
        if listed is None:
            output.complain(f"{name}: {reason}")
        elif as_json:
            output.say_json(msgspec.to_builtins(listed))
        else:
            show(listed)
    if any(listed is None for _, listed, _ in groups):
        raise typer.Exit(FAILED)


def show(listed: ReplicaList) -> None:
    """Print a group for a person."""
    master = f"master {listed.master}" if listed.master else output.paint("nobody is master", "red")
    output.say(f"{listed.broker_name} of {listed.cluster}: epoch {listed.epoch}, {master}")
    rows = [["#Addr", "#BID", "#Role", "#InSync", "#Lease", "#Copied", "#Behind"]]
    rows += [_row(one, listed) for one in listed.replicas]
    for line in output.columns(rows):
        output.say(line)
    if listed.confirmed_position is None:
        output.say(f"as seen by {listed.answered_by}, which is not the master")


def _row(one: ReplicaState, listed: ReplicaList) -> list[str]:
    if one.is_master:
        copied, behind = str(listed.max_position), _NOTHING
    else:
        copied = _NOTHING if one.acked_position is None else str(one.acked_position)
        behind = _behind(one)
    return [
        one.address,
        "0" if one.is_master else str(one.broker_id),
        "master" if one.is_master else "slave",
        "yes" if one.is_in_sync else "no",
        "yes" if one.is_present else "no",
        copied,
        behind,
    ]


def _behind(one: ReplicaState) -> str:
    if one.is_connected is False:
        return "gone"
    return _NOTHING if one.behind_ms is None else f"{one.behind_ms / 1000:g} s"


def add_replicas(admin: typer.Typer) -> None:
    """Add the command to `pyromq admin`."""
    admin.command(
        "replicas",
        epilog=options.examples(
            "pyromq admin replicas -n 127.0.0.1:9876", "pyromq admin replicas -b broker-a --json"
        ),
    )(replicas)
