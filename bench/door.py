"""The door of 5.x beside Apache's newest broker with its proxy in one process: gRPC, and POP over remoting.

    .venv/bin/python bench/door.py                       # about 8 minutes; writes results and the page
    .venv/bin/python bench/door.py --quick               # about 2 minutes; one round, only printed
    .venv/bin/python bench/door.py --only send pop       # some cases; only printed
    .venv/bin/python bench/door.py --only idle --add     # into the results and the page of the last run
    .venv/bin/python bench/door.py --only send --ours-only --pure    # ours without the compiled kernel

The load is a Go program on grpc-go (`bench/clients/door`), which also speaks POP over remoting, and the
official Java SDK (`bench/clients/JavaDoor.java`). Both brokers have a gRPC port in their process; while one
is measured the other is stopped. A figure is the median of the rounds, which are taken in turn. The server's
processor time is counted between two lines that the load program prints, and includes all its threads.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/interop"))  # which know how to fetch and start Apache's servers

from beside.door_cases import (  # noqa: E402
    CASES,
    CLOSED_MIB,
    CONNECTION_KIB,
    FULL,
    IDLE_MIB,
    JAVA_SDK,
    KEYS,
    PLAIN_CASES,
    QUEUES,
    QUICK,
    START_S,
    DoorCase,
    DoorPace,
)
from beside.door_loads import Programs, first_send_s, go_program, idle_kib, java_program, measure  # noqa: E402
from beside.door_servers import DoorBroker, DoorStage, prepare  # noqa: E402
from beside.figures import APACHE_5, PYROMQ, Figure, Row, aligned, per_cpu, table_of, verdict_of  # noqa: E402
from beside.measuring import Runs, chosen_runs, quiet_runs  # noqa: E402
from beside.page import put_between  # noqa: E402
from beside.quiet import say, touch_memory, wait_for_quiet  # noqa: E402
from beside.results import machine, where  # noqa: E402
from beside.servers import JVM, SHARED, awake, first_send  # noqa: E402
from harness.toolchains import Unavailable  # noqa: E402

from pyromq.bench.exchanges import allow_files  # noqa: E402
from pyromq.errors import PyroError  # noqa: E402

RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "performance.md"
MARKS = ("<!-- door: begin -->\n", "<!-- door: end -->\n")
BESIDE = (APACHE_5, PYROMQ)
SETTLE_S = 2.0
FEWER = 5
TOPIC = "door"


@dataclass
class DoorFound:
    """All that was measured."""

    runs: dict[str, Runs] = field(default_factory=dict)
    starts_s: dict[str, list[float]] = field(default_factory=dict)
    idle_mib: dict[str, float] = field(default_factory=dict)
    closed_mib: float | None = None
    """Of ours, with the door shut."""
    connection_kib: dict[str, float] = field(default_factory=dict)
    stream_kib: dict[str, float] = field(default_factory=dict)
    plain: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of ours without what is compiled, one run of a case."""
    failures: list[str] = field(default_factory=list)

    def add(self, other: "DoorFound") -> None:
        """Take over what another run measured."""
        for name, values in vars(other).items():
            if name == "failures":
                self.failures += values
            elif name == "closed_mib":
                self.closed_mib = self.closed_mib if values is None else values
            else:
                getattr(self, name).update(values)


def last_found() -> DoorFound:
    """Return what the last run measured that was written down; nothing if there is none."""
    path = RESULTS / "door.json"
    if not path.exists():
        return DoorFound()
    record = json.loads(path.read_text())
    return DoorFound(**{name: record[name] for name in vars(DoorFound())})


class DoorBench:
    """The brokers, and what is measured on them."""

    def __init__(
        self, stage: DoorStage, closing: ExitStack, programs: Programs, pace: DoorPace, kinds: Sequence[str]
    ) -> None:
        self._stage, self._closing, self._programs, self._pace = stage, closing, programs, pace
        self._kinds = kinds
        self.found = DoorFound()

    def started(self, kind: str, *, is_open: bool = True, is_plain: bool = False) -> DoorBroker:
        """Return a broker that takes sends, with the topic that all programs know."""
        broker = self._stage.with_door(kind, is_open=is_open, is_plain=is_plain)
        self._closing.callback(broker.stop)
        first_send(broker)
        prepare(broker, [TOPIC], [TOPIC], QUEUES)
        if is_open:
            first_send_s(self._programs, broker, TOPIC)
        return broker

    def measure_starts(self) -> None:
        """Measure from the start of a broker that knows its topic to the first send over gRPC."""
        for kind in self._kinds:
            broker = self.started(kind)
            for _ in range(self._pace.starts):
                self._stage.end(broker)
                wait_for_quiet(self._pace.quiet_wait_s)
                began_at = time.monotonic()
                self._stage.again(broker)
                first_send_s(self._programs, broker, TOPIC)
                took = time.monotonic() - began_at
                self.found.starts_s.setdefault(kind, []).append(round(took, 3))
                say(f"start to first acknowledged send over gRPC: {kind} {took:.2f} s")
            broker.stop()

    def measure_memory(self) -> None:
        """Measure what an idle broker takes, ours also with the door shut."""
        ways = [(kind, True) for kind in self._kinds]
        if PYROMQ in self._kinds:
            ways.append((PYROMQ, False))
        for kind, is_open in ways:
            broker = self.started(kind, is_open=is_open)
            time.sleep(SETTLE_S)
            mib = broker.private_mib
            say(f"idle memory: {kind} {mib} MiB{'' if is_open else ', the door shut'}")
            if is_open:
                self.found.idle_mib[kind] = mib
            else:
                self.found.closed_mib = mib
            broker.stop()

    def measure_idle(self) -> None:
        """Measure connections that do nothing: some that made one call, some with a stream that stays."""
        allow_files(self._pace.idle + 1_000)
        for kind in self._kinds:
            for mode, into in (("idle", self.found.connection_kib), ("streams", self.found.stream_kib)):
                broker = self.started(kind)
                time.sleep(SETTLE_S)
                # Those of the JVM take long to come, and each is as large as the last.
                count = self._pace.idle if kind == PYROMQ else self._pace.idle // FEWER
                try:
                    into[kind] = idle_kib(self._programs, broker, count, TOPIC, mode)
                    say(f"{count:,} connections, {mode}: {kind} {into[kind]:.1f} KiB each")
                except PyroError as error:
                    self.found.failures.append(f"{mode} on {kind}: {error}")
                    say(f"{count:,} connections, {mode}: {kind} FAILED: {error}")
                broker.stop()

    def measure_cases(self, cases: Sequence[DoorCase]) -> None:
        """Run each case on one broker after the other, round after round."""
        brokers = {kind: self.started(kind) for kind in self._kinds}
        self._warm(brokers, cases)
        for number in range(self._pace.rounds):
            for case in cases:
                kinds = self._kinds[:: 1 if number % 2 else -1]
                for kind in kinds:
                    with awake(brokers[kind], brokers.values()):
                        self._measure(case, brokers[kind], number)
        for broker in brokers.values():
            broker.stop()

    def measure_plain(self) -> None:
        """Run some cases on a broker of ours without what is compiled; it has no goal."""
        broker = self.started(PYROMQ, is_plain=True)
        pace = replace(self._pace, taken={PYROMQ: self._pace.taken[APACHE_5]})
        for case in CASES:
            if case.key in PLAIN_CASES:
                record = measure(case, broker, self._programs, pace, "plain")
                self.found.plain[case.key] = record
                say(f"plain version: {case.key} {record['messages_per_server_cpu_s']:,.0f} a CPU-second")
        broker.stop()

    def _warm(self, brokers: dict[str, DoorBroker], cases: Sequence[DoorCase]) -> None:
        for kind, broker in brokers.items():
            # The JVM compiles what it has seen for a while; ours needs only its files.
            seconds = (self._pace.jvm_warm_s if kind == APACHE_5 else 1.0) / len(cases)
            part = replace(self._pace, warm_s=0.0, run_s=max(seconds, 0.3), quiet_wait_s=0.0)
            with awake(broker, brokers.values()):
                for case in cases:
                    try:
                        measure(case, broker, self._programs, part, "warm")
                    except PyroError as error:
                        say(f"warm: {case.key} {kind}: {error}")
            say(f"warm: {kind}")

    def _measure(self, case: DoorCase, broker: DoorBroker, number: int) -> None:
        kind = broker.kind
        try:
            record = measure(case, broker, self._programs, self._pace, number)
        except (PyroError, TimeoutError) as error:
            self.found.failures.append(f"{case.key} on {kind}: {error}")
            say(f"{number + 1}/{self._pace.rounds} {case.key:12} {kind:10} FAILED: {error}")
            return
        self.found.runs.setdefault(case.key, {}).setdefault(kind, []).append(record)
        figures = ", ".join(f"{figure.write(record[figure.name])} {figure.label}" for figure in case.figures)
        refused = f", refused {record['refused']}" if record["refused"] else ""
        say(
            f"{number + 1}/{self._pace.rounds} {case.key:12} {kind:10} {figures}{refused}"
            f" (others {record['others_cores']:.2f} cores)"
        )


def rows_of(found: DoorFound, pace: DoorPace) -> list[Row]:
    """Return the table's lines."""
    rows = []
    for case in CASES:
        runs = found.runs.get(case.key)
        if not runs:
            continue
        is_quiet = all(len(quiet_runs(some)) >= min(2, len(some)) for some in runs.values())
        for figure in case.figures:
            values = {kind: _middle(chosen_runs(some), figure) for kind, some in runs.items()}
            rows.append(Row(case.name, figure, values, is_quiet, rival=APACHE_5))
    for case in CASES:
        if case.key in found.plain:
            figure = per_cpu()
            name = f"{case.name}; not compiled (PYROMQ_PURE=1)"
            rows.append(Row(name, figure, {PYROMQ: found.plain[case.key][figure.name]}))
    if found.starts_s:
        starts: dict[str, float | None] = {kind: median(some) for kind, some in found.starts_s.items()}
        rows.append(Row("start to first acknowledged send over gRPC", START_S, starts, rival=APACHE_5))
    if found.idle_mib:
        rows.append(Row("resident memory, idle, the door open", IDLE_MIB, {**found.idle_mib}, rival=APACHE_5))
        rows.append(Row("resident memory, idle, the door shut", CLOSED_MIB, {PYROMQ: found.closed_mib}))
    for what, of in (
        ("each made one call", found.connection_kib),
        ("a Telemetry stream on each", found.stream_kib),
    ):
        if of:
            rows.append(
                Row(
                    f"{pace.idle:,} idle gRPC connections (Apache's: {pace.idle // FEWER:,}), {what}",
                    CONNECTION_KIB,
                    {**of},
                    rival=APACHE_5,
                )
            )
    return rows


def _middle(records: Sequence[dict[str, float]], figure: Figure) -> float | None:
    values = [float(record[figure.name]) for record in records if record.get(figure.name)]
    return median(values) if values else None


def write_all(found: DoorFound, rows: list[Row], pace: DoorPace) -> None:
    """Write everything for programs, and the page's table."""
    seen, at = machine(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    record = {
        "at": at,
        "machine": seen,
        "settings": {**SHARED, "jvm": JVM, "pace": asdict(pace)},
        "rows": [row.as_record() for row in rows],
        **asdict(found),
    }
    (RESULTS / "door.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    said = "".join(f"\nNot measured: {failure}.\n" for failure in found.failures)
    put_between(PAGE, MARKS, f"{where(seen, at)}\n\n{table_of(rows)}\n{verdict_of(rows)}.\n{said}")


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one short round; writes nothing")
    parser.add_argument("--only", nargs="+", choices=KEYS, metavar="CASE", help=f"some of: {', '.join(KEYS)}")
    parser.add_argument("--rounds", type=int, help="how often each case is run")
    parser.add_argument("--ours-only", action="store_true", help="without Apache's broker")
    parser.add_argument("--apaches-only", action="store_true", help="without ours")
    parser.add_argument("--add", action="store_true", help="put these figures to those of the last run")
    parser.add_argument("--pure", action="store_true", help="ours without the compiled kernel")
    asked = parser.parse_args()
    if asked.pure:
        os.environ["PYROMQ_PURE"] = "1"
    pace = replace(QUICK if asked.quick else FULL, **({"rounds": asked.rounds} if asked.rounds else {}))
    wanted, began_at = asked.only or KEYS, time.monotonic()
    cases = [case for case in CASES if case.key in wanted]
    kinds = (PYROMQ,) if asked.ours_only else (APACHE_5,) if asked.apaches_only else BESIDE
    try:
        with tempfile.TemporaryDirectory(prefix="door-") as folder, ExitStack() as closing:
            has_java = any(case.program == JAVA_SDK for case in cases)
            programs = Programs(go_program(), java_program(Path(folder)) if has_java else [])
            touch_memory(pace.touched_bytes)
            bench = DoorBench(DoorStage(Path(folder), closing), closing, programs, pace, kinds)
            parts = {
                "start": bench.measure_starts,
                "memory": bench.measure_memory,
                "idle": bench.measure_idle,
                **({"plain": bench.measure_plain} if PYROMQ in kinds else {}),
            }
            for key, part in parts.items():
                if key in wanted:
                    part()
            if cases:
                bench.measure_cases(cases)
    except (Unavailable, PyroError) as error:
        raise SystemExit(f"door: {error}") from error
    rows = rows_of(bench.found, pace)
    print(f"\n{aligned(rows)}\n\n{verdict_of(rows)}")
    for failure in bench.found.failures:
        print(f"not measured: {failure}")
    print(f"took {time.monotonic() - began_at:.0f} s")
    if asked.add:
        found = last_found()
        found.add(bench.found)
        write_all(found, rows_of(found, pace), pace)
    elif not (asked.only or asked.quick or asked.ours_only or asked.apaches_only or asked.pure):
        write_all(bench.found, rows, pace)


if __name__ == "__main__":
    main()
