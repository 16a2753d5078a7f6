"""What a broker is in its group of replicas, for the life of one `Broker`.

With static roles the settings say it, and it holds until the process ends. With failover whoever won the
election says it: a master has its epoch, and a lease without which it acknowledges nothing; a slave has the
leader that it follows. A change of role is another `Broker`, with another standing.

The lease is looked at twice for every acknowledgement: when it is given (`Lease.vouch`), and when the turn of
the loop ends in which it was given, just before the bytes are handed to the system (`Lease.may_leave`). A
process that stood still in between says nothing wrong when it goes on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from pyromq.codes import ResponseCode
from pyromq.errors import NotMaster


class Lease:
    """Until when a master may acknowledge, on a clock that never goes back."""

    __slots__ = ("_has_vouched", "_now", "_until")

    def __init__(self, now: Callable[[], float], until: float = -inf) -> None:
        self._now = now
        self._until = until
        #: Whether something was acknowledged in this turn of the loop.
        self._has_vouched = False

    @property
    def is_held(self) -> bool:
        """Whether the master may still acknowledge."""
        return self._now() < self._until

    def vouch(self) -> bool:
        """Return whether the master may acknowledge now; what it says then leaves when this turn ends."""
        if self._now() < self._until:
            self._has_vouched = True
            return True
        return False

    def may_leave(self) -> bool:
        """Return whether what was acknowledged in the turn that ends now may leave.

        It may not if the lease ended since. Refusals may, when nothing was acknowledged beside them.
        """
        has_vouched, self._has_vouched = self._has_vouched, False
        return not has_vouched or self._now() < self._until

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
    `confirmed` is up to where the log is known to be confirmed by the group, 0 when nothing is known.
    """

    epoch: int = 0
    lease: Lease = field(default_factory=_forever)
    leader: Leader | None = None
    in_sync: frozenset[int] | None = None
    cut_at: int | None = None
    confirmed: int = 0


def no_longer_master() -> NotMaster:
    """Return the refusal of a master whose lease is over."""
    return NotMaster(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        f"{NotMaster.NO_LONGER}; ask a name server for the new one, and send again",
    )
