"""Offsets: of groups, which do not run ahead or back, and of queues, whose ends are not told too early."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from pyromq.torture.checks.evidence import Evidence, text, whole
from pyromq.torture.history import HistoryEvent
from pyromq.torture.stage import Topology

#: Seconds after which a commit is on disk (flushConsumerOffsetInterval is 1 s), and on the slaves, which
#: copy the table every 10 s.
_SAVED_S = 5.0
_COPIED_S = 20.0
#: Seconds for which a request may be under way whose answer nobody got.
_UNDER_WAY_S = 10.0


def is_not_ahead(evidence: Evidence) -> Iterator[str | None]:
    """No group is further in a queue than the queue has messages."""
    for event in evidence.history.of("progress"):
        place, offset, end = text(event, "place"), whole(event, "offset"), whole(event, "end")
        bounds = evidence.bounds.get(place)
        last = end if bounds is None else max(end, bounds.end)
        if offset > last and not evidence.model.is_lossy:
            yield f"ahead: group {text(event, 'group')} is at {offset} of {place}, which ends at {last}"
        else:
            yield None


def is_end_confirmed(evidence: Evidence) -> Iterator[str | None]:
    """An end that a broker told is not taken back."""
    model = evidence.model
    if model.shows_what_may_be_lost:
        return
    for event in evidence.history.of("end"):
        bounds = evidence.bounds.get(text(event, "place"))
        if bounds is None:
            continue
        if whole(event, "end") > bounds.end:
            yield f"unconfirmed: {event}; the queue ends at {bounds.end} when all is over"
        else:
            yield None


@dataclass(slots=True)
class _Commits:
    """The commits for one group and queue, in time, and those that were acknowledged."""

    tried: list[HistoryEvent] = field(default_factory=list)
    acked: list[HistoryEvent] = field(default_factory=list)


def is_not_back(evidence: Evidence) -> Iterator[str | None]:
    """A commit that was acknowledged is remembered; a crash takes back only what was not saved yet."""
    saved_s = _SAVED_S if evidence.promises.topology is Topology.ALONE else _COPIED_S
    commits: dict[str, _Commits] = {}
    for event in evidence.history.of("commit", "reset", "committed", "was_reset", "recorded"):
        known = commits.setdefault(f"{text(event, 'group')} in {text(event, 'place')}", _Commits())
        if event.kind in ("commit", "reset"):
            known.tried.append(event)
        elif event.kind in ("committed", "was_reset"):
            known.acked.append(event)
        else:
            yield _gone_back(evidence, known, event, saved_s)


def _gone_back(evidence: Evidence, known: _Commits, read: HistoryEvent, saved_s: float) -> str | None:
    offset = whole(read, "offset")
    sure = (
        event
        for event in reversed(known.acked)
        if not evidence.is_disturbed(event.at_s, min(read.at_s, event.at_s + saved_s))
    )
    last = next(sure, None)
    if last is None:
        return None
    allowed = {whole(event, "offset") for event in _since(known.acked, last.at_s)}
    if evidence.is_disturbed(last.at_s - _UNDER_WAY_S, read.at_s):
        allowed |= {whole(event, "offset") for event in _since(known.tried, last.at_s - _UNDER_WAY_S)}
    if offset in allowed:
        return None
    return f"gone back: {read}; acknowledged and saved was {last}"


def _since(events: list[HistoryEvent], at_s: float) -> Iterator[HistoryEvent]:
    """Return the events since a time, the newest first; they stand in the order of time."""
    return takewhile(lambda event: event.at_s >= at_s, reversed(events))
