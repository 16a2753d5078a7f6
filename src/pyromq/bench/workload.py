"""The workload of a run, the counts of one of its processes, and the result of the run."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pyromq.bench.frames import STAMP_BYTES, Queue
from pyromq.bench.histogram import LatencyHistogram
from pyromq.config.settings import ClientSettings
from pyromq.errors import ConfigError

#: Above this share of its cores the generator, not the broker, may be what is measured.
BUSY_SHARE = 0.9
PERCENTILES = (50.0, 90.0, 99.0, 99.9)


class LoadKind(StrEnum):
    """The kind of a measurement."""

    PRODUCE = "produce"
    CONSUME = "consume"
    ROUNDTRIP = "roundtrip"
    DELAY = "delay"
    TRANSACTION = "transaction"
    SEND_BACK = "send-back"

    @property
    def is_followed(self) -> bool:
        """Whether each message is waited for at the other end."""
        return self in (LoadKind.ROUNDTRIP, LoadKind.DELAY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One run: who sends what, how much of it at a time, for how long."""

    kind: LoadKind
    topic: str
    connections: int = 8
    under_way: int = 16
    size: int = 1024
    batch: int = 1
    pull: int = 32
    rate: float | None = None
    warm_up_s: float = 1.0
    duration_s: float = 5.0
    count: int | None = None
    is_repeated: bool = False
    processes: int = 1
    properties: str = ""
    """Properties of each message besides its unique id."""
    delay_s: float = 0.0
    """Seconds by which each message is delayed."""
    level: int = 1
    """The delay level of send-backs."""
    queues: int = 8
    """Queues of the topic, if it is created."""
    readers: int = 0
    """Connections that hold pulls, each its share of the queues; 0: one for each broker and process."""
    idle: int = 0
    """Connections in consumer groups that do nothing besides."""
    has_keys: bool = False
    """Whether each message has a key of its own besides its unique id."""
    is_binary: bool = False
    """Whether headers are binary (RocketMQ's own serializer), not JSON."""
    client: ClientSettings = field(default_factory=ClientSettings)
    """TLS, and the keys that requests are signed with."""

    def check(self) -> None:
        """Raise ConfigError when parts of it contradict one another."""
        if self.processes > self.connections:
            raise ConfigError(
                f"--processes {self.processes}: each needs a connection, and there are {self.connections}"
            )
        if self.count is not None and self.count % self.batch:
            raise ConfigError(f"--count {self.count}: not a multiple of --batch {self.batch}")
        if self.kind.is_followed and self.rate is None:
            raise ConfigError(f"{self.kind} needs --rate: without one it would measure the queue it builds")
        if self.kind.is_followed and self.size < STAMP_BYTES:
            raise ConfigError(f"--size {self.size}: a message carries {STAMP_BYTES} bytes of time")
        if self.client.access_key and self.kind is not LoadKind.PRODUCE:
            raise ConfigError(f"{self.kind} cannot be signed: of all loads only produce can")
        if self.client.access_key and (self.batch > 1 or self.is_binary or self.idle):
            raise ConfigError("signed sends are single messages with JSON headers, without idle connections")


@dataclass(slots=True)
class LoadTally:
    """The counts of one process; `requests` and `deliveries` are those that ended in the measured time."""

    messages: int = 0
    messages_in_all: int = 0
    delivered_in_all: int = 0
    requests: LatencyHistogram = field(default_factory=LatencyHistogram)
    deliveries: LatencyHistogram = field(default_factory=LatencyHistogram)
    refused: dict[int, int] = field(default_factory=dict)
    late_ns: int = 0
    early_ns: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0

    def add(self, other: "LoadTally") -> None:
        """Count what another process did in the same time."""
        self.messages += other.messages
        self.messages_in_all += other.messages_in_all
        self.delivered_in_all += other.delivered_in_all
        self.requests.add(other.requests)
        self.deliveries.add(other.deliveries)
        for code, number in other.refused.items():
            self.refused[code] = self.refused.get(code, 0) + number
        self.late_ns = max(self.late_ns, other.late_ns)
        self.early_ns = max(self.early_ns, other.early_ns)
        self.cpu_s += other.cpu_s
        self.wall_s = max(self.wall_s, other.wall_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The processor time and memory of the server's process during the measurement."""

    cpu_s: float
    rss_bytes: int
    private_bytes: int = 0
    """Resident memory without the files that are mapped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchReport:
    """The result of a run."""

    workload: Workload
    tally: LoadTally
    server: Usage | None = None
    idle_bytes: float | None = None
    """The server's memory for each idle connection; None when there are none, or nobody looked."""

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.tally.messages / self.tally.wall_s if self.tally.wall_s else 0.0

    @property
    def generator_share(self) -> float:
        """The share of its cores that the generator used; 1 is all."""
        return self.tally.cpu_s / (self.tally.wall_s * self.workload.processes) if self.tally.wall_s else 0.0

    @property
    def generator_us(self) -> float:
        """The generator's processor time for each message, in microseconds."""
        return self.tally.cpu_s * 1e6 / self.tally.messages if self.tally.messages else 0.0

    @property
    def is_generator_busy(self) -> bool:
        """Whether the generator may have been the limit."""
        return self.generator_share > BUSY_SHARE

    @property
    def per_cpu_second(self) -> float | None:
        """Messages for each second of the server's processor time; None when nobody looked."""
        return self.tally.messages / self.server.cpu_s if self.server and self.server.cpu_s else None

    def as_record(self) -> dict[str, Any]:
        """Return it for programs."""
        work, tally = self.workload, self.tally
        return {
            "kind": str(work.kind),
            "topic": work.topic,
            "connections": work.connections,
            "under_way": work.under_way,
            "size": work.size,
            "batch": work.batch,
            "rate_wanted": work.rate,
            "processes": work.processes,
            "has_keys": work.has_keys,
            "is_binary": work.is_binary,
            "is_signed": bool(work.client.access_key),
            "is_encrypted": work.client.use_tls,
            "idle": work.idle,
            "idle_bytes": self.idle_bytes and round(self.idle_bytes),
            "seconds": round(tally.wall_s, 3),
            "messages": tally.messages,
            "messages_in_all": tally.messages_in_all,
            "delivered_in_all": tally.delivered_in_all,
            "rate": round(self.rate, 1),
            "refused": {str(code): number for code, number in sorted(tally.refused.items())},
            "latency_us": _latencies(tally.requests),
            "delivery_us": _latencies(tally.deliveries),
            "late_us": tally.late_ns // 1_000,
            "early_us": tally.early_ns // 1_000,
            "delay_s": work.delay_s,
            "generator_share": round(self.generator_share, 3),
            "generator_us_per_message": round(self.generator_us, 3),
            "generator_is_limit": self.is_generator_busy,
            "server_cpu_s": self.server and round(self.server.cpu_s, 3),
            "server_rss_bytes": self.server and self.server.rss_bytes,
            "messages_per_server_cpu_s": self.per_cpu_second and round(self.per_cpu_second, 1),
        }


def _latencies(histogram: LatencyHistogram) -> dict[str, float] | None:
    if not histogram.count:
        return None
    figures = {f"p{percent:g}": round(histogram.percentile(percent), 1) for percent in PERCENTILES}
    return {"mean": round(histogram.mean_us, 1), **figures, "max": float(histogram.highest_us)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The part of a workload that one process carries: its connections' queues, and its part of the total."""

    workload: Workload
    process: int
    queues: dict[str, list[Queue]]
    """For each broker's address the queues that are sent to, in turn."""
    sending: list[str]
    """For each connection that sends the broker's address."""
    reading: list[list[Queue]]
    """For each connection that reads the queues that its slots read."""
    starts: dict[Queue, int]
    positions: dict[str, list[int]]
    """For each broker's address the messages that are sent back."""
    rate: float | None
    requests_max: int | None
