"""Ports that nobody uses, and that stay the same for those who have them."""

import json
import os
import socket
from collections.abc import Collection, Sequence
from pathlib import Path

from pyromq.errors import ListenFailed

#: A broker's VIP port is this much below its own, the one for its slaves that much above.
_BESIDE = (-2, 1)
#: The least distance of two brokers' ports, so that what is beside them is apart too.
_ROOM = 4
_TRIES_MAX = 100


def kept_ports(path: Path, names: Sequence[str], host: str) -> list[int]:
    """Return a port for each name: the one that the file has for it, or a free one, which is then kept."""
    try:
        known = {str(name): int(port) for name, port in json.loads(path.read_text()).items()}
    except FileNotFoundError:
        known = {}
    for name in names:
        if name not in known:
            known[name] = _free_port(host, known.values())
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(known, indent=1) + "\n")
    beside.replace(path)
    return [known[name] for name in names]


def _free_port(host: str, taken: Collection[int]) -> int:
    for _ in range(_TRIES_MAX):
        port = _port_if_free(host, 0)
        if port is None or any(abs(port - other) < _ROOM for other in taken):
            continue
        if all(_port_if_free(host, port + distance) for distance in _BESIDE):
            return port
    raise ListenFailed(f"no free port was found at {host}; choose one with --broker-port")


def _port_if_free(host: str, port: int) -> int | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((host, port))
        except (OSError, OverflowError):
            return None
        found: int = probe.getsockname()[1]
        return found
