"""The order of queues and keys."""

from collections.abc import Iterator

from pyromq.torture.checks.evidence import Evidence, text, whole
from pyromq.torture.checks.lasting import _ELSEWHERE
from pyromq.torture.history import HistoryEvent
from pyromq.torture.workload.arrangement import ORDERLY


def is_in_order(evidence: Evidence) -> Iterator[str | None]:
    """A message acknowledged before another was sent stands before it in their queue."""
    if evidence.model.is_lossy:
        return
    #: By queue: the moments of acknowledgements with the offset that each gave, as they come.
    told: dict[str, list[tuple[int, HistoryEvent]]] = {}
    begun: dict[int, dict[str, tuple[int, HistoryEvent] | None]] = {}
    for event in evidence.history.of("send", "ack"):
        number = whole(event, "number")
        if event.kind == "send":
            if event.fields["what"] not in _ELSEWHERE and number not in begun:
                begun[number] = {place: max(some, key=_offset) for place, some in told.items()}
            continue
        if number not in begun or event.fields["status"] != "SEND_OK":
            continue
        place, offset = text(event, "place"), whole(event, "offset")
        before = begun[number].get(place)
        if before is not None and offset <= before[0]:
            yield f"out of order: {event} came after {before[1]}, and stands before it"
        else:
            yield None
        told.setdefault(place, []).append((offset, event))


def _offset(told: tuple[int, HistoryEvent]) -> int:
    return told[0]


def is_read_in_order(evidence: Evidence) -> Iterator[str | None]:
    """A consumer in order is done with a queue's messages one after the other."""
    furthest: dict[str, HistoryEvent] = {}
    seen: set[tuple[str, int]] = set()
    for event in evidence.history.of("deliver"):
        if event.fields["group"] != ORDERLY or not event.fields["done"]:
            continue
        place, offset = text(event, "place"), whole(event, "offset")
        if (place, offset) in seen:
            continue
        seen.add((place, offset))
        last = furthest.get(place)
        if last is not None and offset < whole(last, "offset"):
            yield f"out of order: {event} came first after {last}"
        else:
            furthest[place] = event
            yield None


def is_key_in_order(evidence: Evidence) -> Iterator[str | None]:
    """The messages of a key are seen in the order in which they were acknowledged."""
    if evidence.model.is_lossy:
        return
    first_seen: dict[int, int] = {}
    for at, event in enumerate(evidence.history.events):
        if event.kind == "deliver" and event.fields["group"] == ORDERLY and event.fields["done"]:
            first_seen.setdefault(whole(event, "number"), at)
    last: dict[str, tuple[float, int, str]] = {}
    for sent in evidence.model.sent.values():
        key = text(sent.event, "key")
        if not key or not sent.ok_acks or sent.number not in first_seen:
            continue
        seen_at = first_seen[sent.number]
        before = last.get(key)
        if before is not None and before[0] <= sent.at_s and seen_at < before[1]:
            yield f"out of order: {sent} of key {key} was seen before {before[2]}"
        else:
            yield None
        last[key] = (sent.ok_acks[-1].at_s, seen_at, str(sent))
