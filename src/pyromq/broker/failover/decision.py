"""The decision of a replica about its next step: one view of etcd and one time give one decision."""

from dataclasses import dataclass
from enum import Enum, auto

from pyromq.broker.failover.group import GroupView, Presence, ReplicaAddresses

#: Seconds that the first replicas of a new group wait for each other, so that the fullest becomes master.
FIRST_WAIT_S = 1.0


class FailoverStep(Enum):
    """The next step."""

    #: Get a broker id.
    JOIN = auto()
    #: Be the master that etcd says this replica is.
    LEAD = auto()
    #: Become master, for nobody is.
    TAKE = auto()
    #: Copy from the master.
    FOLLOW = auto()
    #: Nobody is master, and this replica cannot be; read-only meanwhile.
    WAIT = auto()


@dataclass(frozen=True, slots=True)
class Decision:
    """A step, with the master to follow, or the reason to wait."""

    step: FailoverStep
    leader: ReplicaAddresses | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Me:
    """The replica that decides. `lease` is the one it has at etcd, 0 if none."""

    address: str
    mark: str
    lease: int
    lease_s: float
    is_in_doubt: bool = False


def decide(view: GroupView, me: Me, *, leaderless_s: float) -> Decision:
    """Return the next step; `leaderless_s` is for how long this replica has seen no master."""
    if not view.group.knows(me.address, me.mark):
        return Decision(FailoverStep.JOIN)
    if view.leader is not None:
        return _with_leader(view, view.leader, me)
    if not me.lease:
        return Decision(FailoverStep.WAIT, reason="it has no lease at etcd yet")
    if view.is_new:
        return _first(view, me, leaderless_s)
    if me.address not in view.group.in_sync:
        return Decision(
            FailoverStep.WAIT,
            reason=f"{_listed(view.group.in_sync)} has all that was acknowledged, and is not there",
        )
    if me.is_in_doubt and (reason := _doubt(view, me)) is not None:
        return Decision(FailoverStep.WAIT, reason=reason)
    successor = view.group.successor
    if successor not in (None, me.address) and successor in view.replicas and leaderless_s < me.lease_s:
        return Decision(
            FailoverStep.WAIT, reason=f"{successor} goes first: the last master handed over to it"
        )
    return Decision(FailoverStep.TAKE)


def reason_to_lead(view: GroupView, address: str) -> str:
    """Return why a replica becomes master, for the log."""
    group = view.group
    if group.master is None:
        return "the group is new"
    if group.successor == address:
        return f"{group.master} handed over"
    return "it was before" if group.master == address else f"{group.master} is gone"


def _with_leader(view: GroupView, leader: ReplicaAddresses, me: Me) -> Decision:
    if leader.address != me.address:
        return Decision(FailoverStep.FOLLOW, leader)
    if view.leader_lease == me.lease:
        return Decision(FailoverStep.LEAD)
    return Decision(FailoverStep.WAIT, reason="the lease of its own last life has not run out yet")


def _first(view: GroupView, me: Me, leaderless_s: float) -> Decision:
    best = max(view.replicas.values(), key=_fullness, default=None)
    if best is None or me.address not in view.replicas or leaderless_s < FIRST_WAIT_S:
        return Decision(FailoverStep.WAIT, reason="the group is new: others may be about to come")
    if best.address != me.address:
        return Decision(
            FailoverStep.WAIT, reason=f"the group is new, and {best.address} has more, or comes first"
        )
    return Decision(FailoverStep.TAKE)


def _doubt(view: GroupView, me: Me) -> str | None:
    """Return why a replica may not take over that may lack what it acknowledged; None if it may.

    Of its group, one that lost nothing has all. When all lost something, the fullest has all that is left.
    """
    why = "this replica lost power, or its disk failed, and may lack what was acknowledged"
    members = [view.replicas.get(one) for one in view.group.in_sync]
    there = [one for one in members if one is not None]
    if len(there) < len(members):
        away = tuple(one for one in view.group.in_sync if one not in view.replicas)
        return f"{why}; {' and '.join(away)} may have it, and is not there"
    sure = [one.address for one in there if not one.is_in_doubt and one.address != me.address]
    if sure:
        return f"{why}; {' or '.join(sure)} has it, and goes first"
    best = max(there, key=_fullness)
    return None if best.address == me.address else f"{why}; so does {best.address}, which has more"


def _fullness(replica: Presence) -> tuple[int, int, tuple[int, ...]]:
    # Of those that have the same, the one whose address sorts first.
    return replica.last_epoch, replica.max_position, tuple(-ord(one) for one in replica.address)


def _listed(addresses: tuple[str, ...]) -> str:
    return f"only {' or '.join(addresses)}" if addresses else "none of the replicas"
