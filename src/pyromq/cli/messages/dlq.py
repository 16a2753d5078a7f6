"""`pyromq dlq list` and `pyromq dlq show`: what groups gave up."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any

from pyromq.cli import output
from pyromq.cli.bars import bar, is_seen
from pyromq.cli.credentials import client_settings
from pyromq.cli.messages.bodies import hex_lines, json_body, printable, safe
from pyromq.cli.times import past_ms, written
from pyromq.client.consumer.incoming import shown_body
from pyromq.client.dead_letter import DeadLetter, DeadLetterFilter
from pyromq.client.sync.dead_letters import DeadLetters
from pyromq.errors import QueryNotFound
from pyromq.model import ReceivedMessage

#: Rows whose columns are aligned together.
BLOCK = 200
TEXT_CHARACTERS = 2_000
HEX_BYTES = 256
_HEAD = ("DIED", "TOPIC", "TAG", "KEYS", "MESSAGE", "TRIES", "BYTES", "REPLAYED")


class Detail(StrEnum):
    """The part of a dead letter that is shown."""

    PREVIEW = "preview"
    FULL = "full"
    BODY = "body"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterChoice:
    """The choice of a group's dead letters, as the options say it."""

    group: str
    key: str | None = None
    tag: str | None = None
    topic: str | None = None
    message_id: str | None = None
    since: str | None = None
    until: str | None = None
    limit: int | None = None

    @property
    def is_everything(self) -> bool:
        """Whether no option says which."""
        said = (self.key, self.tag, self.topic, self.message_id, self.since, self.until, self.limit)
        return all(option is None for option in said)

    def wanted(self) -> DeadLetterFilter:
        """Return the same for the client; raise ConfigError for a time that does not read."""
        return DeadLetterFilter(
            key=self.key,
            tag=self.tag,
            topic=self.topic,
            message_id=self.message_id,
            since_ms=0 if self.since is None else past_ms(self.since, "--since"),
            until_ms=None if self.until is None else past_ms(self.until, "--until"),
            limit=self.limit,
        )


def run_counts(name_server: str, *, is_json: bool) -> None:
    """Print how many dead letters each group has."""
    with DeadLetters(name_server, client_settings()) as letters:
        counts = letters.counts()
    if is_json:
        for one in counts:
            output.say_json({"group": one.group, "count": one.count, "oldest_at_ms": one.oldest_at_ms})
        return
    if not counts:
        sys.stderr.write("no group has dead letters\n")
        return
    rows = [
        (one.group, f"{one.count:,}", written(one.oldest_at_ms) if one.oldest_at_ms is not None else "")
        for one in counts
    ]
    _print_table([("GROUP", "DEAD LETTERS", "OLDEST"), *rows])


def run_list(choice: LetterChoice, name_server: str, *, make_readable: bool, is_json: bool) -> None:
    """Print a line for each dead letter."""
    wanted = choice.wanted()
    printed = 0
    with DeadLetters(name_server, client_settings()) as letters:
        if make_readable:
            letters.make_readable(choice.group)
        found = letters.read(choice.group, wanted)
        with bar("dead letters", _total(letters, choice), prints_lines=True) as advance:
            while block := list(islice(found, BLOCK)):
                _print_block(block, [_replay_of(letters, letter) for letter in block], is_json=is_json)
                printed += len(block)
                advance(len(block))
        if is_json:
            return
        if not printed:
            say_none(letters, choice.group)
        elif printed == wanted.limit:
            sys.stderr.write(f"the first {printed}; there may be more: --limit 0 lists all\n")


def _total(letters: DeadLetters, choice: LetterChoice) -> int | None:
    """Return how many there are to list at most, if a bar is seen that wants to know."""
    if not is_seen(prints_lines=True):
        return None
    count = sum(one.count for one in letters.counts() if one.group == choice.group)
    return count if choice.limit is None else min(count, choice.limit)


def _print_block(
    block: Sequence[DeadLetter], replays: Sequence[ReceivedMessage | str | None], *, is_json: bool
) -> None:
    if is_json:
        for letter, replay in zip(block, replays, strict=True):
            output.say_json(as_record(letter, replay))
    else:
        rows = [_row(letter, replay) for letter, replay in zip(block, replays, strict=True)]
        _print_table([_HEAD, *rows])


def run_show(choice: LetterChoice, name_server: str, detail: Detail, *, make_readable: bool) -> bool:
    """Print all dead letters with an id, and return whether there was one."""
    count = 0
    with DeadLetters(name_server, client_settings()) as letters:
        if make_readable:
            letters.make_readable(choice.group)
        for letter in letters.read(choice.group, choice.wanted()):
            if count and detail in (Detail.PREVIEW, Detail.FULL):
                output.say("")
            _show(letters, letter, detail)
            count += 1
        if not count:
            say_none(letters, choice.group)
    return count > 0


def say_none(letters: DeadLetters, group: str) -> None:
    """Say that no dead letter is meant, and where there are any."""
    others = {one.group: one.count for one in letters.counts() if one.count}
    if group in others:
        sys.stderr.write(f"group {group} has {others[group]:,} dead letters, but none is like that\n")
        return
    known = ", ".join(others) or "none"
    sys.stderr.write(f"group {group} has no dead letters; groups that have some: {known}\n")


def as_record(letter: DeadLetter, replay: "ReceivedMessage | str | None") -> dict[str, Any]:
    """Return a dead letter as an object for programs; `replay` as `_replay_of` tells it."""
    message = letter.message
    return {
        "group": letter.group,
        "topic": letter.topic,
        "tags": message.tags,
        "keys": message.keys,
        "message_id": letter.message_id,
        "dead_letter_id": letter.place_id,
        "first_id": letter.first_id,
        "died_at_ms": letter.died_at_ms,
        "born_at_ms": message.born_at_ms,
        "born_host": message.born_host,
        "tries": letter.tries,
        "size": message.size,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "replayed_as": replay.offset_message_id if isinstance(replay, ReceivedMessage) else None,
        "replayed_to": replay.topic if isinstance(replay, ReceivedMessage) else None,
        "replayed_at_ms": replay.stored_at_ms if isinstance(replay, ReceivedMessage) else None,
        "properties": message.properties,
        **json_body(shown_body(message)),
    }


def _replay_of(letters: DeadLetters, letter: DeadLetter) -> ReceivedMessage | str | None:
    """Return the message that a dead letter was replayed as, None, or why that is not known."""
    try:
        return letters.find_replay(letter)
    except QueryNotFound as error:
        return error.remark


def _row(letter: DeadLetter, replay: ReceivedMessage | str | None) -> tuple[str, ...]:
    message = letter.message
    replayed = "" if replay is None else "?" if isinstance(replay, str) else written(replay.stored_at_ms)
    return (
        written(letter.died_at_ms),
        letter.topic or "?",
        safe(message.tags or ""),
        safe(",".join(message.keys)),
        letter.message_id,
        str(letter.tries),
        f"{len(shown_body(message)):,}",
        replayed,
    )


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    head, *lines = output.columns(rows)
    output.say(output.paint(head, "dim"))
    for line in lines:
        output.say(line)


def _show(letters: DeadLetters, letter: DeadLetter, detail: Detail) -> None:
    message = letter.message
    if detail is Detail.BODY:
        sys.stdout.buffer.write(message.body + b"\n")
        sys.stdout.buffer.flush()
        return
    replay = _replay_of(letters, letter)
    if detail is Detail.JSON:
        output.say_json(as_record(letter, replay))
        return
    for line in output.columns(
        [(output.paint(name, "dim"), value) for name, value in _facts(letter, replay)]
    ):
        output.say(line)
    output.say(output.paint("properties", "dim"))
    for line in output.columns([(f"  {name}", value) for name, value in sorted(message.properties.items())]):
        output.say(line)
    output.say(output.paint(f"body ({len(shown_body(message)):,} bytes)", "dim"))
    for line in _body_lines(shown_body(message), is_full=detail is Detail.FULL):
        output.say(f"  {line}")


def _facts(letter: DeadLetter, replay: ReceivedMessage | str | None) -> Iterator[tuple[str, str]]:
    message, queue = letter.message, letter.message.queue
    yield "message", letter.message_id
    yield (
        "dead letter",
        f"{letter.place_id} ({queue.broker_name} queue {queue.queue_id} offset {message.queue_offset})",
    )
    yield (
        "died",
        f"{written(letter.died_at_ms)}, after {letter.tries} {'try' if letter.tries == 1 else 'tries'}",
    )
    yield "first sent", f"{written(message.born_at_ms)} to {letter.topic or '?'}, from {message.born_host}"
    yield "first copy", letter.first_id or "?"
    yield "tag", safe(message.tags or "")
    yield "keys", safe(" ".join(message.keys))
    if replay is None:
        yield "replayed", "no"
    elif isinstance(replay, str):
        yield "replayed", f"not known: {replay}"
    else:
        yield (
            "replayed",
            f"{written(replay.stored_at_ms)} to {replay.topic}, as {replay.offset_message_id}",
        )


def _body_lines(body: bytes, *, is_full: bool) -> Iterator[str]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\0"
    if all(character.isprintable() or character in "\t\r\n" for character in text):
        shown = text if is_full else text[:TEXT_CHARACTERS]
        yield from (printable(line.encode()) for line in shown.splitlines())
        left = len(text) - len(shown)
        unit = "characters"
    else:
        part = body if is_full else body[:HEX_BYTES]
        yield from hex_lines(part)
        left = len(body) - len(part)
        unit = "bytes"
    if left:
        yield f"… and {left:,} {unit} more (--full)"
