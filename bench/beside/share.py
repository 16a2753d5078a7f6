"""A share of one core for a server's process, so that what it bears is far below what the generator can send.

The share is a quota of Linux's control groups (version 1 or 2). It needs a system that lets us make a group,
which usually means root. All threads of the process together run for their quota of each period, and stand
still for the rest of it; the period of 20 ms is short beside the latencies that are measured. The group has a
high weight, so that other work on the machine does not take the share away.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 20_000


class NoShares(Exception):
    """This system does not let us give a process a share of a processor."""


@contextmanager
def share_of_a_core(process_id: int, share: float) -> Iterator[None]:
    """Let a process, with all its threads, use at most this share of one core for a while.

    Raises NoShares.
    """
    try:
        parent, limits = _controller(round(share * PERIOD_US))
        group = parent / f"pyromq-bench-{os.getpid()}"
        group.mkdir()
    except OSError as error:
        raise NoShares(f"control groups cannot be made here: {error}") from error
    try:
        for name, value in limits.items():
            (group / name).write_text(value)
        (group / "cgroup.procs").write_text(str(process_id))
        yield
    finally:
        for process in (group / "cgroup.procs").read_text().split():
            # It may have ended meanwhile.
            with suppress(ProcessLookupError):
                (parent / "cgroup.procs").write_text(process)
        group.rmdir()


def _controller(quota_us: int) -> tuple[Path, dict[str, str]]:
    """Return where groups are made that limit processors, and the files that say by how much."""
    if (ROOT / "cpu/cpu.cfs_quota_us").exists():
        return ROOT / "cpu", {
            "cpu.cfs_period_us": str(PERIOD_US),
            "cpu.cfs_quota_us": str(quota_us),
            "cpu.shares": "100000",
        }
    if "cpu" in (ROOT / "cgroup.subtree_control").read_text().split():
        return ROOT, {"cpu.max": f"{quota_us} {PERIOD_US}", "cpu.weight": "10000"}
    raise NoShares("this system has no control groups for processors")
