"""Messages, as `pyromq admin` and `pyromq message` show them."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pyromq.cli import bars
from pyromq.cli.exit_status import NotThere
from pyromq.cli.messages.bodies import json_body, safe
from pyromq.cli.times import written
from pyromq.cli.views.listing import Listing
from pyromq.client.consumer.incoming import shown_body
from pyromq.client.sync.admin import Admin
from pyromq.client.sync.pull_consumer import PullConsumer
from pyromq.errors import NetworkError, Refused
from pyromq.model import MessageQueue, PullStatus, ReceivedMessage

#: The group that RocketMQ's tools read as.
TOOLS_GROUP = "TOOLS_CONSUMER"
_COUNT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The range of a topic's messages to read."""

    topic: str
    tags: str = "*"
    broker: str | None = None
    queue: int | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
    first: int | None = None
    count: int | None = None


def message_record(message: ReceivedMessage) -> dict[str, Any]:
    """Return a message as an object for programs."""
    return {
        "topic": message.topic,
        "message_id": message.message_id,
        "offset_message_id": message.offset_message_id,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "position": message.position,
        "tags": message.tags,
        "keys": message.keys,
        "born_at_ms": message.born_at_ms,
        "born_host": message.born_host,
        "stored_at_ms": message.stored_at_ms,
        "store_host": message.store_host,
        "reconsume_times": message.reconsume_times,
        "sys_flag": message.sys_flag,
        "size": message.size,
        "properties": message.properties,
        **json_body(shown_body(message)),
    }


def facts(message: ReceivedMessage, charset: str = "utf-8") -> list[str]:
    """Return a message line by line, under mqadmin's names."""
    rows = (
        ("OffsetID:", message.offset_message_id),
        ("Message ID:", message.message_id),
        ("Topic:", message.topic),
        ("Tags:", f"[{safe(message.tags or '')}]"),
        ("Keys:", f"[{safe(' '.join(message.keys))}]"),
        ("Broker:", message.queue.broker_name),
        ("Queue ID:", str(message.queue.queue_id)),
        ("Queue Offset:", str(message.queue_offset)),
        ("CommitLog Offset:", str(message.position)),
        ("Reconsume Times:", str(message.reconsume_times)),
        ("Born Timestamp:", written(message.born_at_ms)),
        ("Store Timestamp:", written(message.stored_at_ms)),
        ("Born Host:", message.born_host),
        ("Store Host:", message.store_host),
        ("System Flag:", str(message.sys_flag)),
        ("Properties:", str(message.properties)),
        ("Message Body:", body_text(message, charset)),
    )
    return [f"{name:<20} {value}" for name, value in rows]


def body_text(message: ReceivedMessage, charset: str = "utf-8") -> str:
    """Return a body as text, what cannot be shown as escapes."""
    text = shown_body(message).decode(charset, "backslashreplace")
    return "".join(one if one.isprintable() or one in "\t\n" else repr(one)[1:-1] for one in text)


def one(admin: Admin, message: ReceivedMessage, *, with_readers: bool = True) -> Listing:
    """A message with all its facts, and what became of it in each group."""
    readers = tracks(admin, message) if with_readers else []
    notes = [*facts(message)]
    if with_readers:
        notes += ["", *(f"{each['group']}: {each['track']}" for each in readers)]
        notes += [] if readers else ["no group reads this topic"]
    return Listing((), [message_record(message) | {"readers": readers}], notes)


def many(messages: list[ReceivedMessage]) -> Listing:
    """Messages, one a line."""
    return Listing(
        (
            ("#Message ID", "message_id"),
            ("#Broker", "broker"),
            ("#QID", "queue"),
            ("#Offset", "offset"),
            ("#Stored", "stored_at_ms"),
            ("#Tags", "tags"),
            ("#Keys", "keys"),
            ("#Size", "size"),
        ),
        [message_record(message) for message in messages],
    )


def tracks(admin: Admin, message: ReceivedMessage) -> list[dict[str, str]]:
    """Return what became of a message in each group of its topic, by mqadmin's words."""
    found = []
    for group in admin.topic_readers(message.topic):
        try:
            found.append({"group": group, "track": _track(admin, message, group)})
        except (Refused, NetworkError) as error:
            found.append({"group": group, "track": f"UNKNOWN ({error})"})
    return found


def _track(admin: Admin, message: ReceivedMessage, group: str) -> str:
    progress = admin.group_progress(group, message.topic).queues.get(message.queue)
    is_consumed = progress is not None and progress.consumer_offset > message.queue_offset
    overview = admin.group_overview(group)
    if not overview.member_count:
        return "CONSUMED (NOT_ONLINE now)" if is_consumed else "NOT_ONLINE"
    if overview.consume_type == "CONSUME_ACTIVELY":
        return "PULL"
    if not is_consumed:
        return "NOT_CONSUME_YET"
    wanted = admin.consumer_connections(group).subscriptions.get(message.topic)
    if wanted is not None and wanted.tags and "*" not in wanted.tags and message.tags not in wanted.tags:
        return "CONSUMED_BUT_FILTERED"
    return "CONSUMED"


@dataclass(frozen=True, slots=True)
class Span:
    """The part of a queue that is read: from an offset to before another."""

    queue: MessageQueue
    first: int
    end: int


def read_range(
    consumer: PullConsumer, wanted: Range, *, prints_lines: bool = False
) -> Iterator[ReceivedMessage]:
    """Read a topic's messages queue by queue, oldest first in each, with a bar.

    How much there is, which the bar wants to know, is not asked for where nobody would see it.
    """
    spans: Iterable[Span] = (_span(consumer, queue, wanted) for queue in _queues(consumer, wanted))
    total = None
    if bars.is_seen(prints_lines=prints_lines):
        spans = list(spans)
        total = sum(span.end - span.first for span in spans)
        total = total if wanted.count is None else min(total, wanted.count)
    with bars.bar("reading", total, prints_lines=prints_lines) as advance:
        found = (message for span in spans for message in _read_span(consumer, span, wanted, advance))
        yield from islice(found, wanted.count)


def by_tag(messages: Iterator[ReceivedMessage]) -> Listing:
    """Count the messages of each tag."""
    counts = Counter(message.tags or "" for message in messages)
    return Listing(
        (("#Tag", "tag"), ("#Count", "count")),
        [{"tag": tag, "count": count} for tag, count in counts.most_common()],
    )


def _queues(consumer: PullConsumer, wanted: Range) -> list[MessageQueue]:
    known = sorted(consumer.queues(wanted.topic))
    found = [
        queue
        for queue in known
        if wanted.broker in (None, queue.broker_name) and wanted.queue in (None, queue.queue_id)
    ]
    if not found:
        which = ":".join(str(part) for part in (wanted.broker, wanted.queue) if part is not None)
        raise NotThere(f"topic {wanted.topic!r} has no queue {which}; it has {_listed(known)}")
    return found


def queue_named(consumer: PullConsumer, topic: str, broker: str, queue: int) -> MessageQueue:
    """Return a queue of a topic; raises NotThere with those that there are."""
    (found,) = _queues(consumer, Range(topic=topic, broker=broker, queue=queue))
    return found


def _listed(queues: list[MessageQueue]) -> str:
    numbers: dict[str, list[int]] = {}
    for queue in queues:
        numbers.setdefault(queue.broker_name, []).append(queue.queue_id)
    return ", ".join(
        f"{broker}:{min(ids)}" + (f" to {broker}:{max(ids)}" if len(ids) > 1 else "")
        for broker, ids in numbers.items()
    )


def _span(consumer: PullConsumer, queue: MessageQueue, wanted: Range) -> Span:
    first, end = consumer.min_offset(queue), consumer.max_offset(queue)
    if wanted.begin_ms is not None:
        first = consumer.offset_by_time(queue, wanted.begin_ms)
    if wanted.end_ms is not None:
        # The last message at or before the time belongs to it.
        end = min(end, consumer.offset_by_time(queue, wanted.end_ms + 1) + 1)
    if wanted.first is not None:
        first = max(first, wanted.first)
    return Span(queue, first, max(first, end))


def _read_span(
    consumer: PullConsumer, span: Span, wanted: Range, advance: bars.Advance
) -> Iterator[ReceivedMessage]:
    offset = span.first
    while offset < span.end:
        pulled = consumer.pull(span.queue, offset, count=min(_COUNT, span.end - offset), tags=wanted.tags)
        for message in pulled.messages:
            is_within = wanted.end_ms is None or message.stored_at_ms <= wanted.end_ms
            if message.queue_offset < span.end and is_within:
                yield message
        if pulled.status in (PullStatus.NO_NEW_MESSAGE,) or pulled.next_offset <= offset:
            return
        advance(min(pulled.next_offset, span.end) - offset)
        offset = pulled.next_offset
