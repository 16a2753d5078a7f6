"""Ports for servers that come back at the same address, or whose neighbours are taken too.

They are not from the range that the system takes ports for connections from: one of a test's own connections
would get one of them sooner or later, while its server is down. Each process of tests has a share of its own,
held by a locked file, so that two that run beside each other never choose the same.
"""

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from itertools import cycle
from pathlib import Path

FIRST = 20_000
SHARES = 32
SHARE = 375
#: A broker listens on port - 2 too and, for replicas, on port + 1.
NEIGHBOURS = (-2, 0, 1)
STEP = 5


def free_broker_port() -> int:
    """Return a port that is free with its neighbours, and that was not returned for a while."""
    for port in _share():
        with ExitStack() as stack:
            try:
                for step in NEIGHBOURS:
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port + step))
            except OSError:
                continue
            return port
    raise AssertionError("a share has ports for ever")


@cache
def _share() -> Iterator[int]:
    for number in range(SHARES):
        # Open until the process ends: the lock goes with it.
        file = os.open(Path(tempfile.gettempdir()) / f"pyromq-test-ports-{number}", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            continue
        first = FIRST + number * SHARE
        return cycle(range(first - NEIGHBOURS[0], first + SHARE - STEP, STEP))
    raise RuntimeError(f"{SHARES} processes of tests have all the ports: end some")
