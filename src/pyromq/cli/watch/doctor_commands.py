"""`pyromq doctor`: what is wrong with a cluster or a group, and what to do about it."""

from typing import Annotated

import typer

from pyromq.cli.admin.admin_options import DEFAULT_NAME_SERVER, NameServer, completed_groups, completed_topics
from pyromq.cli.exit_status import ended_by_errors
from pyromq.cli.plain_options import MACHINES

CHOICE = "Which checks"


def completed_checks(incomplete: str) -> list[str]:
    """Return the checks whose names begin so, for the shell's completion."""
    from pyromq.doctor.checks import CHECKS, PRODUCTION

    return [check.name for check in (*CHECKS, *PRODUCTION) if check.name.startswith(incomplete)]


Groups = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        "-g",
        metavar="GROUP",
        help="Only this group and the topics that it reads; may be repeated.",
        autocompletion=completed_groups,
    ),
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC",
        help="Only this topic; may be repeated.",
        autocompletion=completed_topics,
    ),
]
Watch = Annotated[
    float,
    typer.Option(
        "--watch",
        metavar="SECONDS",
        min=0,
        help="How long to look at what moves: slaves that copy, lag, listeners that hang.",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="CHECK",
        help="Only this check; may be repeated.",
        rich_help_panel=CHOICE,
        autocompletion=completed_checks,
    ),
]
Skip = Annotated[
    list[str] | None,
    typer.Option(
        "--skip",
        metavar="CHECK",
        help="Not this check; may be repeated.",
        rich_help_panel=CHOICE,
        autocompletion=completed_checks,
    ),
]
Production = Annotated[
    bool,
    typer.Option(
        "--production",
        help="Also what a cluster that people rely on should have: replicas, access control, room, metrics.",
        rich_help_panel=CHOICE,
    ),
]
List = Annotated[bool, typer.Option("--list", help="List the checks, and end.", rich_help_panel=CHOICE)]
Json = Annotated[bool, typer.Option("--json", help="All as one JSON object.", rich_help_panel=MACHINES)]


def doctor(
    *,
    groups: Groups = None,
    topics: Topics = None,
    watch: Watch = 10,
    only: Only = None,
    skip: Skip = None,
    production: Production = False,
    is_list: List = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Find out what is wrong with a cluster or a group, and what to do about it. Nothing is changed.

    Works on Apache's clusters too. Status 0: all is well; 1: something is wrong; 4: no name server answers.
    """
    from pyromq.cli.watch import doctor as view

    with ended_by_errors():
        if is_list:
            view.list_checks(for_production=production, is_json=as_json)
            return
        asked = view.DoctorOrder(
            name_server,
            tuple(groups or ()),
            tuple(topics or ()),
            watch,
            tuple(only or ()),
            tuple(skip or ()),
            for_production=production,
        )
        view.run_doctor(asked, is_json=as_json)
