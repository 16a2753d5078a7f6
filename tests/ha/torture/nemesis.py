"""Who does the harm: each fault is done at its time, and undone at its end."""

import asyncio
import shutil
import signal
from collections.abc import Awaitable, Callable
from random import Random

from torture.cluster import Group, Node
from torture.load import Stage
from torture.network import ETCD
from torture.processes import start_pyromq
from torture.proxy import Place
from torture.schedule import Fault, Kind, Schedule, Target

Harm = Callable[["Nemesis", Fault, Node, Random], Awaitable[None]]
HARMS: dict[Kind, Harm] = {}


def _does(*kinds: Kind) -> Callable[[Harm], Harm]:
    def note(harm: Harm) -> Harm:
        HARMS.update(dict.fromkeys(kinds, harm))
        return harm

    return note


class Nemesis:
    """Harms a group as a schedule says."""

    def __init__(self, group: Group, stage: Stage) -> None:
        self.group = group
        self.stage = stage
        #: Nodes whose disk was replaced, and the mark of the folder that they had, until they have another.
        self.emptied: dict[int, str | None] = {}

    async def run(self, schedule: Schedule) -> None:
        """Do everything; return when the last fault is over."""
        began_at = self.stage.now
        await asyncio.gather(*(self._do(fault, began_at) for fault in schedule.faults))

    async def _do(self, fault: Fault, began_at: float) -> None:
        await self.stage.pause(began_at + fault.at_s - self.stage.now)
        chance = Random(fault.dice)
        node = self._choose(fault.target, chance)
        self.tell(f"{fault.kind}: node {node.number}, for {fault.lasts_s} s")
        await HARMS[fault.kind](self, fault, node, chance)
        self.tell(f"{fault.kind}: over")

    def tell(self, text: str) -> None:
        """Write a fault into the history."""
        self.stage.history.faults.append((self.stage.now, text))

    def _choose(self, target: Target, chance: Random) -> Node:
        master = self.stage.master
        if target is Target.MASTER:
            return self.group.nodes[master]
        others = [node for node in self.group.nodes if node.number != master or target is Target.ANY]
        return chance.choice(others)


@_does(Kind.KILL)
async def _kill(nemesis: Nemesis, fault: Fault, node: Node, _chance: Random) -> None:
    await node.kill()
    await nemesis.stage.pause(fault.lasts_s)
    node.start()


@_does(Kind.KILL_OFTEN)
async def _kill_often(nemesis: Nemesis, fault: Fault, node: Node, chance: Random) -> None:
    """Kill a node again and again, while it starts, recovers, cuts its log, or takes over."""
    until = nemesis.stage.now + fault.lasts_s
    while nemesis.stage.now < until:
        await node.kill()
        node.start()
        await nemesis.stage.pause(chance.choice((chance.uniform(0.05, 0.6), chance.uniform(0.6, 2.0))))


@_does(Kind.AMBUSH)
async def _ambush(nemesis: Nemesis, fault: Fault, node: Node, chance: Random) -> None:
    """Cut a node off from the others, and kill, stop or isolate it before anybody can have noticed."""
    others: list[Place] = [other.number for other in nemesis.group.nodes if other is not node]
    wires = nemesis.group.wires
    cut = chance.choice((wires.cut, wires.cut_one_way, lambda one, other: wires.cut_one_way(other, one)))
    for other in others:
        cut(node.number, other)
    await nemesis.stage.pause(chance.uniform(0.05, 0.8))
    match chance.randrange(3):
        case 0:
            await node.kill()
        case 1:
            node.stop()
        case _:
            wires.cut(node.number, ETCD)
    await nemesis.stage.pause(chance.uniform(0.0, 1.0))
    for other in others:
        wires.tear(node.number, other)
        wires.heal(node.number, other)
    await nemesis.stage.pause(fault.lasts_s)
    wires.heal(node.number, ETCD)
    node.resume()
    node.start()


@_does(Kind.LONELY)
async def _leave_alone(nemesis: Nemesis, fault: Fault, _node: Node, chance: Random) -> None:
    """Stop the slaves until the master goes on without them, and kill it when they come back."""
    master = nemesis.group.nodes[nemesis.stage.master]
    slaves = [node for node in nemesis.group.nodes if node is not master]
    for slave in slaves:
        slave.stop()
    async with asyncio.timeout(20):
        while await nemesis.group.in_sync() > 1 and master.is_up:
            await nemesis.stage.pause(0.1)
    await nemesis.stage.pause(chance.uniform(0.1, 0.5))
    if chance.random() < 0.5:
        await master.kill()
    else:
        master.stop()
    for slave in slaves:
        slave.resume()
    await nemesis.stage.pause(fault.lasts_s)
    master.resume()
    master.start()


@_does(Kind.KILL_ALL)
async def _kill_all(nemesis: Nemesis, fault: Fault, _node: Node, chance: Random) -> None:
    await nemesis.group.kill_all()
    await nemesis.stage.pause(min(fault.lasts_s, 1.0))
    nodes = list(nemesis.group.nodes)
    chance.shuffle(nodes)
    for node in nodes:
        node.start()
        await nemesis.stage.pause(chance.choice((0, 0.5)))


@_does(Kind.TERMINATE)
async def _terminate(nemesis: Nemesis, fault: Fault, node: Node, _chance: Random) -> None:
    await node.terminate()
    await nemesis.stage.pause(min(fault.lasts_s, 2.0))
    node.start()


@_does(Kind.PAUSE)
async def _pause(nemesis: Nemesis, fault: Fault, node: Node, _chance: Random) -> None:
    node.stop()
    await nemesis.stage.pause(fault.lasts_s)
    node.resume()


@_does(Kind.SHORT_PAUSES)
async def _pause_often(nemesis: Nemesis, fault: Fault, node: Node, chance: Random) -> None:
    until = nemesis.stage.now + fault.lasts_s
    while nemesis.stage.now < until:
        node.stop()
        await nemesis.stage.pause(chance.uniform(0.05, 0.7))
        node.resume()
        await nemesis.stage.pause(chance.uniform(0.01, 0.2))


@_does(Kind.ISOLATE)
async def _isolate(nemesis: Nemesis, fault: Fault, node: Node, chance: Random) -> None:
    others = [other.number for other in nemesis.group.nodes if other is not node]
    await _wire(nemesis, fault, node, chance, [ETCD, *others], nemesis.group.wires.cut)


async def _wire(
    nemesis: Nemesis,
    fault: Fault,
    node: Node,
    chance: Random,
    places: list[Place],
    harm: Callable[[Place, Place], None],
) -> None:
    """Harm links of a node, and heal them; what was held back arrives then, or the connection is torn."""
    for place in places:
        harm(node.number, place)
    await nemesis.stage.pause(fault.lasts_s)
    wires = nemesis.group.wires
    for place in places:
        if chance.random() < 0.5:
            wires.tear(node.number, place)
        wires.heal(node.number, place)


def _peers(nemesis: Nemesis, node: Node, chance: Random) -> list[Place]:
    others: list[Place] = [other.number for other in nemesis.group.nodes if other is not node]
    return chance.sample(others, chance.randrange(1, len(others) + 1))


@_does(Kind.CUT_ETCD, Kind.CUT_TO_ETCD, Kind.CUT_OF_ETCD)
async def _cut_etcd(nemesis: Nemesis, fault: Fault, node: Node, chance: Random) -> None:
    await _wire(nemesis, fault, node, chance, [ETCD], _cutting(nemesis, fault.kind))


@_does(Kind.CUT_PEER, Kind.CUT_TO_PEER, Kind.CUT_OF_PEER)
async def _cut_peer(nemesis: Nemesis, fault: Fault, node: Node, chance: Random) -> None:
    peers = _peers(nemesis, node, chance)
    await _wire(nemesis, fault, node, chance, peers, _cutting(nemesis, fault.kind))


def _cutting(nemesis: Nemesis, kind: Kind) -> Callable[[Place, Place], None]:
    wires = nemesis.group.wires
    if kind in (Kind.CUT_ETCD, Kind.CUT_PEER):
        return wires.cut
    if kind in (Kind.CUT_TO_ETCD, Kind.CUT_TO_PEER):
        return wires.cut_one_way
    return lambda node, place: wires.cut_one_way(place, node)


@_does(Kind.DELAY)
async def _delay(nemesis: Nemesis, fault: Fault, node: Node, chance: Random) -> None:
    seconds = chance.choice((0.02, 0.1, 0.3))
    await _wire(
        nemesis,
        fault,
        node,
        chance,
        [ETCD, *_peers(nemesis, node, chance)],
        lambda one, other: nemesis.group.wires.delay(one, other, seconds),
    )


@_does(Kind.CHOP)
async def _chop(nemesis: Nemesis, fault: Fault, node: Node, chance: Random) -> None:
    await _wire(nemesis, fault, node, chance, _peers(nemesis, node, chance), nemesis.group.wires.chop)


@_does(Kind.TEAR)
async def _tear(nemesis: Nemesis, fault: Fault, node: Node, chance: Random) -> None:
    until = nemesis.stage.now + fault.lasts_s
    while nemesis.stage.now < until:
        for place in [ETCD, *_peers(nemesis, node, chance)]:
            nemesis.group.wires.tear(node.number, place)
        await nemesis.stage.pause(chance.uniform(0.02, 0.5))


@_does(Kind.REFUSE)
async def _refuse(nemesis: Nemesis, fault: Fault, node: Node, chance: Random) -> None:
    places = chance.choice(([ETCD], _peers(nemesis, node, chance)))
    await _wire(nemesis, fault, node, chance, list(places), nemesis.group.wires.refuse)


@_does(Kind.KILL_ETCD)
async def _kill_etcd(nemesis: Nemesis, fault: Fault, _node: Node, _chance: Random) -> None:
    etcd = nemesis.group.etcd
    await asyncio.to_thread(etcd.kill)
    await nemesis.stage.pause(fault.lasts_s)
    if etcd.process is None or not etcd.process.is_alive:
        etcd.start()


@_does(Kind.PAUSE_ETCD)
async def _pause_etcd(nemesis: Nemesis, fault: Fault, _node: Node, _chance: Random) -> None:
    process = nemesis.group.etcd.process
    assert process is not None
    process.signal(signal.SIGSTOP)
    await nemesis.stage.pause(fault.lasts_s)
    process.signal(signal.SIGCONT)


@_does(Kind.FULL_DISK)
async def _fill_disk(nemesis: Nemesis, fault: Fault, node: Node, _chance: Random) -> None:
    assert node.disk is not None
    await asyncio.to_thread(node.disk.fill)
    await nemesis.stage.pause(fault.lasts_s)
    node.disk.empty()


@_does(Kind.SLOW_DISK)
async def _slow_disk(nemesis: Nemesis, fault: Fault, node: Node, chance: Random) -> None:
    assert node.disk is not None
    until = nemesis.stage.now + fault.lasts_s
    while nemesis.stage.now < until:
        await asyncio.to_thread(node.disk.freeze)
        await nemesis.stage.pause(chance.uniform(0.02, 0.4))
        await asyncio.to_thread(node.disk.thaw)
        await nemesis.stage.pause(chance.uniform(0.01, 0.1))


@_does(Kind.STUCK_DISK)
async def _stick_disk(nemesis: Nemesis, fault: Fault, node: Node, _chance: Random) -> None:
    assert node.disk is not None
    await asyncio.to_thread(node.disk.freeze)
    await nemesis.stage.pause(fault.lasts_s)
    await asyncio.to_thread(node.disk.thaw)


@_does(Kind.CLOCK_JUMP)
async def _jump(nemesis: Nemesis, fault: Fault, node: Node, chance: Random) -> None:
    assert node.clock is not None
    node.clock.jump(chance.choice((-86_400, -3_600, -60, -5, 5, 60, 3_600, 86_400)))
    await nemesis.stage.pause(fault.lasts_s)
    if chance.random() < 0.5:
        node.clock.jump(0)


@_does(Kind.SWITCH)
async def _switch(nemesis: Nemesis, fault: Fault, node: Node, chance: Random) -> None:
    """Ask for another master, as an operator does; whether it comes to that is not for us to say."""
    if node.number == nemesis.stage.master:
        node = chance.choice([other for other in nemesis.group.nodes if other is not node])
    log = node.folder.parent / f"switch-{fault.dice}.log"
    process = start_pyromq(nemesis.group.switch_arguments(node.number), log)
    await asyncio.to_thread(process.wait, 20)
    nemesis.tell(f"{fault.kind} to node {node.number}: {log.read_text().strip()}")


@_does(Kind.NEW_DISK)
async def _replace_disk(nemesis: Nemesis, fault: Fault, node: Node, chance: Random) -> None:
    """Kill a node, and start it with an empty disk; never the only one that has everything."""
    await node.kill()
    await nemesis.stage.pause(chance.choice((0.0, fault.lasts_s)))
    if not node.is_up and await _is_dispensable(nemesis, node):
        nemesis.emptied[node.number] = (await nemesis.group.marks()).get(node.number)
        await asyncio.to_thread(shutil.rmtree, node.store, ignore_errors=True)
        nemesis.tell(f"{fault.kind}: node {node.number} has nothing now")
    node.start()
    if chance.random() < 0.5:
        # Now there is nobody who has more than the new one.
        master = nemesis.group.nodes[nemesis.stage.master]
        await nemesis.stage.pause(chance.choice((0.0, chance.uniform(0.0, 2.0))))
        if master is not node:
            await master.kill()
            await nemesis.stage.pause(fault.lasts_s)
            master.start()


async def _is_dispensable(nemesis: Nemesis, node: Node) -> bool:
    """Whether somebody else has everything: is in sync, as etcd says, and was not emptied since it joined."""
    marks = await nemesis.group.marks()
    for other, mark in list(nemesis.emptied.items()):
        if marks.get(other) != mark:
            del nemesis.emptied[other]
    state = await nemesis.group.state()
    known = {nemesis.group.known_as(other.number): other.number for other in nemesis.group.nodes}
    others = (
        {known[address] for address in state.get("inSync") or ()} - {node.number} - nemesis.emptied.keys()
    )
    return known.get(state.get("master", "")) != node.number and bool(others)
