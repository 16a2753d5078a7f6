"""What is measured at the door of 5.x: the load programs, their words, and the goals."""

from dataclasses import dataclass

from beside.figures import APACHE_5, PYROMQ, Bound, Figure, latency, per_cpu, rate

SIZE, QUEUES = 1024, 8
#: A rate that Apache's proxy bears on two cores that it shares with its clients, with room to spare.
FIXED_RATE = 1_000
IDLE_CONNECTIONS = 10_000
START_S = Figure("seconds", 1.0, "s", bound=Bound.MOST)
IDLE_MIB = Figure("mib", 40.0, "MiB", write=lambda mib: f"{mib:.1f}", bound=Bound.MOST)
CLOSED_MIB = Figure("mib", None, "MiB", write=lambda mib: f"{mib:.1f}", bound=Bound.MOST)
CONNECTION_KIB = Figure(
    "idle_kib", 20.0, "KiB for an idle connection", write=lambda kib: f"{kib:.1f}", bound=Bound.MOST
)
GO, JAVA_SDK = "go", "java"


@dataclass(frozen=True)
class DoorCase:
    """One load on one broker after the other."""

    key: str
    name: str
    figures: tuple[Figure, ...]
    words: tuple[str, ...]
    """What the load program is told: the Go program's flags, or the Java program's mode."""
    program: str = GO
    takes: bool = False
    """It takes messages that were stored before, so many as its kind of broker is given."""
    is_remoting: bool = False


def _go(mode: str, connections: int, under_way: int, *more: str) -> tuple[str, ...]:
    shape = ("-connections", str(connections), "-under-way", str(under_way))
    return ("-mode", mode, *shape, "-size", str(SIZE), *more)


CASES = (
    DoorCase("send", "gRPC: send 1 KiB, 8×8", (per_cpu(6.0), rate(), latency("p99")), _go("send", 8, 8)),
    DoorCase("send-one", "gRPC: send 1 KiB, 1×64", (per_cpu(6.0), rate()), _go("send", 1, 64)),
    DoorCase(
        "send-rate",
        f"gRPC: send 1 KiB at {FIXED_RATE:,}/s over 8 connections",
        (latency("p50"), latency("p99", 2.0), per_cpu()),
        _go("send", 8, 1, "-rate", str(FIXED_RATE)),
    ),
    DoorCase(
        "receive",
        "gRPC: receive 32 × 1 KiB, one acknowledgement for all, 8×1",
        (per_cpu(6.0), rate()),
        _go("receive", 8, 1, "-ack", "batch"),
        takes=True,
    ),
    DoorCase(
        "receive-each",
        "gRPC: receive 32 × 1 KiB, each acknowledged by itself, 8×1",
        (per_cpu(6.0), rate()),
        _go("receive", 8, 1, "-ack", "each"),
        takes=True,
    ),
    DoorCase(
        "pop",
        "POP over remoting: pop 32 × 1 KiB, each acknowledged by itself, 8×1",
        (per_cpu(3.0), rate()),
        _go("pop", 8, 1),
        takes=True,
        is_remoting=True,
    ),
    DoorCase(
        "java-send",
        "Java SDK 5.1.0 with TLS: send 1 KiB, 64 under way",
        (per_cpu(6.0), rate()),
        ("send",),
        program=JAVA_SDK,
    ),
    DoorCase(
        "java-receive",
        "Java SDK 5.1.0 with TLS: simple consumer, 8 receives, each acknowledged",
        (per_cpu(6.0), rate()),
        ("receive",),
        program=JAVA_SDK,
        takes=True,
    ),
)
#: Measured once on a broker of ours without what is compiled, too.
PLAIN_CASES = ("send", "receive", "pop")
KEYS = [*(case.key for case in CASES), "start", "memory", "idle", "plain"]


@dataclass(frozen=True)
class DoorPace:
    """How long everything takes, and how much of it."""

    rounds: int
    warm_s: float
    run_s: float
    taken: dict[str, int]
    """How many messages a consumer takes of each kind of broker."""
    jvm_warm_s: float
    java_warm_s: float
    """The Java SDK's program, which is a JVM of its own."""
    starts: int
    idle: int
    quiet_wait_s: float
    touched_bytes: int


FULL = DoorPace(
    rounds=3,
    warm_s=0.4,
    run_s=1.6,
    taken={APACHE_5: 12_000, PYROMQ: 48_000},
    jvm_warm_s=12.0,
    java_warm_s=3.0,
    starts=2,
    idle=IDLE_CONNECTIONS,
    quiet_wait_s=0.6,
    touched_bytes=2 * 2**30,
)
QUICK = DoorPace(
    rounds=1,
    warm_s=0.3,
    run_s=1.0,
    taken={APACHE_5: 6_000, PYROMQ: 30_000},
    jvm_warm_s=5.0,
    java_warm_s=2.0,
    starts=1,
    idle=1_000,
    quiet_wait_s=0.4,
    touched_bytes=2**30,
)
