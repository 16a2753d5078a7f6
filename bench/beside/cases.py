"""What is measured, which figures matter of it, and what is to be reached."""

from collections.abc import Callable
from dataclasses import dataclass

from beside.servers import ASYNC, SYNC
from pyromq.bench.workload import LoadKind, Workload

BACKLOG = 100_000
BACKLOG_TOPIC = "backlog"


@dataclass(frozen=True)
class Figure:
    """A number that a run shows, how it is written, and how far ahead of Apache 4.9 it should be."""

    name: str
    goal: float | None = None
    label: str = ""
    is_more_better: bool = False
    write: Callable[[float], str] = lambda value: f"{value:,.2f}"

    def ahead(self, theirs: float | None, ours: float | None) -> float | None:
        """Return how many times better ours is; 1 is as good."""
        if not theirs or not ours:
            return None
        return ours / theirs if self.is_more_better else theirs / ours


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _ms(value: float) -> str:
    return f"{value / 1e3:.2f}"


def rate(goal: float | None = None) -> Figure:
    """Messages a second."""
    return Figure("rate", goal, "messages/s", is_more_better=True, write=_count)


def per_cpu(goal: float | None = None) -> Figure:
    """Messages for each second of the server's processor time."""
    label = "messages per server CPU-second"
    return Figure("messages_per_server_cpu_s", goal, label, is_more_better=True, write=_count)


def latency(name: str, goal: float | None = None) -> Figure:
    """A percentile, or a delivery's when the name begins with that."""
    return Figure(name, goal, f"{name.removeprefix('delivery_')}, ms", write=_ms)


SECONDS = Figure("seconds", 5.0, "s")
MEMORY = Figure("mib", 10.0, "MiB", write=_count)
SPREAD = Figure(
    "ratio", 0.8, "rate, of that to 1 topic", is_more_better=True, write=lambda value: f"{value:.0%}"
)


@dataclass(frozen=True)
class Case:
    """A workload, the flush mode of the broker that it goes to, and its figures."""

    key: str
    name: str
    workload: Workload
    figures: tuple[Figure, ...]
    flush: str = ASYNC


def _send(connections: int, under_way: int, size: int, **more: object) -> Workload:
    return Workload(
        kind=LoadKind.PRODUCE,
        topic=f"send-{size}",
        connections=connections,
        under_way=under_way,
        size=size,
        **more,  # type: ignore[arg-type]
    )


CASES = [
    Case("send-128", "send 128 B, 64×64", _send(64, 64, 128), (per_cpu(8), rate(5), latency("p99"))),
    Case("send-1k", "send 1 KiB, 64×64", _send(64, 64, 1024), (per_cpu(8), rate(5), latency("p99"))),
    Case("one", "send 1 KiB, 1×1", _send(1, 1, 1024), (latency("p50", 1), latency("p99", 1), rate())),
    Case(
        "rate",
        "send 1 KiB at 10,000/s",
        _send(8, 256, 1024, rate=10_000.0),
        (latency("p50"), latency("p99", 2), latency("p99.9", 2)),
    ),
    Case(
        "sync",
        "send 1 KiB, synchronous flush, 8×64",
        _send(8, 64, 1024),
        (rate(4), latency("p99", 1), per_cpu()),
        SYNC,
    ),
    Case("batch", "send 1 KiB, batches of 32, 8×4", _send(8, 4, 1024, batch=32), (per_cpu(5), rate())),
    Case(
        "pull",
        "pull 1 KiB, catching up, 8×1",
        Workload(kind=LoadKind.CONSUME, topic=BACKLOG_TOPIC, connections=8, under_way=1, is_repeated=True),
        (per_cpu(3), rate()),
    ),
    Case(
        "trip",
        "send to arrival 1 KiB at 5,000/s",
        Workload(
            kind=LoadKind.ROUNDTRIP, topic="trip", connections=4, under_way=256, size=1024, rate=5_000.0
        ),
        (latency("delivery_p50"), latency("delivery_p99", 1)),
    ),
]
#: Cases that are no workload on a warm broker.
OTHERS = {"start": "start to first acknowledged send", "memory": "resident memory", "topics": "10,000 topics"}
KEYS = [*(case.key for case in CASES), *OTHERS]


def fill(count: int, size: int, topic: str, batch: int = 1) -> Workload:
    """Return a workload that sends so many messages."""
    return Workload(
        kind=LoadKind.PRODUCE,
        topic=topic,
        connections=16,
        under_way=64 if batch == 1 else 4,
        size=size,
        batch=batch,
        count=count,
    )
