"""Commands of `pyromq admin` for clusters that grow and shrink, under mqadmin's names where it has them."""

from typing import Annotated

import typer

from pyromq.cli import options
from pyromq.cli.admin import admin_options
from pyromq.cli.exit_status import FAILED, NOT_THERE
from pyromq.errors import ConfigError

#: What `drain` ends with when the broker may not be stopped yet.
STATUS_NOT_YET = NOT_THERE
QUEUE_COUNT = 8
READ_AND_WRITE = 6
UNIT, UNIT_SUB = 1, 2


def update_topic(
    *,
    topic: Annotated[str, typer.Option("-t", "--topic", metavar="TOPIC", help="The topic.")],
    name_server: admin_options.NameServer = admin_options.DEFAULT_NAME_SERVER,
    broker: Annotated[
        str | None,
        typer.Option(
            "-b",
            "--brokerAddr",
            metavar="HOST:PORT",
            help="On this broker only.",
            callback=options.one_address,
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("-c", "--clusterName", metavar="NAME", help="On every master of this cluster."),
    ] = None,
    read_queues: Annotated[
        int, typer.Option("-r", "--readQueueNums", metavar="N", min=1, help="Queues that are read.")
    ] = QUEUE_COUNT,
    write_queues: Annotated[
        int, typer.Option("-w", "--writeQueueNums", metavar="N", min=1, help="Queues that are written.")
    ] = QUEUE_COUNT,
    perm: Annotated[
        int, typer.Option("-p", "--perm", metavar="2|4|6", help="2: write, 4: read, 6: both.")
    ] = READ_AND_WRITE,
    order: Annotated[
        str, admin_options.true_or_false("-o", "--order", help="Whether it is ordered.")
    ] = "false",
    unit: Annotated[
        str, admin_options.true_or_false("-u", "--unit", help="Whether it belongs to a unit.")
    ] = "false",
    has_unit_sub: Annotated[
        str,
        admin_options.true_or_false("-s", "--hasUnitSub", help="Whether it is subscribed by unit."),
    ] = "false",
    attributes: Annotated[
        str | None,
        typer.Option(
            "-a",
            "--attributes",
            metavar="+NAME=VALUE,-NAME,…",
            help="Attributes to set and to remove, as +message.type=FIFO.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Create a topic, or change it if it is there: on one broker, or on all masters of a cluster."""
    admin_options.exactly_one_place(broker, cluster)
    if perm not in (2, 4, 6):
        raise ConfigError(f"-p {perm}: a topic is 2 (writable), 4 (readable) or 6 (both)")
    from pyromq.cli.admin.scaling_views import run_update_topic
    from pyromq.client.plans.admin.scaling_plans import TopicUpdate

    update = TopicUpdate(
        topic=topic.strip(),
        read_queue_count=read_queues,
        write_queue_count=write_queues,
        perm=perm,
        is_ordered=admin_options.is_true(order),
        sys_flag=UNIT * admin_options.is_true(unit) | UNIT_SUB * admin_options.is_true(has_unit_sub),
        attributes=attributes,
    )
    if not run_update_topic(
        update, cluster=cluster, address=broker, name_server=name_server, is_json=as_json
    ):
        raise typer.Exit(FAILED)


def wipe_write_perm(
    *,
    broker: admin_options.BrokerName,
    name_server: admin_options.NameServer = admin_options.DEFAULT_NAME_SERVER,
    as_json: options.Json = False,
) -> None:
    """Let no producer choose a broker, at every name server of -n; consumers still read from it.

    A change of the broker's topics gives it back, as with RocketMQ: `drain` keeps it away.
    """
    _allow_writes(broker, name_server, is_allowed=False, is_json=as_json)


def add_write_perm(
    *,
    broker: admin_options.BrokerName,
    name_server: admin_options.NameServer = admin_options.DEFAULT_NAME_SERVER,
    as_json: options.Json = False,
) -> None:
    """Let producers choose a broker again, at every name server of -n."""
    _allow_writes(broker, name_server, is_allowed=True, is_json=as_json)


def cluster_list(
    *,
    name_server: admin_options.NameServer = admin_options.DEFAULT_NAME_SERVER,
    more_stats: Annotated[
        bool, typer.Option("-m", "--moreStats", help="Messages of yesterday and of today.")
    ] = False,
    interval: Annotated[
        int | None,
        typer.Option("-i", "--interval", metavar="SECONDS", min=1, help="Again and again, so often."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List all brokers: cluster, name, id (0 is the master), address, and whether producers may choose it."""
    from pyromq.cli.admin.scaling_views import run_cluster_list

    run_cluster_list(name_server=name_server, with_totals=more_stats, interval_s=interval, is_json=as_json)


def drain(
    *,
    broker: Annotated[str, typer.Argument(metavar="BROKER", help="The broker's name.", show_default=False)],
    name_server: admin_options.NameServer = admin_options.DEFAULT_NAME_SERVER,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Until the broker may be stopped, or look once.")
    ] = True,
    undo: Annotated[bool, typer.Option("--undo", help="Let producers choose the broker again.")] = False,
    ignored_groups: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore-group", metavar="GROUP", help="A group that need not read the rest; may be repeated."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Even if topics are on this broker only: producers are stopped.")
    ] = False,
    settle: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="How long nothing new must have come; clients ask for routes every 30 s.",
        ),
    ] = 35.0,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Time between two looks.")
    ] = 2.0,
    as_json: options.Json = False,
) -> None:
    """Take a broker out of service without loss: no new messages, and wait until the rest is read.

    Shows by topic and group what is unread, and says when the broker may be stopped. Status 3, with
    --no-wait: not yet.
    """
    from pyromq.cli.admin.drain_command import DrainOptions, run_drain, run_undo

    chosen = DrainOptions(
        broker=broker,
        name_server=name_server,
        waits=wait,
        is_forced=force,
        ignored_groups=frozenset(ignored_groups or ()),
        interval_s=interval,
        settle_s=settle,
        is_json=as_json,
    )
    if undo:
        if not run_undo(chosen):
            raise typer.Exit(FAILED)
    elif not run_drain(chosen):
        raise typer.Exit(STATUS_NOT_YET)


def add_scaling_commands(admin: typer.Typer) -> None:
    """Add the commands to `pyromq admin`."""
    admin.command(
        "updateTopic",
        epilog=options.examples(
            "pyromq admin updateTopic -t orders -c DefaultCluster -r 16 -w 16",
            "pyromq admin updateTopic -t orders -b 10.0.0.7:10911",
        ),
    )(update_topic)
    admin.command("wipeWritePerm", epilog=options.examples("pyromq admin wipeWritePerm -b broker-b"))(
        wipe_write_perm
    )
    admin.command("addWritePerm", epilog=options.examples("pyromq admin addWritePerm -b broker-b"))(
        add_write_perm
    )
    admin.command(
        "clusterList", epilog=options.examples("pyromq admin clusterList", "pyromq admin clusterList -i 5")
    )(cluster_list)
    admin.command(
        "drain",
        epilog=options.examples(
            "pyromq admin drain broker-b",
            "pyromq admin drain broker-b --no-wait",
            "pyromq admin drain broker-b --ignore-group reports-of-2019",
            "pyromq admin drain broker-b --undo",
        ),
    )(drain)


def _allow_writes(broker: str, name_server: str, *, is_allowed: bool, is_json: bool) -> None:
    from pyromq.cli.admin.scaling_views import run_allow_writes

    if not run_allow_writes(broker.strip(), is_allowed=is_allowed, name_server=name_server, is_json=is_json):
        raise typer.Exit(FAILED)
