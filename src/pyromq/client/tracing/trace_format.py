"""The format of a trace, as RocketMQ 4.9.8 writes it (TraceDataEncoder).

A trace message's body is text: entries that each end with \\x02, fields separated by \\x01. What Java has no
value for reads `null`.

    Pub             sent: time, region, group, topic, id, tags, keys, broker, bytes, took, kind, offset id, ok
    SubBefore       a listener gets it: time, region, group, request, id, tries before, keys
    SubAfter        the listener is through: request, id, took, ok, keys, how it ended, time, group
    EndTransaction  time, region, group, topic, id, tags, keys, broker, kind, transaction, state, was asked

The message's keys are the ids and keys of all messages that its entries are about: so it is found by them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from typing import Final

DEFAULT_REGION: Final = "DefaultRegion"
_FIELD: Final = "\x01"
_END: Final = "\x02"
_NULL: Final = "null"


class TraceType(StrEnum):
    """The subject of a trace's entry."""

    PUB = "Pub"
    SUB_BEFORE = "SubBefore"
    SUB_AFTER = "SubAfter"
    END_TRANSACTION = "EndTransaction"


class MessageKind(IntEnum):
    """The kind of a sent message; the numbers are RocketMQ's ordinals."""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAY = 3
    ORDER = 4


class ConsumeReturn(IntEnum):
    """The result of a listener; the numbers are RocketMQ's ordinals."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURNED_NULL = 3
    FAILED = 4


@dataclass(slots=True, kw_only=True)
class TraceEntry:
    """One thing that happened to one message. Which fields are known depends on the type."""

    type: TraceType
    message_id: str
    at_ms: int = 0
    region: str | None = DEFAULT_REGION
    group: str = ""
    topic: str = ""
    tags: str | None = None
    keys: str | None = None
    broker_address: str = ""
    body_bytes: int = 0
    took_ms: int = 0
    kind: MessageKind = MessageKind.NORMAL
    offset_message_id: str | None = None
    is_success: bool = True
    request_id: str = ""
    retries: int = 0
    how_it_ended: int | None = None
    transaction_id: str | None = None
    transaction_state: str = ""
    was_asked: bool = False
    #: Who told; not part of the entry but of the message that has it.
    client_host: str = ""


def encode_entry(entry: TraceEntry) -> str:
    """Return an entry as Java writes it."""
    return _FIELD.join(_text(field) for field in _fields(entry)) + _END


def keys_of(entries: Iterable[TraceEntry]) -> list[str]:
    """Return what a message with these entries is found by, in their order."""
    keys: dict[str, None] = {}
    for entry in entries:
        keys[entry.message_id] = None
        keys.update(dict.fromkeys((entry.keys or "").split()))
    return list(keys)


def decode_entries(body: str, client_host: str = "") -> Iterator[TraceEntry]:
    """Yield the entries of a trace message; what is none, or of a type that nobody knows, is passed over."""
    for text in body.split(_END):
        fields = text.split(_FIELD)
        read = _READERS.get(fields[0])
        if read is None:
            continue
        try:
            entry = read(fields)
        except (ValueError, IndexError):
            # Whoever can send to the topic can write anything.
            continue
        entry.client_host = client_host
        yield entry


def _fields(entry: TraceEntry) -> tuple[object, ...]:
    match entry.type:
        case TraceType.PUB:
            return (
                *(entry.type, entry.at_ms, entry.region, entry.group, entry.topic, entry.message_id),
                *(entry.tags, entry.keys, entry.broker_address, entry.body_bytes, entry.took_ms),
                *(int(entry.kind), entry.offset_message_id, entry.is_success),
            )
        case TraceType.SUB_BEFORE:
            return (
                *(entry.type, entry.at_ms, entry.region, entry.group, entry.request_id),
                *(entry.message_id, entry.retries, entry.keys),
            )
        case TraceType.SUB_AFTER:
            return (
                *(entry.type, entry.request_id, entry.message_id, entry.took_ms, entry.is_success),
                *(entry.keys, entry.how_it_ended or 0, entry.at_ms, entry.group),
            )
        case TraceType.END_TRANSACTION:
            return (
                *(entry.type, entry.at_ms, entry.region, entry.group, entry.topic, entry.message_id),
                *(entry.tags, entry.keys, entry.broker_address, int(entry.kind), entry.transaction_id),
                *(entry.transaction_state, entry.was_asked),
            )


def _text(value: object) -> str:
    if value is None:
        return _NULL
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_sender(type: TraceType, fields: list[str]) -> TraceEntry:
    """Read what entries of producers begin with."""
    return TraceEntry(
        type=type,
        at_ms=int(fields[1]),
        region=_known(fields[2]),
        group=fields[3],
        topic=fields[4],
        message_id=fields[5],
        tags=_known(fields[6]),
        keys=_known(fields[7]),
        broker_address=fields[8],
    )


def _read_pub(fields: list[str]) -> TraceEntry:
    # Older clients wrote no offset id.
    has_offset_id = len(fields) >= 14
    return replace(
        _read_sender(TraceType.PUB, fields),
        body_bytes=int(fields[9]),
        took_ms=int(fields[10]),
        kind=_kind(fields[11]),
        offset_message_id=_known(fields[12]) if has_offset_id else None,
        is_success=fields[13 if has_offset_id else 12].lower() == "true",
    )


def _read_before(fields: list[str]) -> TraceEntry:
    return TraceEntry(
        type=TraceType.SUB_BEFORE,
        at_ms=int(fields[1]),
        region=_known(fields[2]),
        group=fields[3],
        request_id=fields[4],
        message_id=fields[5],
        retries=int(fields[6]),
        keys=_known(fields[7]) if len(fields) > 7 else None,
    )


def _read_after(fields: list[str]) -> TraceEntry:
    return TraceEntry(
        type=TraceType.SUB_AFTER,
        request_id=fields[1],
        message_id=fields[2],
        took_ms=int(fields[3]),
        is_success=fields[4].lower() == "true",
        keys=_known(fields[5]) if len(fields) > 5 else None,
        how_it_ended=int(fields[6]) if len(fields) > 6 else None,
        at_ms=int(fields[7]) if len(fields) > 8 else 0,
        group=fields[8] if len(fields) > 8 else "",
    )


def _read_end(fields: list[str]) -> TraceEntry:
    return replace(
        _read_sender(TraceType.END_TRANSACTION, fields),
        kind=_kind(fields[9]),
        transaction_id=_known(fields[10]),
        transaction_state=fields[11],
        was_asked=fields[12].lower() == "true",
    )


_READERS: Final[dict[str, Callable[[list[str]], TraceEntry]]] = {
    TraceType.PUB: _read_pub,
    TraceType.SUB_BEFORE: _read_before,
    TraceType.SUB_AFTER: _read_after,
    TraceType.END_TRANSACTION: _read_end,
}


def _known(text: str) -> str | None:
    return None if text == _NULL else text


def _kind(text: str) -> MessageKind:
    try:
        return MessageKind(int(text))
    except ValueError:
        return MessageKind.NORMAL
