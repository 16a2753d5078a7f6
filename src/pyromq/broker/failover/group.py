"""The state of a group of replicas in etcd, and the conclusions from it. Nothing here waits or writes.

    /pyromq/{cluster}/{brokerName}/state             Group, changed by compare-and-swap only
                                  /leader            Place, lives with the master's lease
                                  /replicas/{address}   Presence, lives with that replica's lease

A replica is known by the address that it advertises, and by the mark that was put into its folder when it
first joined: an address whose folder was replaced by an empty one is another replica.
"""

import uuid
from collections.abc import Container

import msgspec

from pyromq.broker.failover.etcd_client import Found, Item
from pyromq.errors import EtcdFailed


class ReplicaAddresses(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The addresses of a replica: for requests, and for replication."""

    address: str
    ha_address: str


class Presence(ReplicaAddresses, frozen=True, kw_only=True, rename="camel"):
    """The report of a replica that is there."""

    mark: str
    last_epoch: int = 0
    max_position: int = 0
    #: Whether its disk would take messages.
    has_room: bool = True
    #: Whether it may lack what it acknowledged; see `replica_identity.py`.
    is_in_doubt: bool = False


class ReplicaGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The decision about a group. Epoch 0: nobody was master yet.

    `in_sync` are the addresses of those that have all that was acknowledged, the master among them. `ids` are
    broker ids of slaves, which stay; `marks` say which folder each had. `successor` is whom the last master
    handed over to: others let it go first. `id` is made with the first master, and tells this group from any
    other of the same name. `may_lack`: a master once took over that may have lost what was acknowledged.
    """

    id: str = ""
    may_lack: bool = False
    epoch: int = 0
    master: str | None = None
    in_sync: tuple[str, ...] = ()
    ids: dict[str, int] = {}
    marks: dict[str, str] = {}
    successor: str | None = None

    def joined(self, address: str, mark: str) -> "ReplicaGroup":
        """Return it with a replica that has a broker id; one with a new folder is in sync no more."""
        ids = self.ids
        if address not in ids:
            ids = {**ids, address: max(ids.values(), default=0) + 1}
        is_same = self.marks.get(address) == mark
        in_sync = self.in_sync if is_same else tuple(one for one in self.in_sync if one != address)
        return msgspec.structs.replace(self, ids=ids, marks={**self.marks, address: mark}, in_sync=in_sync)

    def knows(self, address: str, mark: str) -> bool:
        """Return whether a replica has joined with this folder."""
        return address in self.ids and self.marks.get(address) == mark

    def led_by(
        self, address: str, *, last_epoch: int, present: Container[str], is_in_doubt: bool = False
    ) -> "ReplicaGroup":
        """Return it with a new master, in an epoch that nobody has seen.

        Members of the in-sync set that are `present` stay in it: they have all that was acknowledged, and the
        new master begins by waiting for them. The last master is not there, or has other things to do first.
        """
        stay = {one for one in self.in_sync if one in present and one != self.master}
        return msgspec.structs.replace(
            self,
            id=self.id or uuid.uuid4().hex,
            may_lack=self.may_lack or is_in_doubt,
            epoch=max(self.epoch, last_epoch) + 1,
            master=address,
            in_sync=tuple(sorted(stay | {address})),
            successor=None,
        )

    def with_in_sync(self, addresses: frozenset[str]) -> "ReplicaGroup":
        """Return it with others in sync."""
        return msgspec.structs.replace(self, in_sync=tuple(sorted(addresses)))

    def handed_to(self, successor: str | None) -> "ReplicaGroup":
        """Return it as a master leaves it that goes."""
        return msgspec.structs.replace(self, successor=successor)


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """The group as etcd had it at one moment; `leader_lease` is whose it is."""

    revision: int
    group: ReplicaGroup
    group_revision: int
    leader: ReplicaAddresses | None
    leader_revision: int
    leader_lease: int
    replicas: dict[str, Presence]

    @property
    def is_new(self) -> bool:
        """Whether nobody was ever master."""
        return self.group.epoch == 0


STATE = "state"
LEADER = "leader"
REPLICAS = "replicas/"
_NOTHING = Item(b"", 0)


def prefix_of(cluster: str, name: str) -> str:
    """Return what the keys of a group begin with."""
    return f"/pyromq/{cluster}/{name}/"


def read_view(found: Found) -> GroupView:
    """Read what was found under a group's prefix. Raises EtcdFailed if somebody else has written it."""
    state = found.items.get(STATE, _NOTHING)
    leader = found.items.get(LEADER, _NOTHING)
    try:
        return GroupView(
            revision=found.revision,
            group=msgspec.json.decode(state.value, type=ReplicaGroup) if state.value else ReplicaGroup(),
            group_revision=state.revision,
            leader=msgspec.json.decode(leader.value, type=ReplicaAddresses) if leader.value else None,
            leader_revision=leader.revision,
            leader_lease=leader.lease,
            replicas={
                key.removeprefix(REPLICAS): msgspec.json.decode(item.value, type=Presence)
                for key, item in found.items.items()
                if key.startswith(REPLICAS)
            },
        )
    except msgspec.DecodeError as error:
        raise EtcdFailed(f"what etcd has about this group does not read: {error}") from error
