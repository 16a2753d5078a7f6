"""Sends at twice the rate that a broker bears: accepted, refused, and how late, beside Apache 4.9's broker.

    .venv/bin/python bench/overload.py            # about 7 minutes, as root
    .venv/bin/python bench/overload.py --quick    # about 2 minutes

Every broker gets the same small share of one core (`beside/share.py`), so that the generator, which has the
rest of the machine, is never the limit. A broker is warmed up with the whole machine. Then, with its share,
it is asked for all it can do (64 connections, each with 8 or 64 sends in flight, whichever gives more), and
then twice that rate is sent, with so many sends in flight that the generator waits for nobody: the broker
must refuse what it does not take, or answer late. Latency is that of accepted sends, from when they were
due. PyroMQ runs twice: with the compiled kernel and without. Rounds take the brokers in turn; the table has
the medians.
"""

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/interop"))  # which know how to fetch and start Apache's servers

from beside.methods import Run, one_run  # noqa: E402
from beside.quiet import touch_memory  # noqa: E402
from beside.results import machine, where  # noqa: E402
from beside.servers import APACHE_4, PYROMQ, Broker, Stage, awake, first_send  # noqa: E402
from beside.share import NoShares, share_of_a_core  # noqa: E402
from harness.toolchains import Unavailable  # noqa: E402

from pyromq.bench.workload import LoadKind, Workload  # noqa: E402
from pyromq.errors import PyroError  # noqa: E402

RESULTS = ROOT / "bench" / "results"
SHARE_OF_A_CORE = 0.1
#: Sends in flight on each connection: a fast broker needs many, and a slow one refuses when there are many.
UNDER_WAY = (8, 64)
#: With twice the load: what is sent in so many seconds, which a broker can still answer at the end of a run.
UNDER_WAY_S = 4.0
UNDER_WAY_MAX = 1_024
CONNECTIONS = 64
FACTOR = 2
#: Seconds in which the connections' buffers grow to what the load needs; not measured.
SETTLES_S = 10.0
TOUCHED_BYTES = 6 * 2**30
#: Before others on a busy machine; what a broker gets is its share in any case.
NICENESS = -15
#: For each title: the kind of broker, and whether it runs without the compiled kernel.
CASES = {"Apache 4.9": (APACHE_4, False), "PyroMQ": (PYROMQ, False), "PyroMQ, pure Python": (PYROMQ, True)}


@contextmanager
def speed(stage: Stage, *, is_pure: bool) -> Iterator[None]:
    """Have what is started meanwhile run with the compiled kernel, or without."""
    if is_pure:
        stage.environment["PYROMQ_PURE"] = "1"
    try:
        yield
    finally:
        stage.environment.pop("PYROMQ_PURE", None)


def start(stage: Stage, kind: str, *, is_pure: bool) -> Broker:
    """Start a broker, and return it when it takes messages."""
    with speed(stage, is_pure=is_pure):
        broker = stage.broker(kind)
    first_send(broker)
    return broker


def measure(broker: Broker, title: str, seconds: float) -> Run:
    """Find out what a broker can do with its share of a core, and give it twice as much."""
    with share_of_a_core(broker.pid, SHARE_OF_A_CORE):
        able = max((one_run(broker, load(seconds, count)) for count in UNDER_WAY), key=itemgetter("rate"))
        rate = FACTOR * able["rate"]
        twice = replace(
            load(seconds),
            rate=rate,
            under_way=min(math.ceil(rate * UNDER_WAY_S / CONNECTIONS), UNDER_WAY_MAX),
            warm_up_s=SETTLES_S,
            duration_s=2 * seconds,
        )
        found = one_run(broker, twice)
    found |= {"title": title, "bears": able["rate"], "bears_p99": able["p99"]}
    found["refused_per_s"] = round(sum(found["refused"].values()) / (found["seconds"] + SETTLES_S))
    return found


def load(seconds: float, under_way: int = UNDER_WAY[-1]) -> Workload:
    """Return the load that shows what a broker bears."""
    return Workload(
        kind=LoadKind.PRODUCE,
        topic="overload",
        connections=CONNECTIONS,
        under_way=under_way,
        size=1024,
        duration_s=seconds,
    )


def middle_of(rounds: list[Run]) -> Run:
    """Return one run with the medians of all figures."""
    figures = ("bears", "rate_wanted", "rate", "refused_per_s", "p50", "p99", "max", "generator_share")
    return (
        rounds[0]
        | {name: median(run[name] for run in rounds) for name in figures}
        | {"generator_is_limit": any(run["generator_is_limit"] for run in rounds)}
    )


def table_of(found: list[Run]) -> str:
    """Return the figures for people."""
    lines = [
        "| broker | bears, /s | sent, /s | accepted, /s | refused, /s | p50, ms | p99, ms | most, ms |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for run in found:
        times = [f"{run[key] / 1000:,.0f}" for key in ("p50", "p99", "max")]
        rates = [f"{run[key]:,.0f}" for key in ("bears", "rate_wanted", "rate", "refused_per_s")]
        mark = " †" if run["generator_is_limit"] else ""
        lines.append(f"| {run['title']}{mark} | {' | '.join(rates + times)} |")
    if any(run["generator_is_limit"] for run in found):
        lines.append("\n† The generator used all of its core: it could not send as much.")
    return "\n".join(lines)


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--only", nargs="+", choices=[*CASES], help="some brokers; writes nothing")
    options = parser.parse_args()
    seconds, warm_s, rounds = (3.0, 5.0, 1) if options.quick else (5.0, 15.0, 3)
    found: dict[str, list[Run]] = {title: [] for title in options.only or CASES}
    load_before = os.getloadavg()[0]
    try:
        os.nice(NICENESS)
        touch_memory(TOUCHED_BYTES)
        with tempfile.TemporaryDirectory(prefix="overload-") as folder, ExitStack() as closing:
            brokers = start_all(Stage(Path(folder), closing), closing, found, warm_s)
            for number in range(rounds):
                for title, broker in brokers.items():
                    with awake(broker, brokers.values()):
                        run = measure(broker, title, seconds)
                    found[title].append(run)
                    say(number, run)
    except (Unavailable, PyroError, NoShares, PermissionError) as error:
        raise SystemExit(f"overload: {error}") from error
    middle = [middle_of(runs) for runs in found.values()]
    print(f"\n{table_of(middle)}")
    if not options.only:
        write(found, middle, load_before)


def start_all(stage: Stage, closing: ExitStack, titles: Iterable[str], warm_s: float) -> dict[str, Broker]:
    """Start the brokers, each warmed up with the whole machine."""
    brokers: dict[str, Broker] = {}
    for title in titles:
        kind, is_pure = CASES[title]
        broker = start(stage, kind, is_pure=is_pure)
        closing.callback(broker.stop)
        brokers[title] = broker
        with awake(broker, brokers.values()):
            one_run(broker, load(warm_s))
    return brokers


def say(number: int, run: Run) -> None:
    """Print what became of one run."""
    names = ("bears", "rate", "refused_per_s", "p50", "p99", "generator_share", "others_cores")
    print(
        f"  {number + 1} {run['title']}: {', '.join(f'{name} {run[name]:,}' for name in names)}", flush=True
    )


def write(found: dict[str, list[Run]], middle: list[Run], load_before: float) -> None:
    """Write the figures for programs and for people."""
    RESULTS.mkdir(exist_ok=True)
    seen, at = machine(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    about = f"{SHARE_OF_A_CORE:.0%} of a core for each broker; load average {load_before:.1f} before the run"
    record: dict[str, Any] = {"at": at, "machine": seen, "about": about, "runs": found}
    (RESULTS / "overload.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    (RESULTS / "overload.md").write_text(f"{where(seen, at)} {about}.\n\n{table_of(middle)}\n")


if __name__ == "__main__":
    main()
