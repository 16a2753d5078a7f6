"""How fast `pyromq store verify` is, beside plain `zlib.crc32` over the same bytes in the same run.

    .venv/bin/python bench/verify.py [--gib N] [--folder DIR]

Three logs: bodies of 1 KiB, of 4 KiB, and of mixed sizes. Each is written, checked by one process and by
one for each core, and its log is read and summed by one `zlib.crc32` loop, in turns; the best turn counts,
because it is the one that others disturbed least. The goal is half the speed of the sum.
"""

import argparse
import os
import random
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from pyromq.cli.store_views import layout_of, shared_by
from pyromq.clock import SystemClock
from pyromq.config.settings import StoreSettings
from pyromq.store.inspect.store_survey import Layout
from pyromq.store.inspect.store_verification import Run, Verification
from pyromq.store.store import Draft, MessageStore
from pyromq.wire.record import encode_host

HOST = encode_host("127.0.0.1", 10911)
NOISE = random.Random(1).randbytes(1 << 20)
TURNS = 3
GOAL = 0.5


def mixed(chance: random.Random) -> int:
    """Return a body's length as applications have them: many small, a few large."""
    return min(int(chance.lognormvariate(7.3, 1.3)), 256 << 10)


SIZES: dict[str, Callable[[random.Random], int]] = {
    "1 KiB": lambda _: 1024,
    "4 KiB": lambda _: 4096,
    "mixed": mixed,
}


def drafts(size_of: Callable[[random.Random], int]) -> Iterator[Draft]:
    """Yield messages with the properties that a Java client sends, in 16 queues."""
    chance = random.Random(2)
    number = 0
    while True:
        size = size_of(chance)
        start = chance.randrange(len(NOISE) - size)
        identity = f"7F00000100010CA5D2F8{number // 40:08X}{number & 0xFFFF:04X}"
        properties = f"UNIQ_KEY\x01{identity}\x02CLUSTER\x01DefaultCluster\x02TAGS\x01TagA"
        body = NOISE[start : start + size]
        yield Draft("BenchmarkTest", number % 16, body, properties, 0, 0, 1_700_000_000_000, HOST, HOST)
        number += 1


def write(folder: Path, gib: float, size_of: Callable[[random.Random], int]) -> None:
    """Fill a store."""
    store = MessageStore(StoreSettings(store_path_root_dir=str(folder)), clock=SystemClock())
    store.open()
    source = drafts(size_of)
    while store.max_position < gib * (1 << 30):
        store.put_batch([next(source) for _ in range(32)])
    store.close()


def summed(layout: Layout, size: int) -> int:
    """Read a log of `size` bytes, and sum it."""
    crc = 0
    for path in sorted(layout.log_folder.iterdir()):
        with path.open("rb", buffering=0) as file:
            while size > 0 and (block := file.read(min(1 << 20, size))):
                crc = zlib.crc32(block, crc)
                size -= len(block)
    return crc


def timed(action: Callable[[], object]) -> float:
    """Return how many seconds an action took."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def verified(layout: Layout, run: Run) -> None:
    """Verify a store, which must be whole."""
    report = Verification(layout).run(run=run)
    if not report.is_whole:
        sys.exit(f"the store is not whole: {report.faults[:3]}")


def measure(name: str, folder: Path, gib: float) -> None:
    """Write one store and print its row."""
    write(folder, gib, SIZES[name])
    layout = layout_of(folder, None, None)
    size = Verification(layout).total_bytes
    cores = len(os.sched_getaffinity(0))
    crc, alone, shared = [], [], []
    with shared_by(cores) as run:
        # Once for nothing: the processes start, and the files come into the page cache.
        verified(layout, run)
        for _ in range(TURNS):
            crc.append(timed(lambda: summed(layout, size)))
            alone.append(timed(lambda: verified(layout, map)))
            crc.append(timed(lambda: summed(layout, size)))
            shared.append(timed(lambda: verified(layout, run)))
    best = min(crc)
    print(
        f"{name:8s} {size / 1e6 / best:10.0f} {size / 1e6 / min(alone):12.0f} {best / min(alone):6.2f} "
        f"{size / 1e6 / min(shared):16.0f} {best / min(shared):6.2f}   "
        f"{'goal met' if best / min(shared) >= GOAL else 'below the goal of half'}"
    )


def main() -> None:
    """Measure each kind of log in a folder of its own, which is removed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--gib", type=float, default=1.0, help="size of each log (default 1)")
    parser.add_argument("--folder", help="where to make the stores (default: the folder for temporary files)")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print("MB/s     zlib.crc32    1 process  ratio  " + f"{cores} processes  ratio")
    for name in SIZES:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            measure(name, Path(folder), arguments.gib)


if __name__ == "__main__":
    main()
