"""`pyromq topic`: topics, in words that need no manual. The same work as `pyromq admin` does."""

from typing import Annotated

import typer

from pyromq.cli import output
from pyromq.cli.admin.admin_options import (
    DEFAULT_NAME_SERVER,
    Json,
    NameServer,
    TheTopic,
    Watch,
    completed_topics,
)
from pyromq.cli.admin.command_runs import look, operating, order
from pyromq.cli.confirmation import Yes, confirm
from pyromq.cli.options import examples, one_address
from pyromq.errors import ConfigError

InCluster = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="Only on this cluster's brokers.")
]
PERMS = {"read": 4, "write": 2, "read-write": 6}
TYPES = ("normal", "fifo", "delay", "transaction", "mixed", "priority")

topic = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Topics: list, look, create, change, delete.",
)


@topic.command("list", epilog=examples("pyromq topic list", "pyromq topic list --all --json"))
def list_topics(
    *,
    with_internal: Annotated[
        bool, typer.Option("--all", help="RocketMQ's own, and those of groups, as well.")
    ] = False,
    names_only: Annotated[bool, typer.Option("--names", help="Names only; asks no broker.")] = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    watch: Watch = None,
    as_json: Json = False,
) -> None:
    """List topics with their brokers, queues and messages."""
    from pyromq.cli.views import topic_views

    if names_only:
        with operating(name_server) as admin:
            for record in topic_views.names(admin).records:
                output.say_json(record) if as_json else output.say(record["topic"])
        return
    look(
        name_server,
        lambda admin: topic_views.listed(admin, with_internal=with_internal),
        is_json=as_json,
        watch=watch,
    )


@topic.command("show", epilog=examples("pyromq topic show orders", "pyromq topic show orders --watch 2"))
def show(
    name: TheTopic,
    *,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    watch: Watch = None,
    as_json: Json = False,
) -> None:
    """Show a topic: its brokers, the type of its messages, each queue's ends, and who reads it.

    Status 3: there is no such topic.
    """
    from pyromq.cli.views import topic_views

    if as_json or watch is not None:
        look(name_server, lambda admin: topic_views.typed_status(admin, name), is_json=as_json, watch=watch)
        return
    with operating(name_server) as admin:
        topic_views.typed_route(admin, name).show(is_json=False)
        output.say("")
        queues = topic_views.status(admin, name, with_readers=True)
        queues.show(is_json=False)
    if queues.status:
        raise typer.Exit(queues.status)


@topic.command(
    "create",
    epilog=examples("pyromq topic create orders --queues 16", "pyromq topic create orders --type fifo"),
)
def create(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The new topic.")],
    *,
    queues: Annotated[int, typer.Option("--queues", metavar="N", min=1, help="On each broker.")] = 8,
    ordered: Annotated[bool, typer.Option("--ordered", help="Its queues are told in order.")] = False,
    message_type: Annotated[
        str | None,
        typer.Option("--type", metavar="TYPE", help="normal, fifo, delay, transaction, mixed or priority."),
    ] = None,
    cluster: InCluster = None,
    broker: Annotated[
        str | None,
        typer.Option("--broker", metavar="HOST:PORT", help="Only on this broker.", callback=one_address),
    ] = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Create a topic on all masters, or give one that is there so many queues.

    The type says which messages clients of RocketMQ 5 that speak gRPC may send to it; others may send all.
    """
    from pyromq.client.plans.admin.scaling_plans import TopicUpdate

    update = TopicUpdate(
        topic=name,
        read_queue_count=queues,
        write_queue_count=queues,
        is_ordered=ordered,
        attributes=_type_change(message_type),
    )
    order(
        name_server,
        lambda admin: admin.update_topic(update, cluster=cluster, address=broker),
        said=f"{name} is on {{}}, with {queues} queues",
        is_json=as_json,
        topic=name,
    )


def _type_change(message_type: str | None) -> str | None:
    if message_type is None:
        return None
    if message_type.lower() not in TYPES:
        raise ConfigError(f"--type {message_type}: expected one of {', '.join(TYPES)}")
    return f"+message.type={message_type.upper()}"


@topic.command("delete", epilog=examples("pyromq topic delete orders --yes"))
def delete(
    name: TheTopic,
    *,
    cluster: InCluster = None,
    yes: Yes = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Delete a topic with its messages and the progress of its readers.

    Status 3: there is no such topic.
    """
    confirm(f"Delete topic {name}, with all its messages?", is_yes=yes)
    order(
        name_server,
        lambda admin: admin.delete_topic(name, cluster),
        said=f"{name} is gone from {{}}",
        is_json=as_json,
        topic=name,
    )


@topic.command(
    "allow", epilog=examples("pyromq topic allow orders read", "pyromq topic allow orders read-write")
)
def allow(
    name: TheTopic,
    what: Annotated[str, typer.Argument(metavar="read|write|read-write", help="What may be done with it.")],
    *,
    cluster: InCluster = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Say what may be done with a topic."""
    if what not in PERMS:
        raise ConfigError(f"{what}: expected one of {', '.join(PERMS)}")
    order(
        name_server,
        lambda admin: [told for told, _ in admin.set_topic_perm(name, PERMS[what], cluster=cluster)],
        said=f"{name} on {{}}: {what}",
        is_json=as_json,
        topic=name,
        perm=PERMS[what],
    )


@topic.command("rates", epilog=examples("pyromq topic rates --watch 5", "pyromq topic rates orders"))
def rates(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[TOPIC]", help="This topic only.", autocompletion=completed_topics),
    ] = None,
    *,
    only_active: Annotated[bool, typer.Option("--active", help="Only where something moves.")] = False,
    with_internal: Annotated[bool, typer.Option("--all", help="RocketMQ's own topics as well.")] = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    watch: Watch = None,
    as_json: Json = False,
) -> None:
    """Show how much goes into topics and out to groups, in messages a second and in a day.

    Status 3: there is no such topic.
    """
    from pyromq.cli.views import topic_views

    look(
        name_server,
        lambda admin: topic_views.flows(
            admin, name, only_active=only_active, with_internal=with_internal, must_be_there=True
        ),
        is_json=as_json,
        watch=watch,
    )
