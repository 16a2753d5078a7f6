"""The outcome of a run, for people and for programs."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyromq.torture.checker import PromiseVerdict
from pyromq.torture.history import History
from pyromq.torture.nemesis import BEGIN
from pyromq.torture.pauses import SEND_OK, Pauses, WaitSpan, pauses_of

#: Texts of one broken promise that are told; the history has them all.
TEXTS_MAX = 20


@dataclass(slots=True)
class RunOutcome:
    """A run that is over."""

    seed: int
    #: In words: brokers, replicas, flush and role.
    cluster: str
    verdicts: list[PromiseVerdict] = field(default_factory=list)
    acknowledged: int = 0
    delivered: int = 0
    failed_sends: int = 0
    #: The families that were to be done; how often each fault was; what was left out, with the reason.
    families: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, str] = field(default_factory=dict)
    pauses: Pauses = field(default_factory=Pauses)
    seconds: float = 0.0
    #: From the end of the faults until everybody had everything.
    settled_s: float = 0.0
    is_interrupted: bool = False
    folder: Path = Path()
    history_file: Path | None = None
    picture: Path | None = None
    #: What runs it again.
    command: str = ""
    #: What the servers logged as errors, without numbers.
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def broken(self) -> list[PromiseVerdict]:
        """The promises that were broken."""
        return [verdict for verdict in self.verdicts if verdict.broken]

    def count(self, history: History) -> None:
        """Count what a history has."""
        self.pauses = pauses_of(history)
        for event in history.events:
            if event.kind == "ack":
                self.acknowledged += event.fields.get("status") == SEND_OK
            elif event.kind == "deliver":
                self.delivered += 1
            elif event.kind == "fail":
                self.failed_sends += 1
            elif event.kind == BEGIN:
                self.faults[str(event.fields["fault"])] += 1

    def as_record(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "kept": not self.broken,
            "interrupted": self.is_interrupted,
            "seed": self.seed,
            "cluster": self.cluster,
            "seconds": round(self.seconds, 1),
            "settledSeconds": round(self.settled_s, 1),
            "acknowledged": self.acknowledged,
            "delivered": self.delivered,
            "failedSends": self.failed_sends,
            "promises": [
                {
                    "promise": verdict.promise,
                    "checked": verdict.checked,
                    "broken": len(verdict.broken),
                    "texts": verdict.broken[:TEXTS_MAX],
                }
                for verdict in self.verdicts
            ],
            "longestPause": {
                "producer": _pause(self.pauses.producer),
                "consumer": _pause(self.pauses.consumer),
            },
            "faults": dict(self.faults),
            "leftOut": self.left_out,
            "loggedErrors": dict(self.errors.most_common(20)),
            "data": str(self.folder),
            "history": None if self.history_file is None else str(self.history_file),
            "picture": None if self.picture is None else str(self.picture),
            "command": self.command,
        }


def _pause(pause: WaitSpan) -> dict[str, Any]:
    return {"seconds": round(pause.seconds, 3), "until": round(pause.until_s, 3), "who": pause.who}


def events_around(history: History, numbers: Sequence[int], at_most: int = 12) -> list[str]:
    """Return the events of some messages, and the faults, in their order: what a person looks at first."""
    wanted = set(numbers)
    told = [
        event
        for event in history.events
        if event.fields.get("number") in wanted and not event.kind.startswith(("fault", "probe"))
    ]
    if not told:
        return []
    first, last = told[0].at_s - 2.0, told[-1].at_s + 2.0
    faults = [
        event for event in history.events if event.kind.startswith("fault") and first <= event.at_s <= last
    ]
    return [str(event) for event in sorted([*told[:at_most], *faults[:at_most]], key=lambda one: one.at_s)]
