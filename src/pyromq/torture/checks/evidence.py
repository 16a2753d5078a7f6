"""The evidence of a run: its history, sorted by what the checks ask for."""

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from pyromq.torture.history import History, HistoryEvent
from pyromq.torture.promise_model import Model, Sent, name_of
from pyromq.torture.stage import Promises

#: Seconds that a fault may be felt after its end: a broker that starts, a client that looks for it.
AFTER_S = 10.0


@dataclass(frozen=True, slots=True)
class StoredEvidence:
    """A message in the final log."""

    topic: str
    place: str
    offset: int
    number: int
    position: int
    host: str
    crc: int

    def __str__(self) -> str:
        """Return where it is, for a person."""
        return f"{self.place} offset {self.offset}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first offset and the end of a queue in the final log."""

    first: int
    end: int


class Evidence:
    """A history with the final log of each queue, and the model of what may be seen."""

    def __init__(self, history: History, promises: Promises) -> None:
        self.history = history
        self.promises = promises
        self.model = Model(promises)
        self.model.see_all(history.events)
        #: The final log: what stands where, by message and by queue.
        self.copies: dict[int, list[StoredEvidence]] = {}
        self.logs: dict[str, dict[int, StoredEvidence]] = {}
        self.bounds: dict[str, Bounds] = {}
        # A queue that was read more than once, as brokers did not answer, counts as it was read last.
        for event in {text(event, "place"): event for event in history.of("log")}.values():
            self._take_log(event)
        #: When the first thing went wrong: a fault, or a client that ended. Never, in a calm run.
        disturbances = (event.at_s for event in history.of("fault", "client_ended"))
        self.calm_until_s = min(disturbances, default=math.inf)
        self.healed_s = max((event.at_s for event in history.of("settle")), default=0.0)
        #: What was promised after this, nobody looked for.
        self.settled_s = max((event.at_s for event in history.of("settled")), default=math.inf)

    @property
    def is_calm(self) -> bool:
        """Whether nothing disturbed the run."""
        return self.calm_until_s == math.inf

    def has_fault(self, *words: str) -> bool:
        """Return whether a fault was of a kind whose name has one of these words."""
        return any(word in name_of(fault) for fault in self.model.faults for word in words)

    def is_disturbed(self, begin_s: float, end_s: float) -> bool:
        """Return whether something may have gone wrong between two times: a fault, or what it left behind."""
        at = bisect_right(self._spans, (end_s, math.inf))
        return at > 0 and begin_s <= self._spans[at - 1][1]

    @cached_property
    def _spans(self) -> list[tuple[float, float]]:
        """Return when something may have gone wrong: times that do not overlap, in their order."""
        # A fault that is undone says so; it may take longer than it was meant to last.
        over = {event.fields.get("number"): event.at_s for event in self.history.of("fault-over")}
        spans: list[tuple[float, float]] = []
        for event in self.history.of("fault", "client_ended"):
            lasts_s = event.fields.get("lasts_s") or event.fields.get("for_s") or 0.0
            assert isinstance(lasts_s, int | float)
            end_s = max(event.at_s + lasts_s, over.get(event.fields.get("number"), 0.0))
            spans.append((event.at_s, end_s + AFTER_S))
        apart: list[tuple[float, float]] = []
        for first_s, last_s in sorted(spans):
            if apart and first_s <= apart[-1][1]:
                apart[-1] = (apart[-1][0], max(apart[-1][1], last_s))
            else:
                apart.append((first_s, last_s))
        return apart

    def _take_log(self, event: HistoryEvent) -> None:
        place, topic = text(event, "place"), text(event, "topic")
        self.bounds[place] = Bounds(whole(event, "first"), whole(event, "end"))
        rows = event.fields["messages"]
        assert isinstance(rows, list)
        log = self.logs.setdefault(place, {})
        for row in rows:
            assert isinstance(row, list)
            offset, number, position, host, crc = row
            stored = StoredEvidence(
                topic, place, int(str(offset)), int(str(number)), int(str(position)), str(host), int(str(crc))
            )
            log[stored.offset] = stored
            self.copies.setdefault(stored.number, []).append(stored)

    def is_due(self, sent: Sent) -> bool:
        """Return whether a message was promised before the run was read out, and may not be lost."""
        said_at_s = self.model.said_at_s(sent)
        return said_at_s < self.settled_s and not self.model.may_be_lost(said_at_s)

    def in_topic(self, sent: Sent) -> list[StoredEvidence]:
        """Return where a message stands in its own topic."""
        return [stored for stored in self.copies.get(sent.number, ()) if stored.topic == sent.topic]

    def was_read(self, topic: str) -> bool:
        """Return whether the final log of a topic is known."""
        return any(place.startswith(f"{topic}/") for place in self.logs)

    def messages(self) -> Iterator[Sent]:
        """Return the messages whose topics were read out at the end."""
        topics = {place.rsplit("/", 2)[0] for place in self.logs}
        return (sent for sent in self.model.sent.values() if sent.topic in topics)


def text(event: HistoryEvent, name: str) -> str:
    """Return a field that is a text."""
    return str(event.fields.get(name, ""))


def whole(event: HistoryEvent, name: str) -> int:
    """Return a field that is a whole number."""
    value = event.fields.get(name)
    assert isinstance(value, int), f"{event} has no number {name}"
    return value
