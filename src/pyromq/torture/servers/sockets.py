"""Whose connection is it? The kernel's tables tell, so that one proxy can treat each caller in its way."""

import os
import socket
from collections.abc import Iterable
from pathlib import Path

Address = tuple[str, int]


def owner_of(near: Address, far: Address, processes: Iterable[int]) -> int | None:
    """Return which of the processes has the socket that is bound to `near` and connected to `far`."""
    inode = _inode_of(near, far)
    if inode is None:
        return None
    name = f"socket:[{inode}]"
    return next((process for process in processes if _has(process, name)), None)


def _inode_of(near: Address, far: Address) -> str | None:
    wanted = [_as_kernel(near), _as_kernel(far)]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1:3] == wanted:
            return fields[9]
    return None


def _as_kernel(address: Address) -> str:
    return f"{int.from_bytes(socket.inet_aton(address[0]), 'little'):08X}:{address[1]:04X}"


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
