"""The load programs of the door, and one run of one of them."""

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.toolchains import PROGRAMS, built, classpath_of, java_classes, tool

from beside.door_cases import GO, QUEUES, SIZE, DoorCase, DoorPace
from beside.door_servers import DoorBroker, prepare
from beside.methods import Run
from beside.quiet import busy_s, wait_for_quiet
from beside.servers import forget_old_files, target_on
from pyromq.bench.bench_run import run_on
from pyromq.bench.process import usage_of
from pyromq.bench.workload import LoadKind, Workload
from pyromq.errors import PyroError

CLIENTS = Path(__file__).resolve().parents[1] / "clients"
RUN_TIMEOUT_S = 180
JAVA_FLAGS = ["-Xms256m", "-Xmx256m", "-XX:+UseSerialGC"]
#: Stored at once when a backlog is made.
FILL_BATCH = 32


@dataclass(frozen=True)
class Programs:
    """How the load programs are started."""

    go: list[str]
    java: list[str]

    def command(self, case: DoorCase, broker: DoorBroker, topic: str, pace: DoorPace) -> list[str]:
        """Return a case's command on a broker."""
        count = pace.taken[broker.kind]
        if case.program == GO:
            address = broker.address if case.is_remoting else broker.door
            words = ["-address", address, "-topic", topic, "-group", f"group-{topic}", "-broker", broker.name]
            times = ["-warm", str(pace.warm_s), "-seconds", str(pace.run_s), "-count", str(count)]
            return [*self.go, *case.words, *words, *times]
        sizes = [str(SIZE), str(pace.java_warm_s), str(pace.run_s), str(count)]
        return [*self.java, *case.words, broker.door, topic, f"group-{topic}", *sizes]


def go_program() -> list[str]:
    """Return the command of the Go program, built once."""
    source = CLIENTS / "door"

    def build(target: Path) -> None:
        command = ["go", "build", "-o", str(target / "door"), "."]
        subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)

    parts = [*sorted(source.glob("*.go")), source / "go.mod", source / "go.sum"]
    return [str(built("bench-door", parts, build) / "door")]


def java_program(home: Path) -> list[str]:
    """Return the command of the Java SDK's program, compiled once."""
    classpath = classpath_of("sdk-5.1.0", PROGRAMS / "sdk" / "java" / "sdk-5.1.0.xml")
    classes = java_classes("bench-door", [CLIENTS / "JavaDoor.java"], classpath)
    return [tool("java"), *JAVA_FLAGS, f"-Duser.home={home}", "-cp", f"{classes}:{classpath}", "JavaDoor"]


def measure(case: DoorCase, broker: DoorBroker, programs: Programs, pace: DoorPace, number: int | str) -> Run:
    """Run a case's load on a broker; return its figures, with what the machine did besides."""
    topic = f"{case.key}-{number}" if case.takes else f"{case.key}-topic"
    if topic not in broker.topics:
        prepare(broker, [topic], [f"group-{topic}"], QUEUES)
        broker.topics.add(topic)
    if case.takes:
        _fill(broker, topic, pace.taken[broker.kind])
    wait_for_quiet(pace.quiet_wait_s)
    record = run_load(programs.command(case, broker, topic, pace), broker)
    record.update(record.pop("latency_us", None) or {})
    forget_old_files(broker)
    return record


def _fill(broker: DoorBroker, topic: str, count: int) -> None:
    fill = Workload(
        kind=LoadKind.PRODUCE,
        topic=topic,
        connections=4,
        under_way=4,
        size=SIZE,
        batch=FILL_BATCH,
        queues=QUEUES,
        # A receiver stops at the count that it was told, and others may hold some of them.
        count=(count + 40 * FILL_BATCH) // FILL_BATCH * FILL_BATCH,
    )
    run_on(target_on(broker, fill), fill)


def run_load(command: list[str], broker: DoorBroker) -> Run:
    """Run a load program to its end, and look at the server between its two lines."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    seen: list[tuple[float, float, float]] = []
    try:
        for line in process.stdout:
            said: dict[str, Any] = json.loads(line)
            if "phase" in said:
                cpu_s = usage_of(broker.pid).cpu_s
                seen.append((cpu_s, busy_s() - cpu_s - usage_of(process.pid).cpu_s, time.monotonic()))
                continue
            (server, others, began), (server_after, others_after, ended) = seen
            said["messages_per_server_cpu_s"] = round(said["messages"] / (server_after - server), 1)
            said["others_cores"] = round(max(others_after - others, 0.0) / (ended - began), 2)
            said["refused"] = said.pop("errors", None) or {}
            process.wait(RUN_TIMEOUT_S)
            return said
    finally:
        process.kill()
        process.wait()
    raise PyroError(f"{' '.join(command[-12:])}: {_first_cause(process.stderr.read())}")


def _first_cause(said: str) -> str:
    """Return the line that says why a program ended: of a Java trace the first cause, else the last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("\t")]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes or lines or ["it said nothing"])[-1][:300]


def first_send_s(programs: Programs, broker: DoorBroker, topic: str) -> None:
    """Send over gRPC until it is acknowledged."""
    words = ["-mode", "first", "-address", broker.door, "-topic", topic, "-size", "100"]
    ended = subprocess.run([*programs.go, *words], timeout=RUN_TIMEOUT_S, capture_output=True, check=False)
    if ended.returncode:
        raise PyroError(f"{broker.kind}: {_first_cause(ended.stderr.decode())}")


def idle_kib(programs: Programs, broker: DoorBroker, count: int, topic: str, mode: str) -> float:
    """Return how much memory each of so many connections takes, which made one call and then do nothing."""
    before = usage_of(broker.pid).private_bytes
    words = ["-mode", mode, "-address", broker.door, "-topic", topic, "-connections", str(count)]
    process = subprocess.Popen(
        [*programs.go, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sys.stderr, text=True
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        for line in process.stdout:
            if "messages" in json.loads(line):
                return round((usage_of(broker.pid).private_bytes - before) / 1024 / count, 2)
    finally:
        process.stdin.close()
        process.wait(60)
    raise PyroError(f"{count} idle connections: the load program ended")
