"""The commands that serve: `up`, `namesrv`, `broker`."""

from typing import Annotated

import typer

from pyromq.cli import options, output
from pyromq.cli.handover import serve_alone
from pyromq.cli.settings import check_settings, flags, load_settings, print_settings
from pyromq.cli.version import installed_version
from pyromq.config.settings import PORT_MAX, BrokerProcess, NamesrvProcess, UpProcess

CLUSTER = "A cluster on this machine"

NamesrvPort = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, max=PORT_MAX, help="The name server's port (default 9876); 0: a free one."
    ),
]
BrokerPort = Annotated[
    int | None, typer.Option(metavar="N", help="The broker's port (default 10911); 0: a free one.")
]
DashboardPort = Annotated[
    int | None,
    typer.Option(
        "--dashboard-port",
        metavar="N",
        min=0,
        max=PORT_MAX,
        help="The dashboard's port (default 9870 if it is free, with the extra); 0: a free one.",
    ),
]
NoDashboard = Annotated[bool, typer.Option("--no-dashboard", help="Start no dashboard.")]
Brokers = Annotated[
    int,
    typer.Option(metavar="N", min=1, max=26, help="Brokers, each with its share.", rich_help_panel=CLUSTER),
]
Replicas = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        max=9,
        help="Copies of each broker: a master, and slaves.",
        rich_help_panel=CLUSTER,
    ),
]
Sync = Annotated[
    bool, typer.Option("--sync", help="Answer a send when a slave has it too.", rich_help_panel=CLUSTER)
]
ClusterFailover = Annotated[
    str | None,
    typer.Option(
        "--failover",
        metavar="etcd://HOST:PORT",
        help="Where it is decided who is master; without it the first replica is.",
        rich_help_panel=CLUSTER,
    ),
]


def up(
    *,
    data: options.Folder = None,
    listen: options.Listen = None,
    advertise: options.Advertise = None,
    namesrv_port: NamesrvPort = None,
    broker_port: BrokerPort = None,
    broker_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The broker's name (default broker-a).")
    ] = None,
    cluster_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="The cluster's name (default DefaultCluster).")
    ] = None,
    dashboard_port: DashboardPort = None,
    no_dashboard: NoDashboard = False,
    brokers: Brokers = 1,
    replicas: Replicas = 1,
    sync: Sync = False,
    failover: ClusterFailover = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
    settings_only: options.PrintSettings = False,
    as_json: options.Json = False,
    ready_file: options.ReadyFile = None,
    log_level: options.Logging = options.LogLevel.WARNING,
) -> None:
    """Start a name server and a broker in one process, or a whole cluster with a process for each broker.

    All that a RocketMQ client needs, on this machine only unless you say --listen.
    Data stays in a folder that is printed at the start. Ctrl-C and SIGTERM stop it in order.
    """
    loaded = load_settings(
        UpProcess,
        file=config,
        assignments=assignments,
        flags=flags(
            bind_address=("--listen", listen),
            broker_ip1=("--advertise", advertise),
            listen_port=("--broker-port", broker_port),
            broker_name=("--broker-name", broker_name),
            broker_cluster_name=("--cluster-name", cluster_name),
        ),
    )
    if settings_only:
        print_settings(loaded, is_json=as_json)
        return
    from pyromq.cli import serve, servers

    serve.log_to_standard_error(log_level)
    if source := loaded.sources.get("namesrv_addr"):
        output.warn(f"namesrvAddr ({source}) is not used: `pyromq up` has a name server of its own")
    process = servers.with_name_server_at(loaded.process, namesrv_port)
    start = servers.Start(version=installed_version(), folder=data, ready_file=ready_file, is_json=as_json)
    start = start.with_dashboard(dashboard_port, is_refused=no_dashboard)
    if brokers == replicas == 1 and not sync and failover is None:
        servers.run_up(process, start)
        return
    from pyromq.cli import local_cluster

    local_cluster.run_cluster(
        process,
        local_cluster.Shape(brokers=brokers, replicas=replicas, is_sync=sync, failover=failover),
        start,
        local_cluster.Inherited(
            config=config, assignments=tuple(assignments or ()), log_level=log_level.value
        ),
    )


def namesrv(
    *,
    port: Annotated[
        int | None, typer.Option("-p", "--port", metavar="N", help="Port (default 9876); 0: a free one.")
    ] = None,
    listen: options.Listen = None,
    data: options.Folder = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
    settings_only: options.PrintSettings = False,
    check_only: options.Check = False,
    as_json: options.Json = False,
    ready_file: options.ReadyFile = None,
    log_level: options.Logging = options.LogLevel.INFO,
) -> None:
    """Start a name server, which knows the brokers and their topics."""
    loaded = load_settings(
        NamesrvProcess,
        file=config,
        assignments=assignments,
        flags=flags(listen_port=("-p", port), bind_address=("--listen", listen)),
        is_check=check_only,
    )
    if settings_only or check_only:
        (print_settings if settings_only else check_settings)(loaded, is_json=as_json)
        return
    start = {"version": installed_version(), "folder": data, "ready_file": ready_file, "is_json": as_json}
    serve_alone("run_namesrv", loaded.process, start, log_level=log_level.value)


def broker(
    *,
    name_server: Annotated[
        str | None,
        typer.Option(
            "-n",
            "--namesrv",
            metavar="HOST:PORT",
            help="Name servers to register with, joined by semicolons.",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option("--port", metavar="N", help="Port (default 10911); 0: a free one.")
    ] = None,
    failover: Annotated[
        str | None,
        typer.Option(
            metavar="ETCD",
            help="Let etcd decide who of the brokers of this name is master: etcd://HOST:2379,… .",
        ),
    ] = None,
    listen: options.Listen = None,
    advertise: options.Advertise = None,
    data: options.Folder = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
    settings_only: Annotated[
        bool,
        typer.Option(
            "-p",
            "--print-settings",
            help="Print each setting and where it came from, and stop.",
            rich_help_panel=options.SETTINGS,
        ),
    ] = False,
    check_only: options.Check = False,
    as_json: options.Json = False,
    ready_file: options.ReadyFile = None,
    log_level: options.Logging = options.LogLevel.INFO,
    until_stdin_ends: Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)] = False,
) -> None:
    """Start a broker, which keeps the messages and registers with its name servers."""
    loaded = load_settings(
        BrokerProcess,
        file=config,
        assignments=assignments,
        flags=flags(
            namesrv_addr=("-n", name_server),
            listen_port=("--port", port),
            bind_address=("--listen", listen),
            broker_ip1=("--advertise", advertise),
            failover=("--failover", failover),
        ),
        is_check=check_only,
    )
    if settings_only or check_only:
        (print_settings if settings_only else check_settings)(loaded, is_json=as_json)
        return
    start = {
        "version": installed_version(),
        "folder": data,
        "ready_file": ready_file,
        "is_json": as_json,
        "until_stdin_ends": until_stdin_ends,
    }
    serve_alone("run_broker", loaded.process, start, log_level=log_level.value)
