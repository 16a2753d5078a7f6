"""Where the nodes of a cluster live, and the links between them.

On `Loopback` every node listens on 127.0.0.1, and is known to the others by an address of its own in
127.0.0.0/8, where a proxy listens for it; so what replicas say to each other and to etcd passes through
wires that can be cut. Clients reach a node without a proxy: a master that lost its friends is still asked.
"""

import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from harness.ports import free_broker_port

from torture.proxy import Place, Proxy, Wires
from torture.sockets import Address, owner_of

ETCD = "etcd"
OUTSIDE = "outside"


class Loopback:
    """All on this machine's loopback network; takes no rights."""

    etcd_host = outside_host = "127.0.0.1"

    def __init__(self, count: int, wires: Wires, pids: Callable[[], dict[int, int]]) -> None:
        self.wires = wires
        self._pids = pids
        a, b = random.SystemRandom().randrange(1, 250), random.SystemRandom().randrange(1, 250)
        self._faces = [f"127.{a}.{b}.{10 + number}" for number in range(count)]
        self.ports = [free_broker_port() for _ in range(count)]

    async def start(self, etcd: tuple[str, int], closing: AsyncExitStack) -> None:
        """Set the proxies up."""
        self._etcd_ports = []
        for number, (face, port) in enumerate(zip(self._faces, self.ports, strict=True)):
            for target_port in (port, port + 1):
                proxy = Proxy(self.wires, number, ("127.0.0.1", target_port), self._who)
                await proxy.start(face, target_port)
                closing.push_async_callback(proxy.close)
            proxy = Proxy(self.wires, ETCD, etcd, partial(_always, number))
            self._etcd_ports.append(await proxy.start("127.0.0.1"))
            closing.push_async_callback(proxy.close)

    def _who(self, near: Address, far: Address) -> Place:
        pids = {pid: number for number, pid in self._pids().items()}
        owner = owner_of(near, far, pids)
        return OUTSIDE if owner is None else pids[owner]

    def address(self, number: int) -> str:
        """Return where clients reach a node."""
        return f"127.0.0.1:{self.ports[number]}"

    def face(self, number: int) -> str:
        """Return the host by which a node is known."""
        return self._faces[number]

    def bind(self, _number: int) -> str:
        """Return the host on which a node listens."""
        return "127.0.0.1"

    def etcd(self, number: int) -> str:
        """Return where a node finds etcd."""
        return f"127.0.0.1:{self._etcd_ports[number]}"

    def namespace(self, _number: int) -> str | None:
        """Return the network namespace in which a node runs."""
        return None


def _always(number: int, _near: Address, _far: Address) -> Place:
    return number


def folder_for_etcd(folder: Path) -> Path:
    """Return where etcd keeps its data: its syncs must not wait for what this machine's disk does besides."""
    memory = Path("/dev/shm")
    return memory / f"pyromq-etcd-{random.SystemRandom().randrange(1 << 48):x}" if memory.is_dir() else folder
