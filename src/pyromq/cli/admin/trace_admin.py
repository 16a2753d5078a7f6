"""`pyromq admin queryMsgTraceById`: what clients with a trace told of one message."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyromq.cli.admin.admin_options import DEFAULT_NAME_SERVER, Json, NameServer
from pyromq.cli.admin.command_runs import look
from pyromq.cli.exit_status import NotThere
from pyromq.cli.options import examples

if TYPE_CHECKING:
    from pyromq.cli.views.listing import Listing
    from pyromq.client.sync.admin import Admin

_COUNT = 64


def query_msg_trace_by_id(
    *,
    message_id: Annotated[str, typer.Option("-i", "--msgId", metavar="ID", help="The message's unique id.")],
    trace_topic: Annotated[
        str, typer.Option("-t", "--traceTopic", metavar="TOPIC", help="Where traces are.")
    ] = "RMQ_SYS_TRACE_TOPIC",
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Show the life of a message that its clients traced: when it was sent, and each try of each group.

    Status 3: there is no trace of it.
    """
    look(name_server, lambda admin: _traced(admin, trace_topic, message_id), is_json=as_json)


def _traced(admin: "Admin", topic: str, message_id: str) -> "Listing":
    from pyromq.cli.views.listing import Listing

    records = traces_of(admin, topic, message_id)
    if not records:
        raise NotThere(
            f"{topic} has no trace of {message_id}; do the clients trace (enableMsgTrace), and the brokers "
            "have the topic (traceTopicEnable)?"
        )
    return Listing(
        (
            ("#Type", "type"),
            ("#Group", "group"),
            ("#ClientHost", "client_host"),
            ("#Time", "at_ms"),
            ("#CostTimes", "took"),
            ("#Status", "status"),
        ),
        records,
    )


def traces_of(admin: "Admin", topic: str, message_id: str) -> list[dict[str, Any]]:
    """Return what was told of a message, in the order of time."""
    from pyromq.client.tracing.trace_format import decode_entries

    found = []
    for message in admin.query_message(topic, message_id, count=_COUNT):
        text = message.body.decode("utf-8", "replace")
        for entry in decode_entries(text, message.born_host):
            if message_id in (entry.message_id, entry.offset_message_id):
                found.append(
                    {
                        "type": str(entry.type),
                        "group": entry.group,
                        "topic": entry.topic,
                        "client_host": entry.client_host,
                        "at_ms": entry.at_ms,
                        "took": f"{entry.took_ms}ms",
                        "status": "success" if entry.is_success else "failed",
                        "tries_before": entry.retries,
                        "message_id": entry.message_id,
                    }
                )
    return sorted(found, key=lambda record: (record["at_ms"], record["type"]))


def add_trace_command(admin: typer.Typer) -> None:
    """Add the command to `pyromq admin`."""
    admin.command(
        "queryMsgTraceById",
        epilog=examples("pyromq admin queryMsgTraceById -i 7F00000100010CA5D2F80000002A0001"),
    )(query_msg_trace_by_id)
