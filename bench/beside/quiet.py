"""The machine: when it is quiet, what it does besides, and memory that is touched before it is measured."""

import mmap
import os
import resource
import time
from pathlib import Path

QUIET_CORES = 0.33
DIRTY_BYTES = 64 * 2**20
#: Left alone when memory is touched: for the servers' own.
MEMORY_LEFT = 6 * 2**30


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"  {text}", flush=True)


def touch_memory(wanted: int) -> None:
    """Have the host give us the pages that the servers' files will need."""
    available = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable")
    )
    size = max(min(wanted, available - MEMORY_LEFT), 0) // 4096 * 4096
    if not size:
        return
    began_at = time.monotonic()
    with mmap.mmap(-1, size) as pages:
        zeros = bytes(2**20)
        for _ in range(size // len(zeros)):
            pages.write(zeros)
    say(f"touched {size / 2**30:.0f} GiB of memory in {time.monotonic() - began_at:.1f} s")


def wait_for_quiet(seconds: float) -> None:
    """Wait, for a while, until others leave the processors alone and the disk has what it was given."""
    deadline = time.monotonic() + seconds
    os.sync()
    while time.monotonic() < deadline:
        busy = busy_s()
        time.sleep(0.2)
        if (busy_s() - busy) / 0.2 <= QUIET_CORES and _dirty_bytes() < DIRTY_BYTES:
            return


def _dirty_bytes() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Dirty:", "Writeback:")))


def busy_s() -> float:
    """Return for how many seconds of processor time the machine has worked."""
    # user nice system idle iowait irq softirq …
    ticks = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def own_s() -> float:
    """Return the processor time of this process and of those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)
