"""Commands of `pyromq admin` that send: one message, or many to see how long each takes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyromq.cli import output
from pyromq.cli.admin.admin_options import (
    DEFAULT_NAME_SERVER,
    Json,
    NameServer,
    Topic,
    is_true,
    true_or_false,
)
from pyromq.cli.admin.command_runs import operating, operator_settings
from pyromq.cli.bars import tracked
from pyromq.cli.exit_status import FAILED, ended_by_errors
from pyromq.cli.options import examples
from pyromq.cli.views import listing
from pyromq.errors import ConfigError, PyroError

if TYPE_CHECKING:
    from pyromq.client.sync.producer import Producer
    from pyromq.model import SendResult

Amount = Annotated[int, typer.Option("-a", "--amount", metavar="N", min=1, help="How many messages.")]
Size = Annotated[int, typer.Option("-s", "--size", metavar="BYTES", min=1, help="How large each is.")]


def send_message(
    *,
    topic: Topic,
    body: Annotated[str, typer.Option("-p", "--body", metavar="TEXT", help="The body, as UTF-8.")],
    key: Annotated[str | None, typer.Option("-k", "--key", metavar="KEY", help="Its keys.")] = None,
    tags: Annotated[str | None, typer.Option("-c", "--tags", metavar="TAG", help="Its tag.")] = None,
    broker: Annotated[
        str | None, typer.Option("-b", "--broker", metavar="NAME", help="To this broker.")
    ] = None,
    queue: Annotated[
        int | None, typer.Option("-i", "--qid", metavar="ID", min=0, help="With -b: to this queue.")
    ] = None,
    traced: Annotated[str, true_or_false("-m", "--msgTraceEnable", help="Leave a trace of it.")] = "false",
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Send a message."""
    from pyromq.model import Message, MessageQueue

    if queue is not None and broker is None:
        raise ConfigError("-i needs -b: which broker's queue is it?")
    target = None if broker is None else MessageQueue(topic, broker, queue or 0)
    with ended_by_errors(), sending("admin-sendMessage", name_server, is_traced=is_true(traced)) as producer:
        sent = producer.send(Message(topic, body.encode(), tags=tags, keys=key or ()), queue=target)
    shown = _sent_record(sent)
    columns = (
        ("#Broker Name", "broker"),
        ("#QID", "queue"),
        ("#Send Result", "status"),
        ("#MsgId", "message_id"),
    )
    listing.Listing(columns, [shown]).show(is_json=as_json)


def check_msg_send_rt(
    *,
    topic: Topic,
    amount: Amount = 100,
    size: Size = 128,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Send messages to a topic's queues in turn, and show how long each took.

    Status 1: one failed.
    """
    with ended_by_errors(), sending("admin-checkMsgSendRT", name_server) as producer:
        records = [
            _timed(partial(_send_to_turn, producer, topic, size, at))
            for at in tracked(range(amount), "sending")
        ]
    columns = (
        ("#Broker Name", "broker"),
        ("#QID", "queue"),
        ("#Send Result", "is_sent"),
        ("#RT", "took"),
    )
    # The first opens the connections (mqadmin's rule).
    rest = [record["took"] for record in records[1:]]
    average = sum(rest) / len(rest) if rest else 0.0
    listing.Listing(columns, records, [f"Avg RT: {average:.2f}"]).show(is_json=as_json)
    _end(records)


def send_msg_status(
    *,
    broker: Annotated[
        str, typer.Option("-b", "--brokerName", metavar="NAME", help="The broker; its own topic is used.")
    ],
    size: Annotated[
        int, typer.Option("-s", "--messageSize", metavar="BYTES", min=1, help="How large each is.")
    ] = 128,
    count: Annotated[int, typer.Option("-c", "--count", metavar="N", min=1, help="How many.")] = 50,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Send messages to one broker, and show how long each took.

    Status 1: one failed.
    """
    with ended_by_errors(), sending("PID_SMSC", name_server) as producer:
        records = [
            _timed(lambda: _send(producer, broker, size)) for _ in tracked(range(count + 1), "sending")
        ][1:]
    if as_json:
        listing.Listing((), records).show(is_json=True)
    else:
        for record in records:
            output.say(
                f"rt={record['took']:.2f}ms, SendResult=[sendStatus={record['status']}, "
                f"msgId={record['message_id']}, queue={record['broker']}:{record['queue']}]"
            )
    _end(records)


def cluster_rt(
    *,
    amount: Amount = 100,
    size: Size = 128,
    cluster: Annotated[
        str | None, typer.Option("-c", "--cluster", metavar="NAME", help="This cluster only.")
    ] = None,
    as_log: Annotated[
        str, true_or_false("-p", "--printLog", help="A line for logs, with | between.")
    ] = "false",
    room: Annotated[
        str, typer.Option("-m", "--machineRoom", metavar="NAME", help="With -p: a name for the line.")
    ] = "noname",
    interval: Annotated[
        float, typer.Option("-i", "--interval", metavar="SECONDS", min=0.0, help="Time between two rounds.")
    ] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="One round only.")] = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Send messages to every broker again and again, and show how long they took."""
    with operating(name_server) as admin, sending("admin-clusterRT", name_server) as producer:

        def round_trip() -> listing.Listing:
            records = [
                {"cluster": place.cluster} | _round(producer, place.broker_name, amount, size)
                for place in tracked(admin.brokers(cluster=cluster), "brokers")
            ]
            if is_true(as_log):
                lines = [
                    f"{now()}|{room}|{one['cluster']}|{one['broker']}|{one['rt']:.0f}" for one in records
                ]
                return listing.Listing((), records, lines)
            return listing.Listing(
                (
                    ("#Cluster Name", "cluster"),
                    ("#Broker Name", "broker"),
                    ("#RT", "rt"),
                    ("#successCount", "sent"),
                    ("#failCount", "failed"),
                ),
                records,
            )

        listing.show_again(round_trip, None if once else interval, is_json=as_json)


@contextmanager
def sending(group: str, name_server: str, *, is_traced: bool = False) -> "Iterator[Producer]":
    """Give a producer with an operator's settings."""
    from pyromq.client.sync.producer import Producer

    settings = replace(operator_settings(), enable_msg_trace=is_traced)
    with Producer(group, name_server, settings) as producer:
        yield producer


def now() -> str:
    """Return the time of a line for logs."""
    return time.strftime("%Y-%m-%d %H:%M:%S")


def _send(producer: "Producer", topic: str, size: int) -> "SendResult":
    from pyromq.model import Message

    return producer.send(Message(topic, b"a" * size))


def _send_to_turn(producer: "Producer", topic: str, size: int, turn: int) -> "SendResult":
    from pyromq.model import Message

    return producer.send(
        Message(topic, b"a" * size), selector=lambda queues, _message: queues[turn % len(queues)]
    )


def _timed(send: "Callable[[], SendResult]") -> dict[str, Any]:
    began_s = time.perf_counter()
    try:
        sent = send()
    except ConfigError:
        raise
    except PyroError as error:
        took = (time.perf_counter() - began_s) * 1_000
        return {
            "broker": None,
            "queue": None,
            "status": None,
            "message_id": None,
            "is_sent": False,
            "took": took,
            "failure": str(error),
        }
    took = (time.perf_counter() - began_s) * 1_000
    return _sent_record(sent) | {"is_sent": True, "took": took, "failure": None}


def _round(producer: "Producer", broker: str, amount: int, size: int) -> dict[str, Any]:
    records = [_timed(lambda: _send(producer, broker, size)) for _ in range(amount)]
    rest = [record["took"] for record in records[1:]]
    sent = sum(1 for record in records if record["is_sent"])
    return {
        "broker": broker,
        "rt": sum(rest) / len(rest) if rest else 0.0,
        "sent": sent,
        "failed": amount - sent,
    }


def _sent_record(sent: "SendResult") -> dict[str, Any]:
    return {
        "broker": sent.queue.broker_name,
        "queue": sent.queue.queue_id,
        "offset": sent.queue_offset,
        "status": str(sent.status),
        "message_id": sent.message_id,
        "offset_message_id": sent.offset_message_id,
    }


def _end(records: list[dict[str, Any]]) -> None:
    failures = [record["failure"] for record in records if record["failure"] is not None]
    if failures:
        output.complain(f"{len(failures)} of {len(records)} failed; the last: {failures[-1]}")
        raise typer.Exit(FAILED)


def add_send_commands(admin: typer.Typer) -> None:
    """Add the commands to `pyromq admin`."""
    for name, command, lines in (
        ("sendMessage", send_message, ("pyromq admin sendMessage -t orders -p hello -c paid -k 42",)),
        ("checkMsgSendRT", check_msg_send_rt, ("pyromq admin checkMsgSendRT -t orders -a 100 -s 1024",)),
        ("sendMsgStatus", send_msg_status, ("pyromq admin sendMsgStatus -b broker-a -c 10",)),
        ("clusterRT", cluster_rt, ("pyromq admin clusterRT -i 5", "pyromq admin clusterRT --once --json")),
    ):
        admin.command(name, epilog=examples(*lines))(command)
