"""The processor time and memory of another process on this machine."""

import os
import time
from pathlib import Path
from typing import Final

from pyromq.bench.workload import Usage
from pyromq.errors import ConfigError

#: The kernel's number for "all that a process's threads ran": its id inverted, and these bits.
_CLOCK_BITS: Final = 0b010


def usage_of(process_id: int) -> Usage:
    """Return a process's processor time since its start (all threads) and its resident memory now."""
    try:
        # The ticks in /proc/PID/stat are 10 ms long: too coarse for a second of small requests.
        cpu_s = time.clock_gettime(~process_id << 3 | _CLOCK_BITS)
        _, resident, shared, *_ = Path(f"/proc/{process_id}/statm").read_text().split()
    except OSError as error:
        raise ConfigError(f"--server-pid {process_id}: cannot be looked at: {error.strerror}") from error
    page = os.sysconf("SC_PAGE_SIZE")
    return Usage(
        cpu_s=cpu_s, rss_bytes=int(resident) * page, private_bytes=(int(resident) - int(shared)) * page
    )
