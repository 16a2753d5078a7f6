"""The stage of a run: the cluster as the workload sees it, simulated or made of real processes.

    workload ─► Stage ◄─ faults
       │          └── where the servers are, what was promised, which time it is
       └─► history ─► checker

The workload uses asyncio and the client's awaitable faces only, so it runs on a simulated loop as it does on
a real one: `asyncio.sleep` is the stage's time.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, Protocol


class Topology(StrEnum):
    """The topology of a run's brokers."""

    ALONE = "alone"  #: Each broker group has a master and nothing else.
    MASTER_SLAVE = "master-slave"  #: Each group has slaves that do not take its place.
    FAILOVER = "failover"  #: Each group elects a master by the consensus store.


@dataclass(frozen=True, slots=True)
class Promises:
    """The settings of a run that decide what was promised, and the faults that it may meet."""

    topology: Topology = Topology.ALONE
    #: Broker groups, and brokers in each of them.
    groups: int = 1
    replicas: int = 1
    is_sync_flush: bool = False
    #: SYNC_MASTER: an acknowledged message is on every replica that is in sync.
    is_sync_master: bool = False
    has_access_control: bool = False
    #: Whether machines may lose power, so that whatever was not synced may be gone.
    has_power_cuts: bool = False


@dataclass(frozen=True, slots=True)
class WorkloadUser:
    """A user of the workload when access control is on."""

    access_key: str
    secret_key: str


class ClientProcess(Protocol):
    """A client program that runs on the stage."""

    def kill(self) -> None:
        """End it at once: no goodbye to the servers, no progress saved."""
        ...

    async def wait(self) -> None:
        """Return when it has ended; raise what it raised."""
        ...


class Stage(Protocol):
    """The cluster that a workload runs on."""

    @property
    def promises(self) -> Promises:
        """The promises of this run."""
        ...

    @property
    def namesrv_address(self) -> str:
        """The name servers' addresses, one or more, separated by semicolons."""
        ...

    @property
    def chance(self) -> Random:
        """The seeded source of every random decision of the workload."""
        ...

    def now_s(self) -> float:
        """Return the seconds since the run began, by a clock that no fault touches."""
        ...

    def account(self, name: str) -> WorkloadUser | None:
        """Return the account of that name, None without access control."""
        ...

    def start_client(self, name: str, main: Callable[[], Coroutine[Any, Any, None]]) -> ClientProcess:
        """Run a client program under a name of its own; the stage's faults may reach it by that name."""
        ...
