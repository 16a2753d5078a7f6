"""A stage of real processes: the servers are on this machine, the clients in this process."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from pyromq.torture.killable_clients import LivingClient
from pyromq.torture.servers.process_cluster import ProcessCluster
from pyromq.torture.stage import Promises, WorkloadUser


class ProcessStage:
    """A workload's access to a cluster of processes; the event loop must be a `LivesLoop`."""

    def __init__(self, cluster: ProcessCluster, seed: int, began_at_s: float) -> None:
        self._cluster = cluster
        self._began_at_s = began_at_s
        self._clients: dict[str, LivingClient] = {}
        self._dead: list[LivingClient] = []
        self.chance = Random(f"workload of {seed}")

    @property
    def promises(self) -> Promises:
        """The promises of this run."""
        return self._cluster.plan.promises

    @property
    def namesrv_address(self) -> str:
        """The address at which clients ask for routes."""
        return self._cluster.name_server_address

    def now_s(self) -> float:
        """Return the seconds since the run began."""
        return time.monotonic() - self._began_at_s

    def account(self, name: str) -> WorkloadUser | None:
        """Return the account of that name, None without access control."""
        return self._cluster.plan.accounts.get(name) if self.promises.has_access_control else None

    def start_client(self, name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> LivingClient:
        """Run a client program under a name of its own."""
        client = LivingClient(name, main)
        self._clients[name] = client
        return client

    def client_names(self) -> list[str]:
        """Return the names of the clients that run."""
        return sorted(name for name, client in self._clients.items() if client.is_alive)

    def kill_client(self, name: str) -> None:
        """Let a client be gone without a farewell; the workload starts another in its place."""
        client = self._clients[name]
        client.kill()
        self._dead.append(client)

    async def close(self) -> None:
        """Let whatever is left of the clients end."""
        left = [client for client in self._clients.values() if client not in self._dead]
        for client in left:
            client.kill()
        await asyncio.gather(*(client.bury() for client in (*self._dead, *left)))
