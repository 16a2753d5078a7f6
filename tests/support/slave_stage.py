"""A name server, a master and its slave in this process, on the machine's clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from harness.ports import free_broker_port
from kinds_stage import Stage

from pyromq.broker.replication.copied_tables import TableCopier
from pyromq.broker.replication.role import Following
from pyromq.clock import Clock, SystemClock
from pyromq.config.choices import BrokerRole
from pyromq.config.settings import NamesrvSettings, NetSettings
from pyromq.namesrv.namesrv import NameServer
from pyromq.testing.waiting import aeventually

SLAVE_ID = 1


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
