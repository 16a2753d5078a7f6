"""Histories that a test makes up: a run as short as a promise needs, kept or broken."""

import zlib
from collections.abc import Iterator

from pyromq.torture.checker import PromiseVerdict, judge
from pyromq.torture.history import History, HistoryEvent, Json
from pyromq.torture.stage import Promises, Topology
from pyromq.torture.workload.arrangement import (
    FAILERS,
    FAILING,
    ORDERED,
    ORDERLY,
    PAID,
    PLAIN,
    POPPED,
    POPPERS,
    READERS,
)
from pyromq.torture.workload.scribe import body_of
from pyromq.torture.workload.workload_plan import WorkloadKind

HOST = "10.0.0.1:10911"
SYNC = Promises(Topology.FAILOVER, replicas=2, is_sync_flush=True, is_sync_master=True)


class Told:
    """A history, told step by step; each step takes a tenth of a second unless it says when it is."""

    def __init__(self, promises: Promises | None = None) -> None:
        self.promises = promises or Promises()
        self.now_s = 0.0
        self.history = History(lambda: self.now_s)
        self._logs: dict[str, dict[int, tuple[int, int]]] = {}

    def note(
        self, kind: str, *, at: float | None = None, actor: str = "somebody", **fields: Json
    ) -> HistoryEvent:
        """Write anything down."""
        self.now_s = self.now_s + 0.1 if at is None else at
        return self.history.note(kind, actor, **fields)

    def send(
        self,
        number: int,
        kind: WorkloadKind = WorkloadKind.PLAIN,
        topic: str = PLAIN,
        at: float | None = None,
        **fields: Json,
    ) -> None:
        """Send a message, in one try."""
        known: dict[str, Json] = {"tag": "a", "weight": 1, "crc": crc_of(number, kind)}
        self.note("send", at=at, number=number, what=str(kind), topic=topic, **(known | fields))
        self.note("try", at=self.now_s, number=number, address=HOST)

    def ack(
        self,
        number: int,
        offset: int = 0,
        *,
        place: str = f"{PLAIN}/broker-a/0",
        status: str = "SEND_OK",
        host: str = HOST,
        at: float | None = None,
    ) -> None:
        """Acknowledge a message."""
        self.note(
            "ack", at=at, number=number, status=status, place=place, offset=offset, host=host, position=0
        )

    def store(
        self,
        number: int,
        offset: int = 0,
        *,
        place: str = f"{PLAIN}/broker-a/0",
        kind: WorkloadKind = WorkloadKind.PLAIN,
    ) -> None:
        """Let a message stand in the final log."""
        self._logs.setdefault(place, {})[offset] = number, crc_of(number, kind)

    def empty(self, place: str) -> None:
        """Let a queue be empty at the end."""
        self._logs.setdefault(place, {})

    def deliver(
        self,
        number: int,
        offset: int = 0,
        *,
        place: str = f"{PLAIN}/broker-a/0",
        group: str = READERS,
        done: bool = True,
        times: int = 0,
        kind: WorkloadKind = WorkloadKind.PLAIN,
        at: float | None = None,
    ) -> None:
        """Deliver a message."""
        self.note(
            "deliver",
            at=at,
            group=group,
            number=number,
            place=place,
            offset=offset,
            times=times,
            done=done,
            crc=crc_of(number, kind),
        )

    def pop(self, number: int, *, at: float, until_s: float | None = None, times: int = 0) -> None:
        """Hand a message to a member that pops; without `until_s`, to one with a listener."""
        self.note(
            "deliver",
            at=at,
            group=POPPERS,
            number=number,
            place=f"{POPPED}/broker-a/0",
            offset=number,
            times=times,
            done=until_s is None,
            crc=crc_of(number, WorkloadKind.POPPED),
            until_s=until_s,
        )

    def end(self, number: int, *, popped_at_s: float, until_s: float, at: float) -> None:
        """Acknowledge a message that was popped."""
        self.note("ending", at=at, group=POPPERS, number=number)
        self.note("ended", at=at, group=POPPERS, number=number, popped_at_s=popped_at_s, until_s=until_s)

    def subscribe(self, group: str, topic: str, **filters: Json) -> None:
        """Let a group want a topic."""
        known: dict[str, Json] = {"tags": None, "above": None}
        self.note("subscribe", group=group, topic=topic, **(known | filters))

    def settle(self, at: float | None = None) -> None:
        """End the load and read everything out."""
        self.note("settle", at=at)
        self.note("settled", waited_s=1.0)
        for place, rows in self._logs.items():
            messages: list[Json] = [
                [offset, number, 0, HOST, crc] for offset, (number, crc) in sorted(rows.items())
            ]
            end = max(rows, default=-1) + 1
            topic = place.rsplit("/", 2)[0]
            self.note("log", topic=topic, place=place, first=0, end=end, messages=messages)
        self.note("read_out")

    def verdict(self, promise: str) -> PromiseVerdict:
        """Return what the checker says of one promise."""
        found = [one for one in judge(self.history, self.promises) if one.promise == promise]
        assert len(found) == 1, f"no promise is called {promise!r}"
        return found[0]

    def broken(self) -> dict[str, list[str]]:
        """Return all promises that broke."""
        return {one.promise: one.broken for one in judge(self.history, self.promises) if one.broken}


def crc_of(number: int, kind: WorkloadKind) -> int:
    """Return the checksum of a message's body."""
    return zlib.crc32(body_of(number, kind))


def places() -> Iterator[str]:
    """Return a queue of each topic that the made-up runs use."""
    yield from (f"{topic}/broker-a/0" for topic in (PLAIN, ORDERED, PAID, FAILING))


__all__ = ["FAILERS", "ORDERED", "ORDERLY", "SYNC", "Told", "crc_of", "places"]
