"""Commands of `pyromq admin` for brokers and name servers: state, settings, clean-up, keys and values."""

from collections.abc import Callable
from typing import Annotated

import typer

from pyromq.cli.admin.admin_options import (
    DEFAULT_NAME_SERVER,
    Broker,
    Cluster,
    Json,
    NameServer,
    Topic,
    Watch,
    exactly_one_place,
)
from pyromq.cli.admin.command_runs import look, operating, order
from pyromq.cli.options import examples, one_address
from pyromq.cli.views.listing import show_again
from pyromq.codes import RequestCode

Key = Annotated[str, typer.Option("-k", "--key", metavar="KEY", help="The setting, under RocketMQ's name.")]
Value = Annotated[str, typer.Option("-v", "--value", metavar="VALUE", help="What it is to be.")]
Namespace = Annotated[
    str, typer.Option("-s", "--namespace", metavar="NAME", help="The namespace of the key.")
]


def broker_status(
    *,
    broker: Broker = None,
    cluster: Cluster = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    watch: Watch = None,
    as_json: Json = False,
) -> None:
    """Show what brokers say of themselves: rates, places, threads, disks; one, a cluster's, or all."""
    from pyromq.cli.views import broker_views

    look(
        name_server,
        lambda admin: broker_views.status(admin, cluster=cluster, address=broker),
        is_json=as_json,
        watch=watch,
    )


def get_broker_config(
    *,
    broker: Broker = None,
    cluster: Cluster = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Show the settings of brokers; secret values are hidden."""
    from pyromq.cli.views import broker_views

    look(
        name_server,
        lambda admin: broker_views.config(admin, cluster=cluster, address=broker),
        is_json=as_json,
    )


def update_broker_config(
    *,
    key: Key,
    value: Value,
    broker: Broker = None,
    cluster: Cluster = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Change a setting of a broker, or of all masters of a cluster; only live ones can be changed."""
    exactly_one_place(broker, cluster)
    order(
        name_server,
        lambda admin: admin.update_broker_config({key: value}, cluster=cluster, address=broker),
        said="update broker config success, {}",
        is_json=as_json,
        key=key,
    )


def get_namesrv_config(*, name_server: NameServer = DEFAULT_NAME_SERVER, as_json: Json = False) -> None:
    """Show the settings of each name server."""
    from pyromq.cli.views import broker_views

    look(name_server, broker_views.name_server_config, is_json=as_json)


def update_namesrv_config(
    *, key: Key, value: Value, name_server: NameServer = DEFAULT_NAME_SERVER, as_json: Json = False
) -> None:
    """Change a setting of every name server of -n."""
    order(
        name_server,
        lambda admin: admin.update_name_server_config({key: value}),
        said="update name server config success! {}",
        is_json=as_json,
        key=key,
    )


def update_kv_config(
    *,
    namespace: Namespace,
    key: Annotated[str, typer.Option("-k", "--key", metavar="KEY", help="The key.")],
    value: Value,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Set a key of a namespace at every name server of -n."""
    order(
        name_server,
        lambda admin: admin.put_key_value(namespace, key, value),
        said="create or update kv config to namespace success. {}",
        is_json=as_json,
        namespace=namespace,
        key=key,
    )


def delete_kv_config(
    *,
    namespace: Namespace,
    key: Annotated[str, typer.Option("-k", "--key", metavar="KEY", help="The key.")],
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Remove a key of a namespace at every name server of -n."""
    order(
        name_server,
        lambda admin: admin.put_key_value(namespace, key, None),
        said="delete kv config from namespace success. {}",
        is_json=as_json,
        namespace=namespace,
        key=key,
    )


def cleaning(code: RequestCode, help_text: str) -> Callable[..., None]:
    """Return a command that has brokers clean up."""

    def clean(
        *,
        broker: Broker = None,
        cluster: Cluster = None,
        name_server: NameServer = DEFAULT_NAME_SERVER,
        as_json: Json = False,
    ) -> None:
        order(
            name_server,
            lambda admin: admin.clean(code, cluster=cluster, address=broker),
            said="success {}",
            is_json=as_json,
        )

    clean.__doc__ = help_text
    return clean


clean_expired_cq = cleaning(
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
    "Have brokers remove queue files whose messages are gone: one broker, a cluster's, or all.",
)
delete_expired_commit_log = cleaning(
    RequestCode.DELETE_EXPIRED_COMMITLOG,
    "Have brokers remove files of the log that are old enough, now: one broker, a cluster's, or all.",
)
clean_unused_topic = cleaning(
    RequestCode.CLEAN_UNUSED_TOPIC,
    "Have brokers remove the queues of topics that they do not have any more.",
)


def query_cq(
    *,
    topic: Topic,
    queue: Annotated[int, typer.Option("-q", "--queue", metavar="ID", min=0, help="The queue.")],
    index: Annotated[int, typer.Option("-i", "--index", metavar="N", min=0, help="The first entry.")],
    count: Annotated[int, typer.Option("-c", "--count", metavar="N", min=1, help="How many.")] = 10,
    broker: Annotated[
        str | None,
        typer.Option(
            "-b",
            "--broker",
            metavar="HOST:PORT",
            help="The broker; default: the first.",
            callback=one_address,
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("-g", "--consumer", metavar="GROUP", help="What this group subscribes to, as well."),
    ] = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Show entries of a queue's index: where each message is in the log, its size, its tag's hash.

    Status 3: the queue has no such entry.
    """
    from pyromq.cli.views import broker_views
    from pyromq.wire.headers.operation_headers import QueryConsumeQueue

    query = QueryConsumeQueue(topic=topic, queue_id=queue, index=index, count=count, consumer_group=group)
    look(name_server, lambda admin: broker_views.queue_entries(admin, broker, query), is_json=as_json)


def start_monitoring(
    *,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="Time between two rounds.")
    ] = 60.0,
    least: Annotated[
        int, typer.Option("--least", metavar="N", min=0, help="Only groups that are so far behind.")
    ] = 1,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Watch all groups until interrupted, and show those that are behind."""
    from pyromq.cli.views import broker_views

    with operating(name_server) as admin:
        show_again(lambda: broker_views.behind(admin, least), interval, is_json=as_json)


def add_broker_commands(admin: typer.Typer) -> None:
    """Add the commands to `pyromq admin`."""
    for name, command, lines in (
        ("brokerStatus", broker_status, ("pyromq admin brokerStatus -b 10.0.0.7:10911 --watch 2",)),
        ("getBrokerConfig", get_broker_config, ("pyromq admin getBrokerConfig -c DefaultCluster",)),
        (
            "updateBrokerConfig",
            update_broker_config,
            ("pyromq admin updateBrokerConfig -c DefaultCluster -k fileReservedTime -v 48",),
        ),
        ("getNamesrvConfig", get_namesrv_config, ("pyromq admin getNamesrvConfig -n 'ns1:9876;ns2:9876'",)),
        (
            "updateNamesrvConfig",
            update_namesrv_config,
            ("pyromq admin updateNamesrvConfig -k orderMessageEnable -v true",),
        ),
        ("updateKvConfig", update_kv_config, ("pyromq admin updateKvConfig -s NAMES -k key -v value",)),
        ("deleteKvConfig", delete_kv_config, ("pyromq admin deleteKvConfig -s NAMES -k key",)),
        ("cleanExpiredCQ", clean_expired_cq, ("pyromq admin cleanExpiredCQ -c DefaultCluster",)),
        (
            "deleteExpiredCommitLog",
            delete_expired_commit_log,
            ("pyromq admin deleteExpiredCommitLog -b 10.0.0.7:10911",),
        ),
        ("cleanUnusedTopic", clean_unused_topic, ("pyromq admin cleanUnusedTopic -c DefaultCluster",)),
        ("queryCq", query_cq, ("pyromq admin queryCq -t orders -q 0 -i 100 -c 5",)),
        ("startMonitoring", start_monitoring, ("pyromq admin startMonitoring --interval 30 --least 1000",)),
    ):
        admin.command(name, epilog=examples(*lines))(command)
