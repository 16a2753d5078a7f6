"""Whose connection is it? The kernel's tables tell, so that one proxy can treat each caller in its own way."""

import os
from collections.abc import Iterable
from pathlib import Path


def owner_of(port: int, processes: Iterable[int]) -> int | None:
    """Return which of the processes has the socket with a local port on the loopback network."""
    inode = _inode_of(port)
    if inode is None:
        return None
    name = f"socket:[{inode}]"
    return next((process for process in processes if _has(process, name)), None)


def _inode_of(port: int) -> str | None:
    wanted = f":{port:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(wanted) and fields[9] != "0":
            return fields[9]
    return None


def _has(process: int, name: str) -> bool:
    folder = f"/proc/{process}/fd"
    try:
        return any(_points_to(f"{folder}/{number}", name) for number in os.listdir(folder))
    except OSError:
        return False


def _points_to(link: str, name: str) -> bool:
    try:
        return os.readlink(link) == name
    except OSError:
        return False
