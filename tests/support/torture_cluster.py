"""A stage of the torture on brokers in this process, without faults: to see a workload at work."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

from pyromq.config.load import settings_by_name
from pyromq.config.setting_names import our_name
from pyromq.config.settings import BrokerProcess
from pyromq.config.values import Value, read_value
from pyromq.testing.cluster import Cluster
from pyromq.torture.stage import Promises, WorkloadUser
from pyromq.torture.workload import ACCOUNTS, BROKER_SETTINGS, accounts_file


class Program:
    """A client program that is a task."""

    def __init__(self, main: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.create_task(main)

    def kill(self) -> None:
        """End it at once."""
        self._task.cancel()

    async def wait(self) -> None:
        """Return when it has ended."""
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()


class ClusterStage:
    """The workload's view of a cluster of this process."""

    def __init__(self, cluster: Cluster, promises: Promises, seed: int) -> None:
        self._cluster = cluster
        self.promises = promises
        self.chance = Random(seed)
        self.programs: dict[str, Program] = {}
        self._began = time.monotonic()

    @property
    def namesrv_address(self) -> str:
        """Where clients ask for routes."""
        return self._cluster.namesrv_address

    def now_s(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._began

    def account(self, name: str) -> WorkloadUser | None:
        """Return an account, None without access control."""
        return ACCOUNTS[name] if self.promises.has_access_control else None

    def start_client(self, name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> Program:
        """Run a client program."""
        self.programs[name] = Program(main())
        return self.programs[name]


def broker_settings() -> dict[str, Value]:
    """Return the settings that a workload asks for, by our names."""
    known = settings_by_name(BrokerProcess)
    names = {key: our_name(key) for key in BROKER_SETTINGS}
    return {names[key]: read_value(known[names[key]], value) for key, value in BROKER_SETTINGS.items()}


@asynccontextmanager
async def cluster_stage(
    folder: Path, *, seed: int = 1, brokers: int = 1, has_access_control: bool = False
) -> AsyncIterator[ClusterStage]:
    """Run brokers with the settings that a workload asks for."""
    more: dict[str, Value] = {}
    if has_access_control:
        (folder / "acl").mkdir(parents=True)
        (folder / "acl" / "plain_acl.yml").write_text(accounts_file())
        more = {"acl_enable": True, "acl_folder": str(folder / "acl")}
    promises = Promises(groups=brokers, has_access_control=has_access_control)
    async with Cluster(brokers, data_dir=folder / "data", **(broker_settings() | more)) as cluster:
        yield ClusterStage(cluster, promises, seed)
