"""Checks of durability: acknowledged messages stay, once, unchanged and where they were said to be."""

from collections.abc import Iterator

from pyromq.torture.checks.evidence import Evidence, text, whole
from pyromq.torture.promise_model import Showing

#: Kinds whose answers tell of another place than the one where readers see them.
_ELSEWHERE = ("delayed", "timed", "transaction")


def is_there(evidence: Evidence) -> Iterator[str | None]:
    """Each acknowledged message is in the final log."""
    model = evidence.model
    for sent in evidence.messages():
        if model.showing(sent) is not Showing.MUST:
            continue
        if evidence.in_topic(sent) or not evidence.is_due(sent):
            yield None
        else:
            yield f"lost: {sent} is not in the final log of {sent.topic}"


def is_there_once(evidence: Evidence) -> Iterator[str | None]:
    """A message is stored once, and once more for each try whose answer was lost."""
    for sent in evidence.messages():
        copies, most = evidence.in_topic(sent), evidence.model.copies_max(sent)
        if len(copies) > most:
            yield f"twice: {sent} stands at {', '.join(map(str, copies))}; {most} would be allowed"
        else:
            yield None


def is_unchanged(evidence: Evidence) -> Iterator[str | None]:
    """Bodies are what was sent, in the log and at readers."""
    for number, copies in evidence.copies.items():
        sent = evidence.model.sent.get(number)
        for stored in copies:
            if sent is None:
                yield f"made up: {stored} has number {number}, which nobody sent"
            elif stored.crc != sent.event.fields["crc"]:
                yield f"changed: {sent} has another body at {stored}"
            else:
                yield None
    for event in evidence.history.of("deliver"):
        sent = evidence.model.sent.get(whole(event, "number"))
        is_right = sent is not None and event.fields["crc"] == sent.event.fields["crc"]
        yield None if is_right else f"changed: a reader got what nobody sent: {event}"


def is_where_it_was_said(evidence: Evidence) -> Iterator[str | None]:
    """At the offset that was acknowledged for a message stands this message, and queues have no gaps."""
    for place, log in evidence.logs.items():
        bounds = evidence.bounds[place]
        gaps = [offset for offset in range(bounds.first, bounds.end) if offset not in log]
        yield f"gap: {place} ends at {bounds.end} and has no offsets {gaps[:8]}" if gaps else None
    for sent in evidence.messages():
        if sent.kind in _ELSEWHERE:
            continue
        for ack in sent.ok_acks:
            if evidence.model.may_be_lost(ack.at_s):
                continue
            place, offset = text(ack, "place"), whole(ack, "offset")
            found = evidence.logs.get(place, {}).get(offset)
            if found is not None and found.number != sent.number:
                yield f"moved: {sent} was acknowledged at {place} offset {offset}; there is {found.number}"
            else:
                yield None


def is_not_taken_back(evidence: Evidence) -> Iterator[str | None]:
    """A message that a reader was shown at an offset stays there.

    Not promised where acknowledged messages may be lost, and of slaves that are ahead of their master's disk.
    What was seen after the run had settled may be newer than the final log.
    """
    if evidence.model.shows_what_may_be_lost:
        return
    for event in evidence.history.of("deliver"):
        place, offset = text(event, "place"), whole(event, "offset")
        if place not in evidence.logs or event.at_s >= evidence.settled_s:
            continue
        found = evidence.logs[place].get(offset)
        if found is None or found.number != whole(event, "number"):
            there = "nothing" if found is None else f"message {found.number}"
            yield f"taken back: a reader saw {event}; in the final log there is {there}"
        else:
            yield None
