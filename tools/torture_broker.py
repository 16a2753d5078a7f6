"""Kill a real broker for as long as one likes, and see each time that it kept its promises.

    python tools/torture_broker.py                     200 kills under each flush, and while files go
    python tools/torture_broker.py --seed 7 --kills 50 --only sync     one run again

Each run prints its seed. The data of a run that failed stays, and its folder is printed.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from random import SystemRandom

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from kill_run import ALL_DAY, KillRun  # noqa: E402

from pyromq.config.settings import FlushDiskType  # noqa: E402

#: Flush, command, settings.
RUNS: dict[str, tuple[FlushDiskType, str, dict[str, object]]] = {
    "sync": (FlushDiskType.SYNC_FLUSH, "broker", {}),
    "async": (FlushDiskType.ASYNC_FLUSH, "up", {}),
    "retention": (FlushDiskType.ASYNC_FLUSH, "broker", ALL_DAY),
}


def main() -> int:
    """Run the kinds that were asked for; return 1 at the first promise that was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="kills in each run (default 200)")
    parser.add_argument("--seed", type=int, default=None, help="the seed of all runs (default: a new one)")
    parser.add_argument("--only", choices=RUNS, nargs="*", default=list(RUNS), help="which runs")
    asked = parser.parse_args()
    seed = SystemRandom().randrange(1 << 32) if asked.seed is None else asked.seed
    return max((_torture(kind, seed, asked.kills) for kind in asked.only), default=0)


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
