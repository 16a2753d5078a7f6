"""Client programs on one broker, in turn: ours, Java's, the C++ wheel's; each measures itself."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from harness.toolchains import Unavailable, cpp_client, java_classpath, tool

from beside.figures import PYROMQ
from beside.servers import Stage, first_send
from pyromq import Message
from pyromq.aio import Producer

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / "bench" / "clients"
OURS, OURS_ASYNC, JAVA, CPP = "PyroMQ", "PyroMQ, asyncio", "Java 4.9.8", "C++ wheel 0.4.4"
BATCH = 200
RUN_TIMEOUT_S = 300


@dataclass(frozen=True)
class ClientCase:
    """One client at one kind of work; `mode` is what its program calls that."""

    work: str
    client: str
    mode: str


CASES = (
    ClientCase("sync", OURS, "sync"),
    ClientCase("sync", JAVA, "sync"),
    ClientCase("sync", CPP, "sync"),
    ClientCase("threads", OURS, "threads"),
    ClientCase("threads", JAVA, "threads"),
    ClientCase("async", OURS_ASYNC, "async"),
    ClientCase("async", JAVA, "async"),
    ClientCase("async", CPP, "async"),
    ClientCase("push", OURS, "push"),
    ClientCase("push", OURS_ASYNC, "push_async"),
    ClientCase("push", JAVA, "push"),
    ClientCase("push", CPP, "push"),
)


@dataclass(frozen=True)
class ClientFigure:
    """What a client did."""

    work: str
    client: str
    per_second: float
    per_cpu_second: float


@dataclass(frozen=True)
class ClientPace:
    """How long it takes."""

    rounds: int
    warm_s: float
    run_s: float
    backlog: int


def commands(folder: Path, clients: Collection[str]) -> dict[str, list[str]]:
    """Return how each client's program is run; one that cannot be had is left out, and it is said why."""
    ours = [sys.executable, str(CLIENTS / "ours.py")]
    found = {name: ours for name in (OURS, OURS_ASYNC) if name in clients}
    try:
        java = [tool("java"), "-Xmx512m", f"-Duser.home={folder}", "-cp", java_classpath("client-4.9.8")]
        found[JAVA] = [*java, str(CLIENTS / "JavaClient.java")]
    except Unavailable as reason:
        print(f"without {JAVA}: {reason}")
    try:
        if CPP in clients:
            found[CPP] = [cpp_client()[0], str(CLIENTS / "cpp_wheel.py")]
    except Unavailable as reason:
        print(f"without {CPP}: {reason}")
    return found


async def fill(name_server: str, topic: str, count: int, size: int) -> None:
    """Send what consumers will read."""
    batch = [Message(topic, b"x" * size) for _ in range(BATCH)]
    async with Producer("bench_filler", name_server) as producer:
        for _ in range(count // BATCH):
            await producer.send_batch(batch)


def run(
    command: list[str], case: ClientCase, name_server: str, size: int, pace: ClientPace, folder: Path
) -> ClientFigure | None:
    """Let one client work, and return what it says of itself."""
    topic = "backlog" if case.work == "push" else case.work
    words = [name_server, case.mode, topic, str(size), str(pace.warm_s), str(pace.run_s), str(pace.backlog)]
    ended = subprocess.run(
        [*command, *words],
        cwd=folder,
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    if not lines:
        print(f"{case.client} {case.work}: no result (status {ended.returncode})\n{ended.stderr[-2000:]}")
        return None
    said = json.loads(lines[-1])
    return ClientFigure(
        case.work, case.client, said["messages"] / said["seconds"], said["messages"] / said["cpu_seconds"]
    )


def measure_clients(
    folder: Path,
    stage: Stage,
    pace: ClientPace,
    *,
    works: Collection[str],
    clients: Collection[str],
    size: int = 128,
) -> list[ClientFigure]:
    """Start a broker of ours, and let the clients take turns; return the medians."""
    runs: dict[ClientCase, list[ClientFigure]] = {}
    with ExitStack() as closing:
        programs = commands(folder, clients)
        broker = stage.broker(PYROMQ)
        closing.callback(broker.stop)
        first_send(broker)
        if "push" in works:
            asyncio.run(fill(broker.name_server, "backlog", pace.backlog, size))
        for turn in range(pace.rounds):
            for case in CASES:
                if case.client not in programs or case.work not in works:
                    continue
                figure = run(programs[case.client], case, broker.name_server, size, pace, folder)
                if figure is not None:
                    runs.setdefault(case, []).append(figure)
                    print(
                        f"  round {turn + 1}: {case.work} {case.client}: {figure.per_second:,.0f}/s, "
                        f"{figure.per_cpu_second:,.0f} a CPU-second",
                        flush=True,
                    )
    return [
        ClientFigure(
            case.work,
            case.client,
            median(figure.per_second for figure in figures),
            median(figure.per_cpu_second for figure in figures),
        )
        for case, figures in runs.items()
    ]
