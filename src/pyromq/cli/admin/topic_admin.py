"""Commands of `pyromq admin` for topics: where, how full, permissions, their end."""

from typing import Annotated

import typer

from pyromq.cli import output
from pyromq.cli.admin.admin_options import (
    DEFAULT_NAME_SERVER,
    Broker,
    Cluster,
    Json,
    NameServer,
    Topic,
    Watch,
    completed_topics,
    exactly_one_place,
)
from pyromq.cli.admin.command_runs import look, operating, order, show_told
from pyromq.cli.options import examples
from pyromq.errors import ConfigError

PERMS = (2, 4, 6)


def topic_list(
    *,
    by_cluster: Annotated[
        bool, typer.Option("-c", "--clusterModel", help="With their clusters and the groups that read them.")
    ] = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """List all topics."""
    from pyromq.cli.views import topic_views

    if by_cluster:
        look(name_server, topic_views.by_cluster, is_json=as_json, is_part_enough=True)
        return
    with operating(name_server) as admin:
        found = topic_views.names(admin)
    for record in found.records:
        output.say_json(record) if as_json else output.say(record["topic"])


def topic_route(
    *,
    topic: Topic,
    as_list: Annotated[bool, typer.Option("-l", "--list", help="A table instead of JSON.")] = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Show which brokers have a topic, with how many queues, as the name server tells it to clients."""
    from pyromq.cli.views import topic_views

    if as_list or as_json:
        look(name_server, lambda admin: topic_views.route(admin, topic), is_json=as_json)
        return
    with operating(name_server) as admin:
        output.say(topic_views.route_text(admin.route(topic)))


def topic_status(
    *,
    topic: Topic,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    watch: Watch = None,
    as_json: Json = False,
) -> None:
    """Show each queue of a topic: first and last offset, and when its last message came."""
    from pyromq.cli.views import topic_views

    look(name_server, lambda admin: topic_views.status(admin, topic), is_json=as_json, watch=watch)


def topic_cluster_list(
    *, topic: Topic, name_server: NameServer = DEFAULT_NAME_SERVER, as_json: Json = False
) -> None:
    """List the clusters that have a topic."""
    from pyromq.cli.views import topic_views

    look(name_server, lambda admin: topic_views.clusters(admin, topic), is_json=as_json)


def delete_topic(
    *,
    topic: Topic,
    cluster: Annotated[str, typer.Option("-c", "--clusterName", metavar="NAME", help="From this cluster.")],
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Delete a topic from the brokers of a cluster and from the name servers, with its messages."""
    order(
        name_server,
        lambda admin: admin.delete_topic(topic, cluster),
        said=f"delete topic [{topic}] from {{}} success.",
        is_json=as_json,
        topic=topic,
    )


def update_topic_perm(
    *,
    topic: Topic,
    perm: Annotated[int, typer.Option("-p", "--perm", metavar="2|4|6", help="2: write, 4: read, 6: both.")],
    broker: Broker = None,
    cluster: Cluster = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Change what may be done with a topic, on one broker or in a cluster."""
    exactly_one_place(broker, cluster)
    if perm not in PERMS:
        raise ConfigError(f"-p {perm}: a topic is 2 (writable), 4 (readable) or 6 (both)")
    with operating(name_server) as admin:
        told = admin.set_topic_perm(topic, perm, cluster=cluster, address=broker)
    for one, before in told:
        if one.failure is None:
            show_told(
                [one],
                said=f"update topic perm from {before} to {perm} in {{}} success.",
                is_json=as_json,
                topic=topic,
                before=before,
                perm=perm,
            )
    # The first of these ends the command.
    failed = [one for one, _ in told if one.failure is not None]
    show_told(failed, said="", is_json=as_json, topic=topic, before=None, perm=perm)


def update_order_conf(
    *,
    topic: Topic,
    method: Annotated[str, typer.Option("-m", "--method", metavar="put|get|delete", help="What to do.")],
    value: Annotated[
        str | None,
        typer.Option("-v", "--orderConf", metavar="BROKER:QUEUES;…", help="With put: queues of each broker."),
    ] = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Show or change how many queues of an ordered topic each broker has, at the name servers.

    Status 3, with get: there is nothing.
    """
    if method not in ("put", "get", "delete") or (method == "put" and not value):
        raise ConfigError("-m put needs -v BROKER:QUEUES;…; the others are -m get and -m delete")
    if method == "get":
        _show_order_conf(topic, name_server, is_json=as_json)
        return
    order(
        name_server,
        lambda admin: admin.set_order_conf(topic, value if method == "put" else None),
        said=f"{'update' if method == 'put' else 'delete'} orderConf success in {{}}. topic=[{topic}]"
        + (f", orderConf=[{value}]" if method == "put" else ""),
        is_json=as_json,
        topic=topic,
    )


def _show_order_conf(topic: str, name_server: str, *, is_json: bool) -> None:
    from pyromq.cli.exit_status import NotThere

    with operating(name_server) as admin:
        found = admin.order_conf(topic)
        if found is None:
            raise NotThere(f"topic {topic!r} has no orderConf at the name servers; -m put writes one")
    if is_json:
        output.say_json({"topic": topic, "order_conf": found})
    else:
        output.say(f"get orderConf success. topic=[{topic}], orderConf=[{found}]")


def allocate_mq(
    *,
    topic: Topic,
    addresses: Annotated[
        str, typer.Option("-i", "--ipList", metavar="IP,IP,…", help="The members to share the queues among.")
    ],
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Show how members would share a topic's queues among them, evenly (AVG)."""
    from pyromq.cli.views.allocation_view import allocations

    look(name_server, lambda admin: allocations(admin, topic, addresses.split(",")), is_json=as_json)


def stats_all(
    *,
    only_active: Annotated[
        bool, typer.Option("-a", "--activeTopic", help="Only where something went in or out.")
    ] = False,
    topic: Annotated[
        str | None,
        typer.Option(
            "-t", "--topic", metavar="TOPIC", help="This topic only.", autocompletion=completed_topics
        ),
    ] = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    watch: Watch = None,
    as_json: Json = False,
) -> None:
    """Show how much goes into each topic and out to each group, and how far behind the groups are."""
    from pyromq.cli.views import topic_views

    look(
        name_server,
        lambda admin: topic_views.flows(admin, topic, only_active=only_active),
        is_json=as_json,
        watch=watch,
        is_part_enough=True,
    )


def add_topic_commands(admin: typer.Typer) -> None:
    """Add the commands to `pyromq admin`."""
    for name, command, lines in (
        ("topicList", topic_list, ("pyromq admin topicList", "pyromq admin topicList -c --json")),
        ("topicRoute", topic_route, ("pyromq admin topicRoute -t orders -l",)),
        ("topicStatus", topic_status, ("pyromq admin topicStatus -t orders --watch 2",)),
        ("topicClusterList", topic_cluster_list, ("pyromq admin topicClusterList -t orders",)),
        ("deleteTopic", delete_topic, ("pyromq admin deleteTopic -t orders -c DefaultCluster",)),
        (
            "updateTopicPerm",
            update_topic_perm,
            ("pyromq admin updateTopicPerm -t orders -c DefaultCluster -p 4",),
        ),
        (
            "updateOrderConf",
            update_order_conf,
            ("pyromq admin updateOrderConf -t orders -m put -v 'broker-a:4;broker-b:4'",),
        ),
        ("allocateMQ", allocate_mq, ("pyromq admin allocateMQ -t orders -i 10.0.0.7,10.0.0.8",)),
        ("statsAll", stats_all, ("pyromq admin statsAll -a", "pyromq admin statsAll -t orders --watch 5")),
    ):
        admin.command(name, epilog=examples(*lines))(command)
