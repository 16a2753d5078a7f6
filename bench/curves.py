"""How speed and cost change with connections, queues, message size, stored messages, and brokers.

    .venv/bin/python bench/curves.py                  # at most 10 minutes; writes results, charts, the page
    .venv/bin/python bench/curves.py --quick          # about 3 minutes: fewer points, one short round
    .venv/bin/python bench/curves.py --only stored --deep    # prints; up to 10⁸ stored messages

PyroMQ beside Apache 4.9 and the echo server, with the generator, the settings and the precautions of
`versus.py`: one broker is awake at a time, and the kinds take turns at each point. Lines that bend are
limits.
Apache has no points beyond 1,000 queues, each of which it maps, nor beyond 10⁶ stored messages, which take it
too long here. 10⁸ stored messages are 20 GB and some minutes.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/interop"))  # which know how to fetch and start Apache's servers

from beside.core_brokers import measure_brokers  # noqa: E402
from beside.figures import APACHE_4, ECHO, PYROMQ, TITLES  # noqa: E402
from beside.methods import Run, one_run  # noqa: E402
from beside.page import put_between  # noqa: E402
from beside.quiet import say, touch_memory  # noqa: E402
from beside.results import machine, where  # noqa: E402
from beside.servers import Broker, Stage, awake, end_of, first_send, queues_on, target_on  # noqa: E402
from harness.toolchains import Unavailable  # noqa: E402

from pyromq.bench.bench_run import run_on, target_of  # noqa: E402
from pyromq.bench.workload import LoadKind, Workload  # noqa: E402
from pyromq.errors import PyroError  # noqa: E402

RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "performance.md"
MARKS = ("<!-- curves: begin -->\n", "<!-- curves: end -->\n")
ALL = (APACHE_4, PYROMQ, ECHO)
BESIDE = (APACHE_4, PYROMQ)
QUEUES_OF_TOPIC = 8
CONNECTIONS_A_SECOND = 2_500
#: The largest body: a frame has room for a header besides.
BODY_MAX = 4 * 2**20 - 4096


@dataclass(frozen=True)
class Pace:
    """How much is measured, and how long."""

    rounds: int
    warm_up_s: float
    measured_s: float
    jvm_warm_up_s: float
    touched_bytes: int
    skips: int
    """Of several points in a row that are measured, every so many; the first and the last always."""


FULL = Pace(rounds=2, warm_up_s=0.3, measured_s=1.0, jvm_warm_up_s=15.0, touched_bytes=10 * 2**30, skips=1)
QUICK = Pace(rounds=1, warm_up_s=0.2, measured_s=0.4, jvm_warm_up_s=3.0, touched_bytes=2 * 2**30, skips=3)


@dataclass(frozen=True)
class Point:
    """What is measured at one number."""

    at: int
    workload: Workload
    kinds: Sequence[str] = ALL
    queues: int = 0
    """Spread over topics with eight queues each; 0: the workload's own topic."""
    stored: int = 0
    """So many messages are in the topic before."""


@dataclass(frozen=True)
class Curve:
    """Points along one axis."""

    key: str
    title: str
    axis: str
    points: tuple[Point, ...]


def _send(connections: int, under_way: int, size: int = 1024, **more: Any) -> Workload:
    given: dict[str, Any] = {"kind": LoadKind.PRODUCE, "topic": f"curve-{size}", **more}
    return Workload(connections=connections, under_way=under_way, size=size, **given)


def _stored(count: int) -> Point:
    kinds = BESIDE if count <= 10**6 else (PYROMQ,)
    return Point(count, _send(8, 16, 128, topic="stored"), kinds, stored=count)


CURVES = (
    Curve(
        "connections",
        "Connections, one request in flight on each, 1 KiB with a key",
        "connections",
        tuple(Point(n, _send(n, 1, has_keys=True)) for n in (1, 4, 16, 64, 250, 1_000, 5_000)),
    ),
    Curve(
        "queues",
        "Queues that are written to in turn, 128 bytes, 16 connections with 64 in flight",
        "queues",
        tuple(
            Point(n, _send(16, 64, 128), BESIDE if n <= 1_000 else (PYROMQ,), queues=n)
            for n in (1, 8, 100, 1_000, 10_000, 80_000)
        ),
    ),
    Curve(
        "size",
        "Bytes of a message, 8 connections with 2 in flight",
        "bytes of a body",
        tuple(Point(n, _send(8, 2, n)) for n in (100, 1_024, 10_240, 102_400, 2**20, BODY_MAX)),
    ),
    Curve(
        "stored",
        "Messages that are stored before, 128 bytes, 8 connections with 16 in flight",
        "stored messages",
        tuple(_stored(10**n) for n in (5, 6, 7)),
    ),
)
DEEP = Curve("stored", CURVES[3].title, CURVES[3].axis, (*CURVES[3].points, _stored(10**8)))
BROKERS = "brokers"
KEYS = [*(curve.key for curve in CURVES), BROKERS]
#: What is drawn of each: the figure's name in a record, and what it is called.
PANELS = (("rate", "messages/s"), ("us", "server CPU, µs a message"))

Found = dict[tuple[int, str], list[Run]]


class Curves:
    """The brokers, and the runs on them."""

    def __init__(self, stage: Stage, closing: ExitStack, pace: Pace, kinds: Sequence[str]) -> None:
        self._pace = pace
        self._brokers: dict[str, Broker] = {}
        for kind in kinds:
            broker = self._brokers[kind] = stage.broker(kind)
            closing.callback(broker.stop)
            first_send(broker)
            warm = pace.jvm_warm_up_s if kind == APACHE_4 else 0.5
            with awake(broker, self._brokers.values()):
                one_run(broker, replace(_send(64, 4, has_keys=True), warm_up_s=0.0, duration_s=warm))
            say(f"warm: {kind}")

    def measure(self, curve: Curve) -> Found:
        """Return the runs of each point, by its number and the kind of broker."""
        found: Found = {}
        for point in _thinned(curve.points, self._pace.skips):
            for number in range(self._pace.rounds):
                kinds = [kind for kind in point.kinds if kind in self._brokers]
                for kind in kinds[:: 1 if number % 2 else -1]:
                    self._measure(curve, point, kind, found.setdefault((point.at, kind), []))
        return found

    def _measure(self, curve: Curve, point: Point, kind: str, into: list[Run]) -> None:
        broker, pace = self._brokers[kind], self._pace
        # Thousands of connections need a while until each had its turn.
        warm_up_s = max(pace.warm_up_s, point.workload.connections / CONNECTIONS_A_SECOND)
        workload = replace(point.workload, warm_up_s=warm_up_s, duration_s=pace.measured_s)
        try:
            with awake(broker, self._brokers.values()):
                if point.stored and kind != ECHO:
                    _fill(broker, workload, point.stored)
                target = None
                if point.queues and kind != ECHO:
                    target = target_of(queues_on(broker, "curve-queues", point.queues, QUEUES_OF_TOPIC), {})
                    # The first message to a queue makes it.
                    run_on(target, replace(workload, count=point.queues))
                record = one_run(broker, workload, quiet_wait_s=1.0, target=target)
        except (PyroError, TimeoutError) as error:
            say(f"{curve.key} {point.at:,} {kind}: FAILED: {error}")
            return
        record["us"] = 1e6 / record["messages_per_server_cpu_s"]
        into.append(record)
        say(f"{curve.key} {point.at:>10,} {kind:10} {record['rate']:>9,.0f}/s {record['us']:8.2f} µs")


def _fill(broker: Broker, workload: Workload, wanted: int) -> None:
    """Send messages until a topic has so many."""
    batch = 32
    missing = (wanted - end_of(broker, workload.topic)) // batch * batch
    if missing > 0:
        fill = replace(workload, size=64, connections=8, under_way=4, batch=batch, count=missing)
        run_on(target_on(broker, fill), fill)


def _thinned(points: Sequence[Point], skips: int) -> Iterator[Point]:
    for number, point in enumerate(points):
        if number % skips == 0 or number == len(points) - 1:
            yield point


def lines_of(found: Found, figure: str) -> dict[str, list[tuple[float, float]]]:
    """Return for each kind the medians of a figure along the axis."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for (at, kind), runs in found.items():
        if runs:
            lines.setdefault(kind, []).append((at, median(run[figure] for run in runs)))
    return {kind: sorted(lines[kind]) for kind in ALL if kind in lines}


def table_of(curve: Curve, found: Found) -> str:
    """Return a curve as a Markdown table; the last column: our processor time in times the echo server's."""
    rates, costs = (lines_of(found, figure) for figure, _ in PANELS)
    heads = [curve.axis, *(f"{TITLES[kind]}, {label}" for kind in rates for _, label in PANELS)]
    has_echo = ECHO in costs
    rows = [[*heads, *(["CPU, of an echo's"] if has_echo else [])]]
    rows.append(["---:"] * len(rows[0]))
    for at in sorted({at for at, _ in found}):
        cells = [f"{at:,}"]
        for kind in rates:
            rate, cost = dict(rates[kind]).get(at), dict(costs[kind]).get(at)
            cells += ["" if rate is None else f"{rate:,.0f}", "" if cost is None else f"{cost:,.2f}"]
        if has_echo:
            ours, floor = (dict(costs.get(kind, ())).get(at) for kind in (PYROMQ, ECHO))
            cells.append(f"{ours / floor:.2f} ×" if ours and floor else "")
        rows.append(cells)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer points, one short round; writes nothing")
    parser.add_argument(
        "--only", nargs="+", choices=KEYS, metavar="CURVE", help=f"some of: {', '.join(KEYS)}"
    )
    parser.add_argument("--deep", action="store_true", help="up to 10⁸ stored messages")
    parser.add_argument("--ours-only", action="store_true", help="without Apache's broker")
    asked = parser.parse_args()
    pace, wanted = QUICK if asked.quick else FULL, asked.only or KEYS
    curves = [DEEP if asked.deep and curve.key == DEEP.key else curve for curve in CURVES]
    curves = [curve for curve in curves if curve.key in wanted]
    began_at = time.monotonic()
    found: dict[str, Found] = {}
    brokers: dict[str, Any] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="curves-") as folder, ExitStack() as closing:
            touch_memory(pace.touched_bytes)
            if BROKERS in wanted:
                brokers = measure_brokers(Path(folder), pace.rounds, pace.measured_s)
            if curves:
                stage = Stage(Path(folder), closing)
                kinds = [kind for kind in ALL if kind != APACHE_4 or not asked.ours_only]
                measured = Curves(stage, closing, pace, kinds)
                found = {curve.key: measured.measure(curve) for curve in curves}
    except (Unavailable, PyroError) as error:
        raise SystemExit(f"curves: {error}") from error
    tables = {curve.key: f"### {curve.title}\n\n{table_of(curve, found[curve.key])}" for curve in curves}
    if brokers:
        tables[BROKERS] = brokers["table"]
    print("\n" + "\n".join(tables.values()) + f"\ntook {time.monotonic() - began_at:.0f} s")
    if not asked.only and not asked.quick:
        write_all(curves, found, brokers, tables)


def write_all(
    curves: Sequence[Curve], found: dict[str, Found], brokers: dict[str, Any], tables: dict[str, str]
) -> None:
    """Write the results, a picture for each curve, and the page."""
    from beside.lines import draw_panels

    seen, at = machine(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    record = {
        "at": at,
        "machine": seen,
        "curves": {
            key: [{"at": point, "kind": kind, "runs": runs} for (point, kind), runs in runs_of.items()]
            for key, runs_of in found.items()
        },
        "brokers": brokers.get("runs"),
    }
    (RESULTS / "curves.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    parts = [f"{where(seen, at)}\n"]
    for curve in curves:
        panels = [(label, lines_of(found[curve.key], figure)) for figure, label in PANELS]
        path = RESULTS / f"curve-{curve.key}.png"
        draw_panels(curve.title, curve.axis, panels).quantize(64).save(path, optimize=True)
        parts.append(f"{tables[curve.key]}\n![{curve.key}](../bench/results/{path.name})\n")
    if BROKERS in tables:
        parts.append(tables[BROKERS])
    put_between(PAGE, MARKS, "\n".join(parts))


if __name__ == "__main__":
    main()
