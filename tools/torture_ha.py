"""Let a broker group live through schedules of faults, and see each time that it kept its promises.

    python tools/torture_ha.py                       100 schedules with synchronous replication, 20 without,
                                                     10 with a network namespace for each replica
    python tools/torture_ha.py --seed 7              one schedule again; --mode says which of the three
    python tools/torture_ha.py --count 10 --first 7  ten, from seed 7 on

A schedule is a group of two or three replicas as real processes, with a real etcd, under load, and what goes
wrong meanwhile: processes that are killed or stopped, links that are cut one way or both, disks that are full
or stuck, clocks that jump. Then all is healed, and the judge reads every send, answer and delivery.

Each seed is printed before it runs. The data of a schedule that broke a promise stays, and its folder is
printed; the status is 1 then.
"""

import argparse
import asyncio
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import SystemRandom

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("support", "ha", "interop")]

from torture.namespaces import why_no_namespaces  # noqa: E402
from torture.run import Report, run_schedule  # noqa: E402
from torture.schedule import Kind, draw, impossible_kinds  # noqa: E402

COUNT = 100
ASYNCHRONOUS_COUNT = 20
NAMESPACES_COUNT = 10
#: A schedule that takes longer than this hangs.
RUN_S_MAX = 600
SYNCHRONOUS, ASYNCHRONOUS, NAMESPACES = MODES = ("synchronous", "asynchronous", "namespaces")


def main() -> int:
    """Run what was asked for; return 1 when a promise was broken."""
    asked = _parse()
    logging.getLogger().addHandler(logging.NullHandler())
    if asked.report is not None:
        report = _run_here(asked, Path(asked.report).parent)
        Path(asked.report).write_text(report.as_json())
        return int(bool(report.broken))
    console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 140)
    for kind, reason in impossible_kinds().items():
        console.print(f"left out: {kind}: {reason}", highlight=False)
    if reason := why_no_namespaces():
        console.print(f"left out: namespaces: {reason}", highlight=False)
    began_at = time.monotonic()
    pool, reports = ThreadPoolExecutor(asked.jobs), []
    try:
        for report in pool.map(lambda run: _run_apart(asked, console, *run), _runs(asked)):
            reports.append(report)
    except KeyboardInterrupt:
        console.print("interrupted; those under way come to their end")
    finally:
        pool.shutdown(cancel_futures=True)
    console.print(_table(reports))
    for text, count in sum((Counter(report.errors) for report in reports), Counter[str]()).most_common():
        console.print(f"{count} × logged: {text}", markup=False, highlight=False)
    broken = [report for report in reports if report.broken]
    console.print(
        f"{len(reports) - len(broken)} of {len(reports)} schedules kept every promise, in "
        f"{time.monotonic() - began_at:.0f} s; {sum(report.acknowledged for report in reports):,} messages "
        f"acknowledged, {sum(report.lost for report in reports)} of them lost with asynchronous replication",
        highlight=False,
    )
    return int(bool(broken))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="run this seed alone")
    parser.add_argument("--mode", choices=MODES, default=SYNCHRONOUS, help="what --seed is run with")
    parser.add_argument("--count", type=int, default=None, help=f"synchronous schedules (default {COUNT})")
    for name, count in ((ASYNCHRONOUS, ASYNCHRONOUS_COUNT), (NAMESPACES, NAMESPACES_COUNT)):
        parser.add_argument(
            f"--{name}", type=int, default=None, help=f"such schedules (default {count}; none with --count)"
        )
    parser.add_argument("--first", type=int, default=None, help="the first seed (default: a new one)")
    parser.add_argument("--jobs", type=int, default=2, help="schedules at a time (default 2)")
    parser.add_argument("--only", choices=[*Kind], nargs="*", default=(), help="faults of these kinds only")
    parser.add_argument("--keep", action="store_true", help="keep the data of every schedule")
    parser.add_argument("--report", default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


def _runs(asked: argparse.Namespace) -> Iterator[tuple[int, str]]:
    if asked.seed is not None:
        yield asked.seed, asked.mode
        return
    first = SystemRandom().randrange(1 << 32) if asked.first is None else asked.first
    is_all = asked.count is None and asked.asynchronous is None and asked.namespaces is None
    for mode, count, default in (
        (SYNCHRONOUS, asked.count, COUNT),
        (ASYNCHRONOUS, asked.asynchronous, ASYNCHRONOUS_COUNT),
        (NAMESPACES, asked.namespaces, NAMESPACES_COUNT),
    ):
        if mode != NAMESPACES or why_no_namespaces() is None:
            wanted = default if is_all else count or 0
            yield from ((first + number, mode) for number in range(wanted))


def _run_here(asked: argparse.Namespace, folder: Path) -> Report:
    schedule = draw(
        asked.seed,
        is_synchronous=asked.mode != ASYNCHRONOUS,
        has_namespaces=asked.mode == NAMESPACES,
        without=frozenset(impossible_kinds()),
        only=tuple(Kind(kind) for kind in asked.only),
    )
    return asyncio.run(run_schedule(schedule, folder / "run"))


def _run_apart(asked: argparse.Namespace, console: Console, seed: int, mode: str) -> Report:
    """Run a schedule in a process of its own, which takes all that it started with it."""
    folder = Path(tempfile.mkdtemp(prefix="pyromq-torture-ha-"))
    console.print(f"{mode}: seed {seed}", highlight=False)
    result = folder / "report.json"
    command = [sys.executable, __file__, "--seed", str(seed), "--mode", mode, "--report", str(result)]
    if asked.only:
        command += ["--only", *asked.only]
    with (folder / "harness.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            process.wait(RUN_S_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if result.exists():
        report = Report(**json.loads(result.read_text()))
    else:
        text = (folder / "harness.log").read_text()[-700:]
        report = Report(f"seed {seed}", seed, mode != ASYNCHRONOUS, [f"the harness failed: {text}"])
    report.folder = str(folder)
    if report.broken:
        _tell_failure(report, mode, console)
    elif asked.keep or asked.seed is not None:
        console.print(f"{report.schedule}\nthe data is in {folder}", highlight=False)
    if not report.broken and not asked.keep:
        shutil.rmtree(folder)
    return report


def _tell_failure(report: Report, mode: str, console: Console) -> None:
    console.print(f"[bold red]seed {report.seed} broke a promise[/]: {report.schedule}", highlight=False)
    for text in report.broken:
        console.print(f"    {text}", markup=False, highlight=False)
    console.print(f"    refusals: {report.refusals}", markup=False, highlight=False)
    console.print(f"    the data is in {report.folder}; to see it again:", highlight=False)
    console.print(
        f"    {sys.executable} tools/torture_ha.py --seed {report.seed} --mode {mode}", highlight=False
    )


def _table(reports: list[Report]) -> Table:
    table = Table("seed", "replication", title="a broker group's promises")
    for heading in (
        "acked",
        "refused",
        "unknown",
        "read",
        "masters",
        "pause s",
        "healed s",
        "lost",
        "s",
        "broken",
    ):
        table.add_column(heading, justify="right")
    for report in reports:
        broken = f"[bold red]{len(report.broken)}[/]" if report.broken else "0"
        table.add_row(
            str(report.seed),
            MODES[not report.is_synchronous],
            *(f"{count:,}" for count in (report.acknowledged, report.refused, report.unknown, report.read)),
            str(report.masters),
            f"{report.longest_pause_s:.1f}",
            f"{report.master_after_s:.1f}",
            str(report.lost),
            f"{report.seconds:.0f}",
            broken,
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
