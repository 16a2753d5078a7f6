"""Popped messages: what is acknowledged does not come again, and what is one member's is not another's.

That what is not acknowledged comes again is a part of "every group gets its messages": a group that pops has
a message when it was acknowledged, and not when it was handed out.
"""

from collections.abc import Iterator
from itertools import pairwise

from pyromq.torture.checks.evidence import Evidence
from pyromq.torture.history import HistoryEvent
from pyromq.torture.promise_model import Sent

#: A message is popped some time before its receiver has it: it was on its way.
_ON_ITS_WAY_S = 1.5


def is_ended(evidence: Evidence) -> Iterator[str | None]:
    """A message that was acknowledged in time is not handed out again.

    A broker answers an acknowledgement with success, too, when it does not know that the message was popped:
    a fault in between took that away. And one whose time was over has no effect.
    """
    model = evidence.model
    if evidence.has_fault("clock"):
        return
    for (group, number), ends in model.ended.items():
        sent = model.sent.get(number)
        deliveries = model.deliveries.get(group, {}).get(number, ())
        if sent is None or model.copies_max(sent) > 1:
            continue
        for end in ends:
            if not _counts(evidence, end):
                continue
            again = next((event for event in deliveries if event.at_s > end.at_s), None)
            yield None if again is None else f"acknowledged at {end.at_s:.3f} s: {sent}, and again: {again}"


def _counts(evidence: Evidence, end: HistoryEvent) -> bool:
    """Return whether an acknowledgement must have had its effect, which must last."""
    popped_at_s, until_s = _seconds(end, "popped_at_s"), _seconds(end, "until_s")
    is_late = end.at_s > until_s - _ON_ITS_WAY_S
    is_disturbed = evidence.is_disturbed(popped_at_s - _ON_ITS_WAY_S, end.at_s)
    return not is_late and not is_disturbed and not evidence.model.may_be_lost(end.at_s)


def is_one_members(evidence: Evidence) -> Iterator[str | None]:
    """A message that was received comes to nobody else before its time, unless it was given back."""
    model = evidence.model
    if evidence.has_fault("clock"):
        return
    given_back: dict[int, list[float]] = {}
    for event in evidence.history.of("given_back"):
        given_back.setdefault(int(str(event.fields["number"])), []).append(event.at_s)
    for before, after in _received(evidence):
        sent = model.sent.get(int(str(before.fields["number"])))
        if sent is None or model.copies_max(sent) > 1:
            continue
        if not any(before.at_s <= at_s <= after.at_s for at_s in given_back.get(sent.number, ())):
            yield _shared(evidence, sent, before, after)


def _received(evidence: Evidence) -> Iterator[tuple[HistoryEvent, HistoryEvent]]:
    """Yield the deliveries whose receiver knows until when a message is its own, each with the next one."""
    for deliveries in evidence.model.deliveries.values():
        for events in deliveries.values():
            for before, after in pairwise(events):
                if before.fields.get("until_s") is not None:
                    yield before, after


def _shared(evidence: Evidence, sent: Sent, before: HistoryEvent, after: HistoryEvent) -> str | None:
    until_s = _seconds(before, "until_s") - _ON_ITS_WAY_S
    if after.at_s >= until_s or evidence.is_disturbed(before.at_s - _ON_ITS_WAY_S, after.at_s):
        return None
    return f"two members have {sent}: {before}, and before its time: {after}"


def _seconds(event: HistoryEvent, name: str) -> float:
    value = event.fields[name]
    assert isinstance(value, int | float), f"{event} has no {name}"
    return float(value)
