"""`pyromq produce`: texts or the lines of standard input as messages."""

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pyromq.cli import output
from pyromq.cli.bars import bar
from pyromq.cli.credentials import client_settings
from pyromq.client.sync.producer import Producer
from pyromq.errors import ConfigError
from pyromq.model import Message, SendResult

#: From this many on, a bar and a summary stand for the line of each message.
MANY = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageTemplate:
    """The properties that every message of this run has."""

    topic: str
    keys: list[str] = field(default_factory=list)
    tag: str | None = None
    properties: list[str] = field(default_factory=list)
    delay_level: int = 0
    delay_s: float | None = None
    deliver_at_ms: int | None = None

    def message(self, body: bytes) -> Message:
        """Return a message with this body."""
        return Message(
            self.topic,
            body,
            tags=self.tag,
            keys=list(self.keys),
            properties=dict(map(_name_and_value, self.properties)),
            delay_level=self.delay_level,
            delay=self.delay_s,
            deliver_at=self.deliver_at_ms,
        )


def run_produce(
    sending: MessageTemplate,
    texts: list[str],
    *,
    name_server: str,
    group: str,
    count: int,
    rate: float | None,
    timeout_s: float,
    is_json: bool,
) -> None:
    """Send each text `count` times, or each line of standard input, and say what became of them."""
    sending.message(b"")
    output.outlive_reader()
    settings = client_settings(send_msg_timeout=max(1, round(timeout_s * 1_000)))
    total = len(texts) * count if texts else None
    is_many = total is not None and total >= MANY and not is_json
    sent = 0
    began_at = time.monotonic()
    with (
        Producer(group, name_server=name_server, settings=settings) as producer,
        bar("sending", total, prints_lines=not is_many) as advance,
    ):
        try:
            for body in _paced(_bodies(texts, count), rate):
                result = producer.send(sending.message(body))
                sent += 1
                advance()
                if not is_many:
                    _report(result, is_json=is_json)
        finally:
            if is_many:
                seconds = time.monotonic() - began_at
                output.say(
                    f"sent {sent:,} of {total:,} messages in {seconds:.1f} s ({sent / seconds:,.0f}/s)"
                )


def _bodies(texts: list[str], count: int) -> Iterator[bytes]:
    if texts:
        for text in texts:
            body = text.encode("utf-8", "surrogateescape")
            for _ in range(count):
                yield body
        return
    if sys.stdin.isatty():
        sys.stderr.write("One message a line; Ctrl-D ends.\n")
    for line in sys.stdin.buffer:
        # RocketMQ takes no message without a body.
        if body := line.rstrip(b"\r\n"):
            yield body


def _paced(bodies: Iterable[bytes], rate: float | None) -> Iterator[bytes]:
    """Hand bodies out no faster than `rate` a second, however long each send takes."""
    began_at = time.monotonic()
    for number, body in enumerate(bodies):
        if rate is not None:
            time.sleep(max(0.0, began_at + number / rate - time.monotonic()))
        yield body


def _report(result: SendResult, *, is_json: bool) -> None:
    queue = result.queue
    if is_json:
        output.say_json(
            {
                "status": result.status,
                "topic": queue.topic,
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "offset": result.queue_offset,
                "message_id": result.message_id,
                "offset_message_id": result.offset_message_id,
                **({"recall_handle": result.recall_handle} if result.recall_handle else {}),
            }
        )
        return
    where = f"{queue.topic} → {queue.broker_name} queue {queue.queue_id} offset {result.queue_offset}"
    output.say(f"{output.paint(result.status, 'green')}  {where}  {output.paint(result.message_id, 'dim')}")


def _name_and_value(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ConfigError(f"--property {text}: expected NAME=VALUE")
    return name, value
