"""`pyromq message`: find messages and look at them."""

from typing import Annotated

import typer

from pyromq.cli.admin.admin_options import DEFAULT_NAME_SERVER, Json, NameServer, TheTopic, moment
from pyromq.cli.admin.command_runs import operating
from pyromq.cli.exit_status import NotThere, ended_by_errors
from pyromq.cli.messages.message_trace import trace
from pyromq.cli.options import examples
from pyromq.cli.views.likely import typed

message = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Messages: find them by id, key, time or place, and what became of them.",
)


@message.command(
    "show",
    epilog=examples(
        "pyromq message show orders 7F00000100010CA5D2F80000002A0001",
        "pyromq message show orders 7F00000100002A9F0000000000000000",
    ),
)
def show(
    topic: TheTopic,
    message_id: Annotated[str, typer.Argument(metavar="ID", help="A producer's or a broker's id.")],
    *,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Show a message, and what became of it in each group.

    Status 3: there is no such message.
    """
    from pyromq.cli.views import message_views
    from pyromq.errors import PyroError, QueryNotFound

    with operating(name_server) as admin:
        try:
            found = admin.find_message(topic, message_id)
        except QueryNotFound as absent:
            try:
                found = admin.view_message(message_id)
            except PyroError:
                raise absent from None
        message_views.one(admin, found).show(is_json=as_json)


@message.command(
    "search",
    epilog=examples(
        "pyromq message search orders --key 42",
        "pyromq message search orders --since 2h --until 1h --tags 'paid||sent' --limit 20",
    ),
)
def search(
    topic: TheTopic,
    *,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="With this key.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Stored then or later; 2h: so long ago.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Stored then or earlier.")
    ] = None,
    tags: Annotated[str, typer.Option("--tags", metavar="TAGS", help="As a||b.")] = "*",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many at most.")] = 64,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """List messages of a topic, by key or by time.

    Status 3: there are none.
    """
    from pyromq.cli.admin.message_admin import reading
    from pyromq.cli.views import message_views
    from pyromq.client.plans.admin.lookups import FOREVER_MS

    with ended_by_errors():
        begin_ms = None if since is None else moment(since, "--since")
        end_ms = None if until is None else moment(until, "--until")
    with operating(name_server) as admin:
        if key is not None:
            found = admin.query_message(
                topic, key, count=limit, begin_ms=begin_ms or 0, end_ms=end_ms or FOREVER_MS
            )
        else:
            wanted = message_views.Range(
                topic=topic, tags=tags, begin_ms=begin_ms, end_ms=end_ms, count=limit
            )
            with reading(name_server) as consumer:
                found = list(message_views.read_range(consumer, wanted))
        if not found:
            raise NotThere(
                f"topic {topic!r} has no message like that; what it has: "
                f"{typed(f'pyromq message search {topic}', name_server)}"
            )
        message_views.many(found).show(is_json=as_json)


@message.command("at", epilog=examples("pyromq message at orders broker-a:0 17"))
def at(
    topic: TheTopic,
    queue: Annotated[str, typer.Argument(metavar="BROKER:ID", help="The queue.")],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", help="Its offset there.")],
    *,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Show the message at an offset of a queue.

    Status 3: there is none.
    """
    from pyromq.cli.admin.message_admin import query_msg_by_offset
    from pyromq.cli.group_commands import queue_of

    with ended_by_errors():
        broker, number = queue_of(queue)
    query_msg_by_offset(
        topic=topic, broker=broker, queue=number, offset=offset, name_server=name_server, as_json=as_json
    )


message.command(
    "trace",
    epilog=examples(
        "pyromq message trace 7F00000100010CA5D2F80000002A0001",
        "pyromq message trace 7F00000100010CA5D2F80000002A0001 --topic orders --group billing --json",
    ),
)(trace)
