"""What another process on this machine has used, as the system tells it."""

import os
from pathlib import Path

from pyromq.bench.workload import Usage
from pyromq.errors import ConfigError


def usage_of(process_id: int) -> Usage:
    """Return a process's processor time since its start (all threads) and its resident memory now."""
    folder = Path(f"/proc/{process_id}")
    try:
        # The name is in parentheses and may hold anything; behind it come the state and the numbers.
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        pages = int((folder / "statm").read_text().split()[1])
    except OSError as error:
        raise ConfigError(f"--server-pid {process_id}: cannot be looked at: {error.strerror}") from error
    ticks = int(fields[11]) + int(fields[12])
    return Usage(cpu_s=ticks / os.sysconf("SC_CLK_TCK"), rss_bytes=pages * os.sysconf("SC_PAGE_SIZE"))
