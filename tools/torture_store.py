"""Put the store through crashes, damage and full disks that nobody thought of, seed after seed.

    python tools/torture_store.py                           20 seeds of each kind
    python tools/torture_store.py --minutes 60              as many as an hour has room for
    python tools/torture_store.py --only cuts --seed 7      one seed again

What the kinds do: a store lives on a simulated disk, and then

    cuts      the power is cut at each moment of its life; then a life of power cuts, one after the other
    damage    a bit is flipped, or a file cut off, in each kind of file, after a stop and after a kill
    full      the disk is too small for it, and the power is cut as well
    model     a dictionary does the same, and they are compared after each step (hypothesis)

Each seed is printed before it runs. At the first broken promise it says which and how to see it again,
and ends with status 1.
"""

import argparse
import logging
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random, SystemRandom

from hypothesis import HealthCheck, settings
from hypothesis import seed as seeded
from hypothesis.stateful import run_state_machine_as_test
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

import store_damage  # noqa: E402
import store_full  # noqa: E402
import store_story  # noqa: E402
from store_machine import StoreMachine  # noqa: E402

SEEDS = 20
#: Of each kind of damage, in one store.
PLACES = 8
#: So much of hypothesis that a seed takes some seconds, like one of the other kinds.
MODEL = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)


def cut_power(seed: int) -> int:
    """Cut the power at each moment of a life, and in each of many; return how many states there were."""
    steps = Random(seed).choice((20, 45, 90))
    states = store_story.try_all_cuts(seed, steps=steps, each_max=2, random_cuts=1).states
    return states + store_story.live_through_cuts(seed, lives=10, steps=25).states


def damage_files(seed: int) -> int:
    """Damage each kind of file in each way; return how many times."""
    damages = [
        store_damage.Damage(place, kind, how, was_clean=was_clean, story=seed)
        for was_clean in (True, False)
        for kind in store_damage.KINDS
        for how in ("flip", "cut")
        for place in range(seed, seed + PLACES)
    ]
    with tempfile.TemporaryDirectory(prefix="pyromq-torture-") as folder:
        for damage in damages:
            store_damage.examine(damage, Path(folder) / "damaged")
    return len(damages)


def fill_disk(seed: int) -> int:
    """Let a store live on a small disk, and cut its power; return how many states there were."""
    return store_full.try_all_cuts(seed, steps=200, each_max=1, random_cuts=1)[0].states


def compare_with_model(seed: int) -> int:
    """Let hypothesis try to tell the store from a dictionary; return how many things it did."""
    StoreMachine.done.clear()
    run_state_machine_as_test(seeded(seed)(StoreMachine), settings=MODEL)
    return StoreMachine.done.total()


KINDS: dict[str, Callable[[int], int]] = {
    "cuts": cut_power,
    "damage": damage_files,
    "full": fill_disk,
    "model": compare_with_model,
}
UNITS = {"cuts": "power cuts", "damage": "damaged places", "full": "power cuts", "model": "steps counted"}


@dataclass(slots=True)
class Tally:
    """What one kind came to."""

    seeds: int = 0
    tried: int = 0
    seconds: float = 0.0
    broken: int | None = None


def main() -> int:
    """Run what was asked for; return 1 when a promise was broken."""
    asked = _parse()
    # The store tells what it finds after each crash; only what was promised counts here.
    logging.getLogger().addHandler(logging.NullHandler())
    console = Console()
    tallies = {kind: Tally() for kind in asked.only}
    try:
        with _progress(console, asked) as advance:
            _run(asked, tallies, console, advance)
    except KeyboardInterrupt:
        console.print("interrupted")
    console.print(_table(tallies))
    return int(any(tally.broken is not None for tally in tallies.values()))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=None, help=f"how many seeds (default {SEEDS})")
    parser.add_argument("--seed", type=int, default=None, help="run this seed alone")
    parser.add_argument("--minutes", type=float, default=None, help="begin no seed after so many minutes")
    parser.add_argument("--only", choices=list(KINDS), nargs="*", default=list(KINDS), help="which kinds")
    return parser.parse_args()


def _seeds(asked: argparse.Namespace) -> Iterator[int]:
    """Yield one seed, or as many as fit, counted from a new one."""
    if asked.seed is not None:
        yield asked.seed
        return
    first = SystemRandom().randrange(1 << 32)
    until = None if asked.minutes is None else time.monotonic() + asked.minutes * 60
    for number in count():
        enough = asked.seeds if asked.seeds is not None else (SEEDS if until is None else None)
        if (enough is not None and number >= enough) or (until is not None and time.monotonic() >= until):
            return
        yield first + number


def _run(
    asked: argparse.Namespace, tallies: dict[str, Tally], console: Console, advance: Callable[[], None]
) -> None:
    for seed in _seeds(asked):
        for kind, tally in tallies.items():
            console.print(f"{kind}: seed {seed}", highlight=False)
            began_at = time.monotonic()
            try:
                tally.tried += KINDS[kind](seed)
            except Exception:  # noqa: BLE001 - whatever it is, its seed must be told
                tally.broken = seed
                _tell_failure(kind, seed, console)
                return
            finally:
                tally.seconds += time.monotonic() - began_at
                tally.seeds += 1
            advance()


def _tell_failure(kind: str, seed: int, console: Console) -> None:
    again = shlex.join([sys.executable, "tools/torture_store.py", "--only", kind, "--seed", str(seed)])
    console.print(traceback.format_exc(), markup=False, highlight=False, soft_wrap=True)
    console.print(f"[bold red]{kind}: seed {seed} broke a promise[/]; to see it again:", highlight=False)
    console.print(f"    {again}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _progress(console: Console, asked: argparse.Namespace) -> Iterator[Callable[[], None]]:
    """Show a bar on a terminal, and give what moves it on."""
    if not console.is_terminal:
        yield lambda: None
        return
    seeds = 1 if asked.seed is not None else asked.seeds or (SEEDS if asked.minutes is None else None)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("runs", total=None if seeds is None else seeds * len(asked.only))
        yield lambda: progress.advance(task)


def _table(tallies: dict[str, Tally]) -> Table:
    table = Table("kind", title="the store's promises")
    for heading in ("seeds", "tried", "seconds", "broken"):
        table.add_column(heading, justify="right")
    for kind, tally in tallies.items():
        broken = "0" if tally.broken is None else f"[bold red]seed {tally.broken}[/]"
        tried = f"{tally.tried:,} {UNITS[kind]}"
        table.add_row(kind, str(tally.seeds), tried, f"{tally.seconds:.0f}", broken)
    return table


if __name__ == "__main__":
    sys.exit(main())
