"""What a replica tells of its group."""

from dataclasses import dataclass, field

from pyromq.broker.failover.group import GroupView, ReplicaAddresses, ReplicaGroup
from pyromq.broker.failover.reports import describe
from pyromq.broker.replication.followers import Followers
from pyromq.config.settings import BrokerSettings, StoreSettings
from pyromq.testing.manual_clock import ManualClock

MASTER = ReplicaAddresses(address="10.0.0.1:10911", ha_address="10.0.0.1:10912")
SLAVE = "10.0.0.2:10911"


@dataclass
class Log:
    committed_position: int = 100


@dataclass
class Master:
    """A master with one slave, as its reports see it."""

    address: str = MASTER.address
    max_position: int = 100
    view: GroupView = field(
        default_factory=lambda: GroupView(
            revision=1,
            group=ReplicaGroup(epoch=1, master=MASTER.address, ids={MASTER.address: 1, SLAVE: 2}),
            group_revision=1,
            leader=MASTER,
            leader_revision=1,
            leader_lease=1,
            replicas={},
        )
    )
    followers: Followers = field(
        default_factory=lambda: Followers(
            Log(), StoreSettings(), ManualClock(), in_sync=frozenset(), on_confirmed=lambda _position: None
        )
    )

    async def switch_to(self, name: str) -> str:
        return name


def test_a_follower_that_never_had_everything_is_behind_for_an_unknown_time() -> None:
    master = Master()
    follower = master.followers.connected("10.0.0.2:50000", 2)
    master.followers.acknowledged(follower, 40)

    slave = describe(master, BrokerSettings()).replicas[1]

    assert slave.acked_position == 40
    assert slave.behind_ms is None


def test_a_follower_that_has_everything_is_not_behind() -> None:
    master = Master()
    master.followers.acknowledged(master.followers.connected("10.0.0.2:50000", 2), 100)

    assert describe(master, BrokerSettings()).replicas[1].behind_ms == 0
