"""What a replica does next: every rule of the election, without etcd."""

import msgspec
import pytest

from pyromq.broker.failover.decision import FIRST_WAIT_S, Decision, FailoverStep, Me, decide
from pyromq.broker.failover.etcd_client import Found, Item
from pyromq.broker.failover.group import GroupView, Presence, ReplicaAddresses, ReplicaGroup, read_view
from pyromq.errors import EtcdFailed

A, B, C = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
LEASE_S = 3.0
GROUP = ReplicaGroup(
    epoch=4, master=A, in_sync=(A, B), ids={A: 1, B: 2, C: 3}, marks={A: "mark-a", B: "mark-b", C: "mark-c"}
)
MARKS = GROUP.marks


def view(
    group: ReplicaGroup = GROUP, leader: str | None = None, *, lease: int = 11, present: str = "ABC"
) -> GroupView:
    places = {"A": A, "B": B, "C": C}
    return GroupView(
        revision=50,
        group=group,
        group_revision=40,
        leader=ReplicaAddresses(address=leader, ha_address="x:1") if leader else None,
        leader_revision=41 if leader else 0,
        leader_lease=lease if leader else 0,
        replicas={places[one]: presence(places[one]) for one in present},
    )


def presence(
    address: str, last_epoch: int = 0, max_position: int = 0, *, is_in_doubt: bool = False
) -> Presence:
    return Presence(
        address=address,
        ha_address="x:1",
        mark=MARKS[address],
        last_epoch=last_epoch,
        max_position=max_position,
        is_in_doubt=is_in_doubt,
    )


def decided(
    seen: GroupView, address: str, *, lease: int = 7, leaderless_s: float = 0.0, is_in_doubt: bool = False
) -> Decision:
    me = Me(address=address, mark=MARKS[address], lease=lease, lease_s=LEASE_S, is_in_doubt=is_in_doubt)
    return decide(seen, me, leaderless_s=leaderless_s)


def doubting(**positions: int) -> GroupView:
    """The group without a master; all that are there lost power, and have the log up to a position."""
    places = {"A": A, "B": B, "C": C}
    replicas = {
        places[one]: presence(places[one], 4, position, is_in_doubt=True)
        for one, position in positions.items()
    }
    return msgspec.structs.replace(view(), replicas=replicas)


def test_a_replica_that_etcd_does_not_know_joins_first() -> None:
    stranger = msgspec.structs.replace(GROUP, ids={A: 1})
    assert decided(view(stranger), B).step is FailoverStep.JOIN


def test_a_replica_with_another_folder_joins_first_even_if_it_was_in_sync() -> None:
    emptied = msgspec.structs.replace(GROUP, marks={**MARKS, B: "another"})
    assert decided(view(emptied), B).step is FailoverStep.JOIN
    assert B not in emptied.joined(B, MARKS[B]).in_sync


def test_a_replica_follows_the_master_that_is_there() -> None:
    decision = decided(view(leader=A), B)
    assert decision.step is FailoverStep.FOLLOW
    assert decision.leader is not None
    assert decision.leader.address == A


def test_an_in_sync_replica_takes_over_when_nobody_is_master() -> None:
    assert decided(view(present="BC"), B).step is FailoverStep.TAKE


def test_a_replica_that_is_not_in_sync_never_takes_over() -> None:
    decision = decided(view(present="C"), C, leaderless_s=1_000_000.0)
    assert decision.step is FailoverStep.WAIT
    assert A in decision.reason
    assert B in decision.reason


def test_without_anybody_in_sync_nobody_takes_over() -> None:
    nobody = msgspec.structs.replace(GROUP, in_sync=())
    assert "none of the replicas" in decided(view(nobody), A).reason


def test_a_replica_without_a_lease_does_not_take_over() -> None:
    assert decided(view(present="B"), B, lease=0).step is FailoverStep.WAIT


def test_a_master_goes_on_while_the_key_is_its_own() -> None:
    assert decided(view(leader=A, lease=7), A).step is FailoverStep.LEAD


def test_a_master_that_was_started_anew_waits_for_the_end_of_its_old_lease() -> None:
    assert decided(view(leader=A, lease=6), A).step is FailoverStep.WAIT


def test_the_successor_goes_first_when_a_master_handed_over() -> None:
    handed = GROUP.handed_to(B)
    assert decided(view(handed), B).step is FailoverStep.TAKE
    assert decided(view(handed), A).step is FailoverStep.WAIT


def test_another_goes_when_the_successor_does_not() -> None:
    handed = GROUP.handed_to(B)
    assert decided(view(handed), A, leaderless_s=LEASE_S).step is FailoverStep.TAKE
    assert decided(view(handed, present="AC"), A).step is FailoverStep.TAKE


NEW = ReplicaGroup(ids=GROUP.ids, marks=MARKS)


def new_view(**fullness: tuple[int, int]) -> GroupView:
    places = {"a": A, "b": B, "c": C}
    replicas = {places[one]: presence(places[one], *what) for one, what in fullness.items()}
    return msgspec.structs.replace(view(NEW), replicas=replicas)


def test_the_replicas_of_a_new_group_wait_for_each_other() -> None:
    assert decided(new_view(a=(0, 0)), A, leaderless_s=FIRST_WAIT_S / 2).step is FailoverStep.WAIT


@pytest.mark.parametrize(
    ("seen", "master"),
    [
        (new_view(a=(0, 0), b=(0, 100)), B),
        (new_view(a=(2, 50), b=(1, 100)), A),
        (new_view(a=(2, 50), b=(2, 50), c=(2, 50)), A),
    ],
)
def test_of_a_new_group_the_replica_that_has_most_becomes_master(seen: GroupView, master: str) -> None:
    steps = {one: decided(seen, one, leaderless_s=FIRST_WAIT_S).step for one in seen.replicas}
    assert [one for one, step in steps.items() if step is FailoverStep.TAKE] == [master]


def test_a_replica_of_a_new_group_that_has_not_said_what_it_has_does_not_begin() -> None:
    assert decided(new_view(b=(0, 0)), A, leaderless_s=FIRST_WAIT_S).step is FailoverStep.WAIT


def test_a_new_master_keeps_those_in_sync_that_are_there_and_drops_the_last_master() -> None:
    three = GROUP.with_in_sync(frozenset({A, B, C}))
    assert three.led_by(B, last_epoch=0, present={A, B, C}).in_sync == (B, C)
    assert three.led_by(B, last_epoch=0, present={B}).in_sync == (B,)


def test_an_epoch_is_above_all_that_etcd_or_the_log_have_seen() -> None:
    assert GROUP.led_by(B, last_epoch=2, present=()).epoch == 5
    assert GROUP.led_by(B, last_epoch=9, present=()).epoch == 10


def test_broker_ids_stay_and_new_ones_are_above_all() -> None:
    group = ReplicaGroup().joined(A, "1").joined(B, "2").joined(A, "1")
    assert group.ids == {A: 1, B: 2}
    assert group.joined(C, "3").ids[C] == 3


def test_what_is_at_etcd_reads_as_it_was_written() -> None:
    found = Found(
        9,
        {
            "state": Item(msgspec.json.encode(GROUP), 5),
            "leader": Item(msgspec.json.encode(ReplicaAddresses(address=A, ha_address="x:1")), 6, lease=77),
            f"replicas/{B}": Item(msgspec.json.encode(presence(B)), 7),
        },
    )
    seen = read_view(found)
    assert (seen.group, seen.group_revision, seen.leader_lease) == (GROUP, 5, 77)
    assert seen.leader == ReplicaAddresses(address=A, ha_address="x:1")
    assert seen.replicas == {B: presence(B)}


def test_what_others_wrote_is_an_error_that_says_so() -> None:
    with pytest.raises(EtcdFailed, match="does not read"):
        read_view(Found(9, {"state": Item(b"[]", 5)}))


def test_a_replica_in_doubt_waits_for_a_member_that_is_away() -> None:
    decision = decided(doubting(B=900), B, is_in_doubt=True, leaderless_s=1_000_000.0)
    assert decision.step is FailoverStep.WAIT
    assert f"{A} may have it, and is not there" in decision.reason


def test_a_replica_in_doubt_lets_a_member_go_first_that_lost_nothing() -> None:
    seen = doubting(B=900)
    replicas = {**seen.replicas, A: presence(A, 4, 500)}
    seen = msgspec.structs.replace(seen, replicas=replicas)
    assert decided(seen, B, is_in_doubt=True).step is FailoverStep.WAIT
    assert decided(seen, A).step is FailoverStep.TAKE


def test_when_all_members_lost_power_the_fullest_takes_over() -> None:
    seen = doubting(A=900, B=1_000, C=5_000)
    assert decided(seen, A, is_in_doubt=True).step is FailoverStep.WAIT
    assert decided(seen, B, is_in_doubt=True).step is FailoverStep.TAKE
    # It has more, but was not in sync: nobody counted on it.
    assert decided(seen, C, is_in_doubt=True).step is FailoverStep.WAIT


def test_the_only_member_takes_over_after_a_power_cut() -> None:
    alone = msgspec.structs.replace(doubting(A=10), group=msgspec.structs.replace(GROUP, in_sync=(A,)))
    assert decided(alone, A, is_in_doubt=True).step is FailoverStep.TAKE


def test_a_replica_in_doubt_follows_the_master_that_is_there() -> None:
    assert decided(view(leader=A), B, is_in_doubt=True).step is FailoverStep.FOLLOW
