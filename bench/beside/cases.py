"""What is measured, which figures matter of it, and what is to be reached: the table of `make bench`.

A case is data: its load, the setup of the brokers that it goes to, its figures with their goals, and how it
is measured (`methods.py`). `8×16` in a name means 8 connections with 16 requests under way on each.
"""

from dataclasses import dataclass
from typing import Any

from beside import methods
from beside.figures import (
    APACHE_4,
    APACHE_5,
    ECHO,
    IDLE_KIB,
    KINDS,
    PYROMQ,
    SYNC_COST,
    Bound,
    Figure,
    latency,
    per_client_cpu,
    per_cpu,
    rate,
)
from beside.methods import Method
from beside.setups import (
    ACCOUNT,
    ASYNC_PAIR,
    ENCRYPTED,
    FLUSHED,
    GUARDED,
    PLAIN,
    PLAIN_TLS,
    SYNC_PAIR,
    Setup,
)
from pyromq.bench.workload import LoadKind, Workload

BACKLOG = 100_000
BACKLOG_TOPIC = "backlog"
#: Apache's 4.9 knows no messages with any delay.
OURS_ONLY = (PYROMQ,)
DAY_MS = 86_400_000


@dataclass(frozen=True)
class Case:
    """A workload, the setup of the broker that it goes to, its figures, and how it is measured."""

    key: str
    name: str
    workload: Workload
    figures: tuple[Figure, ...]
    setup: Setup = PLAIN
    measure: Method = methods.timed
    kinds: tuple[str, ...] = KINDS
    has_echo: bool = False
    """Whether the echo server can stand for what the system does of it."""

    @property
    def all_kinds(self) -> tuple[str, ...]:
        """Return the kinds of servers that it is run on."""
        return (*self.kinds, ECHO) if self.has_echo else self.kinds


def _send(connections: int, under_way: int, size: int = 1024, **more: Any) -> Workload:
    given: dict[str, Any] = {"kind": LoadKind.PRODUCE, "topic": f"send-{size}", **more}
    return Workload(connections=connections, under_way=under_way, size=size, **given)


def _keyed(connections: int, under_way: int, **more: Any) -> Workload:
    return _send(connections, under_way, has_keys=True, **more)


CASES = [
    Case(
        "64x1",
        "send 1 KiB + keys, 64×1",
        _keyed(64, 1),
        (per_cpu(5), rate(2.5), latency("p99")),
        has_echo=True,
    ),
    Case("500x1", "send 1 KiB + keys, 500×1", _keyed(500, 1), (per_cpu(4), rate(2)), has_echo=True),
    Case(
        "binary",
        "send 1 KiB, 64×1, binary header",
        _send(64, 1, is_binary=True),
        (per_cpu(5), rate(2.5)),
        has_echo=True,
    ),
    Case("64x16", "send 1 KiB + keys, 64×16", _keyed(64, 16), (per_cpu(8), rate(4)), has_echo=True),
    Case(
        "slow",
        "send 1 KiB + keys, 2,000/s over 200 connections",
        _keyed(200, 16, rate=2_000.0),
        (per_cpu(5), latency("p99")),
        has_echo=True,
    ),
    Case(
        "idle",
        "2,000/s over 50 connections beside 5,000 idle ones",
        _keyed(50, 16, rate=2_000.0, idle=5_000),
        (per_cpu(5), IDLE_KIB),
    ),
    Case(
        "64x64",
        "send 1 KiB, 64×64",
        _send(64, 64),
        (per_cpu(10), rate(5), latency("p99")),
        has_echo=True,
    ),
    Case(
        "batch",
        "send 1 KiB, batches of 32, 8×4",
        _send(8, 4, batch=32),
        (per_cpu(5), rate()),
        has_echo=True,
    ),
    Case(
        "one",
        "send 1 KiB, 1×1",
        _send(1, 1),
        (latency("p50", 1), latency("p99", 1), rate()),
        has_echo=True,
    ),
    Case(
        "pull",
        "pull 1 KiB, catching up, 8×1",
        Workload(kind=LoadKind.CONSUME, topic=BACKLOG_TOPIC, connections=8, under_way=1, is_repeated=True),
        (per_cpu(3), rate()),
        has_echo=True,
    ),
    Case(
        "held",
        "held pulls woken, 64 consumers, 5,000/s",
        Workload(
            kind=LoadKind.ROUNDTRIP,
            topic="woken",
            connections=8,
            under_way=256,
            queues=64,
            readers=64,
            rate=5_000.0,
        ),
        (per_cpu(5), latency("delivery_p99", 1)),
    ),
    Case(
        "trip",
        "send to arrival 1 KiB at 5,000/s",
        Workload(kind=LoadKind.ROUNDTRIP, topic="trip", connections=4, under_way=256, rate=5_000.0),
        (latency("delivery_p50"), latency("delivery_p99", 1)),
    ),
    Case(
        "transactions",
        "transactions (half and commit), 8×16",
        Workload(kind=LoadKind.TRANSACTION, topic="paid", connections=8, under_way=16, size=100),
        (per_cpu(4), rate(2)),
        measure=methods.each_makes_one,
    ),
    Case(
        "delay",
        "delay level 3, 64×16, accepted and delivered",
        _send(64, 16, topic="delayed", properties="DELAY\x013"),
        (per_cpu(4), rate()),
        measure=methods.until_delivered,
    ),
    Case(
        "timers",
        "timed messages, accepted, 64×16",
        _send(64, 16, 128, topic="timers", properties=f"TIMER_DELAY_MS\x01{DAY_MS}"),
        (per_cpu(60_000, Bound.LEAST),),
        kinds=OURS_ONLY,
    ),
    Case(
        "send-back",
        "send-back and second delivery, 8×16",
        Workload(kind=LoadKind.SEND_BACK, topic=BACKLOG_TOPIC, connections=8, under_way=16),
        (per_cpu(4), rate()),
        measure=methods.until_delivered,
    ),
    Case(
        "p99",
        "send 1 KiB at 10,000/s over 64 connections",
        _send(64, 64, rate=10_000.0),
        (latency("p50"), latency("p99", 2), latency("p99.9")),
    ),
    Case(
        "p99-70",
        "send 1 KiB + keys at 70 % of the broker's own maximum, 64 connections",
        _keyed(64, 64),
        (latency("p99", 1), rate()),
        measure=methods.below_maximum,
    ),
    Case(
        "flush",
        "send 1 KiB, synchronous flush, 8×64",
        _send(8, 64),
        (rate(4), latency("p99", 1), per_cpu()),
        setup=FLUSHED,
    ),
    Case(
        "access",
        "access control on, send 1 KiB, 64×16",
        _send(64, 16, client=ACCOUNT),
        (per_cpu(5), rate()),
        setup=GUARDED,
    ),
    Case(
        "tls",
        "TLS, send 1 KiB + keys, 64×16",
        _keyed(64, 16, client=PLAIN_TLS),
        (per_cpu(3), rate()),
        setup=ENCRYPTED,
    ),
    Case(
        "async-64x1",
        "ASYNC_MASTER + slave, 64×1",
        _send(64, 1),
        (per_cpu(), rate()),
        setup=ASYNC_PAIR,
        measure=methods.until_copied,
    ),
    Case(
        "async-64x64",
        "ASYNC_MASTER + slave, 64×64",
        _send(64, 64),
        (per_cpu(), rate()),
        setup=ASYNC_PAIR,
        measure=methods.until_copied,
    ),
    Case(
        "sync-64x1",
        "SYNC_MASTER + slave, 64×1",
        _send(64, 1),
        (per_cpu(4), rate()),
        setup=SYNC_PAIR,
        measure=methods.until_copied,
    ),
    Case(
        "sync-64x64",
        "SYNC_MASTER + slave, 64×64",
        _send(64, 64),
        (per_cpu(4), rate()),
        setup=SYNC_PAIR,
        measure=methods.until_copied,
    ),
]
#: What a figure of one case is beside that of another: name, the cases' keys, and the figure.
COSTS = [
    ("synchronous beside asynchronous replication, 64×1", "async-64x1", "sync-64x1", SYNC_COST),
    ("synchronous beside asynchronous replication, 64×64", "async-64x64", "sync-64x64", SYNC_COST),
]
#: Our Python client beside Java's, on our broker: the kind of work, and the goal.
CLIENT_WORKS = {
    "async": ("Python client beside Java's: asynchronous sends, 256 under way", per_client_cpu(1)),
    "threads": ("Python client beside Java's: blocking sends on 64 threads", per_client_cpu(1)),
    "push": ("Python client beside Java's: push consumer", per_client_cpu(1.5)),
}
#: Cases that are no workload on a warm broker.
OTHERS = {
    "start": "start to first acknowledged send",
    "memory": "resident memory",
    "topics": "10,000 topics",
    "clients": "the Python client beside Java's",
}
KEYS = [*(case.key for case in CASES), *OTHERS]
#: Which of the kinds a run has unless it is asked for more.
BESIDE = (APACHE_4, PYROMQ)
BESIDE_5 = (APACHE_4, APACHE_5, PYROMQ)


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
