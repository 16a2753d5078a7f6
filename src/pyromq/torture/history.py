"""The history of a run: every request, answer, delivery and fault, in one order of time.

Times are seconds of the stage's own clock, which no fault touches. The checker reads nothing but a history,
so a history that was saved can be judged again.

What a stage writes, and the checker reads:

    fault       something begins to go wrong: `fault` or `what` is its name, `lasts_s` or `for_s` its seconds.
                Names tell: "power" may lose what is unsynced, "clock" makes times of no use
    leader,     whom the consensus store has as master from now on: `address`, as clients reach it. Where none
    master      is written the checker cannot tell who was replaced, and looks at no acknowledgement

The rest is the workload's: `send`, `try`, `ack` and `fail` of each message by its `number`, `deliver`, and
what the kinds have of their own (`pyromq.torture.workload`); `settle` when no fault is left, `settled` when
readers have everything, then a `log` of each queue, and `read_out`.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: What a field of an event may hold.
Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """Something that happened: when, to whom or by whom, and what."""

    at_s: float
    actor: str
    kind: str
    fields: dict[str, Json] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the event as one line for a person."""
        words = " ".join(f"{name}={value}" for name, value in self.fields.items())
        return f"{self.at_s:10.3f}  {self.actor:<16} {self.kind:<18} {words}".rstrip()


class History:
    """All events of a run; `now_s` is the stage's clock."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.events: list[HistoryEvent] = []
        #: Called with each event as it happens; for live views and traces.
        self.on_event: Callable[[HistoryEvent], None] | None = None

    def note(self, kind: str, actor: str, **fields: Json) -> HistoryEvent:
        """Write down what happens now."""
        event = HistoryEvent(self._now_s(), actor, kind, fields)
        self.events.append(event)
        if self.on_event is not None:
            self.on_event(event)
        return event

    def of(self, *kinds: str) -> Iterator[HistoryEvent]:
        """Return the events of some kinds, in their order."""
        return (event for event in self.events if event.kind in kinds)

    def save(self, path: Path) -> None:
        """Write the history, a line of JSON for each event."""
        with path.open("w", encoding="utf-8") as file:
            for event in self.events:
                line = [event.at_s, event.actor, event.kind, event.fields]
                file.write(json.dumps(line, separators=(",", ":")) + "\n")

    @classmethod
    def load(cls, path: Path) -> "History":
        """Read a history that was saved."""
        history = cls(lambda: 0.0)
        with path.open(encoding="utf-8") as file:
            history.events = [HistoryEvent(*json.loads(line)) for line in file]
        return history
