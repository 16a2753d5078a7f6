"""Commands of `pyromq admin` for groups: who they are, who is in them, how far behind."""

from typing import Annotated

import typer

from pyromq.cli.admin.admin_options import (
    DEFAULT_NAME_SERVER,
    Broker,
    Cluster,
    ConsumerGroup,
    Json,
    NameServer,
    OneBroker,
    Topic,
    Watch,
    completed_groups,
    exactly_one_place,
    is_true,
    true_or_false,
)
from pyromq.cli.admin.command_runs import look, order
from pyromq.cli.exit_status import ended_by_errors
from pyromq.cli.options import examples
from pyromq.config.choices import MessageRequestMode
from pyromq.errors import ConfigError


def consumer_progress(
    *,
    group: Annotated[
        str | None,
        typer.Option(
            "-g",
            "--groupName",
            metavar="GROUP",
            help="This group, queue by queue; else all groups.",
            autocompletion=completed_groups,
        ),
    ] = None,
    show_clients: Annotated[
        str,
        true_or_false("-s", "--showClientIP", help="Which member has each queue."),
    ] = "false",
    name_server: NameServer = DEFAULT_NAME_SERVER,
    watch: Watch = None,
    as_json: Json = False,
) -> None:
    """Show how far groups got, and how far they are behind.

    Status 3: the group never read anything.
    """
    from pyromq.cli.views import group_views

    if group is None:
        look(name_server, group_views.overview, is_json=as_json, watch=watch, is_part_enough=True)
        return
    look(
        name_server,
        lambda admin: group_views.progress(admin, group, with_clients=is_true(show_clients)),
        is_json=as_json,
        watch=watch,
    )


def consumer_connection(
    *,
    group: ConsumerGroup,
    broker: Broker = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """List who is in a consumer group, and what they subscribe to.

    Status 3: nobody is.
    """
    from pyromq.cli.views import group_views

    look(name_server, lambda admin: group_views.connections(admin, group, broker), is_json=as_json)


def producer_connection(
    *,
    group: Annotated[str, typer.Option("-g", "--producerGroup", metavar="GROUP", help="The producer group.")],
    topic: Topic,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """List who is in a producer group, at the brokers of a topic.

    Status 3: nobody is.
    """
    from pyromq.cli.views import group_views

    look(name_server, lambda admin: group_views.producers_of(admin, group, topic), is_json=as_json)


def producer(
    *, broker: OneBroker, name_server: NameServer = DEFAULT_NAME_SERVER, as_json: Json = False
) -> None:
    """List all producers that are connected to a broker."""
    from pyromq.cli.views import group_views

    look(name_server, lambda admin: group_views.producers_at(admin, broker), is_json=as_json)


def get_consumer_config(
    *, group: ConsumerGroup, name_server: NameServer = DEFAULT_NAME_SERVER, as_json: Json = False
) -> None:
    """Show a group's settings on each broker."""
    from pyromq.cli.views import group_views

    look(name_server, lambda admin: group_views.configs(admin, group), is_json=as_json)


WhenSlow = Annotated[
    int,
    typer.Option(
        "-w", "--whichBrokerWhenConsumeSlowly", metavar="ID", min=0, help="The one when it is far behind."
    ),
]
Orderly = Annotated[
    str, true_or_false("-o", "--consumeMessageOrderly", help="One message of a queue after the other.")
]
RetryPolicyJson = Annotated[
    str | None,
    typer.Option("-p", "--groupRetryPolicy", metavar="JSON", help="Pauses before redeliveries."),
]
GroupAttributes = Annotated[
    str | None,
    typer.Option("--attributes", metavar="+NAME=VALUE,…", help="Attributes to set and to remove."),
]


def update_sub_group(
    *,
    group: ConsumerGroup,
    broker: Broker = None,
    cluster: Cluster = None,
    consume: Annotated[str, true_or_false("-s", "--consumeEnable", help="Whether it may read.")] = "true",
    from_min: Annotated[
        str,
        true_or_false("-m", "--consumeFromMinEnable", help="Kept for RocketMQ's tools."),
    ] = "false",
    broadcast: Annotated[
        str,
        true_or_false("-d", "--consumeBroadcastEnable", help="Whether it may broadcast."),
    ] = "false",
    retry_queues: Annotated[
        int, typer.Option("-q", "--retryQueueNums", metavar="N", min=0, help="Queues of its retry topic.")
    ] = 1,
    retries: Annotated[
        int,
        typer.Option("-r", "--retryMaxTimes", metavar="N", help="Tries before a message is a dead letter."),
    ] = 16,
    broker_id: Annotated[
        int, typer.Option("-i", "--brokerId", metavar="ID", min=0, help="The broker to read from.")
    ] = 0,
    when_slow: WhenSlow = 1,
    notify: Annotated[
        str,
        true_or_false("-a", "--notifyConsumerIdsChanged", help="Tell members of changes."),
    ] = "true",
    orderly: Orderly = "false",
    retry_policy: RetryPolicyJson = None,
    attributes: GroupAttributes = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Create a consumer group, or change it: on one broker, or on all masters of a cluster."""
    from pyromq.client.names import check_group
    from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
    from pyromq.wire.bodies.retry_policy import decode_retry_policy

    with ended_by_errors():
        exactly_one_place(broker, cluster)
        check_group(group)
        policy = None if retry_policy is None else decode_retry_policy(retry_policy.encode())
        changes = dict(item.partition("=")[::2] for item in attributes.split(",")) if attributes else None
    config = SubscriptionGroupConfig(
        group_name=group,
        consume_enable=is_true(consume),
        consume_from_min_enable=is_true(from_min),
        consume_broadcast_enable=is_true(broadcast),
        retry_queue_nums=retry_queues,
        retry_max_times=retries,
        broker_id=broker_id,
        which_broker_when_consume_slowly=when_slow,
        notify_consumer_ids_changed_enable=is_true(notify),
        consume_message_orderly=is_true(orderly) or None,
        group_retry_policy=policy,
        attributes=changes,
    )
    order(
        name_server,
        lambda admin: admin.update_group(config, cluster=cluster, address=broker),
        said=f"create subscription group {group} to {{}} success.",
        is_json=as_json,
        group=group,
    )


def set_consume_mode(
    *,
    topic: Topic,
    group: ConsumerGroup,
    mode: Annotated[str, typer.Option("-m", "--mode", metavar="PULL|POP", help="How its members consume.")],
    shared: Annotated[
        int,
        typer.Option(
            "-q",
            "--popShareQueueNum",
            metavar="N",
            help="With POP: members whose queues each pops beside its own; 0: of all.",
        ),
    ] = 0,
    broker: Broker = None,
    cluster: Cluster = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Let the members of a group pull their own queues of a topic, or pop from all.

    It holds for members that let the broker share queues out, as Java's do with clientRebalance=false.
    """
    from pyromq.wire.bodies.request_mode_bodies import RequestModeSetting

    with ended_by_errors():
        exactly_one_place(broker, cluster)
        if mode not in tuple(MessageRequestMode):
            raise ConfigError(f"-m {mode}: expected PULL or POP")
    setting = RequestModeSetting(
        topic=topic,
        consumer_group=group,
        mode=MessageRequestMode(mode),
        pop_share_queue_num=shared,
    )
    order(
        name_server,
        lambda admin: admin.set_request_mode(setting, cluster=cluster, address=broker),
        said=f"set consume mode to {{}} success. topic[{topic}] group[{group}] consume mode[{mode}] "
        f"popShareQueueNum[{shared}]",
        is_json=as_json,
        group=group,
        topic=topic,
        mode=mode,
    )


def delete_sub_group(
    *,
    group: ConsumerGroup,
    broker: Broker = None,
    cluster: Cluster = None,
    remove_offset: Annotated[
        str, true_or_false("-r", "--removeOffset", help="Its progress as well.")
    ] = "false",
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Delete a consumer group; with -c, its retry and dead-letter topics as well."""
    exactly_one_place(broker, cluster)
    order(
        name_server,
        lambda admin: admin.delete_group(
            group, cluster=cluster, address=broker, removes_offsets=is_true(remove_offset)
        ),
        said=f"delete subscription group [{group}] from {{}} success.",
        is_json=as_json,
        group=group,
    )


def broker_consume_stats(
    *,
    broker: OneBroker,
    timeout_ms: Annotated[
        int, typer.Option("-t", "--timeoutMillis", metavar="MS", min=1, help="Time to answer.")
    ] = 50_000,
    level: Annotated[
        int, typer.Option("-l", "--level", metavar="N", help="Only queues that are so far behind.")
    ] = 0,
    ordered: Annotated[str, true_or_false("-o", "--order", help="Only ordered topics.")] = "false",
    name_server: NameServer = DEFAULT_NAME_SERVER,
    watch: Watch = None,
    as_json: Json = False,
) -> None:
    """Show how far behind all groups of a broker are."""
    from pyromq.cli.views import group_views

    look(
        name_server,
        lambda admin: group_views.lags(
            admin, broker, only_ordered=is_true(ordered), timeout_ms=timeout_ms, least=level
        ),
        is_json=as_json,
        watch=watch,
    )


def get_consumer_status(
    *,
    group: ConsumerGroup,
    topic: Topic,
    client_id: Annotated[
        str, typer.Option("-i", "--originClientId", metavar="ID", help="This member only.")
    ] = "",
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Ask the members of a group how far they are in their queues of a topic."""
    from pyromq.cli.views import group_views

    look(
        name_server, lambda admin: group_views.client_offsets(admin, group, topic, client_id), is_json=as_json
    )


def add_group_commands(admin: typer.Typer) -> None:
    """Add the commands to `pyromq admin`."""
    for name, command, lines in (
        (
            "consumerProgress",
            consumer_progress,
            ("pyromq admin consumerProgress", "pyromq admin consumerProgress -g billing --watch 2"),
        ),
        ("consumerConnection", consumer_connection, ("pyromq admin consumerConnection -g billing",)),
        ("producerConnection", producer_connection, ("pyromq admin producerConnection -g shop -t orders",)),
        ("producer", producer, ("pyromq admin producer -b 10.0.0.7:10911",)),
        ("getConsumerConfig", get_consumer_config, ("pyromq admin getConsumerConfig -g billing",)),
        (
            "updateSubGroup",
            update_sub_group,
            ("pyromq admin updateSubGroup -g billing -c DefaultCluster -r 5",),
        ),
        (
            "deleteSubGroup",
            delete_sub_group,
            ("pyromq admin deleteSubGroup -g billing -c DefaultCluster -r true",),
        ),
        (
            "setConsumeMode",
            set_consume_mode,
            ("pyromq admin setConsumeMode -t orders -g billing -m POP -c DefaultCluster",),
        ),
        ("brokerConsumeStats", broker_consume_stats, ("pyromq admin brokerConsumeStats -b 10.0.0.7:10911",)),
        ("getConsumerStatus", get_consumer_status, ("pyromq admin getConsumerStatus -g billing -t orders",)),
    ):
        admin.command(name, epilog=examples(*lines))(command)
