"""Commands of `pyromq admin` that find and read messages."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from pyromq.cli import output
from pyromq.cli.admin.admin_options import (
    DEFAULT_NAME_SERVER,
    Json,
    NameServer,
    QueueId,
    Topic,
    is_true,
    moment,
    true_or_false,
)
from pyromq.cli.admin.command_runs import operating, operator_settings
from pyromq.cli.exit_status import NotThere, ended_by_errors
from pyromq.cli.options import examples
from pyromq.errors import ConfigError, HeaderError

if TYPE_CHECKING:
    from pyromq.cli.views.message_views import Range
    from pyromq.client.sync.admin import Admin
    from pyromq.client.sync.pull_consumer import PullConsumer
    from pyromq.model import ReceivedMessage

TIME = "2026-01-31#12:00:00:000, milliseconds since 1970, or 2h: so long ago."
MessageId = Annotated[str, typer.Option("-i", "--msgId", metavar="ID", help="The message's id.")]
OfGroup = Annotated[
    str | None,
    typer.Option("-g", "--consumerGroup", metavar="GROUP", help="Have a member of it consume the message."),
]
ByClient = Annotated[
    str | None, typer.Option("-d", "--clientId", metavar="ID", help="With -g: the member that consumes it.")
]
Charset = Annotated[str, typer.Option("-c", "--charsetName", metavar="NAME", help="Of the bodies.")]
Tags = Annotated[str, typer.Option("-s", "--subExpression", metavar="TAGS", help="As TagA || TagB.")]
Begin = Annotated[str | None, typer.Option("-b", "--beginTimestamp", metavar="TIME", help=f"From {TIME}")]
End = Annotated[str | None, typer.Option("-e", "--endTimestamp", metavar="TIME", help=f"Until {TIME}")]


def query_msg_by_id(
    *,
    ids: Annotated[
        str, typer.Option("-i", "--msgId", metavar="ID,…", help="Ids that brokers gave, with commas between.")
    ],
    group: OfGroup = None,
    client_id: ByClient = None,
    resend: Annotated[str, true_or_false("-s", "--sendMessage", help="Send it once more.")] = "false",
    unit_name: Annotated[
        str | None, typer.Option("-u", "--unitName", metavar="NAME", help="Kept for RocketMQ's tools.")
    ] = None,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Show messages by the ids that brokers gave them; or consume (-g -d) or send (-s true) them again.

    Status 3: there is no such message.
    """
    from pyromq.cli.views import message_views

    with operating(name_server) as admin:
        for message_id in filter(None, (each.strip() for each in ids.split(","))):
            if group is not None and client_id is not None:
                _consume(admin, group, client_id, message_id, is_json=as_json)
                continue
            try:
                message = admin.view_message(message_id)
            except HeaderError as error:
                raise ConfigError(f"-i: {error}") from error
            if is_true(resend):
                _send_again(message, name_server, is_json=as_json)
            else:
                message_views.one(admin, message).show(is_json=as_json)


def query_msg_by_unique_key(
    *,
    message_id: MessageId,
    topic: Topic,
    group: OfGroup = None,
    client_id: ByClient = None,
    show_all: Annotated[
        bool, typer.Option("-a", "--showAll", help="All of that id, if it was sent several times; up to 32.")
    ] = False,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Show a message by the unique id that its producer gave it; or have it consumed (-g -d).

    Status 3: there is no such message.
    """
    from pyromq.cli.views import message_views

    with operating(name_server) as admin:
        if group is not None and client_id is not None:
            found = admin.find_message(topic, message_id)
            _consume(admin, group, client_id, found.offset_message_id, is_json=as_json)
            return
        messages = [admin.find_message(topic, message_id)]
        if show_all:
            messages = admin.messages_by_id(topic, message_id)
        for message in messages:
            message_views.one(admin, message).show(is_json=as_json)


def query_msg_by_key(
    *,
    topic: Topic,
    key: Annotated[str, typer.Option("-k", "--msgKey", metavar="KEY", help="The key.")],
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """List messages with a key, up to 64, oldest first.

    Status 3: there are none.
    """
    from pyromq.cli.views import message_views

    with operating(name_server) as admin:
        found = admin.query_message(topic, key, count=64)
        if not found:
            raise NotThere(f"topic {topic!r} has no message with the key {key!r}")
        message_views.many(found).show(is_json=as_json)


def query_msg_by_offset(
    *,
    topic: Topic,
    broker: Annotated[str, typer.Option("-b", "--brokerName", metavar="NAME", help="The broker's name.")],
    queue: QueueId,
    offset: Annotated[int, typer.Option("-o", "--offset", metavar="N", min=0, help="Its offset there.")],
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Show the message at an offset of a queue.

    Status 3: there is none.
    """
    from pyromq.cli.views import message_views

    with operating(name_server) as admin, reading(name_server) as consumer:
        place = message_views.queue_named(consumer, topic, broker, queue)
        pulled = consumer.pull(place, offset, count=1)
        found = [message for message in pulled.messages if message.queue_offset == offset]
        if not found:
            raise NotThere(
                f"{topic} queue {queue} of {broker} has no message at {offset}; "
                + (
                    f"it has those from {pulled.min_offset} to {pulled.max_offset - 1}"
                    if pulled.min_offset < pulled.max_offset
                    else "the queue is empty"
                )
            )
        message_views.one(admin, found[0]).show(is_json=as_json)


def print_msg(
    *,
    topic: Topic,
    charset: Charset = "UTF-8",
    tags: Tags = "*",
    begin: Begin = None,
    end: End = None,
    with_body: Annotated[str, true_or_false("-d", "--printBody", help="The bodies as well.")] = "true",
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Print the messages of a topic, queue by queue."""
    from pyromq.cli.views.message_views import Range

    with ended_by_errors():
        wanted = Range(topic=topic, tags=tags, begin_ms=_moment(begin, "-b"), end_ms=_moment(end, "-e"))
    _print(wanted, name_server, charset, with_body=is_true(with_body), is_json=as_json)


def print_msg_by_queue(
    *,
    topic: Topic,
    broker: Annotated[str, typer.Option("-a", "--brokerName", metavar="NAME", help="The broker's name.")],
    queue: QueueId,
    charset: Charset = "UTF-8",
    tags: Tags = "*",
    begin: Begin = None,
    end: End = None,
    prints: Annotated[str, true_or_false("-p", "--printMsg", help="Print the messages.")] = "false",
    with_body: Annotated[
        str, true_or_false("-d", "--printBody", help="With -p: the bodies as well.")
    ] = "false",
    by_tag: Annotated[str, true_or_false("-f", "--calculate", help="Count them by tag.")] = "false",
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Print the messages of one queue (-p true), or count them by tag (-f true)."""
    from pyromq.cli.views import message_views

    if not is_true(prints) and not is_true(by_tag):
        # As with mqadmin, which says nothing.
        output.warn("nothing is printed: -p true prints the messages, -f true counts them by tag")

    with ended_by_errors():
        wanted = message_views.Range(
            topic=topic,
            tags=tags,
            broker=broker,
            queue=queue,
            begin_ms=_moment(begin, "-b"),
            end_ms=_moment(end, "-e"),
        )
    if is_true(prints):
        _print(wanted, name_server, charset, with_body=is_true(with_body), is_json=as_json)
    if is_true(by_tag):
        with ended_by_errors(), reading(name_server) as consumer:
            message_views.by_tag(message_views.read_range(consumer, wanted)).show(is_json=as_json)


def consume_message(
    *,
    topic: Topic,
    broker: Annotated[
        str | None, typer.Option("-b", "--brokerName", metavar="NAME", help="Of this broker only.")
    ] = None,
    queue: Annotated[
        int | None, typer.Option("-i", "--queueId", metavar="ID", min=0, help="With -b: of this queue only.")
    ] = None,
    offset: Annotated[
        int | None, typer.Option("-o", "--offset", metavar="N", min=0, help="With -i: from this offset on.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("-g", "--consumerGroup", metavar="GROUP", help="Read as this group.")
    ] = None,
    begin: Annotated[
        str | None, typer.Option("-s", "--beginTimestamp", metavar="TIME", help=f"From {TIME}")
    ] = None,
    end: Annotated[
        str | None, typer.Option("-e", "--endTimestamp", metavar="TIME", help=f"Until {TIME}")
    ] = None,
    count: Annotated[
        int, typer.Option("-c", "--MessageNumber", metavar="N", min=1, help="How many at most.")
    ] = 128,
    name_server: NameServer = DEFAULT_NAME_SERVER,
    as_json: Json = False,
) -> None:
    """Read messages of a topic, oldest first; no group's progress changes."""
    from pyromq.cli.views.message_views import Range

    if queue is not None and broker is None:
        raise ConfigError("-i needs -b: which broker's queue is it?")
    if offset is not None and queue is None:
        raise ConfigError("-o needs -i: which queue's offset is it?")
    with ended_by_errors():
        wanted = Range(
            topic=topic,
            broker=broker,
            queue=queue,
            first=offset,
            begin_ms=_moment(begin, "-s"),
            end_ms=_moment(end, "-e"),
            count=count,
        )
    _print(wanted, name_server, "utf-8", with_body=True, is_json=as_json, group=group)


def decode_message_id(
    *,
    ids: Annotated[list[str], typer.Option("-i", "--messageId", metavar="ID", help="May be repeated.")],
    as_json: Json = False,
) -> None:
    """Show what a message's id says: the broker's address and the place, or who made it and when."""
    from pyromq.cli.views.id_view import decoded

    with ended_by_errors():
        for message_id in ids:
            decoded(message_id.strip()).show(is_json=as_json)


@contextmanager
def reading(name_server: str, group: str | None = None) -> "Iterator[PullConsumer]":
    """Give a consumer that reads as RocketMQ's tools do, and commits nothing."""
    from pyromq.cli.views.message_views import TOOLS_GROUP
    from pyromq.client.sync.pull_consumer import PullConsumer

    with PullConsumer(group or TOOLS_GROUP, name_server, operator_settings()) as consumer:
        yield consumer


def _print(
    wanted: "Range",
    name_server: str,
    charset: str,
    *,
    with_body: bool,
    is_json: bool,
    group: str | None = None,
) -> None:
    from pyromq.cli.views.message_views import body_text, message_record, read_range

    with ended_by_errors(), reading(name_server, group) as consumer:
        found = read_range(consumer, wanted, prints_lines=True)
        while block := list(islice(found, 64)):
            for message in block:
                if is_json:
                    record = message_record(message)
                    output.say_json(record if with_body else _without_body(record))
                    continue
                queue = message.queue
                body = f" BODY: {body_text(message, charset)}" if with_body else ""
                output.say(
                    f"MSGID: {message.message_id} queue={queue.broker_name}:{queue.queue_id} "
                    f"offset={message.queue_offset} tags={message.tags or ''} "
                    f"keys={' '.join(message.keys)}{body}"
                )


def _without_body(record: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in record.items() if not name.startswith("body")}


def _consume(admin: "Admin", group: str, client_id: str, message_id: str, *, is_json: bool) -> None:
    message = admin.view_message(message_id)
    result = admin.consume_directly(message.store_host, group, client_id, message_id)
    record = {
        "message_id": message_id,
        "result": result.consume_result,
        "remark": result.remark,
        "took_ms_count": result.spent_time_mills,
    }
    if is_json:
        output.say_json(record)
    else:
        output.say(
            f"{message_id}: {result.consume_result} in {result.spent_time_mills} ms"
            + (f", {result.remark}" if result.remark else "")
        )


def _send_again(message: "ReceivedMessage", name_server: str, *, is_json: bool) -> None:
    from pyromq.client.sync.producer import Producer
    from pyromq.model import Message

    own = {name: text for name, text in message.properties.items() if not _is_reserved(name)}
    with Producer("ReSendMsgById", name_server, operator_settings()) as producer:
        sent = producer.send(
            Message(message.topic, message.body, tags=message.tags, keys=message.keys, properties=own)
        )
    if is_json:
        output.say_json({"before": message.message_id, "message_id": sent.message_id, "status": sent.status})
    else:
        output.say(f"resent {message.message_id} as {sent.message_id}: {sent.status}")


def _is_reserved(name: str) -> bool:
    from pyromq.wire import properties

    return name in {value for key, value in vars(properties).items() if key.isupper()}


def _moment(text: str | None, option: str) -> int | None:
    return None if text is None else moment(text, option)


def add_message_commands(admin: typer.Typer) -> None:
    """Add the commands to `pyromq admin`."""
    for name, command, lines in (
        (
            "queryMsgById",
            query_msg_by_id,
            ("pyromq admin queryMsgById -i 7F00000100002A9F0000000000000000",),
        ),
        (
            "queryMsgByUniqueKey",
            query_msg_by_unique_key,
            ("pyromq admin queryMsgByUniqueKey -t orders -i 7F00000100010CA5D2F80000002A0001",),
        ),
        ("queryMsgByKey", query_msg_by_key, ("pyromq admin queryMsgByKey -t orders -k 42",)),
        (
            "queryMsgByOffset",
            query_msg_by_offset,
            ("pyromq admin queryMsgByOffset -t orders -b broker-a -i 0 -o 17",),
        ),
        ("printMsg", print_msg, ("pyromq admin printMsg -t orders -b 2h -s 'paid||sent'",)),
        (
            "printMsgByQueue",
            print_msg_by_queue,
            ("pyromq admin printMsgByQueue -t orders -a broker-a -i 0 -p true -d true",),
        ),
        ("consumeMessage", consume_message, ("pyromq admin consumeMessage -t orders -c 10",)),
        (
            "DecodeMessageId",
            decode_message_id,
            ("pyromq admin DecodeMessageId -i 7F00000100002A9F0000000000000000",),
        ),
    ):
        admin.command(name, epilog=examples(*lines))(command)
