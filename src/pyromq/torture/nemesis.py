"""The nemesis: it injects each fault at its time, and undoes it at its end."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Protocol

from pyromq.torture.fault_schedule import FaultTarget, ScheduledFault
from pyromq.torture.faults import FaultKind
from pyromq.torture.history import History
from pyromq.torture.servers.node_network import CLIENTS, ETCD, NAME_SERVERS
from pyromq.torture.servers.nodes import ServerNode
from pyromq.torture.servers.process_cluster import ProcessCluster
from pyromq.torture.servers.processes import start_pyromq
from pyromq.torture.servers.proxy import Place

Harm = Callable[["Nemesis", ScheduledFault, ServerNode, Random], Awaitable[None]]
HARMS: dict[FaultKind, Harm] = {}
#: The kinds of events that tell of a fault: its begin, what became of it, its end.
BEGIN, NOTE, END = "fault", "fault-note", "fault-over"


class Clients(Protocol):
    """Whoever has clients that can be killed."""

    def client_names(self) -> list[str]:
        """Return the names of those that run."""
        ...

    def kill_client(self, name: str) -> None:
        """Let one be gone without a farewell, and start another in its place."""
        ...


def _does(*kinds: FaultKind) -> Callable[[Harm], Harm]:
    def note(harm: Harm) -> Harm:
        HARMS.update(dict.fromkeys(kinds, harm))
        return harm

    return note


class Nemesis:
    """Harms a cluster as a schedule says."""

    def __init__(
        self,
        cluster: ProcessCluster,
        history: History,
        now_s: Callable[[], float],
        clients: Clients | None = None,
    ) -> None:
        self.cluster = cluster
        self.now_s = now_s
        self.clients = clients
        self._history = history
        #: Nodes whose disk was replaced, and the mark of the folder that they had, until they have another.
        self.emptied: dict[int, str | None] = {}
        #: The faults under way: what, and to whom.
        self.under_way: dict[ScheduledFault, str] = {}

    async def run(self, faults: Iterable[ScheduledFault], *, began_at_s: float | None = None) -> None:
        """Do everything; return when the last fault is over."""
        began_at_s = self.now_s() if began_at_s is None else began_at_s
        async with asyncio.TaskGroup() as tasks:
            for fault in faults:
                tasks.create_task(self._do(fault, began_at_s))

    async def _do(self, fault: ScheduledFault, began_at_s: float) -> None:
        await asyncio.sleep(max(0.0, began_at_s + fault.at_s - self.now_s()))
        chance = Random(fault.dice)
        node = self._choose(fault.target, chance)
        victim = _VICTIMS.get(fault.kind, node.title)
        self.under_way[fault] = victim
        self._history.note(BEGIN, victim, fault=str(fault.kind), lasts_s=fault.lasts_s, number=fault.dice)
        try:
            await HARMS[fault.kind](self, fault, node, chance)
        finally:
            del self.under_way[fault]
            self._history.note(END, victim, fault=str(fault.kind), number=fault.dice)

    def tell(self, fault: ScheduledFault, victim: str, text: str) -> None:
        """Write down what became of a fault."""
        self._history.note(NOTE, victim, fault=str(fault.kind), number=fault.dice, what=text)

    def _choose(self, target: FaultTarget, chance: Random) -> ServerNode:
        groups = sorted(self.cluster.masters)
        group = chance.choice(groups) if len(groups) > 1 else groups[0]
        master = self.cluster.master(group)
        if target is FaultTarget.MASTER:
            return master
        members = self.cluster.members(group)
        others = [node for node in members if node is not master or target is FaultTarget.ANY]
        return chance.choice(others or members)


_VICTIMS = {
    FaultKind.KILL_ALL: "all brokers",
    FaultKind.KILL_ETCD: "etcd",
    FaultKind.PAUSE_ETCD: "etcd",
    FaultKind.KILL_NAME_SERVER: "namesrv-0",
    FaultKind.KILL_CLIENT: "clients",
}


async def _pause_for(seconds: float) -> None:
    await asyncio.sleep(max(0.0, seconds))


# Processes -------------------------------------------------------------------------------------------------


@_does(FaultKind.KILL)
async def _kill(_nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, _chance: Random) -> None:
    await node.kill()
    await _pause_for(fault.lasts_s)
    node.start()


@_does(FaultKind.KILL_OFTEN)
async def _kill_often(nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    """Kill a node again and again, while it starts, recovers, cuts its log, or takes over."""
    until = nemesis.now_s() + fault.lasts_s
    while nemesis.now_s() < until:
        await node.kill()
        node.start()
        await _pause_for(chance.choice((chance.uniform(0.05, 0.6), chance.uniform(0.6, 2.0))))


@_does(FaultKind.KILL_ALL)
async def _kill_all(nemesis: Nemesis, fault: ScheduledFault, _node: ServerNode, chance: Random) -> None:
    await nemesis.cluster.kill_brokers()
    await _pause_for(min(fault.lasts_s, 1.0))
    nodes = list(nemesis.cluster.nodes)
    chance.shuffle(nodes)
    for node in nodes:
        node.start()
        await _pause_for(chance.choice((0, 0.5)))


@_does(FaultKind.TERMINATE)
async def _terminate(_nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, _chance: Random) -> None:
    await node.terminate()
    await _pause_for(min(fault.lasts_s, 2.0))
    node.start()


@_does(FaultKind.PAUSE)
async def _pause(_nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, _chance: Random) -> None:
    node.stop()
    await _pause_for(fault.lasts_s)
    node.resume()


@_does(FaultKind.SHORT_PAUSES)
async def _pause_often(nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    until = nemesis.now_s() + fault.lasts_s
    while nemesis.now_s() < until:
        node.stop()
        await _pause_for(chance.uniform(0.05, 0.7))
        node.resume()
        await _pause_for(chance.uniform(0.01, 0.2))


@_does(FaultKind.LONELY)
async def _leave_alone(nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    """Stop the slaves until the master goes on without them, and kill it when they come back."""
    cluster, group = nemesis.cluster, node.group
    master = cluster.master(group)
    slaves = cluster.peers(master)
    for slave in slaves:
        slave.stop()
    until = nemesis.now_s() + 20.0
    while len(await cluster.in_sync(group)) > 1 and master.is_up and nemesis.now_s() < until:
        await _pause_for(0.1)
    await _pause_for(chance.uniform(0.1, 0.5))
    if chance.random() < 0.5:
        await master.kill()
    else:
        master.stop()
    for slave in slaves:
        slave.resume()
    await _pause_for(fault.lasts_s)
    master.resume()
    master.start()


@_does(FaultKind.KILL_NAME_SERVER)
async def _kill_name_server(
    nemesis: Nemesis, fault: ScheduledFault, _node: ServerNode, _chance: Random
) -> None:
    name_server = nemesis.cluster.name_servers[0]
    await name_server.kill()
    await _pause_for(fault.lasts_s)
    name_server.start()


@_does(FaultKind.KILL_ETCD)
async def _kill_etcd(nemesis: Nemesis, fault: ScheduledFault, _node: ServerNode, _chance: Random) -> None:
    etcd = nemesis.cluster.etcd
    assert etcd is not None
    await asyncio.to_thread(etcd.kill)
    await _pause_for(fault.lasts_s)
    etcd.start()


@_does(FaultKind.PAUSE_ETCD)
async def _pause_etcd(nemesis: Nemesis, fault: ScheduledFault, _node: ServerNode, _chance: Random) -> None:
    etcd = nemesis.cluster.etcd
    assert etcd is not None
    etcd.pause()
    await _pause_for(fault.lasts_s)
    etcd.resume()


@_does(FaultKind.KILL_CLIENT)
async def _kill_client(nemesis: Nemesis, fault: ScheduledFault, _node: ServerNode, chance: Random) -> None:
    clients = nemesis.clients
    names = [] if clients is None else clients.client_names()
    if clients is None or not names:
        return
    name = chance.choice(names)
    nemesis.tell(fault, "clients", name)
    clients.kill_client(name)


# Links -----------------------------------------------------------------------------------------------------


async def _wire(
    nemesis: Nemesis,
    fault: ScheduledFault,
    node: ServerNode,
    chance: Random,
    places: list[Place],
    harm: Callable[[Place, Place], None],
) -> None:
    """Harm links of a node, and heal them; what was held back arrives then, or the connection is torn."""
    for place in places:
        harm(node.number, place)
    await _pause_for(fault.lasts_s)
    wires = nemesis.cluster.wires
    for place in places:
        if chance.random() < 0.5:
            wires.tear(node.number, place)
        wires.heal(node.number, place)


def _others(nemesis: Nemesis, node: ServerNode) -> list[Place]:
    """Return the other replicas, and etcd if there is one."""
    peers: list[Place] = [peer.number for peer in nemesis.cluster.peers(node)]
    return peers if nemesis.cluster.etcd is None else [ETCD, *peers]


def _some(nemesis: Nemesis, node: ServerNode, chance: Random) -> list[Place]:
    """Return some of the other replicas, or clients where there is none."""
    peers: list[Place] = [peer.number for peer in nemesis.cluster.peers(node)]
    if not peers:
        return list(nemesis.cluster.network.surroundings)
    return chance.sample(peers, chance.randrange(1, len(peers) + 1))


@_does(FaultKind.ISOLATE)
async def _isolate(nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    """Cut a node off from all that it talks to; its clients still reach it, or they do not."""
    places = _others(nemesis, node)
    around = list(nemesis.cluster.network.surroundings)
    if not places or chance.random() < 0.5:
        places += around
    await _wire(nemesis, fault, node, chance, places, nemesis.cluster.wires.cut)


@_does(FaultKind.CUT_ETCD, FaultKind.CUT_TO_ETCD, FaultKind.CUT_OF_ETCD)
async def _cut_etcd(nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    await _wire(nemesis, fault, node, chance, [ETCD], _cutting(nemesis, fault.kind))


@_does(FaultKind.CUT_PEER, FaultKind.CUT_TO_PEER, FaultKind.CUT_OF_PEER)
async def _cut_peer(nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    peers = _some(nemesis, node, chance)
    await _wire(nemesis, fault, node, chance, peers, _cutting(nemesis, fault.kind))


def _cutting(nemesis: Nemesis, kind: FaultKind) -> Callable[[Place, Place], None]:
    wires = nemesis.cluster.wires
    if kind in (FaultKind.CUT_ETCD, FaultKind.CUT_PEER):
        return wires.cut
    if kind in (FaultKind.CUT_TO_ETCD, FaultKind.CUT_TO_PEER):
        return wires.cut_one_way
    return lambda node, place: wires.cut_one_way(place, node)


@_does(FaultKind.CUT_CLIENTS, FaultKind.CUT_NAME_SERVERS)
async def _cut_surroundings(
    nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random
) -> None:
    place = CLIENTS if fault.kind is FaultKind.CUT_CLIENTS else NAME_SERVERS
    await _wire(nemesis, fault, node, chance, [place], nemesis.cluster.wires.cut)


@_does(FaultKind.AMBUSH)
async def _ambush(nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    """Cut a node off from the others, and kill, stop or isolate it before anybody can have noticed."""
    others: list[Place] = [other.number for other in nemesis.cluster.peers(node)]
    wires = nemesis.cluster.wires
    cut = chance.choice((wires.cut, wires.cut_one_way, lambda one, other: wires.cut_one_way(other, one)))
    for other in others:
        cut(node.number, other)
    await _pause_for(chance.uniform(0.05, 0.8))
    match chance.randrange(3):
        case 0:
            await node.kill()
        case 1:
            node.stop()
        case _:
            wires.cut(node.number, ETCD)
    await _pause_for(chance.uniform(0.0, 1.0))
    for other in others:
        wires.tear(node.number, other)
        wires.heal(node.number, other)
    await _pause_for(fault.lasts_s)
    wires.heal(node.number, ETCD)
    node.resume()
    node.start()


@_does(FaultKind.DELAY)
async def _delay(nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    seconds = chance.choice((0.02, 0.1, 0.3))
    places = [*({*_others(nemesis, node)} & {ETCD}), *_some(nemesis, node, chance)]

    def harm(one: Place, other: Place) -> None:
        nemesis.cluster.wires.delay(one, other, seconds)

    await _wire(nemesis, fault, node, chance, places, harm)


@_does(FaultKind.CHOP)
async def _chop(nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    places = _some(nemesis, node, chance)
    await _wire(nemesis, fault, node, chance, places, nemesis.cluster.wires.chop)


@_does(FaultKind.TEAR)
async def _tear(nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    until = nemesis.now_s() + fault.lasts_s
    while nemesis.now_s() < until:
        around = list(nemesis.cluster.network.surroundings)
        for place in [*_others(nemesis, node), *chance.sample(around, chance.randrange(len(around) + 1))]:
            nemesis.cluster.wires.tear(node.number, place)
        await _pause_for(chance.uniform(0.02, 0.5))


@_does(FaultKind.REFUSE)
async def _refuse(nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    around = list(nemesis.cluster.network.surroundings)
    places = chance.choice((_others(nemesis, node)[:1] or around, _some(nemesis, node, chance), around))
    await _wire(nemesis, fault, node, chance, list(places), nemesis.cluster.wires.refuse)


# Disks and clocks ------------------------------------------------------------------------------------------


@_does(FaultKind.FULL_DISK)
async def _fill_disk(_nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, _chance: Random) -> None:
    assert node.disk is not None
    await asyncio.to_thread(node.disk.fill)
    await _pause_for(fault.lasts_s)
    node.disk.empty()


@_does(FaultKind.SLOW_DISK)
async def _slow_disk(nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    assert node.disk is not None
    until = nemesis.now_s() + fault.lasts_s
    while nemesis.now_s() < until:
        await asyncio.to_thread(node.disk.freeze)
        await _pause_for(chance.uniform(0.02, 0.4))
        await asyncio.to_thread(node.disk.thaw)
        await _pause_for(chance.uniform(0.01, 0.1))


@_does(FaultKind.STUCK_DISK)
async def _stick_disk(_nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, _chance: Random) -> None:
    assert node.disk is not None
    await asyncio.to_thread(node.disk.freeze)
    await _pause_for(fault.lasts_s)
    await asyncio.to_thread(node.disk.thaw)


@_does(FaultKind.CLOCK_JUMP)
async def _jump(_nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    assert node.clock is not None
    node.clock.jump(chance.choice((-86_400, -3_600, -60, -5, 5, 60, 3_600, 86_400)))
    await _pause_for(fault.lasts_s)
    if chance.random() < 0.5:
        node.clock.jump(0)


@_does(FaultKind.SWITCH)
async def _switch(nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    """Ask for another master, as an operator does; whether it comes to that is not for us to say."""
    cluster = nemesis.cluster
    if cluster.is_master(node):
        node = chance.choice(cluster.peers(node))
    log = node.folder.parent / f"switch-{fault.dice}.log"
    process = start_pyromq(cluster.switch_arguments(node), log, cluster.operator, ())
    await asyncio.to_thread(process.wait, 20)
    nemesis.tell(fault, node.title, f"to {node.title}: {log.read_text(errors='replace').strip()}")


@_does(FaultKind.NEW_DISK)
async def _replace_disk(nemesis: Nemesis, fault: ScheduledFault, node: ServerNode, chance: Random) -> None:
    """Kill a node, and start it with an empty disk; never the only one that has everything."""
    await node.kill()
    await _pause_for(chance.choice((0.0, fault.lasts_s)))
    if not node.is_up and await _is_dispensable(nemesis, node):
        nemesis.emptied[node.number] = (await nemesis.cluster.marks(node.group)).get(node.number)
        await asyncio.to_thread(shutil.rmtree, node.store, ignore_errors=True)
        nemesis.tell(fault, node.title, f"{node.title} has nothing now")
    node.start()
    if chance.random() < 0.5:
        # Now there is nobody who has more than the new one.
        master = nemesis.cluster.master(node.group)
        await _pause_for(chance.choice((0.0, chance.uniform(0.0, 2.0))))
        if master is not node:
            await master.kill()
            await _pause_for(fault.lasts_s)
            master.start()


async def _is_dispensable(nemesis: Nemesis, node: ServerNode) -> bool:
    """Whether somebody else has everything: is in sync, as etcd says, and was not emptied since it joined."""
    cluster = nemesis.cluster
    marks = await cluster.marks(node.group)
    for other, mark in list(nemesis.emptied.items()):
        if cluster.nodes[other].group == node.group and marks.get(other) != mark:
            del nemesis.emptied[other]
    state = await cluster.state(node.group)
    others = await cluster.in_sync(node.group) - {node.number} - nemesis.emptied.keys()
    return cluster.number_of(state.get("master")) != node.number and bool(others)
