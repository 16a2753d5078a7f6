"""A name server, a master and its slave in this process, on the machine's clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from harness.ports import free_broker_port
from kinds_stage import ManualStage, Stage, running_stage

from pyromq.broker.broker import Broker
from pyromq.broker.replication.copied_tables import TableCopier
from pyromq.broker.replication.following import Following
from pyromq.clock import Clock, SystemClock
from pyromq.config.choices import BrokerRole
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.config.settings import MIB, NetSettings, StoreSettings
from pyromq.namesrv.namesrv import NameServer
from pyromq.store.store import MessageStore
from pyromq.testing.waiting import aeventually

SLAVE_ID = 1
#: Frames of replication cut records anywhere.
PIECE_BYTES = 37


class Pair:
    """A group of two brokers. Each can stop, and come back as the other."""

    def __init__(self, folder: Path, name_server: NameServer, **settings: object) -> None:
        self.folder = folder
        self.namesrv_address = f"127.0.0.1:{name_server.port}"
        self._settings = settings
        #: By place: a broker that comes back listens where it did.
        self._ports: dict[str, int] = {}
        self.master = self._stage("one")
        self.slave = self._stage("other", is_slave=True)
        self._running: list[Stage] = []

    def _stage(self, place: str, *, is_slave: bool = False, clock: Clock | None = None) -> Stage:
        role = {"broker_role": BrokerRole.SLAVE, "broker_id": SLAVE_ID} if is_slave else {}
        return Stage(
            self.folder / place,
            clock or SystemClock(),
            namesrv_addr=self.namesrv_address,
            listen_port=self._ports.setdefault(place, free_broker_port()),
            **{"broker_role": BrokerRole.ASYNC_MASTER, **self._settings, **role},
        )

    @property
    def copier(self) -> TableCopier:
        """What copies the tables at the slave."""
        replicating = self.slave.broker.replicating
        assert isinstance(replicating, Following)
        assert replicating.copier is not None
        return replicating.copier

    async def start(self, stage: Stage) -> None:
        """Start one of the two."""
        await stage.start()
        self._running.append(stage)

    async def stop(self, stage: Stage) -> None:
        """Stop one of the two, in order."""
        self._running.remove(stage)
        await stage.close()

    async def restart_slave(self, clock: Clock) -> None:
        """Start the slave, again if it runs, on its data and on another clock."""
        if self.slave in self._running:
            await self.stop(self.slave)
        self.slave = self._stage("other", is_slave=True, clock=clock)
        await self.start(self.slave)

    async def start_master(self) -> None:
        """Start the master again, on its data."""
        self.master = self._stage("one")
        await self.start(self.master)

    async def promote(self) -> None:
        """Stop the slave and start it as the master, as an operator does by hand."""
        if self.slave in self._running:
            await self.stop(self.slave)
        self.master = self._stage("other")
        await self.start(self.master)

    async def caught_up(self) -> None:
        """Return when the slave has all of the master's log, and its tables."""
        end = self.master.broker.max_position
        await aeventually(lambda: self.slave.broker.max_position >= end, what="the slave has the log")
        # The first may only be the end of one that began before.
        for _ in range(2):
            await self.copier.copy()

    async def close(self) -> None:
        """Stop what runs."""
        for stage in self._running[::-1]:
            await self.stop(stage)


@asynccontextmanager
async def running_pair(folder: Path, **settings: object) -> AsyncIterator[Pair]:
    """Run a master and its slave; settings are both brokers', by our names."""
    name_server = NameServer(
        NamesrvSettings(listen_port=0, kv_config_path=str(folder / "kvConfig.json")),
        NetSettings(),
        clock=SystemClock(),
    )
    await name_server.start()
    pair = Pair(folder, name_server, **settings)
    try:
        await pair.start(pair.master)
        await pair.start(pair.slave)
        yield pair
    finally:
        await pair.close()
        await name_server.close()


# A slave that was killed, and is the next master


def log_of(broker: Broker) -> bytes:
    """Return the bytes of a broker's log, which is one file."""
    store = broker.store
    segment = store.log.segment_at(0)
    assert segment is not None
    return bytes(segment.map[: store.max_position])


def copy_log(data: bytes, folder: Path, clock: Clock) -> None:
    """Make a slave's folder of bytes of a master's log, and stop the slave in order."""
    settings = StoreSettings(
        store_path_root_dir=str(folder),
        mapped_file_size_commit_log=4 * MIB,
        mapped_file_size_consume_queue=20 * 1000,
        max_hash_slot_num=1000,
        max_index_num=4000,
    )
    store = MessageStore(settings, clock=clock)
    store.open()
    for at in range(0, len(data), PIECE_BYTES):
        store.append_copied(data[at : at + PIECE_BYTES])
    store.close()


@asynccontextmanager
async def successor(
    stage: ManualStage, folder: Path, *, end: int | None = None, **tables: bytes
) -> AsyncIterator[ManualStage]:
    """Run a master on a copy of another's log, up to `end`, and with copies of some tables by file name."""
    copy_log(log_of(stage.broker)[:end], folder, stage.clock)
    for name, text in tables.items():
        (folder / "config").mkdir(exist_ok=True)
        (folder / "config" / f"{name}.json").write_bytes(text)
    async with running_stage(folder, clock=stage.clock) as next_master:
        yield next_master
