"""`pyromq delayed`: what waits for its time, for people and for programs."""

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyromq.cli import output
from pyromq.cli.bars import bar
from pyromq.cli.credentials import client_settings
from pyromq.cli.messages.bodies import json_body, printable, safe
from pyromq.cli.messages.client_commands import SHELL_GROUP
from pyromq.cli.times import remaining, written
from pyromq.client.consumer.incoming import shown_body
from pyromq.client.plans.admin.lookups import FOREVER_MS
from pyromq.client.sync.admin import Admin
from pyromq.client.sync.producer import Producer
from pyromq.errors import HeaderError, IllegalOperation
from pyromq.model import WaitingMessage
from pyromq.wire.recall_handle import decode_recall_handle

#: Messages that are asked for at once.
PAGE = 256
_BODY_CHARACTERS = 40
_HEAD = ("DUE", "IN", "TOPIC", "TAG", "KEYS", "ID", "BODY")


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedQuery:
    """The messages to list; without a limit, all."""

    topic: str | None
    key: str | None
    begin_ms: int
    end_ms: int | None
    limit: int | None


def run_list(listing: DelayedQuery, *, name_server: str, is_json: bool) -> None:
    """Print what waits, and how many of how many that were."""
    with Admin(name_server, client_settings()) as admin:
        count = 0
        with bar("waiting messages", listing.limit, prints_lines=True) as advance:
            for page in _pages(admin, listing):
                if is_json:
                    for one in page:
                        output.say_json(_as_record(one))
                else:
                    _print_table(page, is_first=count == 0)
                count += len(page)
                advance(len(page))
        if not is_json:
            total = sum(admin.count_waiting().values())
            output.say(output.paint(f"{count:,} listed, {total:,} wait in all", "dim"))


def run_show(text: str, *, name_server: str, is_json: bool) -> bool:
    """Print all about the messages of an id, and return whether there was one."""
    with Admin(name_server, client_settings()) as admin:
        found = _of_id(admin, text)
    for one in found:
        if is_json:
            output.say_json(_as_record(one))
        else:
            _print_all(one)
    if not found:
        output.complain(f"no message {text} waits: it was delivered or recalled, or never was")
    return bool(found)


def run_recall(texts: list[str], *, name_server: str, is_json: bool) -> bool:
    """Take messages back, say of each what became of it, and return whether all were."""
    is_good = True
    recalled: set[tuple[str, str]] = set()
    with (
        Admin(name_server, client_settings()) as admin,
        Producer(SHELL_GROUP, name_server, client_settings()) as producer,
    ):
        for text in _given(texts):
            reason = _recall(admin, producer, text, recalled)
            is_good = is_good and reason is None
            if is_json:
                output.say_json({"id": text, "recalled": reason is None, "reason": reason})
            elif reason is None:
                output.say(f"{output.paint('recalled', 'green')}  {text}")
            else:
                output.say(f"{output.paint('not recalled', 'red')}  {text}  {reason}")
    return is_good


def _recall(admin: Admin, producer: Producer, text: str, recalled: set[tuple[str, str]]) -> str | None:
    """Recall one message, every copy of it; return why that is not possible, None when it is done.

    `recalled` are the topics and ids of those that were before it: a list has each copy, and one recall takes
    all of them.
    """
    handles, is_id = [text], _message_id(text) == text
    if is_id:
        handles = [one.recall_handle for one in _of_id(admin, text) if one.recall_handle is not None]
        if not handles and text not in {message_id for _, message_id in recalled}:
            return "no such message waits: it was delivered or recalled, or never was"
    try:
        for handle in handles:
            known = decode_recall_handle(handle)
            if (known.topic, known.message_id) not in recalled:
                producer.recall(known.topic, handle)
                recalled.add((known.topic, known.message_id))
    except IllegalOperation as error:
        return error.remark
    if is_id and (left := _of_id(admin, text)):
        return f"a copy of it still waits on {left[0].message.queue.broker_name}; try again"
    return None


def _given(texts: list[str]) -> Iterator[str]:
    for text in texts:
        if text == "-":
            yield from filter(None, (line.strip() for line in sys.stdin))
        else:
            yield text


def _pages(admin: Admin, listing: DelayedQuery) -> Iterator[list[WaitingMessage]]:
    """Yield what is listed in pages, none of them empty."""
    left, after = listing.limit, None
    while left is None or left > 0:
        count = PAGE if left is None else min(PAGE, left)
        page = admin.waiting(
            listing.topic,
            key=listing.key,
            begin_ms=listing.begin_ms,
            end_ms=FOREVER_MS if listing.end_ms is None else listing.end_ms,
            count=count,
            after=after,
        )
        if page:
            yield page
        if len(page) < count:
            return
        after, left = page[-1], None if left is None else left - len(page)


def _of_id(admin: Admin, text: str) -> list[WaitingMessage]:
    """Return the messages with an id, or with that of a handle; one that was sent twice is there twice."""
    message_id = _message_id(text)
    found = admin.waiting(key=message_id, count=PAGE)
    return [one for one in found if one.message.message_id == message_id]


def _message_id(text: str) -> str:
    try:
        return decode_recall_handle(text).message_id
    except HeaderError:
        return text


def _print_table(page: list[WaitingMessage], *, is_first: bool) -> None:
    now_ms = int(time.time() * 1_000)
    rows = [_HEAD, *(_row(one, now_ms) for one in page)]
    lines = output.columns(rows)
    if is_first:
        output.say(output.paint(lines[0], "bold"))
    for line in lines[1:]:
        output.say(line)


def _row(one: WaitingMessage, now_ms: int) -> tuple[str, ...]:
    message = one.message
    rest = "…" if len(shown_body(message)) > _BODY_CHARACTERS else ""
    return (
        written(one.due_ms),
        remaining(one.due_ms - now_ms),
        message.topic,
        safe(message.tags or "-"),
        safe(" ".join(message.keys) or "-"),
        message.message_id,
        printable(shown_body(message)[:_BODY_CHARACTERS]) + rest,
    )


def _print_all(one: WaitingMessage) -> None:
    message = one.message
    due = f"{written(one.due_ms)} ({remaining(one.due_ms - int(time.time() * 1_000))})"
    about: Iterable[tuple[str, str]] = (
        ("id", message.message_id),
        ("due", due),
        ("topic", f"{message.topic}, queue {message.queue.queue_id} of {message.queue.broker_name}"),
        ("sent", f"{written(message.born_at_ms)} by {message.born_host}"),
        ("stored", f"{written(message.stored_at_ms)} at position {message.position} of the log"),
        ("handle", one.recall_handle or "none: it has no unique id"),
        *((f"  {name}", printable(value.encode())) for name, value in sorted(message.properties.items())),
        ("body", printable(shown_body(message))),
    )
    for line in output.columns([(output.paint(name, "dim"), value) for name, value in about]):
        output.say(line)


def _as_record(one: WaitingMessage) -> dict[str, Any]:
    message = one.message
    return {
        "due_ms": one.due_ms,
        "topic": message.topic,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "message_id": message.message_id,
        "recall_handle": one.recall_handle,
        "keys": message.keys,
        "tags": message.tags,
        "born_at_ms": message.born_at_ms,
        "stored_at_ms": message.stored_at_ms,
        "position": message.position,
        "properties": message.properties,
        **json_body(shown_body(message)),
    }
