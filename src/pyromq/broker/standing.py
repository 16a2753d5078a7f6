"""What a broker is in its group of replicas, for the life of one `Broker`.

With static roles the settings say it, and it holds until the process ends. With failover whoever won the
election says it: a master has its epoch, and a lease without which it acknowledges nothing; a slave has the
leader that it follows. A change of role is another `Broker`, with another standing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf


class Lease:
    """Until when a master may acknowledge, on a clock that never goes back."""

    __slots__ = ("_now", "_until")

    def __init__(self, now: Callable[[], float], until: float = -inf) -> None:
        self._now = now
        self._until = until

    @property
    def is_held(self) -> bool:
        """Whether the master may still acknowledge."""
        return self._now() < self._until

    def renew(self, until: float) -> None:
        """Hold it until then; a time before the one it has is no reason to let it go earlier."""
        self._until = max(self._until, until)

    def drop(self) -> None:
        """Hold it no longer, and never again."""
        self._until = -inf
        self._now = lambda: inf


def _forever() -> Lease:
    return Lease(lambda: 0.0, inf)


@dataclass(frozen=True, slots=True)
class Leader:
    """Where a group's master is: for requests, and for replication."""

    address: str
    ha_address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A broker's place in its group.

    `epoch` is 0 with static roles. `in_sync` are the broker ids of the slaves that a master with failover
    begins to wait for. `cut_at` is where a slave's log parted from the master's: what stands behind it goes.
    """

    epoch: int = 0
    lease: Lease = field(default_factory=_forever)
    leader: Leader | None = None
    in_sync: frozenset[int] | None = None
    cut_at: int | None = None
