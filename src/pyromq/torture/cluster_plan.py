"""The plan of a run's cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyromq.torture.servers.processes import Starter, start_pyromq
from pyromq.torture.stage import Promises, Topology, WorkloadUser

CLUSTER = "DefaultCluster"
#: Small files that roll often, and answers large enough to read everything back quickly.
SETTINGS: Mapping[str, object] = {
    "brokerClusterName": CLUSTER,
    "mappedFileSizeCommitLog": 8 << 20,
    "mappedFileSizeConsumeQueue": 20 * 3000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 3000,
    "maxTransferCountOnMessageInMemory": 4000,
    "maxTransferBytesOnMessageInMemory": 2 << 20,
    "defaultTopicQueueNums": 4,
    # A full disk must not make room for itself by what was promised.
    "cleanFileForciblyEnable": "false",
    "fileReservedTime": 720,
}
#: Settings that say how files are laid out, which whoever reads them must know.
LAYOUT = ("mapped", "maxHash", "maxIndex", "maxMessage", "messageDelay")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A cluster to start."""

    promises: Promises = field(default_factory=Promises)
    name_servers: int = 1
    settings: Mapping[str, object] = field(default_factory=dict)
    #: The program, which a cluster with failover needs.
    etcd: str | None = None
    has_disks: bool = False
    disk_bytes: int = 96 << 20
    clock_library: Path | None = None
    has_namespaces: bool = False
    #: Accounts by name, and the file that says what they may, with access control.
    accounts: Mapping[str, WorkloadUser] = field(default_factory=dict)
    access_file: str = ""
    start: Starter = start_pyromq

    @property
    def has_failover(self) -> bool:
        """Whether etcd decides who is master."""
        return self.promises.topology is Topology.FAILOVER

    @property
    def lease_s(self) -> float:
        """For so long a lost master blocks its successor."""
        return int(str(self.settings.get("failoverLease", 3000))) / 1000

    @property
    def unshipped_s_max(self) -> float:
        """ASYNC_MASTER: so long before its last answer a lost master may have acknowledged what is gone."""
        in_sync_timeout_ms = int(str(self.settings.get("inSyncTimeout", 2000)))
        return in_sync_timeout_ms / 1000 + 2 * self.lease_s + 1.0

    def group_names(self) -> list[str]:
        """Return the names of the broker groups."""
        return [f"broker-{chr(ord('a') + number)}" for number in range(self.promises.groups)]

    def settings_of(self, group: str, replica: int, host: str) -> dict[str, object]:
        """Return what a broker is set to; `host` is the one by which it is known."""
        promises = self.promises
        role = "SYNC_MASTER" if promises.is_sync_master else "ASYNC_MASTER"
        own: dict[str, object] = {
            "brokerName": group,
            "brokerRole": role if replica == 0 or self.has_failover else "SLAVE",
            "flushDiskType": "SYNC_FLUSH" if promises.is_sync_flush else "ASYNC_FLUSH",
            "brokerIP1": host,
            "brokerIP2": host,
        }
        if not self.has_failover:
            own["brokerId"] = replica
        return {**SETTINGS, **own, **self.settings}
