"""Messages that wait: for their time, for a verdict, for the rest of their batch."""

from collections.abc import Iterator

from pyromq.torture.checks.delivery_promise import is_hidden
from pyromq.torture.checks.evidence import Evidence
from pyromq.torture.promise_model import PromisedBatch

#: Clocks count in milliseconds.
_EARLY_S = 0.05


def is_not_early(evidence: Evidence) -> Iterator[str | None]:
    """A delayed message does not come before its time; clocks that jump make times of no use."""
    if evidence.has_fault("clock"):
        return
    for deliveries in evidence.model.deliveries.values():
        for number, events in deliveries.items():
            sent = evidence.model.sent.get(number)
            if sent is None or not sent.event.fields.get("is_delayed"):
                continue
            early_s = sent.due_s - events[0].at_s
            if early_s > _EARLY_S:
                yield f"early: {sent} came {early_s:.3f} s before its time: {events[0]}"
            else:
                yield None


def is_recalled(evidence: Evidence) -> Iterator[str | None]:
    """A recalled message is not delivered."""
    for sent, seen in is_hidden(evidence, ("timed",)):
        at_s = sent.recalled_at_s or 0.0
        if seen is None or evidence.model.may_be_lost(at_s):
            yield None
        else:
            yield f"recalled at {at_s:.3f} s and yet seen: {sent}; {seen}"


def is_as_decided(evidence: Evidence) -> Iterator[str | None]:
    """A half message is seen if its transaction was committed, and else never."""
    for sent, seen in is_hidden(evidence, ("transaction",)):
        if seen is None:
            yield None
        else:
            yield f"not committed ({sent.decided or 'no verdict'}) and yet seen: {sent}; {seen}"
    for sent in evidence.messages():
        if sent.kind == "transaction" and sent.decided == "COMMIT_MESSAGE" and sent.ok_acks:
            if evidence.in_topic(sent) or not evidence.is_due(sent):
                yield None
            else:
                yield f"committed at {sent.decided_at_s:.3f} s and not there: {sent}"


def is_whole(evidence: Evidence) -> Iterator[str | None]:
    """A staged batch is there as a whole and once, or not at all."""
    if not evidence.was_read("t-staged"):
        return
    for batch in evidence.model.batches.values():
        yield _torn(evidence, batch)


def _torn(evidence: Evidence, batch: PromisedBatch) -> str | None:
    counts = {number: len(evidence.copies.get(number, ())) for number in batch.numbers}
    there = [number for number, count in counts.items() if count]
    twice = [number for number, count in counts.items() if count > 1]
    absent = [number for number, count in counts.items() if not count]
    if twice:
        return f"batch {batch.name} is there twice: rows {twice}"
    if there and not (batch.is_published or batch.is_tried):
        return f"batch {batch.name} was never published, and rows {there} are seen"
    if batch.is_aborted and there:
        return f"batch {batch.name} was aborted, and rows {there} are seen"
    if evidence.model.may_be_lost(batch.published_at_s):
        return None
    if batch.is_published and absent:
        return (
            f"batch {batch.name} was published at {batch.published_at_s:.3f} s, and rows {absent} are absent"
        )
    if there and absent:
        return f"batch {batch.name} is torn: rows {there} are seen, rows {absent} are not"
    return None
