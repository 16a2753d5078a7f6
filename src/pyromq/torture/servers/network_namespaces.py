"""Nodes in network namespaces of their own, on a bridge: the kernel's partitions, and TCP's own patience.

Takes root, and a kernel with bridges, pairs of virtual interfaces and policy rules. A way is closed by a
route or a rule that swallows what goes there; what was sent before, TCP sends again when the way is open.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

from pyromq.torture.servers.node_network import ETCD
from pyromq.torture.servers.proxy import Place
from pyromq.torture.servers.sockets import Address

_OUTSIDE_HOST, _ETCD_HOST, _FIRST_NODE_HOST = 1, 2, 11
PORT = 10_911


def why_no_namespaces() -> str | None:
    """Return why no node can have a network of its own here, or None when it can."""
    if os.geteuid() != 0:
        return "network namespaces take root"
    if shutil.which("ip") is None:
        return "there is no `ip` (apt-get install iproute2)"
    name = _new_name()
    try:
        _ip("link", "add", name, "type", "bridge")
        _ip("link", "del", name)
        _ip("netns", "add", name)
        _ip("netns", "del", name)
    except subprocess.CalledProcessError as error:
        return f"this kernel has no bridges or namespaces: {error.stderr.decode().strip()}"
    return None


@dataclass(slots=True)
class NamespaceWires:
    """The ways between nodes and to etcd."""

    host: Callable[[Place], str]
    namespace: Callable[[Place], str | None]
    #: Without a meaning here.
    distance_s: float = 0.0
    _cut: set[tuple[Place, Place]] = field(default_factory=set)

    def cut_one_way(self, source: Place, target: Place) -> None:
        """Let nothing through from one to the other; what comes back passes."""
        if (source, target) not in self._cut:
            self._cut.add((source, target))
            self._change("add", source, target)

    def cut(self, one: Place, other: Place) -> None:
        """Let nothing through."""
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def tear(self, one: Place, other: Place) -> None:
        """Do nothing: a network has no hold on connections."""

    def heal(self, one: Place, other: Place) -> None:
        """Let everything through again."""
        for source, target in ((one, other), (other, one)):
            if (source, target) in self._cut:
                self._cut.discard((source, target))
                self._change("del", source, target)

    def heal_all(self) -> None:
        """Let everything through everywhere."""
        for source, target in list(self._cut):
            self.heal(source, target)

    def _change(self, action: str, source: Place, target: Place) -> None:
        namespace = self.namespace(source)
        if namespace is None:
            # Only what etcd says is meant, not all that comes from here.
            _ip("rule", action, "from", self.host(source), "to", self.host(target), "blackhole")
        else:
            _ip("-n", namespace, "route", action, "blackhole", f"{self.host(target)}/32")


class Namespaces:
    """A bridge with a namespace for each node; etcd and the clients are outside, at two addresses."""

    #: Whom a node can be cut off from, besides other nodes and etcd.
    surroundings: Sequence[Place] = ()

    def __init__(self, count: int) -> None:
        self._bridge = _new_name()
        chance = random.SystemRandom()
        self._net = f"10.{chance.randrange(100, 250)}.{chance.randrange(1, 250)}"
        self._names = [f"{self._bridge}n{number}" for number in range(count)]
        self.ports = [PORT] * count
        self.wires = NamespaceWires(
            self._host, lambda place: None if place == ETCD else self._names[int(place)]
        )
        self.etcd_host = f"{self._net}.{_ETCD_HOST}"
        self.outside_host = f"{self._net}.{_OUTSIDE_HOST}"

    def set_up(self, closing: AsyncExitStack) -> None:
        """Make everything; it is gone when the stack is closed."""
        closing.callback(self._tear_down)
        _ip("link", "add", self._bridge, "type", "bridge")
        for host in (self.outside_host, self.etcd_host):
            _ip("addr", "add", f"{host}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for number, name in enumerate(self._names):
            _ip("netns", "add", name)
            _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", name, "master", self._bridge, "up")
            _ip("-n", name, "addr", "add", f"{self._host(number)}/24", "dev", "eth0")
            for device in ("eth0", "lo"):
                _ip("-n", name, "link", "set", device, "up")

    def _tear_down(self) -> None:
        for command in (
            *(("netns", "del", name) for name in self._names),
            ("link", "del", self._bridge),
        ):
            with suppress(subprocess.CalledProcessError):
                _ip(*command)

    def _host(self, place: Place) -> str:
        return self.etcd_host if place == ETCD else f"{self._net}.{_FIRST_NODE_HOST + int(place)}"

    async def start(
        self, etcd: Address | None, name_servers: Sequence[Address], _closing: AsyncExitStack
    ) -> None:
        """Note where the others are."""
        self._etcd = etcd
        self._name_servers = ";".join(f"{host}:{port}" for host, port in name_servers)

    def address(self, number: int) -> str:
        """Return where clients reach a node."""
        return f"{self._host(number)}:{PORT}"

    def face(self, number: int) -> str:
        """Return the host by which a node is known."""
        return self._host(number)

    def bind(self, number: int) -> str:
        """Return the host on which a node listens."""
        return self._host(number)

    def etcd(self, _number: int) -> str:
        """Return where a node finds etcd."""
        assert self._etcd is not None
        return f"{self._etcd[0]}:{self._etcd[1]}"

    def name_servers(self, _number: int) -> str:
        """Return where a node finds the name servers."""
        return self._name_servers

    def prefix(self, number: int) -> Sequence[str]:
        """Return the command with which a node must be started."""
        return ("ip", "netns", "exec", self._names[number])


def _new_name() -> str:
    return f"pq{random.SystemRandom().randrange(1 << 32):08x}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)
