"""The network of a cluster: the places of its nodes, and the links between them.

On `Loopback` every node listens on 127.0.0.1, and is known to all others by an address of its own in
127.0.0.0/8, where a proxy listens for it; so what replicas and clients say to it passes through wires that
can be cut, and so does what it says to etcd and to the name servers.

    clients ──► proxy of node 0 ──► node 0 ──► proxy of node 1 ──► node 1
                                        └────► proxy to etcd, proxies to the name servers
"""

import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from pyromq.torture.servers.ports import free_broker_port
from pyromq.torture.servers.proxy import Place, Proxy, Wires
from pyromq.torture.servers.sockets import Address, owner_of

ETCD = "etcd"
NAME_SERVERS = "namesrv"
CLIENTS = "clients"


class Loopback:
    """All on this machine's loopback network; takes no rights."""

    outside_host = etcd_host = "127.0.0.1"
    #: Whom a node can be cut off from, besides other nodes and etcd.
    surroundings: Sequence[Place] = (NAME_SERVERS, CLIENTS)

    def __init__(self, count: int, wires: Wires, pids: Callable[[], dict[int, int]]) -> None:
        self.wires = wires
        self._pids = pids
        a, b = random.SystemRandom().randrange(1, 250), random.SystemRandom().randrange(1, 250)
        self._faces = [f"127.{a}.{b}.{10 + number}" for number in range(count)]
        self.ports = [free_broker_port() for _ in range(count)]
        self._etcd_ports: list[int] = []
        self._name_server_ports: list[list[int]] = []

    async def start(
        self, etcd: Address | None, name_servers: Sequence[Address], closing: AsyncExitStack
    ) -> None:
        """Set the proxies up."""

        async def listen(target: Place, address: Address, host: str, port: int, source: Source) -> int:
            proxy = Proxy(self.wires, target, address, source)
            bound = await proxy.start(host, port)
            closing.push_async_callback(proxy.close)
            return bound

        for number, (face, port) in enumerate(zip(self._faces, self.ports, strict=True)):
            for target_port in (port, port + 1):
                await listen(number, ("127.0.0.1", target_port), face, target_port, self._who)
            always = partial(_always, number)
            if etcd is not None:
                self._etcd_ports.append(await listen(ETCD, etcd, "127.0.0.1", 0, always))
            self._name_server_ports.append(
                [await listen(NAME_SERVERS, address, "127.0.0.1", 0, always) for address in name_servers]
            )

    def _who(self, near: Address, far: Address) -> Place:
        pids = {pid: number for number, pid in self._pids().items()}
        owner = owner_of(near, far, pids)
        return CLIENTS if owner is None else pids[owner]

    def address(self, number: int) -> str:
        """Return where a node is reached without a proxy: one that lost its friends can still be asked."""
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

    def name_servers(self, number: int) -> str:
        """Return where a node finds the name servers."""
        return ";".join(f"127.0.0.1:{port}" for port in self._name_server_ports[number])

    def prefix(self, _number: int) -> Sequence[str]:
        """Return the command with which a node must be started."""
        return ()


#: Says who connects, from which address to which.
Source = Callable[[Address, Address], Place]


def _always(number: int, _near: Address, _far: Address) -> Place:
    return number


def folder_for_etcd(folder: Path) -> Path:
    """Return where etcd keeps its data: its syncs must not wait for what this machine's disk does besides."""
    memory = Path("/dev/shm")
    return memory / f"pyromq-etcd-{random.SystemRandom().randrange(1 << 48):x}" if memory.is_dir() else folder
