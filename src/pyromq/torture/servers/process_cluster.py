"""A cluster of real processes: name servers, broker groups and etcd, all of which can be harmed."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pyromq.errors import PyroError
from pyromq.torture.cluster_plan import CLUSTER, LAYOUT, Plan
from pyromq.torture.servers.etcd_process import EtcdProcess
from pyromq.torture.servers.network_namespaces import Namespaces
from pyromq.torture.servers.node_disk import new_disk
from pyromq.torture.servers.node_network import Loopback, folder_for_etcd
from pyromq.torture.servers.nodes import ServerNode
from pyromq.torture.servers.ports import free_broker_port
from pyromq.torture.servers.process_clock import ProcessClock
from pyromq.torture.servers.proxy import Wires
from pyromq.torture.stage import Topology

#: Generous, because a machine that is busy with other things is no fault of the cluster's.
START_S_MAX = 150.0


class StartFailed(PyroError):
    """A server did not start."""


@dataclass
class ProcessCluster:
    """All servers, and what they need."""

    plan: Plan
    nodes: list[ServerNode]
    name_servers: list[ServerNode]
    etcd: EtcdProcess | None
    network: Loopback | Namespaces
    #: A group's name → the number of the node that was its master when somebody last looked.
    masters: dict[str, int] = field(default_factory=dict)

    @property
    def operator(self) -> Mapping[str, str]:
        """The environment in which an operator's commands run: they sign, with access control."""
        account = self.plan.accounts.get("operator")
        if account is None or not self.plan.promises.has_access_control:
            return {}
        return {"PYROMQ_ACCESS_KEY": account.access_key, "PYROMQ_SECRET_KEY": account.secret_key}

    @property
    def wires(self) -> Wires:
        """The links between the nodes, to etcd and to clients; those of namespaces can only be cut."""
        return cast("Wires", self.network.wires)

    @property
    def name_server_address(self) -> str:
        """The address at which clients ask for routes."""
        return ";".join(_listen_address(node) for node in self.name_servers)

    def members(self, group: str) -> list[ServerNode]:
        """Return the replicas of a group."""
        return [node for node in self.nodes if node.group == group]

    def peers(self, node: ServerNode) -> list[ServerNode]:
        """Return the other replicas of a node's group."""
        return [other for other in self.members(node.group) if other is not node]

    def master(self, group: str) -> ServerNode:
        """Return the master of a group, as far as it is known."""
        return self.nodes[self.masters[group]]

    def is_master(self, node: ServerNode) -> bool:
        """Whether a node is the master of its group, as far as it is known."""
        return self.masters.get(node.group) == node.number

    def known_as(self, number: int) -> str:
        """Return the address by which a node is known to the others."""
        return f"{self.network.face(number)}:{self.network.ports[number]}"

    def number_of(self, address: object) -> int | None:
        """Return the node that is known by an address."""
        return next((node.number for node in self.nodes if self.known_as(node.number) == address), None)

    async def state(self, group: str) -> Mapping[str, Any]:
        """Return what etcd says of a group; empty when it says nothing."""
        if self.etcd is None:
            return {}
        found = await self.etcd.read(f"/pyromq/{CLUSTER}/{group}/state")
        return found if isinstance(found, dict) else {}

    async def past_states(self, group: str) -> list[Mapping[str, Any]]:
        """Return all that etcd was ever told of a group, the youngest first."""
        if self.etcd is None:
            return []
        return await self.etcd.read_past(f"/pyromq/{CLUSTER}/{group}/state")

    async def reigns(self, group: str) -> dict[int, set[int]]:
        """Return the epochs in which each node was master."""
        reigns: dict[int, set[int]] = {node.number: set() for node in self.members(group)}
        for state in await self.past_states(group):
            number = self.number_of(state.get("master"))
            if number is not None:
                reigns[number].add(state["epoch"])
        return reigns

    async def marks(self, group: str) -> dict[int, str]:
        """Return the marks of the folders with which the nodes joined, as etcd says."""
        marks = (await self.state(group)).get("marks") or {}
        return {
            number: mark for address, mark in marks.items() if (number := self.number_of(address)) is not None
        }

    async def in_sync(self, group: str) -> set[int]:
        """Return the replicas that are in sync, as etcd says."""
        addresses = (await self.state(group)).get("inSync") or ()
        return {number for address in addresses if (number := self.number_of(address)) is not None}

    def heal_links(self) -> None:
        """Let everything through, let disks and processes go on, and set clocks right."""
        self.wires.heal_all()
        for node in self.nodes:
            if node.disk is not None:
                node.disk.thaw()
                node.disk.empty()
            if node.clock is not None:
                node.clock.jump(0)
            node.resume()
        for node in self.name_servers:
            node.resume()
        if self.etcd is not None:
            self.etcd.resume()

    async def heal(self) -> None:
        """Undo every fault, and start whoever is down."""
        await asyncio.to_thread(self.heal_links)
        if self.etcd is not None:
            self.etcd.start()
        for node in (*self.name_servers, *self.nodes):
            node.start()

    def switch_arguments(self, node: ServerNode) -> list[str]:
        """Return the command by which an operator makes another node the master."""
        return [
            *("admin", "switchMaster", "-n", self.name_server_address, "-b", node.group),
            *("--to", self.known_as(node.number)),
        ]

    def look_after(self) -> None:
        """Let each server complain if it ended by itself."""
        for node in (*self.name_servers, *self.nodes):
            node.look_after()

    def complaints(self) -> list[str]:
        """Return what the servers complain of."""
        return [text for node in (*self.name_servers, *self.nodes) for text in node.complaints]

    async def kill_brokers(self) -> None:
        """Kill every broker at the same moment, as a power cut of the building does."""
        await asyncio.gather(*(node.kill() for node in self.nodes))

    async def kill_all(self) -> None:
        """Kill every server."""
        await asyncio.gather(*(node.kill() for node in (*self.nodes, *self.name_servers)))


@asynccontextmanager
async def running_cluster(
    plan: Plan, folder: Path, *, keeps: Callable[[], bool] = lambda: True
) -> AsyncIterator[ProcessCluster]:
    """Start all processes for the block, and leave nothing behind but the data.

    What is on disks of the brokers' own is copied from them if `keeps` says so at the end.
    """
    async with AsyncExitStack() as closing:
        nodes: list[ServerNode] = []
        network = _network(plan, nodes, closing)
        etcd = _etcd(plan, folder, network, closing)
        name_servers = [
            _name_server(plan, number, folder, network.outside_host) for number in range(plan.name_servers)
        ]
        where = None if etcd is None else (etcd.host, etcd.port)
        addresses = [_split(_listen_address(node)) for node in name_servers]
        await network.start(where, addresses, closing)
        for group in plan.group_names():
            for replica in range(plan.promises.replicas):
                nodes.append(_broker(plan, group, replica, folder, network))
        cluster = ProcessCluster(plan, nodes, name_servers, etcd, network)
        cluster.masters = {name: cluster.members(name)[0].number for name in plan.group_names()}
        for node in nodes:
            if node.disk is not None:
                closing.callback(_unmount, node, keeps)
                node.disk.mount()
        closing.push_async_callback(cluster.kill_all)
        closing.callback(cluster.heal_links)
        for node in (*name_servers, *nodes):
            node.start()
        await _until_ready(cluster)
        yield cluster


def _unmount(node: ServerNode, keeps: Callable[[], bool]) -> None:
    assert node.disk is not None
    node.disk.unmount(keep=node.folder / "data" if keeps() else None)


def _network(plan: Plan, nodes: list[ServerNode], closing: AsyncExitStack) -> Loopback | Namespaces:
    count = plan.promises.groups * plan.promises.replicas
    if plan.has_namespaces:
        namespaces = Namespaces(count)
        namespaces.set_up(closing)
        return namespaces
    return Loopback(
        count,
        Wires(),
        lambda: {node.number: node.process.pid for node in nodes if node.process is not None},
    )


def _etcd(
    plan: Plan, folder: Path, network: Loopback | Namespaces, closing: AsyncExitStack
) -> EtcdProcess | None:
    if not plan.has_failover:
        return None
    assert plan.etcd is not None
    own = folder_for_etcd(folder / "etcd")
    etcd = EtcdProcess(plan.etcd, own, network.etcd_host)
    closing.callback(shutil.rmtree, own, ignore_errors=True)
    closing.callback(etcd.kill)
    etcd.start()
    return etcd


def _name_server(plan: Plan, number: int, folder: Path, host: str) -> ServerNode:
    own = folder / f"namesrv-{number}"
    own.mkdir(parents=True)
    arguments = ["namesrv", "--listen", host, "-p", str(free_broker_port()), "--data", str(own)]
    return ServerNode(number, f"namesrv-{number}", "", own, own, arguments, [], plan.start)


def _listen_address(node: ServerNode) -> str:
    words = node.arguments
    return f"{words[words.index('--listen') + 1]}:{words[words.index('-p') + 1]}"


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _broker(plan: Plan, group: str, replica: int, folder: Path, network: Loopback | Namespaces) -> ServerNode:
    title = group if replica == 0 else f"{group}-{replica}"
    number = plan.group_names().index(group) * plan.promises.replicas + replica
    own = folder / title
    own.mkdir(parents=True)
    disk = new_disk(own / "disk", size_bytes=plan.disk_bytes) if plan.has_disks else None
    data = own / "data" if disk is None else disk.folder
    settings = plan.settings_of(group, replica, network.face(number))
    if plan.access_file:
        (own / "access").mkdir()
        (own / "access" / "plain_acl.yml").write_text(plan.access_file)
        settings["aclFolder"] = own / "access"
    arguments = ["broker", "-n", network.name_servers(number)]
    if plan.promises.topology is Topology.FAILOVER:
        arguments += ["--failover", f"etcd://{network.etcd(number)}"]
    arguments += ["--listen", network.bind(number), "--port", str(network.ports[number]), "--data", str(data)]
    arguments += _assigned(settings)
    layout = _assigned({name: value for name, value in settings.items() if name.startswith(LAYOUT)})
    clock = None if plan.clock_library is None else ProcessClock(plan.clock_library, own / "clock")
    return ServerNode(
        number,
        title,
        group,
        own,
        data,
        arguments,
        layout,
        plan.start,
        prefix=network.prefix(number),
        disk=disk,
        clock=clock,
    )


def _assigned(settings: Mapping[str, object]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


async def _until_ready(cluster: ProcessCluster) -> None:
    """Wait until every server serves; with failover a broker serves as a slave until it is elected."""
    try:
        async with asyncio.timeout(START_S_MAX):
            while not all(node.is_ready for node in (*cluster.name_servers, *cluster.nodes)):
                cluster.look_after()
                if complaints := cluster.complaints():
                    raise StartFailed(complaints[0])
                await asyncio.sleep(0.05)
    except TimeoutError:
        late = [node.title for node in (*cluster.name_servers, *cluster.nodes) if not node.is_ready]
        raise StartFailed(f"{', '.join(late)} did not start within {START_S_MAX:.0f} s") from None
