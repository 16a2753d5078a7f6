"""The commands that serve: `up`, `namesrv`, `broker`. Neither they nor the servers import typer."""

from pyromq.cli import output
from pyromq.cli.servers.given_settings import check_settings, flags, load_settings, print_settings
from pyromq.cli.servers.server_options import BrokerOptions, NamesrvOptions, UpOptions
from pyromq.cli.start import imported
from pyromq.cli.version import installed_version
from pyromq.config.settings import BrokerProcess, NamesrvProcess, UpProcess

#: The setting that, if somebody said it, is a port that must be free.
ASKED = "grpc_server_port"


def up(given: UpOptions) -> None:
    """Start a name server and a broker in one process, or a whole cluster with a process for each broker.

    All that a RocketMQ client needs, on this machine only unless you say --listen.
    Data stays in a folder that is printed at the start. Ctrl-C and SIGTERM stop it in order.
    """
    loaded = load_settings(
        UpProcess,
        file=given.config,
        assignments=given.assignments,
        flags=flags(
            bind_address=("--listen", given.listen),
            broker_ip1=("--advertise", given.advertise),
            listen_port=("--broker-port", given.broker_port),
            broker_name=("--broker-name", given.broker_name),
            broker_cluster_name=("--cluster-name", given.cluster_name),
        ),
    )
    if given.settings_only:
        print_settings(loaded, is_json=given.as_json)
        return
    from pyromq.cli.servers import broker_servers, serve, servers

    imported()
    serve.log_to_standard_error(given.log_level)
    if source := loaded.sources.get("namesrv_addr"):
        output.warn(f"namesrvAddr ({source}) is not used: `pyromq up` has a name server of its own")
    process = broker_servers.with_name_server_at(loaded.process, given.namesrv_port)
    start = servers.Start(
        version=installed_version(),
        folder=given.data,
        ready_file=given.ready_file,
        is_json=given.as_json,
        is_grpc_asked=ASKED in loaded.sources,
    ).with_dashboard(given.dashboard_port, is_refused=given.no_dashboard)
    if given.brokers == "1" and given.replicas == 1 and not given.sync and given.failover is None:
        broker_servers.run_up(process, start)
        return
    from pyromq.cli.servers import local_cluster

    local_cluster.run_cluster(
        process,
        local_cluster.Shape(
            brokers=local_cluster.broker_count(given.brokers),
            replicas=given.replicas,
            is_sync=given.sync,
            failover=given.failover,
            shares_topics=given.brokers == local_cluster.AUTO,
        ),
        start,
        local_cluster.Inherited(
            config=given.config,
            assignments=tuple(given.assignments or ()),
            log_level=given.log_level.value,
        ),
    )


def namesrv(given: NamesrvOptions) -> None:
    """Start a name server, which knows the brokers and their topics."""
    loaded = load_settings(
        NamesrvProcess,
        file=given.config,
        assignments=given.assignments,
        flags=flags(listen_port=("-p", given.port), bind_address=("--listen", given.listen)),
        is_check=given.check_only,
    )
    if given.settings_only or given.check_only:
        (print_settings if given.settings_only else check_settings)(loaded, is_json=given.as_json)
        return
    from pyromq.cli.servers import serve, servers

    imported()
    serve.log_to_standard_error(given.log_level)
    start = servers.Start(
        version=installed_version(), folder=given.data, ready_file=given.ready_file, is_json=given.as_json
    )
    servers.run_namesrv(loaded.process, start)


def broker(given: BrokerOptions) -> None:
    """Start a broker, which keeps the messages and registers with its name servers."""
    loaded = load_settings(
        BrokerProcess,
        file=given.config,
        assignments=given.assignments,
        flags=flags(
            namesrv_addr=("-n", given.name_server),
            listen_port=("--port", given.port),
            bind_address=("--listen", given.listen),
            broker_ip1=("--advertise", given.advertise),
            failover=("--failover", given.failover),
        ),
        is_check=given.check_only,
    )
    if given.settings_only or given.check_only:
        (print_settings if given.settings_only else check_settings)(loaded, is_json=given.as_json)
        return
    from pyromq.cli.servers import broker_servers, serve, servers

    imported()
    serve.log_to_standard_error(given.log_level)
    start = servers.Start(
        version=installed_version(),
        folder=given.data,
        ready_file=given.ready_file,
        is_json=given.as_json,
        until_stdin_ends=given.until_stdin_ends,
        is_grpc_asked=ASKED in loaded.sources,
    )
    broker_servers.run_broker(loaded.process, start)
