"""Replicas as processes of their own, which elect their master by a real etcd."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import msgspec
from etcd import EtcdServer, running_etcd
from failover_stage import LONG_S
from forked_command import start_pyromq

from pyromq.codes import RequestCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.replica_bodies import ReplicaList, decode_replicas


class Replica:
    """One `pyromq broker --failover`."""

    def __init__(
        self, folder: Path, etcd: EtcdServer, name_server: str, lease_ms: int, **more: object
    ) -> None:
        self.folder = folder
        self._arguments = [
            *("broker", "-n", name_server, "--port", "0", "--failover", etcd.address, "--data", str(folder)),
            *("--set", "brokerRole=SYNC_MASTER", "--set", "mappedFileSizeCommitLog=16777216"),
            *("--set", "maxHashSlotNum=5000", "--set", "maxIndexNum=20000"),
            # A slave that stands still on a busy machine stays in sync, or nobody may take over.
            *("--set", f"failoverLease={lease_ms}", "--set", "inSyncTimeout=15000"),
            *("--ready-file", str(folder / "ready")),
            *(word for name, value in more.items() for word in ("--set", f"{name}={value}")),
        ]
        self._process: ForkServerProcess | None = None
        self.address = ""

    async def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        ready = self.folder / "ready"
        ready.unlink(missing_ok=True)
        self._process = start_pyromq(self._arguments, self.folder / "log")
        await aeventually(ready.exists, LONG_S, what=f"a replica in {self.folder} is ready")
        self.address = msgspec.json.decode(ready.read_bytes())["broker"]

    def tell(self, number: signal.Signals) -> None:
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            self.tell(number)
            self.tell(signal.SIGCONT)
            self._process.join(30)
            self._process = None

    async def listed(self) -> ReplicaList | None:
        """Return the group as this replica sees it; None when it does not answer."""
        try:
            async with asyncio.timeout(5), WireClient(self.address) as client:
                answer = await client.ask(RequestCode.LIST_REPLICAS)
        except (OSError, TimeoutError):
            return None
        return decode_replicas(answer.body) if answer.body else None

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()


async def master_of(*replicas: Replica, in_sync: int = 1) -> Replica:
    """Return the one that says of itself that it is master, with so many in sync."""

    async def find() -> Replica | None:
        for one in replicas:
            listed = await one.listed()
            if (
                listed is not None
                and listed.master == one.address
                and listed.confirmed_position is not None
                and sum(member.is_in_sync for member in listed.replicas) >= in_sync
            ):
                return one
        return None

    return await aeventually(find, LONG_S, what="there is a master")


@asynccontextmanager
async def pair(
    folder: Path, *, lease_ms: int = 3_000, settings: Sequence[Mapping[str, object]] = ({}, {})
) -> AsyncIterator[tuple[Replica, Replica, Cluster]]:
    """Run two replicas for the block, in sync; the first that is given is master.

    Each may have settings of its own.
    """
    async with Cluster(0, data_dir=folder) as cluster:
        with running_etcd(folder / "etcd") as etcd:
            address = cluster.namesrv_address
            both = [
                Replica(folder / name, etcd, address, lease_ms, **own)
                for name, own in zip(("one", "two"), settings, strict=True)
            ]
            try:
                await asyncio.gather(*(one.start() for one in both))
                master = await master_of(*both, in_sync=2)
                (slave,) = (one for one in both if one is not master)
                yield master, slave, cluster
            finally:
                for one in both:
                    one.end()
