"""Keeps the set of replicas that have all that was acknowledged, as the master sees them.

The set at etcd says who may become master; the set here says whom a synchronous master waits for. A member is
never in etcd's set without being waited for:

    a replica joins    first it is waited for; once it has what was acknowledged until then, etcd is told
    a replica leaves   first etcd is told; once that is done, it is waited for no more

A member that is in doubt, because it may lack what it acknowledged, is taken out, and comes in again as any
other once it has all.

A proposal whose answer did not come may still be on its way. It builds on one revision of the group's state,
so it can be made no more once that has another; until then, who is in it is waited for.
"""

import logging
from math import inf

from pyromq.broker.failover.election import Election
from pyromq.broker.failover.group import GroupView, ReplicaGroup
from pyromq.broker.replication.followers import Followers

log = logging.getLogger(__name__)

#: Seconds between looks at the followers.
LOOK_S = 0.5
#: Looks in a row that must find a member late: this process may have stood still, not the member.
_LATE_LOOKS = 2


class InSyncKeeper:
    """The keeper of one master's set, for as long as it is master. `look` is called every `LOOK_S`.

    `view` is the group as it was when, or after, this master was elected.
    """

    def __init__(
        self, election: Election, followers: Followers, view: GroupView, *, timeout_s: float
    ) -> None:
        self._election = election
        self._followers = followers
        self._timeout_s = timeout_s
        self._me = election.place.address
        self._view = view
        #: Those that are about to join: id → what they must have first.
        self._joining: dict[int, int] = {}
        #: How often in a row each member was found late.
        self._late: dict[int, int] = {}
        #: Who is in a proposal that may still be made, and the revision that it builds on.
        self._proposed: frozenset[int] = frozenset()
        self._proposed_at: int | None = None
        self._wait_for_all()

    @property
    def group(self) -> ReplicaGroup:
        """The group as etcd had it last."""
        return self._view.group

    @property
    def members(self) -> frozenset[int]:
        """The broker ids of those in etcd's set, without the master's."""
        ids = self._view.group.ids
        return frozenset(ids[one] for one in self._view.group.in_sync if one != self._me and one in ids)

    def saw(self, view: GroupView) -> None:
        """Take what etcd says, unless it is old or of another's time; a slave that goes takes itself out."""
        if view.revision < self._view.revision or view.leader_revision != self._view.leader_revision:
            return
        self._view = view
        if view.group_revision != self._proposed_at:
            self._proposed, self._proposed_at = frozenset(), None
        members = self.members
        self._joining = {id_: end for id_, end in self._joining.items() if id_ not in members}
        self._wait_for_all()

    async def look(self) -> None:
        """Look at the followers, and change the set if it is time to. After EtcdFailed, call it again."""
        members = self.members
        self._admit(members)
        leaving = self._find_late(members) | (members & self._in_doubt)
        ready = frozenset(
            one.id
            for one in self._followers.members
            if one.id in self._joining and one.acked >= self._joining[one.id]
        )
        wanted = (members - leaving) | ready
        if wanted != members or self._proposed_at is not None:
            await self._propose(members, wanted)

    def _wait_for_all(self) -> None:
        wanted = self.members | self._joining.keys() | self._proposed
        if self._followers.in_sync != wanted:
            self._followers.in_sync = wanted

    def _admit(self, members: frozenset[int]) -> None:
        """Begin to wait for followers that are near, and stop if they fall behind before they joined."""
        known = frozenset(self._view.group.ids.values())
        near = {
            one.id
            for one in self._followers.members
            if one.id in known
            and one.id not in members
            and one.id not in self._in_doubt
            and one.is_connected
            and not one.is_learner
            and self._followers.behind_s(one) < self._timeout_s / 2
        }
        confirmed = self._followers.confirmed
        self._joining = {id_: self._joining.get(id_, confirmed) for id_ in near if id_ is not None}
        self._wait_for_all()

    def _find_late(self, members: frozenset[int]) -> frozenset[int]:
        behind = {one.id: self._followers.behind_s(one) for one in self._followers.members}
        self._late = {
            id_: self._late.get(id_, 0) + 1 for id_ in members if behind.get(id_, inf) >= self._timeout_s
        }
        return frozenset(
            id_
            for id_, count in self._late.items()
            if count >= (self._looks_first if behind.get(id_, inf) == inf else _LATE_LOOKS)
        )

    @property
    def _in_doubt(self) -> frozenset[int]:
        ids = self._view.group.ids
        return frozenset(
            ids[address]
            for address, replica in self._view.replicas.items()
            if replica.is_in_doubt and address != self._me and address in ids
        )

    @property
    def _looks_first(self) -> int:
        """For how many looks a member may be late that has not had everything since this master began."""
        return _LATE_LOOKS + round(self._timeout_s / LOOK_S)

    async def _propose(self, members: frozenset[int], wanted: frozenset[int]) -> None:
        addresses = {id_: address for address, id_ in self._view.group.ids.items()}
        self._proposed |= wanted
        self._proposed_at = self._view.group_revision
        self._wait_for_all()
        is_made = await self._election.set_in_sync(
            self._view, frozenset(addresses[id_] for id_ in wanted) | {self._me}
        )
        self.saw(await self._election.look())
        if is_made:
            _report(members, wanted, addresses, self._timeout_s)


def _report(
    before: frozenset[int], after: frozenset[int], addresses: dict[int, str], timeout_s: float
) -> None:
    for id_ in after - before:
        log.info("%s has all that was acknowledged: it is in sync, and may become master", addresses[id_])
    for id_ in before - after:
        log.warning(
            "%s has been behind for more than %g s: it is out of sync, and may not become master",
            addresses[id_],
            timeout_s,
        )
