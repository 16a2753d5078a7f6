"""Every group gets what it subscribed to: all of it, nothing else, in time, and not again for nothing."""

from collections.abc import Iterator

from pyromq.torture.checks.evidence import Evidence, text, whole
from pyromq.torture.promise_model import Sent, Showing
from pyromq.torture.workload.arrangement import BIG_PULLERS, FAILERS, PULLERS

#: Seconds after which a delivery is late: when nothing is wrong, and when all faults are healed.
LATE_CALM_S = 10.0
LATE_HEALED_S = 60.0
#: Groups that read what they like, again and again.
_AT_WILL = (PULLERS, BIG_PULLERS)


def is_delivered(evidence: Evidence) -> Iterator[str | None]:
    """A group gets every message that it is to get, before the run ends."""
    model = evidence.model
    settled = next(evidence.history.of("settled"), None)
    if settled is None:
        return
    for subscription, sent in model.wanted():
        if model.is_through(subscription.group, sent) or not evidence.is_due(sent):
            yield None
        else:
            waited_s = settled.at_s - evidence.healed_s
            yield f"never delivered: {sent} to group {subscription.group}, which waited {waited_s:.0f} s"


def is_in_time(evidence: Evidence) -> Iterator[str | None]:
    """A message comes soon: when nothing is wrong, and when all faults are healed."""
    model = evidence.model
    for subscription, sent in model.wanted():
        deliveries = model.deliveries.get(subscription.group, {}).get(sent.number)
        if not deliveries or subscription.group == FAILERS:
            continue
        from_s, most_s = max(model.said_at_s(sent), sent.due_s), LATE_CALM_S
        if deliveries[0].at_s >= evidence.calm_until_s:
            from_s, most_s = max(from_s, evidence.healed_s), LATE_HEALED_S
        late_s = deliveries[0].at_s - from_s
        if late_s > most_s:
            yield f"late: {sent} came {late_s:.1f} s after it could, not {most_s:.0f} s: {deliveries[0]}"
        else:
            yield None


def is_for_them(evidence: Evidence) -> Iterator[str | None]:
    """A group gets nothing that its tags or its SQL do not take."""
    model = evidence.model
    chosen = [one for one in model.subscriptions if one.tags is not None or one.above is not None]
    for subscription in chosen:
        for number, deliveries in model.deliveries.get(subscription.group, {}).items():
            sent = model.sent.get(number)
            if sent is None or subscription.wants(sent):
                yield None
            else:
                yield f"not chosen: {sent} came to {subscription.group}: {deliveries[0]}"


def is_delivered_once(evidence: Evidence) -> Iterator[str | None]:
    """While nothing is wrong a message that a group is done with does not come again."""
    done: dict[tuple[str, str, int], float] = {}
    for event in evidence.history.of("deliver"):
        group = text(event, "group")
        if group in _AT_WILL or event.at_s >= evidence.calm_until_s:
            continue
        where = group, text(event, "place"), whole(event, "offset")
        if where in done:
            yield f"again: {event}, with which the group was done at {done[where]:.3f} s"
        else:
            yield None
        if event.fields["done"]:
            done[where] = event.at_s


def is_hidden(evidence: Evidence, kinds: tuple[str, ...]) -> Iterator[tuple[Sent, str | None]]:
    """Yield the messages of some kinds that must not be seen, each with where it was seen."""
    model = evidence.model
    for sent in model.sent.values():
        if sent.kind not in kinds or model.showing(sent) is not Showing.NEVER:
            continue
        places = [str(stored) for stored in evidence.in_topic(sent)]
        places += [
            f"delivered: {event}" for some in model.deliveries.values() for event in some.get(sent.number, ())
        ]
        yield sent, "; ".join(places[:3]) or None
