"""A broker group of real processes, with its name server and its etcd, all of which can be harmed."""

import asyncio
import contextlib
import json
import re
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from torture.clocks import Clock, forget
from torture.disks import Disk
from torture.etcd import Etcd
from torture.namespaces import Namespaces
from torture.network import Loopback, folder_for_etcd
from torture.processes import Running, start_pyromq
from torture.proxy import Wires

CLUSTER = "DefaultCluster"
GROUP = "broker-a"
START_S_MAX = 40.0
#: Small files that roll often, answers large enough to read everything back quickly.
SETTINGS: Mapping[str, object] = {
    "brokerName": GROUP,
    "maxMessageSize": 65536,
    "mappedFileSizeConsumeQueue": 20 * 300,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 3000,
    "maxTransferCountOnMessageInMemory": 4000,
    "maxTransferBytesOnMessageInMemory": 8 << 20,
    "defaultTopicQueueNums": 4,
}
_NO_ROOM = "No space left on device"
#: All that has no place in a broker's log, whatever is done to its surroundings.
ALARMS = ("Traceback", "CRITICAL")


@dataclass
class Node:
    """One replica: its data, its process, and what was done to it."""

    number: int
    #: What the process prints at each start, and what it says when it is ready.
    folder: Path
    #: What it keeps.
    data: Path
    arguments: list[str]
    #: The settings among the arguments that say how files are laid out.
    settings: list[str]
    disk: Disk | None = None
    clock: Clock | None = None
    namespace: str | None = None
    process: Running | None = None
    starts: int = 0
    complaints: list[str] = field(default_factory=list)
    _is_wanted: bool = False

    @property
    def is_up(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.is_alive

    @property
    def store(self) -> Path:
        """The folder with its log."""
        return self.data / GROUP

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self.is_up:
            return
        self.look_after()
        self.starts += 1
        self._is_wanted = True
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        environment = None if self.clock is None else self.clock.environment()
        self.process = start_pyromq(
            [*self.arguments, "--ready-file", str(ready)],
            self.folder / f"{self.starts}.log",
            environment=environment,
            namespace=self.namespace,
        )

    async def kill(self) -> None:
        """Kill the process, whatever it is doing."""
        await self._end(signal.SIGKILL)

    async def terminate(self) -> None:
        """Ask the process to stop, and wait until it has."""
        await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> None:
        process = self.process
        if process is None or not process.is_alive:
            return
        self._is_wanted = False
        process.signal(number)
        process.signal(signal.SIGCONT)
        if not await asyncio.to_thread(process.wait, START_S_MAX):
            self.complaints.append(f"node {self.number} did not end {START_S_MAX} s after {number.name}")
            process.signal(signal.SIGKILL)
            await asyncio.to_thread(process.wait, START_S_MAX)
        forget(process.pid)

    def stop(self) -> None:
        """Stop the process where it is, without its noticing."""
        if self.process is not None:
            self.process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a stopped process go on."""
        if self.process is not None:
            self.process.signal(signal.SIGCONT)

    def look_after(self) -> None:
        """Complain about a process that ended by itself."""
        if self._is_wanted and self.process is not None and not self.process.is_alive:
            self._is_wanted = False
            log = (self.folder / f"{self.starts}.log").read_text()[-1500:]
            if "pyromq: " in log and _NO_ROOM in log.splitlines()[-1]:
                # Not a byte can be written, so nothing can begin here; it is said, and started again later.
                return
            self.complaints.append(
                f"node {self.number} ended by itself with status {self.process.exit_code}: {log}"
            )

    def errors(self) -> Counter[str]:
        """Return what the logs call errors, without numbers, and how often."""
        found: Counter[str] = Counter()
        for log in sorted(self.folder.glob("*.log")):
            for line in log.read_text().splitlines():
                _, is_error, what = line.partition(" ERROR ")
                if is_error:
                    found[re.sub(r"[\d.:]*\d", "N", what.strip())[:160]] += 1
        return found

    def alarms(self) -> list[str]:
        """Return what the logs say that they must not say."""
        found = []
        for log in sorted(self.folder.glob("*.log")):
            text = log.read_text()
            for alarm in ALARMS:
                if alarm in text:
                    found.append(f"alarm: {log}: {_excerpt(text, text.index(alarm))}")
        return found


def _excerpt(text: str, at: int) -> str:
    """Return a trace from the line before it to its end."""
    lines = text[text.rfind("\n", 0, max(0, text.rfind("\n", 0, at))) + 1 :].splitlines()
    ends = next((number for number, line in enumerate(lines[2:], 2) if not line.startswith(" ")), len(lines))
    return "\n".join(lines[: ends + 1])


@dataclass
class Group:
    """All replicas, and what they need."""

    nodes: list[Node]
    etcd: Etcd
    network: Loopback | Namespaces
    name_server: str

    @property
    def wires(self) -> Wires:
        """The links between the nodes and to etcd; those of namespaces can only be cut."""
        return cast("Wires", self.network.wires)

    async def state(self) -> Mapping[str, Any]:
        """Return what etcd says of the group; empty when it says nothing."""
        found = await self.etcd.read(f"/pyromq/{CLUSTER}/{GROUP}/state")
        return found if isinstance(found, dict) else {}

    async def reigns(self) -> dict[int, set[int]]:
        """Return the epochs in which each node was master, by all that etcd was ever told."""
        nodes = {self.known_as(node.number): node.number for node in self.nodes}
        reigns: dict[int, set[int]] = {node.number: set() for node in self.nodes}
        for state in await self.etcd.read_past(f"/pyromq/{CLUSTER}/{GROUP}/state"):
            if state.get("master") in nodes:
                reigns[nodes[state["master"]]].add(state["epoch"])
        return reigns

    async def marks(self) -> dict[int, str]:
        """Return the marks of the folders with which the nodes joined, as etcd says."""
        marks = (await self.state()).get("marks") or {}
        known = {self.known_as(node.number): node.number for node in self.nodes}
        return {known[address]: mark for address, mark in marks.items() if address in known}

    async def in_sync(self) -> int:
        """Return how many replicas are in sync, as etcd says."""
        return len((await self.state()).get("inSync") or ())

    async def heal(self) -> None:
        """Undo every fault, and start whoever is down."""
        self.wires.heal_all()
        for node in self.nodes:
            if node.disk is not None:
                await asyncio.to_thread(node.disk.thaw)
                node.disk.empty()
            node.resume()
        if self.etcd.process is None or not self.etcd.process.is_alive:
            self.etcd.start()
        self.etcd.process.signal(signal.SIGCONT)  # type: ignore[union-attr]
        for node in self.nodes:
            node.start()

    def switch_arguments(self, number: int) -> list[str]:
        """Return the command by which an operator makes another node the master."""
        return [
            *("admin", "switchMaster", "-n", self.name_server, "-b", GROUP),
            *("--to", self.known_as(number)),
        ]

    def known_as(self, number: int) -> str:
        """Return the address by which a node is known to the others."""
        return f"{self.network.face(number)}:{self.network.ports[number]}"

    async def kill_all(self) -> None:
        """Kill every replica at the same moment, as a power cut of the building does."""
        await asyncio.gather(*(node.kill() for node in self.nodes))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a group is made of."""

    replicas: int = 3
    is_synchronous: bool = True
    settings: Mapping[str, object] = field(default_factory=dict)
    has_disks: bool = False
    disk_bytes: int = 96 << 20
    clock_library: Path | None = None
    has_namespaces: bool = False


@asynccontextmanager
async def running_group(plan: Plan, folder: Path) -> AsyncIterator[Group]:
    """Start everything for the block, and leave nothing behind but the data."""
    async with AsyncExitStack() as closing:
        nodes: list[Node] = []
        network = _network(plan, nodes, closing)
        etcd_folder = folder_for_etcd(folder / "etcd")
        etcd = Etcd(etcd_folder, network.etcd_host)
        closing.callback(shutil.rmtree, etcd_folder, ignore_errors=True)
        closing.callback(etcd.kill)
        etcd.start()
        await network.start((etcd.host, etcd.port), closing)
        name_server = await _start_name_server(folder, network.outside_host, closing)
        for number in range(plan.replicas):
            nodes.append(_node(plan, number, folder, network, name_server, closing))
        group = Group(nodes, etcd, network, name_server)
        closing.push_async_callback(group.kill_all)
        closing.push_async_callback(_let_go, group)
        for node in nodes:
            node.start()
        yield group


def _network(plan: Plan, nodes: list[Node], closing: AsyncExitStack) -> Loopback | Namespaces:
    if plan.has_namespaces:
        namespaces = Namespaces(plan.replicas)
        namespaces.set_up(closing)
        return namespaces
    return Loopback(
        plan.replicas,
        Wires(),
        lambda: {node.number: node.process.pid for node in nodes if node.process is not None},
    )


async def _let_go(group: Group) -> None:
    """Undo what keeps a process from being killed."""
    group.wires.heal_all()
    for node in group.nodes:
        if node.disk is not None:
            await asyncio.to_thread(node.disk.thaw)


def _node(
    plan: Plan,
    number: int,
    folder: Path,
    network: Loopback | Namespaces,
    name_server: str,
    closing: AsyncExitStack,
) -> Node:
    own = folder / f"node{number}"
    own.mkdir(parents=True)
    data, disk = own / "data", None
    if plan.has_disks:
        disk = Disk(own / "disk", size_bytes=plan.disk_bytes)
        closing.callback(disk.unmount, keep=own / "data")
        disk.mount()
        data = disk.folder
    settings = {
        **SETTINGS,
        "brokerRole": "SYNC_MASTER" if plan.is_synchronous else "ASYNC_MASTER",
        "brokerIP1": network.face(number),
        "brokerIP2": network.face(number),
        **plan.settings,
    }
    layout = [
        word
        for name, value in settings.items()
        if name.startswith(("mapped", "maxHash", "maxIndex", "maxMessage"))
        for word in ("--set", f"{name}={value}")
    ]
    arguments = [
        "broker",
        *("--failover", f"etcd://{network.etcd(number)}", "-n", name_server),
        *("--listen", network.bind(number), "--port", str(network.ports[number]), "--data", str(data)),
        *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")),
    ]
    clock = None if plan.clock_library is None else Clock(plan.clock_library, own / "clock")
    return Node(number, own, data, arguments, layout, disk, clock, network.namespace(number))


async def _start_name_server(folder: Path, host: str, closing: AsyncExitStack) -> str:
    own = folder / "namesrv"
    own.mkdir(parents=True)
    ready = own / "ready.json"
    process = start_pyromq(
        ["namesrv", "--listen", host, "-p", "0", "--data", str(own), "--ready-file", str(ready)],
        own / "namesrv.log",
    )
    closing.callback(process.wait, 10)
    closing.callback(process.signal, signal.SIGKILL)
    async with asyncio.timeout(START_S_MAX):
        while not ready.exists():
            assert process.is_alive, (own / "namesrv.log").read_text()
            await _tick()
    address: str = json.loads(ready.read_text())["namesrv"]
    return address


async def _tick(seconds: float = 0.02) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)
