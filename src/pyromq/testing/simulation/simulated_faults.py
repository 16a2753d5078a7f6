"""Carries out the faults of a schedule, and heals everything at the end."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from pyromq.broker.failover.supervisor import Supervisor
from pyromq.errors import PyroError
from pyromq.testing.simulation.simulated_machines import Machine
from pyromq.testing.simulation.simulated_schedule import SimulatedFault
from pyromq.testing.simulation.simulated_stage import SimulatedServer, SimulatedStage

_NO_LIMIT = 1 << 50
#: Seconds after which a group has another master, with some to spare.
_ELECTION_S = 5.0


class SimulatedNemesis:
    """Does to a stage what a schedule says."""

    def __init__(self, stage: SimulatedStage) -> None:
        self._stage = stage
        self._world = stage.world
        self._network = stage.world.network
        self._tasks: list[asyncio.Task[None]] = []
        #: How many faults of each kind there were.
        self.counts: dict[str, int] = {}

    async def run(self, faults: list[SimulatedFault]) -> None:
        """Carry out faults, each at its time."""
        began_s = self._stage.now_s()
        for fault in faults:
            await asyncio.sleep(max(0.0, began_s + fault.at_s - self._stage.now_s()))
            self._tasks.append(asyncio.create_task(self._do(fault)))
        for task in self._tasks:
            await task

    async def _do(self, fault: SimulatedFault) -> None:
        act: Callable[[SimulatedFault, Random], Awaitable[str | None]] = getattr(
            self, f"_{fault.kind.replace('-', '_')}"
        )
        # Who is hit is said when it is known, and before it is: nothing happens in between.
        await act(fault, Random(fault.draw))

    def _note(self, fault: SimulatedFault, whom: str, **more: float | int | str) -> None:
        self.counts[fault.kind] = self.counts.get(fault.kind, 0) + 1
        self._stage.history.note("fault", "nemesis", what=fault.kind, whom=whom, **more)

    def heal(self) -> None:
        """End all faults: machines run, networks pass, disks work."""
        network = self._network
        network.delay_s, network.chops_from, network.lost_answers = (0.0001, 0.001), 0, 0.0
        network.slow_s.clear()
        network.heal()
        for server in self._stage.servers.values():
            self._mend(server.machine)
            server.may_start.set()
            if server.process is not None:
                server.process.resume()
        for machine in self._stage.clients.values():
            for process in tuple(machine.processes):
                process.resume()
        self._stage.history.note("healed", "nemesis")

    def _mend(self, machine: Machine) -> None:
        machine.slow_s = 0.0
        machine.clock_ahead_ms = 0
        if machine.disk is not None:
            machine.disk.mend()
            machine.disk.capacity_bytes = _NO_LIMIT
            machine.disk.ends_in = None

    # Processes

    def _some(self, chance: Random) -> SimulatedServer:
        """Draw a broker, a master rather than another."""
        stage = self._stage
        masters = stage.masters
        return chance.choice(masters if masters and chance.random() < 0.6 else stage.brokers)

    async def _kill(self, fault: SimulatedFault, chance: Random) -> None:
        server = self._some(chance)
        self._note(fault, server.machine.name)
        self._world.kill(server.machine)

    async def _kill_inside(self, fault: SimulatedFault, chance: Random) -> None:
        await self._end_inside(fault, self._some(chance), chance)

    async def _power_inside(self, fault: SimulatedFault, chance: Random) -> None:
        server = self._some(chance)
        disk = server.machine.disk
        if disk is not None and server.is_up:
            server.may_start.clear()
            disk.on_end = lambda: self._world.cut_power(server.machine)
            await self._end_inside(fault, server, chance)
            server.may_start.set()

    async def _end_inside(self, fault: SimulatedFault, server: SimulatedServer, chance: Random) -> None:
        """End a process at an operation of its disk, if there are so many."""
        disk = server.machine.disk
        if disk is not None and server.is_up:
            disk.ends_in = chance.randint(1, 40)
            self._note(fault, server.machine.name, operations=disk.ends_in, for_s=fault.for_s)
            await asyncio.sleep(fault.for_s)
            disk.ends_in = None

    async def _power(self, fault: SimulatedFault, chance: Random) -> None:
        server = self._some(chance)
        self._note(fault, server.machine.name, for_s=fault.for_s)
        await self._cut_power_of(fault, [server], chance)

    async def _rack_power(self, fault: SimulatedFault, chance: Random) -> None:
        self._note(fault, "all brokers", for_s=fault.for_s * len(self._stage.brokers))
        await self._cut_power_of(fault, self._stage.brokers, chance)

    async def _cut_power_of(
        self, fault: SimulatedFault, servers: list[SimulatedServer], chance: Random
    ) -> None:
        for server in servers:
            server.may_start.clear()
            self._world.cut_power(server.machine)
        for server in chance.sample(servers, len(servers)):
            await asyncio.sleep(chance.uniform(0.0, fault.for_s))
            server.may_start.set()

    async def _slow_replica_and_rack_power(self, fault: SimulatedFault, chance: Random) -> None:
        """Let a replica have what its disk has not, when all lose power."""
        self._note(fault, "all brokers", for_s=2.0 + fault.for_s * len(self._stage.brokers))
        masters = self._stage.masters
        for server in self._stage.brokers:
            if server not in masters:
                server.machine.slow_s = chance.uniform(0.3, 3.0)
        await asyncio.sleep(chance.uniform(0.3, 2.0))
        await self._cut_power_of(fault, self._stage.brokers, chance)
        for server in self._stage.brokers:
            server.machine.slow_s = 0.0

    async def _cut_replicas_and_kill(self, fault: SimulatedFault, chance: Random) -> None:
        """Let a master die that its replicas could not follow for a moment."""
        masters = self._stage.masters
        if not masters:
            return
        master = chance.choice(masters)
        self._note(fault, master.machine.name, for_s=2 * _ELECTION_S + fault.for_s)
        for server in self._stage.brokers:
            if server is not master:
                self._network.cut(master.machine, server.machine)
        await asyncio.sleep(chance.uniform(0.3, 4.5))
        master.may_start.clear()
        self._world.kill(master.machine)
        self._network.heal()
        # Long enough for another to be elected.
        await asyncio.sleep(_ELECTION_S + fault.for_s)
        master.may_start.set()

    async def _restart(self, fault: SimulatedFault, chance: Random) -> None:
        server = self._some(chance)
        self._note(fault, server.machine.name)
        server.stop.set()

    async def _pause(self, fault: SimulatedFault, chance: Random) -> None:
        await self._pause_server(fault, self._some(chance))

    async def _pause_etcd(self, fault: SimulatedFault, _: Random) -> None:
        await self._pause_server(fault, self._stage.servers["etcd"])

    async def _pause_server(self, fault: SimulatedFault, server: SimulatedServer) -> None:
        process = server.process
        if process is not None and not process.is_dead:
            self._note(fault, server.machine.name, for_s=fault.for_s)
            process.pause()
            await asyncio.sleep(fault.for_s)
            process.resume()

    async def _kill_etcd(self, fault: SimulatedFault, _: Random) -> None:
        await self._kill_for(fault, self._stage.servers["etcd"])

    async def _kill_namesrv(self, fault: SimulatedFault, _: Random) -> None:
        await self._kill_for(fault, self._stage.servers["namesrv"])

    async def _kill_for(self, fault: SimulatedFault, server: SimulatedServer) -> None:
        self._note(fault, server.machine.name, for_s=fault.for_s)
        server.may_start.clear()
        self._world.kill(server.machine)
        await asyncio.sleep(fault.for_s)
        server.may_start.set()

    def _a_client(self, chance: Random) -> Machine | None:
        running = [machine for machine in self._stage.clients.values() if machine.processes]
        return chance.choice(running) if running else None

    async def _kill_client(self, fault: SimulatedFault, chance: Random) -> None:
        machine = self._a_client(chance)
        if machine is not None:
            self._note(fault, machine.name)
            self._world.kill(machine)

    async def _pause_client(self, fault: SimulatedFault, chance: Random) -> None:
        machine = self._a_client(chance)
        if machine is not None:
            self._note(fault, machine.name, for_s=fault.for_s)
            process = machine.processes[0]
            process.pause()
            await asyncio.sleep(fault.for_s)
            process.resume()

    async def _switch(self, fault: SimulatedFault, _: Random) -> None:
        for server in self._stage.masters:
            running = server.running
            if isinstance(running, Supervisor) and server.process is not None:
                self._note(fault, server.machine.name)
                asyncio.get_running_loop().create_task(
                    _switch(running), context=server.process.context.copy()
                )
                return

    async def _clock_jump(self, fault: SimulatedFault, chance: Random) -> None:
        servers = [server.machine for server in self._stage.servers.values()]
        machine = chance.choice([*servers, *self._stage.clients.values()])
        ahead_ms = chance.randint(-30_000, 30_000)
        self._note(fault, machine.name, ahead_ms=ahead_ms)
        machine.clock_ahead_ms = ahead_ms
        await asyncio.sleep(fault.for_s)
        machine.clock_ahead_ms = 0

    # Disks

    async def _slow_disk(self, fault: SimulatedFault, chance: Random) -> None:
        await self._slow(fault, self._some(chance), chance.uniform(0.05, 6.0), fault.for_s)

    async def _slow(
        self, fault: SimulatedFault, server: SimulatedServer, slow_s: float, for_s: float
    ) -> None:
        machine = server.machine
        self._note(fault, machine.name, slow_s=slow_s, for_s=for_s)
        machine.slow_s = slow_s
        await asyncio.sleep(for_s)
        machine.slow_s = 0.0

    async def _slow_disk_and_cut_etcd(self, fault: SimulatedFault, chance: Random) -> None:
        """Let a master's lease end while its disk is at work."""
        server = chance.choice(self._stage.masters or self._stage.brokers)
        slow_s = chance.uniform(1.0, 6.0)
        slowing = asyncio.create_task(self._slow(fault, server, slow_s, _ELECTION_S + fault.for_s))
        await asyncio.sleep(chance.uniform(0.0, 0.5))
        self._network.cut(server.machine, self._stage.servers["etcd"].machine)
        await slowing
        self._network.heal()

    async def _full_disk(self, fault: SimulatedFault, chance: Random) -> None:
        server = self._some(chance)
        disk = server.machine.disk
        assert disk is not None
        self._note(fault, server.machine.name, for_s=fault.for_s)
        disk.capacity_bytes = disk.used_bytes + 4096 * chance.randint(0, 8)
        await asyncio.sleep(fault.for_s)
        assert server.machine.disk is not None
        server.machine.disk.capacity_bytes = _NO_LIMIT

    async def _flipped_bit(self, fault: SimulatedFault, chance: Random) -> None:
        """Change a bit of what can be made anew from the log, while the broker is down."""
        server = self._some(chance)
        self._world.kill(server.machine)
        disk = server.machine.disk
        assert disk is not None
        files = {path: data for path, data in disk.image().items() if data and _is_derived(path)}
        if files:
            path = chance.choice(sorted(files))
            disk.flip_bit(path, chance.randrange(len(files[path] or b"") * 8))
            self._note(fault, server.machine.name, path=str(path))

    async def _failing_write(self, fault: SimulatedFault, chance: Random) -> None:
        server = self._some(chance)
        assert server.machine.disk is not None
        self._note(fault, server.machine.name)
        under = chance.choice(("commitlog", "consumequeue", "config"))
        server.machine.disk.fail_writes(chance.randint(1, 3), under=under)
        await asyncio.sleep(fault.for_s)
        self._world.kill(server.machine)

    async def _failing_sync(self, fault: SimulatedFault, chance: Random) -> None:
        server = self._some(chance)
        assert server.machine.disk is not None
        self._note(fault, server.machine.name)
        server.machine.disk.fail_syncs(under=chance.choice(("commitlog", "consumequeue", "config")))
        await asyncio.sleep(fault.for_s)
        # Such a broker takes nothing until it is started again, and says so; its operator does that.
        self._world.kill(server.machine)

    # The network

    async def _cut(
        self, fault: SimulatedFault, ones: list[Machine], others: list[Machine], *, both_ways: bool = True
    ) -> None:
        self._note(
            fault,
            f"{','.join(one.name for one in ones)}|{','.join(other.name for other in others)}",
            for_s=fault.for_s,
        )
        for one in ones:
            for other in others:
                self._network.cut(one, other, both_ways=both_ways)
        await asyncio.sleep(fault.for_s)
        self._network.heal()

    async def _cut_clients(self, fault: SimulatedFault, chance: Random) -> None:
        await self._cut(fault, [self._some(chance).machine], list(self._stage.clients.values()))

    async def _cut_replicas(self, fault: SimulatedFault, chance: Random) -> None:
        one = self._some(chance)
        await self._cut(
            fault, [one.machine], [other.machine for other in self._stage.brokers if other is not one]
        )

    async def _cut_one_way(self, fault: SimulatedFault, chance: Random) -> None:
        one, other = chance.sample(self._stage.brokers, 2)
        await self._cut(fault, [one.machine], [other.machine], both_ways=False)

    async def _cut_etcd(self, fault: SimulatedFault, chance: Random) -> None:
        both = chance.random() < 0.7
        await self._cut(
            fault, [self._some(chance).machine], [self._stage.servers["etcd"].machine], both_ways=both
        )

    async def _cut_master(self, fault: SimulatedFault, chance: Random) -> None:
        one = self._some(chance)
        others = [other.machine for other in self._stage.servers.values() if other is not one]
        await self._cut(fault, [one.machine], others)

    async def _slow_network(self, fault: SimulatedFault, chance: Random) -> None:
        machine = self._some(chance).machine
        self._note(fault, machine.name, for_s=fault.for_s)
        self._network.slow_s[machine.ip] = chance.uniform(0.01, 1.5)
        await asyncio.sleep(fault.for_s)
        self._network.slow_s.pop(machine.ip, None)

    async def _chopped(self, fault: SimulatedFault, chance: Random) -> None:
        self._note(fault, "all", for_s=fault.for_s)
        self._network.chops_from = chance.choice((1, 7, 100))
        await asyncio.sleep(fault.for_s)
        self._network.chops_from = 0

    async def _lost_answers(self, fault: SimulatedFault, chance: Random) -> None:
        self._note(fault, "all", for_s=fault.for_s)
        self._network.lost_answers = chance.uniform(0.02, 0.3)
        await asyncio.sleep(fault.for_s)
        self._network.lost_answers = 0.0

    async def _resets(self, fault: SimulatedFault, chance: Random) -> None:
        machine = self._some(chance).machine
        self._note(fault, machine.name)
        self._network.reset_some(machine)


def _is_derived(path: Path) -> bool:
    return "index" in path.parts or path.name == "checkpoint"


async def _switch(supervisor: Supervisor) -> None:
    with suppress(PyroError):
        await supervisor.switch_to("")
