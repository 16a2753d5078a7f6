"""Producers that send numbered messages to whoever takes them, and readers of every broker of a group."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random

from pyromq.codes import ResponseCode
from pyromq.errors import NetworkError, PyroError
from pyromq.torture.history import History, Json
from pyromq.torture.probe.probe_record import SendFate
from pyromq.torture.probe.wire import (
    QUEUES,
    TOPIC,
    ProbeConnection,
    begin_pull,
    begin_send,
    body_of,
    connected,
    make_topic,
    number_of,
)
from pyromq.torture.replica_audit import read_epochs
from pyromq.torture.servers.nodes import ServerNode
from pyromq.torture.servers.process_cluster import ProcessCluster
from pyromq.torture.stage import WorkloadUser
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id
from pyromq.wire.record import Record as LogRecord
from pyromq.wire.record import decode_host, iter_records

SEND, END, READ, WRONG, FINAL = "probe_send", "probe_end", "probe_read", "probe_wrong", "probe_final"
_START_S_MAX = 150.0
#: Time that a healed group has until all its brokers serve the same.
_EQUAL_S_MAX = 60.0
_SIZES = (0, 100, 100, 300, 1000, 3000, 12_000)
#: How often a producer leaves a broker that takes its messages: there may be another that does, too.
_RESTLESSNESS = 0.03
#: Stored, says the broker, but not as it should be: nobody may count on it.
_HALF_DONE = (
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)
_GOES_ON = (ResponseCode.SUCCESS, ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY)


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """The amount of work of a probe."""

    producers: int = 4
    #: At most so long is the pause of a producer between two rounds.
    pause_s: float = 0.2
    send_s_max: float = 1.5


#: Numbers of messages, and of connections; no two probes of a process share one.
_numbers = count()
_connections = count()


class Probe:
    """Asks the brokers of one group, all the time."""

    def __init__(
        self, cluster: ProcessCluster, group: str, history: History, plan: ProbePlan, chance: Random
    ) -> None:
        self._cluster = cluster
        self.group = group
        self._history = history
        self._plan = plan
        self._chance = chance
        self._members = cluster.members(group)
        self._account: WorkloadUser | None = (
            cluster.plan.accounts.get("operator") if cluster.plan.promises.has_access_control else None
        )
        #: Whoever acknowledged last is taken for the master.
        self._master: ServerNode = cluster.master(group)
        self._is_over = asyncio.Event()
        self.acknowledged = 0

    async def prepare(self) -> None:
        """Make the topic; raises PyroError when nobody takes it in time."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + _START_S_MAX
        while loop.time() < until_s:
            for node in self._members:
                if await make_topic(self._address(node), self._account):
                    self._master = node
                    return
            await asyncio.sleep(0.1)
        raise PyroError(f"no broker of {self.group} made the topic {TOPIC} within {_START_S_MAX:.0f} s")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send and read during the block; what is under way at its end is awaited."""
        loop = asyncio.get_running_loop()
        tasks = [
            *(
                loop.create_task(self._produce(Random(self._chance.random())))
                for _ in range(self._plan.producers)
            ),
            *(loop.create_task(self._read(Random(self._chance.random()), node)) for node in self._members),
        ]
        try:
            yield
            self._is_over.set()
            await asyncio.gather(*tasks)
        finally:
            self._is_over.set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _address(self, node: ServerNode) -> str:
        return self._cluster.network.address(node.number)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_over.wait(), seconds)

    # Producers ----------------------------------------------------------------------------------------

    async def _produce(self, chance: Random) -> None:
        """Send until it is over, to one broker after the other."""
        node = self._master
        while not self._is_over.is_set():
            with contextlib.suppress(NetworkError):
                async with connected(self._address(node), self._account) as connection:
                    await self._send_on(chance, connection, node)
            # Most find the new master soon; some stay with the old one, which must not take anything.
            node = self._master if chance.random() < 0.5 else chance.choice(self._members)
            await self._pause(chance.uniform(0.01, max(0.1, self._plan.pause_s)))

    async def _send_on(self, chance: Random, connection: ProbeConnection, node: ServerNode) -> None:
        number = next(_connections)
        while not (self._is_over.is_set() or connection.is_hung_up):
            if not await self._send_some(chance, connection, node, number):
                return
            if chance.random() < _RESTLESSNESS:
                return
            await self._pause(chance.uniform(0, self._plan.pause_s))

    async def _send_some(
        self, chance: Random, connection: ProbeConnection, node: ServerNode, number: int
    ) -> bool:
        """Send a few messages at once; return whether all were acknowledged."""
        under_way: list[asyncio.Task[Command]] = []
        fates: list[SendFate] = []
        for _ in range(chance.choice((1, 1, 2, 4, 8))):
            queue_id = chance.randrange(QUEUES)
            numbers = [next(_numbers) for _ in range(chance.choice((1, 1, 1, 1, 3)))]
            self._history.note(
                SEND,
                "probe",
                group=self.group,
                numbers=[*numbers],
                queue=queue_id,
                node=node.number,
                connection=number,
            )
            bodies = [body_of(one, chance.choice(_SIZES)) for one in numbers]
            answer = begin_send(connection, queue_id, bodies, self._plan.send_s_max)
            # The moment of the answer counts, not that at which somebody looks at it.
            answer.add_done_callback(partial(self._end, numbers, node, fates))
            under_way.append(answer)
        await asyncio.wait(under_way)
        return all(fate is SendFate.ACKNOWLEDGED for fate in fates)

    def _end(
        self, numbers: list[int], node: ServerNode, fates: list[SendFate], done: "asyncio.Task[Command]"
    ) -> None:
        fates.append(self._fate(numbers, node, done))

    def _fate(self, numbers: list[int], node: ServerNode, done: "asyncio.Task[Command]") -> SendFate:
        """Note what became of messages that were sent together."""
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or error is not None:
            return self._note_end(numbers, SendFate.UNKNOWN, detail=str(error)[:120])
        answer = done.result()
        if answer.code != ResponseCode.SUCCESS:
            fate = SendFate.UNKNOWN if answer.code in _HALF_DONE else SendFate.REFUSED
            return self._note_end(numbers, fate, detail=f"{answer.code} {answer.remark}"[:120])
        self._master = node
        self.acknowledged += len(numbers)
        fields = answer.ext or {}
        positions = [parse_offset_message_id(one).position for one in fields["msgId"].split(",")]
        return self._note_end(
            numbers, SendFate.ACKNOWLEDGED, offset=int(fields["queueOffset"]), positions=[*positions]
        )

    def _note_end(self, numbers: list[int], fate: SendFate, **fields: Json) -> SendFate:
        self._history.note(END, "probe", numbers=[*numbers], fate=str(fate), **fields)
        return fate

    # Readers ------------------------------------------------------------------------------------------

    async def _read(self, chance: Random, node: ServerNode) -> None:
        """Read all queues of one broker, over and over, until it is over."""
        offsets: Counter[int] = Counter()
        while not self._is_over.is_set():
            with contextlib.suppress(NetworkError):
                async with connected(self._address(node), self._account) as connection:
                    while not (self._is_over.is_set() or connection.is_hung_up):
                        pulls = [
                            self._read_some(
                                connection, node, queue_id, offsets, is_held=chance.random() < 0.2
                            )
                            for queue_id in range(QUEUES)
                        ]
                        if not any(await asyncio.gather(*pulls)):
                            await self._pause(0.1)
            await self._pause(0.2)

    async def _read_some(
        self,
        connection: ProbeConnection,
        node: ServerNode,
        queue_id: int,
        offsets: Counter[int],
        *,
        is_held: bool,
    ) -> int:
        """Pull once, note what came, and return how many messages it was."""
        begin = offsets[queue_id]
        answer = await begin_pull(connection, queue_id, begin, is_held=is_held, timeout_s=3.0)
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            # A replica that began late has no older messages.
            offsets[queue_id] = max(begin, int((answer.ext or {})["minOffset"]))
        if answer.code != ResponseCode.SUCCESS:
            return 0
        messages: list[Json] = []
        for record in iter_records(answer.body):
            if record.queue_offset != offsets[queue_id]:
                self._complain(
                    f"gap: {node.title} gave queue {queue_id} offset {record.queue_offset} "
                    f"after {offsets[queue_id] - 1}"
                )
            messages.append([record.queue_offset, self._number(queue_id, record, node)])
            offsets[queue_id] = record.queue_offset + 1
        self._note_reads(queue_id, node, messages)
        return offsets[queue_id] - begin

    def _complain(self, text: str) -> None:
        self._history.note(WRONG, "probe", group=self.group, what=text)

    def _number(self, queue_id: int, record: LogRecord, node: ServerNode) -> int:
        """Return the number of a message that a broker has; −1, and a complaint, when it is none of ours."""
        number = number_of(record)
        if number is None or (record.topic, record.queue_id) != (TOPIC, queue_id):
            self._complain(
                f"damaged: {node.title} gave {record.topic}/{record.queue_id} {record.body[:30]!r} "
                f"for queue {queue_id}"
            )
            return -1
        return number

    def _note_reads(self, queue_id: int, node: ServerNode, messages: list[Json]) -> None:
        """Note what a broker has: offsets and numbers."""
        if messages:
            self._history.note(
                READ, "probe", group=self.group, queue=queue_id, node=node.number, messages=messages
            )

    # The end ------------------------------------------------------------------------------------------

    async def read_out(self) -> str:
        """Note what the group has at the end; return why its brokers do not serve the same, or nothing."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + _EQUAL_S_MAX
        while True:
            try:
                finals = {node.number: await self._read_all(node) for node in self._members}
            except NetworkError as error:
                reason = str(error)
            else:
                master = self._cluster.master(self.group)
                behind = [
                    node.title
                    for node in self._members
                    if not _is_end_of(finals[node.number], finals[master.number])
                ]
                if not behind:
                    await self._note_final(master, finals[master.number])
                    return ""
                reason = f"{', '.join(behind)} has other messages than {master.title}"
            if loop.time() > until_s:
                return f"{self.group}: {_EQUAL_S_MAX:.0f} s after the last fault: {reason}"
            await asyncio.sleep(0.2)

    async def _note_final(self, master: ServerNode, queues: dict[int, dict[int, list[int]]]) -> None:
        reigns = await self._cluster.reigns(self.group)
        found: dict[str, Json] = {
            str(queue): [[*one] for one in own.values()] for queue, own in queues.items()
        }
        ruled: dict[str, Json] = {str(node): [*sorted(epochs)] for node, epochs in reigns.items()}
        self._history.note(
            FINAL,
            "probe",
            group=self.group,
            master=master.number,
            queues=found,
            epochs=[[epoch, start] for epoch, start in read_epochs(master.store)],
            reigns=ruled,
        )

    async def _read_all(self, node: ServerNode) -> dict[int, dict[int, list[int]]]:
        """Return all that a broker has: queue → offset → offset, number, position, storing node."""
        faces = {self._cluster.network.face(one.number): one.number for one in self._cluster.nodes}
        queues: dict[int, dict[int, list[int]]] = {}
        async with connected(self._address(node), self._account) as connection:
            for queue_id in range(QUEUES):
                messages = queues[queue_id] = {}
                offset = 0
                while (
                    answer := await begin_pull(connection, queue_id, offset, is_held=False, timeout_s=10.0)
                ).code in _GOES_ON:
                    for record in iter_records(answer.body):
                        number = self._number(queue_id, record, node)
                        host = faces.get(decode_host(record.store_host)[0], -1)
                        messages[record.queue_offset] = [record.queue_offset, number, record.position, host]
                    after = int((answer.ext or {})["nextBeginOffset"])
                    if after <= offset:
                        break
                    offset = after
        return queues


def _is_end_of(own: dict[int, dict[int, list[int]]], master: dict[int, dict[int, list[int]]]) -> bool:
    """Whether a broker has what the master has, from where it begins."""
    for queue_id, messages in master.items():
        ours = own.get(queue_id, {})
        first = min(ours, default=0)
        if ours != {offset: stored for offset, stored in messages.items() if offset >= first}:
            return False
    return True
