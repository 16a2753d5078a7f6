"""The standing of a broker in its group of replicas, for the life of one `Broker`.

With static roles the settings say it, and it holds until the process ends. With failover whoever won the
election says it: a master has its epoch, and a lease without which it acknowledges nothing; a slave has the
leader that it follows. A change of role is another `Broker`, with another standing.
"""

from dataclasses import dataclass, field

from pyromq.broker.durability.acknowledgement import Lease, lasting_lease


@dataclass(frozen=True, slots=True)
class Leader:
    """The addresses of a group's master: for requests, and for replication."""

    address: str
    ha_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A broker's place in its group.

    `epoch` is 0 with static roles. `in_sync` are the broker ids of the slaves that a master with failover
    begins to wait for. `cut_at` is where a slave's log parted from the master's: what stands behind it goes.
    `confirmed` is up to where the log is known to be confirmed by the group, 0 when nothing is known.
    """

    epoch: int = 0
    lease: Lease = field(default_factory=lasting_lease)
    leader: Leader | None = None
    in_sync: frozenset[int] | None = None
    cut_at: int | None = None
    confirmed: int = 0
