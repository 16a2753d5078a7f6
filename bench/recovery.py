"""How long a store takes to open, after a stop in order and after a kill, with 1, 4 and 16 GiB of log.

    .venv/bin/python bench/recovery.py [--sizes 1,4,16] [--folder DIR]

The messages are real, of 4 KiB with a key each, in files of 1 GiB. Before each open the files are taken out
of the page cache, as after a reboot. A kill comes 160 MiB of messages after the last orderly stop; the writer
syncs as a broker does, so a part of them has to be replayed. What counts is that the times do not grow with
the log: the ratio to the smallest is printed.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyromq.clock import SystemClock
from pyromq.config.settings import StoreSettings
from pyromq.store.store import Draft, MessageStore
from pyromq.wire.record import encode_host

GIB = 1 << 30
MORE_BYTES = 160 << 20
BATCH = 256
TURNS = 3
HOST = encode_host("127.0.0.1", 10911)
BODY = os.urandom(4096)


def store_in(folder: Path) -> MessageStore:
    """Return a store with files of 1 GiB; it takes messages however full the disk is."""
    settings = StoreSettings(store_path_root_dir=str(folder), disk_space_warning_level_ratio=100)
    return MessageStore(settings, clock=SystemClock())


def batches(number: int) -> Iterator[list[Draft]]:
    """Yield messages with the properties that a Java client sends, in 16 queues of 4 topics."""
    while True:
        yield [
            Draft(
                f"topic-{one % 4}",
                one // 4 % 4,
                BODY,
                f"UNIQ_KEY\x017F00000100010CA5D2F8{one:012X}\x02CLUSTER\x01DefaultCluster\x02TAGS\x01TagA",
                0,
                0,
                1_700_000_000_000,
                HOST,
                HOST,
            )
            for one in range(number, number + BATCH)
        ]
        number += BATCH


def write(folder: Path, end: int) -> MessageStore:
    """Append messages until the log has `end` bytes; sync as a broker does."""
    store = store_in(folder)
    store.open()
    source = batches(store.max_position)
    while store.max_position < end:
        store.put_batch(next(source))
        sync = store.queue_sync_if_due()
        if sync is not None:
            sync.run()
    return store


def write_until_killed(folder: Path, end: int) -> None:
    """Append, and be killed."""
    write(folder, end)
    os.kill(os.getpid(), signal.SIGKILL)


def forget(folder: Path) -> None:
    """Take a store's files out of the page cache."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


@dataclass
class Opened:
    """How long an open took, and how many messages it had to replay."""

    seconds: float
    replayed: int


def opened(folder: Path) -> Opened:
    """Open a store and close it."""
    forget(folder)
    store = store_in(folder)
    begin = time.perf_counter()
    recovered = store.open()
    seconds = time.perf_counter() - begin
    if recovered.findings:
        sys.exit(f"the store is damaged: {recovered.findings}")
    store.close()
    return Opened(seconds, recovered.replayed)


def killed(folder: Path, end: int) -> Opened:
    """Let another process append and be killed, and open what it left."""
    arguments = [sys.executable, __file__, "--write-until-killed", str(end), "--folder", str(folder)]
    status = subprocess.run(arguments, check=False).returncode
    if status != -signal.SIGKILL:
        sys.exit(f"the writer ended with {status}")
    return opened(folder)


def measure(gib: int, parent: str | None) -> tuple[float, float]:
    """Print the row of one size, and return its two times."""
    with tempfile.TemporaryDirectory(dir=parent) as name:
        folder = Path(name)
        begin = time.perf_counter()
        write(folder, gib * GIB).close()
        wrote_s = time.perf_counter() - begin
        clean = [opened(folder) for _ in range(TURNS)]
        unclean = [killed(folder, gib * GIB + MORE_BYTES * (turn + 1)) for turn in range(TURNS)]
    times = (
        statistics.median(one.seconds for one in clean),
        statistics.median(one.seconds for one in unclean),
    )
    print(
        f"{gib:4d} GiB  {times[0] * 1000:12.0f} ms  {times[1] * 1000:12.0f} ms  "
        f"{statistics.median(one.replayed for one in unclean):10.0f} replayed   (written in {wrote_s:.0f} s)",
        flush=True,
    )
    return times


def main() -> None:
    """Measure each size and print the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", default="1,4", help="GiB of log, joined by commas (default 1,4)")
    parser.add_argument("--folder", help="where to make the stores (default: the folder for temporary files)")
    parser.add_argument("--write-until-killed", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write_until_killed:
        write_until_killed(Path(arguments.folder), arguments.write_until_killed)
    print("log          clean stop        killed")
    rows = {int(gib): measure(int(gib), arguments.folder) for gib in arguments.sizes.split(",")}
    least = rows[min(rows)]
    for gib, times in rows.items():
        ratios = [now / then for now, then in zip(times, least, strict=True)]
        print(f"{gib} GiB : {min(rows)} GiB   clean {ratios[0]:.2f}   killed {ratios[1]:.2f}")


if __name__ == "__main__":
    main()
