"""Run simulated clusters with faults: `make simulate`, or one seed again with --replay.

A seed decides everything: the cluster, its settings, the load, the faults, and every moment at which a byte
moves. docs/decisions and src/pyromq/testing/simulation/DESIGN.md say what is real there and what is not.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from rich.console import Console

from pyromq.testing.simulation.simulated_run import run_seed
from pyromq.testing.simulation.simulated_runs import run_many, summary_of, tell_failure, tell_total


def main() -> int:
    """Run what is asked for; return 1 when a promise was broken."""
    asked = _arguments()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets is a part of what a seed decides; processes that are started have it from here.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "PYTHONHASHSEED": "0"})
    console = Console(width=None if sys.stdout.isatty() else 200)
    if asked.replay is not None:
        return _replay(asked.replay, asked, console)
    began_at = time.monotonic()
    total = run_many(asked.seed, asked.schedules, asked.minutes, asked.jobs, console)
    tell_total(total, console, time.monotonic() - began_at)
    return 1 if total.failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedules", type=int, default=1_000, help="how many seeds (1000)")
    parser.add_argument("--seed", type=int, default=1, help="the first of them (1)")
    parser.add_argument("--minutes", type=float, default=60, help="stop after that many (60)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run one seed, and tell what happened")
    parser.add_argument("--events", action="store_true", help="with --replay: print every event")
    parser.add_argument("--trace", type=Path, help="with --replay: write every byte that moved to this file")
    return parser.parse_args()


def _replay(seed: int, asked: argparse.Namespace, console: Console) -> int:
    outcome = run_seed(seed, keeps_trace=asked.trace is not None)
    console.print(f"seed {seed}: {outcome.schedule}", highlight=False)
    for fault in outcome.schedule.faults:
        console.print(f"  planned at {fault}", highlight=False)
    if asked.events:
        for event in outcome.events:
            console.print(str(event), highlight=False, markup=False, soft_wrap=True)
    if asked.trace is not None:
        asked.trace.write_text("".join(outcome.trace), encoding="utf-8")
    for verdict in outcome.verdicts:
        console.print(f"  {verdict.promise}: {verdict.checked} checked, {len(verdict.broken)} broken")
    console.print(f"  {outcome.simulated_s:.1f} s simulated, trace {outcome.digest}", highlight=False)
    if outcome.broken:
        tell_failure(summary_of(seed), console)
    return 1 if outcome.broken else 0


if __name__ == "__main__":
    sys.exit(main())
