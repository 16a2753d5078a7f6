"""The commands for a first try from a shell: `produce` and `consume`."""

from enum import StrEnum
from typing import Annotated

import typer

from pyromq.cli import options
from pyromq.cli.admin.admin_options import completed_topics

#: Under this group the shell's commands appear on the brokers.
SHELL_GROUP = "pyromq-shell"
#: Seconds that one send of `produce` may take: longer than a group of brokers needs to replace its master.
SEND_TIMEOUT_S = 10.0

Topic = Annotated[
    str,
    typer.Argument(metavar="TOPIC", help="The topic.", show_default=False, autocompletion=completed_topics),
]


class Style(StrEnum):
    """The form in which a message is printed."""

    LINE = "line"
    BODY = "body"
    JSON = "json"


class From(StrEnum):
    """The place at which to begin to read."""

    FIRST = "first"
    LAST = "last"
    TIME = "time"


def produce(
    topic: Topic,
    body: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[BODY]...",
            help="Texts to send; none: each line of standard input that is not empty.",
            show_default=False,
        ),
    ] = None,
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    key: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="A word to find it by; may be repeated.")
    ] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="The tag that consumers filter by.")] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="A property; may be repeated."),
    ] = None,
    delay_level: Annotated[
        int, typer.Option(metavar="LEVEL", min=0, help="Deliver later: level 1 to 18 (1 s to 2 h).")
    ] = 0,
    delay: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="Deliver so much later: 90s, 15m, 2h, 30d (not on 4.9)."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Deliver then: 2026-01-31T12:00:00, or milliseconds since 1970."),
    ] = None,
    count: Annotated[int, typer.Option(metavar="N", min=1, help="Send each text so many times.")] = 1,
    rate: Annotated[
        float | None, typer.Option(metavar="N", min=0.001, help="Messages a second, at most.")
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0.001,
            help="Time for each message, all tries and the change of a master included.",
        ),
    ] = SEND_TIMEOUT_S,
    group: Annotated[str, typer.Option(metavar="GROUP", help="The producer group.")] = SHELL_GROUP,
    as_json: options.Json = False,
) -> None:
    """Send messages to a topic; its first message creates it."""
    from pyromq.cli.messages.produce import MessageTemplate, run_produce
    from pyromq.cli.times import moment_ms, span_s

    sending = MessageTemplate(
        topic=topic,
        keys=key or [],
        tag=tag,
        properties=properties or [],
        delay_level=delay_level,
        delay_s=None if delay is None else span_s(delay, "--delay"),
        deliver_at_ms=None if at is None else moment_ms(at, "--at"),
    )
    run_produce(
        sending,
        body or [],
        name_server=name_server,
        group=group,
        count=count,
        rate=rate,
        timeout_s=timeout,
        is_json=as_json,
    )


def consume(
    topic: Topic,
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    start: Annotated[
        From, typer.Option("--from", help="Where to begin, unless the group has been here before.")
    ] = From.FIRST,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="With --from time: 2026-01-31T12:00:00, or milliseconds since 1970."
        ),
    ] = None,
    tags: Annotated[str, typer.Option(metavar="A||B", help="Only messages with one of these tags.")] = "*",
    group: Annotated[
        str | None,
        typer.Option(metavar="GROUP", help="Read as this group, and keep its progress (default: keep none)."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Stop after so many messages.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Wait for more instead of stopping at the end.")
    ] = False,
    body_only: Annotated[bool, typer.Option("--body-only", help="Print the bodies, nothing else.")] = False,
    as_json: options.Json = False,
) -> None:
    """Print a topic's messages, from the first one to the end unless told otherwise."""
    from pyromq.cli.messages.consume import TopicReadOrder, run_consume, start_time_ms

    reading = TopicReadOrder(
        topic=topic,
        group=group,
        start=start,
        start_ms=start_time_ms(start, time),
        tags=tags,
        count=count,
        is_following=follow,
    )
    style = Style.JSON if as_json else Style.BODY if body_only else Style.LINE
    run_consume(reading, name_server=name_server, style=style)
