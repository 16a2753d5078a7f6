"""The options of `pyromq torture`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

CLUSTER = "The cluster"
HARM = "What happens to it"
RESULT = "What is left of it"


class Wait(StrEnum):
    """Whether an acknowledgement waits."""

    SYNC = "sync"
    ASYNC = "async"


Minutes = Annotated[float, typer.Option(metavar="N", min=0.05, help="How long load and faults go on.")]
Brokers = Annotated[
    int, typer.Option(metavar="N", min=1, max=26, help="Broker groups.", rich_help_panel=CLUSTER)
]
Replicas = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        max=9,
        help="Brokers in each group: a master and slaves.",
        rich_help_panel=CLUSTER,
    ),
]
Sync = Annotated[
    bool,
    typer.Option(
        "--sync", help="SYNC_FLUSH, and SYNC_MASTER where there are replicas.", rich_help_panel=CLUSTER
    ),
]
Flush = Annotated[
    Wait | None,
    typer.Option(help="SYNC_FLUSH or ASYNC_FLUSH (default: as --sync says).", rich_help_panel=CLUSTER),
]
Role = Annotated[
    Wait | None,
    typer.Option(
        "--replication",
        help="SYNC_MASTER or ASYNC_MASTER (default: as --sync says).",
        rich_help_panel=CLUSTER,
    ),
]
Etcd = Annotated[
    str,
    typer.Option(
        metavar="PROGRAM",
        help="The etcd by which replicas elect a master: a path; auto: the one on the PATH;"
        " none: slaves stay slaves.",
        rich_help_panel=CLUSTER,
    ),
]
AccessControl = Annotated[
    bool,
    typer.Option(
        "--access-control",
        help="Accounts and signatures; a stranger tries the doors.",
        rich_help_panel=CLUSTER,
    ),
]
Namespaces = Annotated[
    bool,
    typer.Option(
        "--namespaces",
        help="Each broker in a network namespace of its own: the kernel's partitions. Takes root.",
        rich_help_panel=CLUSTER,
    ),
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any setting of the brokers.", rich_help_panel=CLUSTER),
]
Faults = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="Which faults, joined by commas; all; none (default: those of --list-faults with a star).",
        rich_help_panel=HARM,
    ),
]
ListFaults = Annotated[
    bool,
    typer.Option(
        "--list-faults",
        help="Show the faults, which of them this machine allows, and how to get the others.",
        rich_help_panel=HARM,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="The same number draws the same faults (default: a new one).", rich_help_panel=HARM
    ),
]
Only = Annotated[
    str | None,
    typer.Option(
        metavar="KINDS",
        help="Kinds of messages, joined by commas: plain, ordered, transaction … (default: all).",
        rich_help_panel=HARM,
    ),
]
Pace = Annotated[
    float,
    typer.Option(
        metavar="X", min=0.1, max=100, help="How much load: 2 is twice as much as 1.", rich_help_panel=HARM
    ),
]
Rounds = Annotated[
    int, typer.Option(metavar="N", min=1, help="So many runs, each with the next seed.", rich_help_panel=HARM)
]
Vary = Annotated[
    bool,
    typer.Option(
        "--vary",
        help="Draw settings from the seed, too: lease, files, distances (without large messages).",
        rich_help_panel=HARM,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The folder, and so the disk, that is put to the test (default: a temporary one).",
        rich_help_panel=RESULT,
    ),
]
Keep = Annotated[
    bool,
    typer.Option("--keep", help="Keep the servers' data, also when all went well.", rich_help_panel=RESULT),
]
Picture = Annotated[
    Path | None,
    typer.Option("--png", metavar="FILE", help="Draw the run as a picture.", rich_help_panel=RESULT),
]
