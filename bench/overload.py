"""What becomes of sends when there are twice as many as a broker can bear, beside Apache 4.9's broker.

    .venv/bin/python bench/overload.py            # about 3 minutes
    .venv/bin/python bench/overload.py --quick    # about a minute

Each broker is first asked for all it can do (64 connections, each with 64 sends under way). Then twice that
rate is sent, with so many sends under way that the generator waits for nobody: what the broker does not take,
it must refuse, or answer late. Latency is that of accepted sends, from when they were due. Ours runs three
times: as it is, without the compiled kernel, and, to see what refusing is good for, without the kernel and
with brokerFastFailureEnable=false.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/interop"))  # which know how to fetch and start Apache's servers

from beside.measuring import Run, one_run  # noqa: E402
from beside.results import machine, where  # noqa: E402
from beside.servers import APACHE_4, ASYNC, PYROMQ, Broker, Stage, awake, first_send  # noqa: E402
from harness.toolchains import Unavailable  # noqa: E402

from pyromq.bench.workload import Kind, Workload  # noqa: E402
from pyromq.client.sync.admin import Admin  # noqa: E402
from pyromq.errors import PyroError  # noqa: E402

RESULTS = ROOT / "bench" / "results"
MANY_UNDER_WAY = 1_024
FACTOR = 2
#: What is printed of each, by its title: kind, without the kernel, settings that are changed.
CASES: dict[str, tuple[str, bool, dict[str, str]]] = {
    "Apache 4.9": (APACHE_4, False, {}),
    "PyroMQ": (PYROMQ, False, {}),
    "PyroMQ, pure Python": (PYROMQ, True, {}),
    "… and nothing is refused": (PYROMQ, True, {"brokerFastFailureEnable": "false"}),
}


@contextmanager
def speed(stage: Stage, *, is_pure: bool) -> Iterator[None]:
    """Have what is started meanwhile run with the compiled kernel, or without."""
    if is_pure:
        stage.environment["PYROMQ_PURE"] = "1"
    try:
        yield
    finally:
        stage.environment.pop("PYROMQ_PURE", None)


def start(stage: Stage, kind: str, *, is_pure: bool, settings: dict[str, str]) -> Broker:
    """Start a broker, and return it when it takes messages."""
    with speed(stage, is_pure=is_pure):
        broker = stage.broker(kind, ASYNC)
    first_send(broker)
    with Admin(broker.name_server) as admin:
        for name, value in settings.items():
            admin.update_broker_config({name: value}, address=broker.address)
    return broker


def measure(broker: Broker, title: str, seconds: float, warm_s: float) -> Run:
    """Find out what a broker can do, and give it twice as much."""
    bears = Workload(
        kind=Kind.PRODUCE, topic="overload", connections=64, under_way=64, size=1024, duration_s=seconds
    )
    one_run(broker, replace(bears, duration_s=warm_s))
    able = one_run(broker, bears)
    rate = FACTOR * able["rate"]
    found = one_run(broker, replace(bears, rate=rate, under_way=MANY_UNDER_WAY, duration_s=2 * seconds))
    found |= {"title": title, "bears": able["rate"], "bears_p99": able["p99"]}
    refused_s = sum(found["refused"].values()) / (found["seconds"] + bears.warm_up_s)
    found["refused_per_s"] = round(refused_s)
    return found


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
    parser.add_argument("--quick", action="store_true", help="about a minute")
    parser.add_argument("--only", nargs="+", choices=[*CASES], help="some brokers; writes nothing")
    options = parser.parse_args()
    seconds, warm_s = (2.0, 3.0) if options.quick else (5.0, 15.0)
    found: list[Run] = []
    try:
        with tempfile.TemporaryDirectory(prefix="overload-") as folder, ExitStack() as closing:
            stage = Stage(Path(folder), closing)
            for title in options.only or CASES:
                kind, is_pure, settings = CASES[title]
                broker = start(stage, kind, is_pure=is_pure, settings=settings)
                closing.callback(broker.stop)
                with awake(broker, ()):
                    found.append(measure(broker, title, seconds, warm_s))
                broker.stop()
                print(
                    json.dumps({key: found[-1][key] for key in ("title", "bears", "rate", "p99", "refused")})
                )
    except (Unavailable, PyroError) as error:
        raise SystemExit(f"overload: {error}") from error
    print(f"\n{table_of(found)}")
    if not options.only:
        write(found)


def write(found: list[Run]) -> None:
    """Write the figures for programs and for people."""
    RESULTS.mkdir(exist_ok=True)
    seen, at = machine(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    record: dict[str, Any] = {"at": at, "machine": seen, "runs": found}
    (RESULTS / "overload.json").write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    (RESULTS / "overload.md").write_text(f"{where(seen, at)}\n\n{table_of(found)}\n")


if __name__ == "__main__":
    main()
