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
#: A huge page.
STEP = 2 * 2**20
ONES = bytes([1]) * (STEP // mmap.PAGESIZE)
#: What the files of one run need: two seconds of a million messages of 1 KiB.
SPARE_BYTES = 3 * 2**30
#: What the system gave back to the host of this virtual machine, in the background.
GIVEN_BACK = Path("/sys/module/page_reporting/parameters/reported_kib")


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"  {text}", flush=True)


class SpareMemory:
    """Memory that is kept from one run to the next, and let go just before it: the run's files find it free.

    Free memory of a virtual machine goes back to its host within seconds, and the first touch of each page of
    it is then as slow as sixteen messages, for whoever happens to touch it.
    """

    def __init__(self, size: int = SPARE_BYTES) -> None:
        self._size = size
        self._pages: mmap.mmap | None = None

    def keep(self) -> None:
        """Take it, touched."""
        if self._pages is None:
            self._pages = _touched(self._size)

    def let_go(self) -> None:
        """Have it touched, and free."""
        self.keep()
        if self._pages is not None:
            self._pages.close()
        self._pages = None


def touch_memory(wanted: int) -> None:
    """Have the host give us the pages that the servers' files will need."""
    began_at = time.monotonic()
    pages = _touched(wanted)
    if pages is None:
        return
    say(f"touched {len(pages) / 2**30:.0f} GiB of memory in {time.monotonic() - began_at:.1f} s")
    pages.close()


def _touched(wanted: int) -> mmap.mmap | None:
    available = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable")
    )
    size = max(min(wanted, available - MEMORY_LEFT), 0) // STEP * STEP
    if not size:
        return None
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_HUGEPAGE)  # a hundredth of the time where the host has not taken it
    for at in range(0, size, STEP):
        pages[at : at + STEP : mmap.PAGESIZE] = ONES
    return pages


def given_back_mib() -> int:
    """Return how much memory the host was given back since the start, in MiB; 0 where it is not told."""
    try:
        return int(GIVEN_BACK.read_text()) >> 10
    except OSError:
        return 0


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


#: Of all runs in this process.
spare_memory = SpareMemory()
