"""`pyromq admin switchMaster`: another replica of a group becomes its master, in order."""

import time
from typing import Annotated

import msgspec
import typer

from pyromq.cli import options, output
from pyromq.cli.admin import admin_options


def switch_master(
    *,
    broker: Annotated[
        str,
        typer.Option("-b", "--brokerName", metavar="NAME", help="The group's name.", show_default=False),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            "-t",
            "--to",
            metavar="HOST:PORT",
            help="The replica to be master, or its broker id; default: the one that has most.",
            show_default=False,
        ),
    ] = None,
    name_server: admin_options.NameServer = admin_options.DEFAULT_NAME_SERVER,
    as_json: options.Json = False,
) -> None:
    """Let the master of a group hand over to a replica that is in sync; nothing is lost.

    The master takes no messages until the other has all; then the other is master, and it is its slave.
    Senders see a pause. Status 1: it was not done, and why is printed; the master is still the same then.
    """
    from pyromq.cli.admin.operator import Operator
    from pyromq.client.plans.admin.replica_plans import switch_master as switch

    with Operator(name_server) as operator:
        began_at = time.monotonic()
        made = operator.run(lambda session, deadline: switch(session, broker, to, deadline))
        took_s = time.monotonic() - began_at
    if as_json:
        output.say_json(
            {"before": made.before, "tookMs": round(took_s * 1000), **msgspec.to_builtins(made.after)}
        )
        return
    output.say(
        f"{broker}: {made.after.master} is master now, in epoch {made.after.epoch}; it was {made.before}."
        f" It took {took_s:.1f} s"
    )


def add_switch_master(admin: typer.Typer) -> None:
    """Add the command to `pyromq admin`."""
    admin.command(
        "switchMaster",
        epilog="Examples:\n\n[cyan]pyromq admin switchMaster -n 127.0.0.1:9876 -b broker-a[/cyan]"
        "\n\n[cyan]pyromq admin switchMaster -b broker-a -t 10.0.0.6:10911[/cyan]",
    )(switch_master)
