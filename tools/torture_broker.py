"""Kill a broker and cut its power for as long as one likes, and see each time that it kept its promises.

    python tools/torture_broker.py                                    200 of each kind
    python tools/torture_broker.py --seed 7 --kills 50 --only sync    one run again

Each run prints its seed. The data of a killed broker that failed stays, and its folder is printed.
"""

import argparse
import asyncio
import logging
import shutil
import sys
import tempfile
import time
from pathlib import Path
from random import SystemRandom

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from kill_run import ALL_DAY, KillRun  # noqa: E402
from kinds_kill import KindsKill  # noqa: E402
from power_cuts import cut_often  # noqa: E402

from pyromq.config.choices import FlushDiskType  # noqa: E402

#: Flush, command, settings.
RUNS: dict[str, tuple[FlushDiskType, str, dict[str, object]]] = {
    "sync": (FlushDiskType.SYNC_FLUSH, "broker", {}),
    "async": (FlushDiskType.ASYNC_FLUSH, "up", {}),
    "retention": (FlushDiskType.ASYNC_FLUSH, "broker", ALL_DAY),
}
POWER = "power"
#: Delayed messages, transactions and send-backs.
WAITING = "waiting"
KINDS = [*RUNS, WAITING, POWER]
#: A broker's disk gets slow in the simulation when it has lived long.
CUTS_IN_A_LIFE = 60


def main() -> int:
    """Run the kinds that were asked for; return 1 at the first promise that was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--kills", type=int, default=200, help="kills, or power cuts, in each run (default 200)"
    )
    parser.add_argument("--seed", type=int, default=None, help="the seed of all runs (default: a new one)")
    parser.add_argument("--only", choices=KINDS, nargs="*", default=KINDS, help="which runs")
    asked = parser.parse_args()
    seed = SystemRandom().randrange(1 << 32) if asked.seed is None else asked.seed
    runs = {POWER: _cut, WAITING: _kill_while_messages_wait}
    return max(
        (
            runs[kind](seed, asked.kills) if kind in runs else _torture(kind, seed, asked.kills)
            for kind in asked.only
        ),
        default=0,
    )


def _cut(seed: int, cuts: int) -> int:
    # Each start tells what it found; only what was promised counts here.
    logging.disable(logging.ERROR)
    for flush in FlushDiskType:
        for one in range(seed, seed + -(-cuts // CUTS_IN_A_LIFE)):
            try:
                asyncio.run(cut_often(one, flush, CUTS_IN_A_LIFE))
            except AssertionError as error:
                print(f"{POWER}: seed {one}, {flush}: {error!r}", flush=True)
                return 1
        print(f"{POWER}: seeds from {seed}, {flush}: {cuts} power cuts, 0 promises broken", flush=True)
    return 0


def _kill_while_messages_wait(seed: int, kills: int) -> int:
    # The client says of each question that it does not know it.
    logging.disable(logging.WARNING)
    folder = Path(tempfile.mkdtemp(prefix="pyromq-torture-"))
    print(f"{WAITING}: seed {seed}", flush=True)
    run = KindsKill(folder / "run", seed)

    async def kill_and_check() -> None:
        await run.kill_often(kills)
        await run.check()

    try:
        asyncio.run(kill_and_check())
    except AssertionError as error:
        print(f"{WAITING}: {error}\nthe data is in {folder}", flush=True)
        return 1
    finally:
        run.close()
    print(f"{WAITING}: {run.summary}", flush=True)
    shutil.rmtree(folder)
    return 0


def _torture(kind: str, seed: int, kills: int) -> int:
    flush, command, settings = RUNS[kind]
    folder = Path(tempfile.mkdtemp(prefix="pyromq-torture-"))
    print(f"{kind}: seed {seed}", flush=True)
    began_at = time.monotonic()
    run = KillRun(folder / "run", seed=seed, flush=flush, command=command, settings=settings)
    try:
        run.kill_often(kills)
    except AssertionError as error:
        print(f"{kind}: {error}\n{run.summary}\nthe data is in {folder}", flush=True)
        return 1
    print(f"{kind}: {run.summary} ({time.monotonic() - began_at:.0f} s)", flush=True)
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
