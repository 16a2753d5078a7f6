"""`pyromq message trace`: one message's life, from its send to where it ended."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pyromq.cli import options, output
from pyromq.cli.messages.bodies import safe

if TYPE_CHECKING:
    from pyromq.client.tracing.trace_life import MessageLife


def trace(
    message_id: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The message's unique id, or the id of a place where it was stored.",
            show_default=False,
        ),
    ],
    *,
    name_server: options.NameServer = options.DEFAULT_NAME_SERVER,
    topic: Annotated[
        str | None,
        typer.Option("-t", "--topic", metavar="TOPIC", help="Where it was sent; its traces say it too."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            "-g",
            "--group",
            metavar="GROUP",
            help="Look for its retries and dead letters in this group too; may be repeated.",
        ),
    ] = None,
    trace_topic: Annotated[
        str, typer.Option(metavar="TOPIC", help="Where clients send their traces.")
    ] = "RMQ_SYS_TRACE_TOPIC",
    as_json: options.Json = False,
) -> None:
    """Show what became of a message: sent, stored, each try, dead letter, replay.

    Clients leave traces when they are told to (enable_msg_trace, Java's enableMsgTrace); where it is stored
    is known without them, if its topic is given.

    Status 3: nothing is known of it.
    """
    from pyromq.cli.exit_status import ended_by_errors

    with ended_by_errors():
        asyncio.run(_show(message_id, name_server, topic, group or (), trace_topic, is_json=as_json))


async def _show(
    message_id: str,
    name_server: str,
    topic: str | None,
    groups: Sequence[str],
    trace_topic: str,
    *,
    is_json: bool,
) -> None:
    from pyromq.cli.admin.command_runs import operator_settings
    from pyromq.cli.exit_status import NotThere
    from pyromq.client.aio.admin import Admin
    from pyromq.client.tracing.trace_life import find_life

    async with Admin(name_server, operator_settings()) as admin:
        life = await find_life(admin, message_id, topic=topic, groups=groups, trace_topic=trace_topic)
    if not life.steps:
        hint = "" if topic else "; with --topic it is looked for without traces"
        raise NotThere(f"nothing is known of message {message_id}{hint}")
    if is_json:
        for record in json_steps(life):
            output.say_json(record)
    else:
        for line in lines(life):
            output.say(line)


def json_steps(life: "MessageLife") -> list[dict[str, Any]]:
    """Return the steps of a life for programs."""
    return [
        {
            "message_id": life.message_id,
            "topic": life.topic,
            "event": step.event.value,
            "at_ms": step.at_ms,
            "group": step.group,
            "where": step.where,
            "is_success": step.is_success,
            "took_ms": step.took_ms,
            "try": step.number,
            "detail": step.detail,
        }
        for step in life.steps
    ]


def lines(life: "MessageLife") -> list[str]:
    """Return a life for people: a line for each step, with how long it was since the first."""
    from pyromq.cli.times import written
    from pyromq.client.consumer.incoming import shown_body

    message = life.message
    about = f"message {output.paint(life.message_id, 'bold')}"
    if life.topic:
        about += f" of topic {output.paint(life.topic, 'bold')}"
    if message is not None:
        words = [f"tag {safe(message.tags)}"] if message.tags else []
        words += [f"keys {safe(' '.join(message.keys))}"] if message.keys else []
        about += "".join(f", {word}" for word in (*words, f"{len(shown_body(message))} bytes"))
    began_ms = life.steps[0].at_ms
    rows = [
        (
            written(step.at_ms),
            f"+{(step.at_ms - began_ms) / 1000:.3f} s",
            ("✓" if step.is_success else "✗"),
            step.event.value + (f", try {step.number}" if step.number else ""),
            step.group or "",
            step.where,
            ", ".join(filter(None, (f"{step.took_ms} ms" if step.took_ms is not None else "", step.detail))),
        )
        for step in life.steps
    ]
    head = ("AT", "SINCE", "", "WHAT", "GROUP", "WHERE", "DETAIL")
    first, *rest = output.columns([head, *rows])
    return [about, "", output.paint(first, "dim"), *rest]
