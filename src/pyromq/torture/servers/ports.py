"""Ports for servers that come back at the same address, and whose neighbours are taken too.

They are not from the range that the system takes ports for connections from: a client's connection would get
one of them sooner or later, while its server is down. Runs beside each other begin at places of their own.
"""

import os
import socket
from contextlib import ExitStack
from itertools import count

FIRST, LAST = 12_000, 19_900
#: A broker listens on port - 2 too and, for replicas, on port + 1; an etcd on two ports.
NEIGHBOURS = (-2, 0, 1)
STEP = 5

_turns = count()


def free_broker_port() -> int:
    """Return a port that is free with its neighbours, and that was not returned for a while."""
    places = (LAST - FIRST) // STEP
    for _ in range(places):
        port = FIRST + (os.getpid() * 37 + next(_turns)) % places * STEP - NEIGHBOURS[0]
        with ExitStack() as stack:
            try:
                for step in NEIGHBOURS:
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port + step))
            except OSError:
                continue
            return port
    raise OSError(f"no broker's port is free from {FIRST} to {LAST}")
