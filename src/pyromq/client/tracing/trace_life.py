"""One message's life, by its traces and its copies in the log: sent, stored, each try, dead letter, replay.

Traces say what clients did and how long it took; they are there if clients were told to send them. Copies are
what brokers have: in the message's topic, in `%RETRY%group` and `%DLQ%group` of the groups that read it. The
copies are found without any trace when the topic is known, and the groups.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pyromq.client.dead_letter import REPLAYED_FROM
from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.namespaces import DEAD_LETTER_TOPIC_PREFIX
from pyromq.client.tracing.trace_format import (
    ConsumeReturn,
    MessageKind,
    TraceEntry,
    TraceType,
    decode_entries,
)
from pyromq.errors import NoRoute, PyroError, Refused
from pyromq.model import ReceivedMessage
from pyromq.system_names import TRACE
from pyromq.wire import properties as names

if TYPE_CHECKING:
    from pyromq.client.aio.admin import Admin

COPIES_MAX = 64


class TraceEvent(StrEnum):
    """The events of a message's life."""

    SENT = "sent"
    STORED = "stored"
    TRANSACTION_ENDED = "transaction ended"
    CONSUMED = "consumed"
    RETRY_STORED = "stored for a retry"
    DEAD = "dead letter"
    REPLAYED = "replayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LifeStep:
    """One thing that happened. `where` is a broker's or a client's address, `detail` is for people."""

    event: TraceEvent
    at_ms: int
    group: str | None = None
    where: str = ""
    is_success: bool = True
    took_ms: int | None = None
    #: Which try of a listener it was, counted from 1.
    number: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class MessageLife:
    """The life of a message: its steps in the order of time, its traces, and its newest copy."""

    message_id: str
    topic: str | None
    steps: list[LifeStep]
    entries: list[TraceEntry]
    message: ReceivedMessage | None


async def find_life(
    admin: "Admin",
    message_id: str,
    *,
    topic: str | None = None,
    groups: Iterable[str] = (),
    trace_topic: str = TRACE,
) -> MessageLife:
    """Look for all that is known of a message; `message_id` is its unique id, or the id of a place.

    Without a `topic` its traces must tell it, or the id of a place. Further `groups` are looked at besides
    those that left a trace.
    """
    first = None if topic else await _at_place(admin, message_id)
    if first is not None:
        message_id, topic = first.message_id, _first_topic(first)
    entries = await _entries(admin, message_id, trace_topic)
    topic = topic or next((entry.topic for entry in entries if entry.topic), None)
    readers = dict.fromkeys(entry.group for entry in entries if entry.type in _OF_CONSUMERS and entry.group)
    copies = (
        {}
        if topic is None
        else {one.offset_message_id: one for one in await _copies(admin, topic, message_id)}
    )
    for group in dict.fromkeys((*readers, *groups)):
        for prefix in (RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX):
            for one in await _copies(admin, prefix + group, message_id):
                copies[one.offset_message_id] = one
    found = sorted(copies.values(), key=lambda one: one.stored_at_ms)
    return MessageLife(message_id, topic, steps_of(entries, found), entries, found[-1] if found else first)


def steps_of(entries: Sequence[TraceEntry], copies: Sequence[ReceivedMessage]) -> list[LifeStep]:
    """Return the steps of a message's life in the order of time."""
    after = {entry.request_id: entry for entry in entries if entry.type == TraceType.SUB_AFTER}
    before = {entry.request_id for entry in entries if entry.type == TraceType.SUB_BEFORE}
    steps = [_stored(copy) for copy in copies]
    for entry in entries:
        match entry.type:
            case TraceType.PUB:
                steps.append(_sent(entry))
            case TraceType.SUB_BEFORE:
                steps.append(_consumed(entry, after.get(entry.request_id)))
            case TraceType.SUB_AFTER if entry.request_id not in before:
                steps.append(_consumed(entry, entry))
            case TraceType.END_TRANSACTION:
                steps.append(_ended(entry))
    return sorted(steps, key=lambda step: (step.at_ms, _WITHIN_A_MS.index(step.event)))


_OF_CONSUMERS = (TraceType.SUB_BEFORE, TraceType.SUB_AFTER)
#: A copy is consumed in the millisecond in which it is stored, or is dead in the one in which it was refused.
_WITHIN_A_MS = (
    TraceEvent.SENT,
    TraceEvent.STORED,
    TraceEvent.TRANSACTION_ENDED,
    TraceEvent.RETRY_STORED,
    TraceEvent.REPLAYED,
    TraceEvent.CONSUMED,
    TraceEvent.DEAD,
)


async def _at_place(admin: "Admin", message_id: str) -> ReceivedMessage | None:
    """Return the message that an id of a place names, None when it is no such id."""
    try:
        return await admin.view_message(message_id)
    except PyroError:
        return None


async def _entries(admin: "Admin", message_id: str, trace_topic: str) -> list[TraceEntry]:
    try:
        found = await admin.query_message(trace_topic, message_id, count=COPIES_MAX)
    except (NoRoute, Refused):
        return []
    entries = {
        (entry.type, entry.request_id, entry.at_ms, entry.group): entry
        for message in found
        for entry in decode_entries(message.body.decode("utf-8", "replace"), message.born_host)
        if entry.message_id == message_id
    }
    return sorted(entries.values(), key=lambda entry: entry.at_ms)


async def _copies(admin: "Admin", topic: str, message_id: str) -> list[ReceivedMessage]:
    try:
        return await admin.messages_by_id(topic, message_id)
    except (NoRoute, Refused):
        return []


def _first_topic(message: ReceivedMessage) -> str:
    return message.properties.get(names.RETRY_TOPIC) or message.topic


def _sent(entry: TraceEntry) -> LifeStep:
    kind = {MessageKind.HALF: "half of a transaction", MessageKind.DELAY: "delayed"}.get(entry.kind)
    return LifeStep(
        event=TraceEvent.SENT,
        at_ms=entry.at_ms,
        group=entry.group,
        where=entry.client_host,
        is_success=entry.is_success,
        took_ms=entry.took_ms,
        detail=f"to {entry.topic} at {entry.broker_address}" + (f", {kind}" if kind else ""),
    )


def _consumed(before: TraceEntry, after: TraceEntry | None) -> LifeStep:
    if after is None:
        how = "no end is known"
    elif after.is_success:
        how = ""
    elif after.how_it_ended == ConsumeReturn.EXCEPTION:
        how = "the listener raised"
    elif after.how_it_ended == ConsumeReturn.TIME_OUT:
        how = "the listener took too long"
    else:
        how = "the listener said no"
    return LifeStep(
        event=TraceEvent.CONSUMED,
        at_ms=before.at_ms,
        group=before.group,
        where=before.client_host,
        is_success=after is not None and after.is_success,
        took_ms=None if after is None else after.took_ms,
        number=before.retries + 1 if before.type == TraceType.SUB_BEFORE else None,
        detail=how,
    )


def _ended(entry: TraceEntry) -> LifeStep:
    return LifeStep(
        event=TraceEvent.TRANSACTION_ENDED,
        at_ms=entry.at_ms,
        group=entry.group,
        where=entry.client_host,
        detail=entry.transaction_state + (", the broker had asked" if entry.was_asked else ""),
    )


def _stored(copy: ReceivedMessage) -> LifeStep:
    event, group = TraceEvent.STORED, None
    if copy.topic.startswith(DEAD_LETTER_TOPIC_PREFIX):
        event, group = TraceEvent.DEAD, copy.topic.removeprefix(DEAD_LETTER_TOPIC_PREFIX)
    elif REPLAYED_FROM in copy.properties and not copy.reconsume_times:
        event, group = TraceEvent.REPLAYED, copy.topic.removeprefix(RETRY_TOPIC_PREFIX)
    elif copy.topic.startswith(RETRY_TOPIC_PREFIX):
        event, group = TraceEvent.RETRY_STORED, copy.topic.removeprefix(RETRY_TOPIC_PREFIX)
    tries = f", after {copy.reconsume_times} tries" if event == TraceEvent.DEAD else ""
    return LifeStep(
        event=event,
        at_ms=copy.stored_at_ms,
        group=group,
        where=copy.store_host,
        detail=f"{copy.topic}, queue {copy.queue.queue_id}, offset {copy.queue_offset}{tries}",
    )
