"""A broker in this process on a clock that is moved by hand, and clients that speak to it in frames."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from pyromq.broker.broker import Broker
from pyromq.broker.replication.standing import Standing
from pyromq.clock import Clock, SystemClock
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.pop_settings import PopSettings
from pyromq.config.pressure import PressureSettings
from pyromq.config.settings import MIB, BrokerProcess, BrokerSettings, NetSettings, StoreSettings
from pyromq.net.links import Links
from pyromq.net.routes import Answer, Request, RequestTable
from pyromq.store.files import Files
from pyromq.testing.cluster import PATIENT
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire import properties as names
from pyromq.wire.bodies.heartbeat_bodies import (
    ConsumerPart,
    Heartbeat,
    ProducerPart,
    Subscription,
    encode_heartbeat,
)
from pyromq.wire.command import Command
from pyromq.wire.record import Record, iter_records

YEAR_S = 365 * 24 * 3600
HOUR_MS = 3_600_000
#: Seconds that an answer may take; only ever spent when a test fails.
TIMEOUT_S = 20.0


class Peer:
    """One client's link to the broker. What the broker asks on it is kept in `asked`, and answered."""

    def __init__(self, stage: "Stage", client_id: str) -> None:
        self.client_id = client_id
        self.asked: list[Command] = []
        self.answer: Callable[[Command], Answer | None] = lambda _command: Answer()
        self._stage = stage
        self._links = Links(NetSettings(), handle=RequestTable((), unknown=self._handle))

    def _handle(self, request: Request[None]) -> Answer | None:
        self.asked.append(request.command)
        return self.answer(request.command)

    def asked_for(self, code: int) -> list[Command]:
        """Return what the broker asked with one code."""
        return [command for command in self.asked if command.code == code]

    async def request(
        self,
        code: int,
        fields: Mapping[str, object] | None = None,
        *,
        body: bytes = b"",
        version: int = 409,
    ) -> Command:
        """Send a request and return the answer."""
        command = Command(code, ext=_strings(fields or {}), body=body, version=version)
        return await self._links.request(self._stage.address, command, TIMEOUT_S)

    async def oneway(self, code: int, fields: Mapping[str, object]) -> None:
        """Send a request that is not answered."""
        await self._links.oneway(self._stage.address, Command(code, ext=_strings(fields)), TIMEOUT_S)

    async def send(
        self,
        topic: str,
        body: bytes = b"hello",
        *,
        properties: dict[str, str] | None = None,
        sys_flag: int = 0,
        queue_id: int = 0,
        flag: int = 0,
        group: str = "producers",
        **more: object,
    ) -> Command:
        """Send a message as Java does."""
        fields: dict[str, object] = {
            "producerGroup": group,
            "topic": topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": 4,
            "queueId": queue_id,
            "sysFlag": sys_flag,
            "bornTimestamp": self._stage.clock.now_ms(),
            "flag": flag,
            "properties": names.encode({names.UNIQ_KEY: self._stage.next_id(), **(properties or {})}),
        }
        return await self.request(RequestCode.SEND_MESSAGE, fields | more, body=body)

    async def pull(
        self, topic: str, queue_id: int = 0, offset: int = 0, *, hold_ms: int = 0, group: str = "readers"
    ) -> Command:
        """Ask for messages; with `hold_ms` the broker may wait for one."""
        fields = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": queue_id,
            "queueOffset": offset,
            "maxMsgNums": 32,
            "sysFlag": 4 | (2 if hold_ms else 0),
            "commitOffset": 0,
            "suspendTimeoutMillis": hold_ms,
            "subscription": "*",
            "subVersion": 0,
        }
        return await self.request(RequestCode.PULL_MESSAGE, fields)

    async def stored(self, topic: str, queue_id: int = 0, offset: int = 0) -> list[Record]:
        """Return the messages of a queue that consumers can see now."""
        answer = await self.pull(topic, queue_id, offset)
        return list(iter_records(answer.body)) if answer.code == ResponseCode.SUCCESS else []

    async def await_stored(self, topic: str, count: int = 1, queue_id: int = 0) -> list[Record]:
        """Return the messages of a queue once there are so many."""

        async def enough() -> list[Record]:
            records = await self.stored(topic, queue_id)
            return records if len(records) >= count else []

        return await aeventually(enough, what=f"{count} messages in {topic}")

    async def heartbeat(self, *, producer: str | None = None, consumer: str | None = None) -> None:
        """Join groups; the consumers subscribe to «orders»."""
        heartbeat = Heartbeat(
            client_id=self.client_id,
            producers=[ProducerPart(group_name=producer)] if producer else [],
            consumers=[ConsumerPart(group_name=consumer, subscriptions=[Subscription(topic="orders")])]
            if consumer
            else [],
        )
        answer = await self.request(RequestCode.HEART_BEAT, body=encode_heartbeat(heartbeat))
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def close(self) -> None:
        """End the link."""
        await self._links.close()


class Stage:
    """A broker that can be restarted on its data, its clock, and its clients."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        files: Files | None = None,
        standing: Standing | None = None,
        **settings: object,
    ) -> None:
        self.clock = clock
        self.folder = folder
        self._files = files
        broker: dict[str, object] = {"listen_port": 0, "channel_expired_timeout": YEAR_S * 1000}
        store: dict[str, object] = {
            "store_path_root_dir": str(folder),
            "mapped_file_size_commit_log": 4 * MIB,
            "mapped_file_size_consume_queue": 20 * 1000,
            "max_hash_slot_num": 1000,
            "max_index_num": 4000,
        }
        pop: dict[str, object] = {}
        net: dict[str, object] = {"server_channel_max_idle_time_seconds": YEAR_S}
        for name, value in settings.items():
            if name in NetSettings.__dataclass_fields__:
                net[name] = value
            elif name in PopSettings.__dataclass_fields__:
                pop[name] = value
            else:
                (broker if name in BrokerSettings.__dataclass_fields__ else store)[name] = value
        # On the machine's clock a broker is late when the machine is loaded; a manual clock moves by order.
        pressure: dict[str, object] = {**PATIENT} if isinstance(clock, SystemClock) else {}
        self._process = BrokerProcess(
            pressure=PressureSettings(**pressure),  # type: ignore[arg-type]
            broker=BrokerSettings(**broker),  # type: ignore[arg-type]
            store=StoreSettings(**store),  # type: ignore[arg-type]
            net=NetSettings(**net),  # type: ignore[arg-type]
            pop=PopSettings(**pop),  # type: ignore[arg-type]
        )
        self._peers: list[Peer] = []
        self._ids = 0
        self.broker = Broker(self._process, clock=self.clock, files=files, standing=standing)

    @property
    def address(self) -> str:
        """Where the broker listens now."""
        return self.broker.address

    def stored_end(self, topic: str, queue_id: int = 0) -> int:
        """Return where a queue ends in the store, readable or not."""
        return self.broker.store.max_offset(topic, queue_id)

    def next_id(self) -> str:
        """Return a unique id of a message."""
        self._ids += 1
        return f"{self._ids:032X}"

    def connect(self, client_id: str = "client") -> Peer:
        """Return a client with a link of its own."""
        peer = Peer(self, client_id)
        self._peers.append(peer)
        return peer

    async def hold(self, pull: Coroutine[None, None, Command]) -> "asyncio.Task[Command]":
        """Send a pull, and return what will be its answer when the broker holds it."""
        arrivals = self.broker.delivery.arrivals
        held = arrivals.held_count
        pulling = asyncio.get_running_loop().create_task(pull)
        await aeventually(lambda: arrivals.held_count > held or pulling.done(), what="the pull is held")
        assert not pulling.done()
        return pulling

    async def restart(self, standing: Standing | None = None) -> None:
        """Stop the broker in order and start it on its data; links must be made anew."""
        await self.close()
        self.broker = Broker(self._process, clock=self.clock, files=self._files, standing=standing)
        await self.broker.start()

    async def start(self) -> None:
        """Start the broker."""
        await self.broker.start()

    async def close(self) -> None:
        """Stop the broker and end all links."""
        for peer in self._peers:
            await peer.close()
        self._peers.clear()
        await self.broker.close()


class ManualStage(Stage):
    """A stage whose clock is moved by hand."""

    clock: ManualClock


@asynccontextmanager
async def after_a_crash(stage: ManualStage, folder: Path) -> AsyncIterator[ManualStage]:
    """Run a second stage on what a `kill -9` of the first would leave behind now."""
    copy_as_it_is(stage.folder, folder)
    async with running_stage(folder, clock=stage.clock) as survivor:
        yield survivor


@asynccontextmanager
async def running_stage(
    folder: Path,
    *,
    clock: ManualClock | None = None,
    files: Files | None = None,
    make: "type[ManualStage] | None" = None,
    **settings: object,
) -> AsyncIterator[ManualStage]:
    """Run a stage; settings are the broker's or the store's, by our names."""
    stage = (make or ManualStage)(folder, clock or ManualClock(), files=files, **settings)
    await stage.start()
    try:
        yield stage
    finally:
        await stage.close()


@asynccontextmanager
async def running_real_stage(folder: Path, **settings: object) -> AsyncIterator[Stage]:
    """Run a stage on the machine's own clock."""
    stage = Stage(folder, SystemClock(), **settings)
    await stage.start()
    try:
        yield stage
    finally:
        await stage.close()


def text_of(table: Path) -> str:
    """Return what a table's file says, nothing if it is not there; a broker may be replacing it just now."""
    try:
        return table.read_text()
    except FileNotFoundError:
        return ""


def copy_as_it_is(folder: Path, to: Path) -> None:
    """Copy a folder of a broker that runs, without what it has not given its name yet."""
    while True:
        try:
            shutil.copytree(folder, to, ignore=shutil.ignore_patterns("*.tmp"))
        except shutil.Error as error:
            # A thread replaces a table just now: for a moment no file has its name.
            if not all("No such file" in why for _, _, why in error.args[0]):
                raise
            shutil.rmtree(to)
        else:
            return


async def settle() -> None:
    """Let the loop do what is ready, a few times over."""
    for _ in range(20):
        await asyncio.sleep(0)


def properties_of(record: Record) -> dict[str, str]:
    """Return a record's properties."""
    return names.decode(record.properties)


def _strings(fields: Mapping[str, object]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in fields.items()
        if value is not None
    }
