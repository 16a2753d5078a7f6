"""The retry ladder, dead letters, and their replay."""

from collections.abc import Iterator

from pyromq.torture.checks.evidence import Evidence, text, whole
from pyromq.torture.history import HistoryEvent
from pyromq.torture.promise_model import TRIES_MAX, is_last_try
from pyromq.torture.workload.arrangement import FAILERS

_DEAD = f"%DLQ%{FAILERS}"
_RETRIED = f"%RETRY%{FAILERS}"
#: Tries of the send with which a client takes the place of a send-back whose answer was lost.
_OWN_SENDS = 3


def is_dead_once(evidence: Evidence) -> Iterator[str | None]:
    """A message that a group gave up is a dead letter: once each time, and once more for each lost answer."""
    model = evidence.model
    if next(evidence.history.of("read_out"), None) is None:
        return
    for sent in model.sent.values():
        deliveries = model.deliveries.get(FAILERS, {}).get(sent.number, [])
        ends = _given_up(deliveries)
        letters = [stored for stored in evidence.copies.get(sent.number, ()) if stored.topic == _DEAD]
        if not deliveries:
            continue
        if len(letters) > sum(_letters_max(evidence, event) for event in deliveries):
            places = ", ".join(map(str, letters))
            yield f"{len(letters)} dead letters of {sent}, given up {len(ends)} times: {places}"
        elif ends and not letters and not model.may_be_lost(ends[-1].at_s):
            yield f"no dead letter of {sent}, given up at {ends[-1].at_s:.3f} s"
        else:
            yield None


def is_tried_again_once(evidence: Evidence) -> Iterator[str | None]:
    """A delivery that failed comes again once; with faults, once more for each answer that was lost."""
    model = evidence.model
    for number, deliveries in model.deliveries.get(FAILERS, {}).items():
        # What was tried again while nothing was wrong; later nobody knows which answers were lost.
        if deliveries[-1].at_s >= evidence.calm_until_s:
            continue
        sent = model.sent.get(number)
        replays = 0 if sent is None or sent.replayed_at_s is None else 1
        failures = sum(1 for event in deliveries if not event.fields["done"])
        retries = [stored for stored in evidence.copies.get(number, ()) if stored.topic == _RETRIED]
        if len(retries) > failures + replays:
            yield f"message {number} failed {failures} times, and is tried again {len(retries)} times"
        else:
            yield None


def is_replayed(evidence: Evidence) -> Iterator[str | None]:
    """A dead letter that was replayed comes to its group again."""
    model = evidence.model
    for sent in model.sent.values():
        if sent.replayed_at_s is None:
            continue
        if model.is_through(FAILERS, sent) or model.may_be_lost(sent.replayed_at_s):
            yield None
        else:
            yield f"replayed at {sent.replayed_at_s:.3f} s and never delivered: {sent}"


def _given_up(deliveries: list[HistoryEvent]) -> list[HistoryEvent]:
    """Return the deliveries that must have made a message a dead letter.

    A failure that no broker takes back is tried again by the consumer itself, which counts these tries; the
    broker that takes it back at last does not, as with RocketMQ. It goes by the record that was delivered,
    and that says how often it was tried when it was delivered first.
    """
    stored: dict[tuple[str, int], int] = {}
    for event in deliveries:
        place = text(event, "place"), whole(event, "offset")
        stored[place] = min(whole(event, "times"), stored.get(place, TRIES_MAX))
    return [
        event
        for event in deliveries
        if is_last_try(event) and stored[text(event, "place"), whole(event, "offset")] >= TRIES_MAX
    ]


def _letters_max(evidence: Evidence, delivery: HistoryEvent) -> int:
    """Return how many dead letters a delivery may make.

    The last failure makes one. When its answer is lost the client sends the message itself, with one try
    more on its account: that may make it a dead letter too, also one failure before the last.
    """
    if delivery.fields["done"]:
        return 0
    is_last = is_last_try(delivery)
    is_lost = evidence.is_disturbed(delivery.at_s, delivery.at_s + 1)
    return is_last + (_OWN_SENDS if is_lost else 0)
